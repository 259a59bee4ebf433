/*
 * Readers in every order, and several at once, against what is read; how much
 * is gathered for them.
 */
#include "slab.h"
#include "unit.h"
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define SIZE ((uint64_t)100 << 20)

struct made {
	uint64_t gathered, calls; /* atomic */
	uint64_t fail_from; /* what is at or behind it fails; 0: nothing */
	char salt;
};

static char byte_at(const struct made *m, uint64_t at)
{
	return (char)((at >> 8 ^ at >> 3 ^ at) + (unsigned char)m->salt);
}

static tasd_err gather(void *ctx, void *out, size_t len, uint64_t offset)
{
	struct made *m = ctx;
	char *bytes = out;

	__atomic_add_fetch(&m->calls, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&m->gathered, len, __ATOMIC_RELAXED);
	if (len > SIZE || offset > SIZE - len ||
		(m->fail_from && offset + len > m->fail_from))
		return -EIO;
	for (size_t i = 0; i < len; i++)
		bytes[i] = byte_at(m, offset + i);
	return 0;
}

static bool read_one(
	struct tasd_slabs *slabs, struct made *m, size_t len, uint64_t offset)
{
	static __thread char out[1 << 20];

	if (tasd_slabs_pread(slabs, m, SIZE, gather, m, out, len, offset))
		return false;
	for (size_t i = 0; i < len; i += 1 + i / 16)
		if (out[i] != byte_at(m, offset + i))
			return false;
	return out[len - 1] == byte_at(m, offset + len - 1);
}

START_TEST(forwards)
{
	static const size_t steps[] = {4096, 100000, 1 << 20};

	for (size_t i = 0; i < 3; i++) {
		struct made m = {.salt = (char)i};
		struct tasd_slabs *slabs;
		uint64_t end = i ? SIZE : SIZE / 10;

		ck_assert_int_eq(tasd_slabs_new(&slabs), 0);
		for (uint64_t at = 0; at < end; at += steps[i]) {
			size_t n = SIZE - at < steps[i] ? (size_t)(SIZE - at)
							: steps[i];

			ck_assert(read_one(slabs, &m, n, at));
		}
		/* All once, in few pieces. */
		ck_assert_uint_le(m.gathered, end + 2 * TASD_SLAB_MAX);
		ck_assert_uint_le(m.calls, 20);
		tasd_slabs_free(slabs);
	}
}
END_TEST

/* As a kernel reads ahead: in order but for neighbours. */
START_TEST(nearly_forwards)
{
	struct made m = {.salt = 1};
	struct tasd_slabs *slabs;
	size_t step = 1 << 20;

	ck_assert_int_eq(tasd_slabs_new(&slabs), 0);
	for (uint64_t at = 0; at < SIZE; at += 2 * step) {
		ck_assert(read_one(slabs, &m, step, at + step));
		ck_assert(read_one(slabs, &m, step, at));
	}
	ck_assert_uint_le(m.gathered, SIZE + SIZE / 8);
	tasd_slabs_free(slabs);
}
END_TEST

/* Reads here and there gather what they ask for and no more. */
START_TEST(here_and_there)
{
	struct made m = {.salt = 2};
	struct tasd_slabs *slabs;
	uint64_t at = 12345;

	ck_assert_int_eq(tasd_slabs_new(&slabs), 0);
	for (int i = 0; i < 1000; i++) {
		at = at * 6364136223846793005u + 1442695040888963407u;
		ck_assert(
			read_one(slabs, &m, 4096, (at >> 20) % (SIZE - 4096)));
	}
	ck_assert_uint_le(m.gathered, 1000 * 4096 + (8 << 20));
	tasd_slabs_free(slabs);
}
END_TEST

/* More readers than slabs: each gets its own bytes. */
START_TEST(many_owners)
{
	struct made m[6] = {{0}};
	struct tasd_slabs *slabs;

	ck_assert_int_eq(tasd_slabs_new(&slabs), 0);
	for (int i = 0; i < 6; i++)
		m[i].salt = (char)(i * 7);
	for (uint64_t at = 0; at < (8 << 20); at += 1 << 18)
		for (int i = 0; i < 6; i++)
			ck_assert(read_one(slabs, &m[i], 1 << 18, at));
	tasd_slabs_drop(slabs, &m[0]);
	tasd_slabs_drop(slabs, &m[0]);
	tasd_slabs_drop(NULL, &m[0]);
	ck_assert(read_one(slabs, &m[0], 1000, 0));
	tasd_slabs_free(slabs);
	tasd_slabs_free(NULL);
}
END_TEST

START_TEST(failures)
{
	struct made m = {.fail_from = 50 << 20};
	struct tasd_slabs *slabs;
	char out[100];

	ck_assert_int_eq(tasd_slabs_new(&slabs), 0);
	for (uint64_t at = 0; at + (1 << 20) <= (34 << 20); at += 1 << 20)
		ck_assert(read_one(slabs, &m, 1 << 20, at));
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(tasd_slabs_pread(slabs, &m, SIZE, gather, &m,
					 out, 100, 60 << 20),
			-EIO);
	/* It goes on when that is over. */
	m.fail_from = 0;
	ck_assert(read_one(slabs, &m, 1 << 20, 60 << 20));
	ck_assert(read_one(slabs, &m, 1 << 20, 34 << 20));
	tasd_slabs_free(slabs);
}
END_TEST

struct reader {
	struct tasd_slabs *slabs;
	struct made *m;
	uint64_t from, step;
	int failed;
};

static void *read_strided(void *arg)
{
	struct reader *r = arg;

	for (uint64_t at = r->from; at + (1 << 17) <= SIZE / 2; at += r->step)
		if (!read_one(r->slabs, r->m, 1 << 17, at))
			r->failed++;
	return NULL;
}

/* Four threads that share one reader's requests, then four of their own. */
START_TEST(threads)
{
	struct made m[4] = {{0}};
	struct tasd_slabs *slabs;
	struct reader readers[8];
	pthread_t ids[8];

	ck_assert_int_eq(tasd_slabs_new(&slabs), 0);
	for (int i = 0; i < 4; i++)
		m[i].salt = (char)i;
	for (int i = 0; i < 8; i++) {
		readers[i] = (struct reader){
			.slabs = slabs,
			.m = i < 4 ? &m[0] : &m[i - 4],
			.from = i < 4 ? (uint64_t)i << 17 : 0,
			.step = i < 4 ? 4 << 17 : 1 << 17,
		};
		pthread_create(&ids[i], NULL, read_strided, &readers[i]);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(ids[i], NULL);
		ck_assert_int_eq(readers[i].failed, 0);
	}
	tasd_slabs_free(slabs);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		forwards,
		nearly_forwards,
		here_and_there,
		many_owners,
		failures,
		threads,
		NULL,
	};

	return unit_run("format-slab", tests);
}
