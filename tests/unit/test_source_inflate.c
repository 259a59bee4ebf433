/*
 * Deflate streams of several kinds, read in several orders and by several
 * threads, against the bytes they were made of; streams that are not what they
 * are said to be.
 */
#include "unit.h"
#include <malloc.h>
#include <pthread.h>
#include <source/source.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define BEFORE 13 /* bytes in front of the stream, and behind it */

/* A parent that counts what is read of it. */
struct counted {
	struct tasd_source source;
	char *bytes;
	uint64_t read;
};

static tasd_err counted_pread(
	struct tasd_source *source, void *out, size_t len, uint64_t offset)
{
	struct counted *c = (struct counted *)source;

	__atomic_add_fetch(&c->read, len, __ATOMIC_RELAXED);
	memcpy(out, c->bytes + offset, len);
	return 0;
}

static void counted_free(struct tasd_source *source)
{
	struct counted *c = (struct counted *)source;

	free(c->bytes);
	free(c);
}

static const struct tasd_source_ops counted_ops = {
	.pread = counted_pread,
	.free = counted_free,
};

static struct tasd_source *counted_new(char *bytes, uint64_t size)
{
	struct counted *c = calloc(1, sizeof(*c));

	c->source.ops = &counted_ops;
	c->source.size = size;
	c->source.fd = -1;
	c->source.refs = 1;
	c->bytes = bytes;
	return &c->source;
}

static uint64_t take_count(struct tasd_source *source)
{
	struct counted *c = (struct counted *)source;
	uint64_t read = c->read;

	c->read = 0;
	return read;
}

struct made {
	char *plain;
	size_t size;
	size_t csize;
	struct tasd_source *parent;
};

static uint64_t state;

static uint64_t rnd(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return n ? state % n : 0;
}

/* Numbers with some structure, as weights have. */
static void fill(char *out, size_t size)
{
	for (size_t i = 0; i < size; i++)
		out[i] = i % 4 == 3 ? (char)(60 + rnd(4))
				    : (char)(i % 4 ? rnd(256) : 0);
}

static struct made make(size_t size, int level, int strategy)
{
	struct made m = {.plain = malloc(size + 1), .size = size};
	z_stream z = {.zalloc = NULL};
	size_t room = size + size / 100 + 1000;
	char *bytes = malloc(room + 2 * BEFORE);

	fill(m.plain, size);
	memset(bytes, 0xee, BEFORE);
	ck_assert_int_eq(
		deflateInit2(&z, level, Z_DEFLATED, -15, 8, strategy), Z_OK);
	z.next_in = (unsigned char *)m.plain;
	z.avail_in = (unsigned int)size;
	z.next_out = (unsigned char *)bytes + BEFORE;
	z.avail_out = (unsigned int)room;
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	m.csize = z.total_out;
	deflateEnd(&z);
	memset(bytes + BEFORE + m.csize, 0xee, BEFORE);
	m.parent = counted_new(bytes, BEFORE + m.csize + BEFORE);
	return m;
}

static struct tasd_source *open_made(const struct made *m)
{
	struct tasd_source *source = NULL;

	ck_assert_int_eq(tasd_source_inflate(m->parent, BEFORE, m->csize,
				 m->size, "member", &source),
		0);
	ck_assert_uint_eq(source->size, m->size);
	ck_assert_int_eq(source->fd, -1);
	ck_assert_str_eq(source->name, "member");
	return source;
}

static void drop(struct made *m)
{
	tasd_source_put(m->parent);
	free(m->plain);
}

static void read_and_compare(struct tasd_source *source, const struct made *m,
	uint64_t from, size_t len)
{
	char *out = malloc(len + 1);

	out[len] = 'x';
	ck_assert_int_eq(tasd_source_pread(source, out, len, from), 0);
	ck_assert_mem_eq(out, m->plain + from, len);
	ck_assert_int_eq(out[len], 'x');
	free(out);
}

static void read_in_orders(const struct made *m)
{
	struct tasd_source *source = open_made(m);
	size_t step = 100000;

	for (size_t at = 0; at < m->size; at += step)
		read_and_compare(source, m, at,
			m->size - at < step ? m->size - at : step);
	for (size_t at = m->size; at > 0;) {
		size_t n = at < 3 * step ? at : 3 * step;

		at -= n;
		read_and_compare(source, m, at, n);
	}
	for (int i = 0; i < 60; i++) {
		uint64_t from = rnd(m->size + 1);
		uint64_t len = rnd(i % 2 ? 50 : m->size / 8 + 1);

		if (len > m->size - from)
			len = m->size - from;
		read_and_compare(source, m, from, (size_t)len);
	}
	tasd_source_put(source);
}

START_TEST(any_order)
{
	static const size_t sizes[] = {1, 1000, 70000, 2 << 20, 12 << 20};

	state = 1;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct made m = make(sizes[i], i == 4 ? 1 : 6, 0);

		read_in_orders(&m);
		drop(&m);
	}
}
END_TEST

START_TEST(kinds_of_blocks)
{
	struct made m;

	state = 2;
	m = make(9 << 20, 0, 0); /* stored */
	read_in_orders(&m);
	drop(&m);
	m = make(9 << 20, 1, Z_FIXED);
	read_in_orders(&m);
	drop(&m);
	m = make(9 << 20, 1, Z_HUFFMAN_ONLY);
	read_in_orders(&m);
	drop(&m);
}
END_TEST

/* Points must let a reader go back without inflating all again. */
START_TEST(going_back_is_cheap)
{
	struct made m;
	struct tasd_source *source;

	state = 3;
	m = make(30 << 20, 1, 0);
	source = open_made(&m);
	/* Two readers that alternate, a megabyte apart, each forwards. */
	for (size_t at = 0; at + (2 << 20) <= m.size; at += 2 << 20) {
		read_and_compare(source, &m, at + (1 << 20), 1 << 20);
		read_and_compare(source, &m, at, 1 << 20);
	}
	ck_assert_uint_lt(take_count(m.parent), 4 * m.csize);
	/* From anywhere to anywhere, as far as the points are apart. */
	for (int i = 0; i < 32; i++)
		read_and_compare(source, &m, rnd(m.size - 100), 100);
	ck_assert_uint_lt(take_count(m.parent), 32 * (m.csize / 4));
	tasd_source_put(source);
	drop(&m);
}
END_TEST

struct reader {
	struct tasd_source *source;
	const struct made *m;
	uint64_t seed;
	int failed;
};

static void *read_at_random(void *arg)
{
	struct reader *r = arg;
	char *out = malloc(1 << 20);

	for (int i = 0; i < 40; i++) {
		uint64_t from, len = 1 << (i % 20);

		r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
		from = (r->seed >> 16) % (r->m->size - len);
		if (tasd_source_pread(r->source, out, len, from) ||
			memcmp(out, r->m->plain + from, len) != 0)
			r->failed++;
	}
	free(out);
	return NULL;
}

START_TEST(threads)
{
	struct made m;
	struct tasd_source *source;
	struct reader readers[4];
	pthread_t ids[4];

	state = 4;
	m = make(12 << 20, 1, 0);
	source = open_made(&m);
	for (int i = 0; i < 4; i++) {
		readers[i] = (struct reader){
			.source = source, .m = &m, .seed = (uint64_t)i};
		pthread_create(&ids[i], NULL, read_at_random, &readers[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(ids[i], NULL);
		ck_assert_int_eq(readers[i].failed, 0);
	}
	tasd_source_put(source);
	drop(&m);
}
END_TEST

START_TEST(many_spans)
{
	struct made m;
	struct tasd_source *source;
	struct tasd_span spans[64];
	char out[64][100];

	state = 5;
	m = make(10 << 20, 1, 0);
	source = open_made(&m);
	for (int i = 0; i < 64; i++)
		spans[i] = (struct tasd_span){
			/* Mostly ascending. */
			.offset = i == 40 ? 7 : (uint64_t)i * 150000,
			.len = 100,
			.out = out[i],
		};
	ck_assert_int_eq(tasd_source_preadv(source, spans, 64), 0);
	for (int i = 0; i < 64; i++)
		ck_assert_mem_eq(out[i], m.plain + spans[i].offset, 100);
	spans[63].offset = m.size - 99;
	ck_assert_int_eq(tasd_source_preadv(source, spans, 64), -EIO);
	tasd_source_put(source);
	drop(&m);
}
END_TEST

static tasd_err read_as(const struct made *m, uint64_t csize, uint64_t usize,
	uint64_t from, size_t len)
{
	struct tasd_source *source = NULL;
	char *out = malloc(len + 1);
	tasd_err err;

	ck_assert_int_eq(tasd_source_inflate(m->parent, BEFORE, csize, usize,
				 "member", &source),
		0);
	err = tasd_source_pread(source, out, len, from);
	if (!err)
		ck_assert_mem_eq(out, m->plain + from, len);
	tasd_source_put(source);
	free(out);
	return err;
}

START_TEST(sizes_that_lie)
{
	struct made m;
	struct tasd_source *source = NULL;

	state = 6;
	m = make(300000, 6, 0);
	ck_assert_int_eq(read_as(&m, m.csize, m.size, 0, m.size), 0);
	/* It ends before, or after. */
	ck_assert_int_eq(read_as(&m, m.csize, m.size + 1, 0, m.size + 1), -EIO);
	ck_assert_int_eq(read_as(&m, m.csize, m.size + 1, m.size, 1), -EIO);
	ck_assert_int_eq(read_as(&m, m.csize, m.size - 1, 0, m.size - 1), -EIO);
	ck_assert_int_eq(read_as(&m, m.csize, 1, 0, 1), -EIO);
	/* What is before the end can be read. */
	ck_assert_int_eq(read_as(&m, m.csize, m.size + 1, 0, m.size - 10), 0);
	/* The stream is cut. */
	ck_assert_int_eq(read_as(&m, m.csize - 1, m.size, 0, m.size), -EIO);
	ck_assert_int_eq(read_as(&m, m.csize / 2, m.size, 0, 1000), 0);
	ck_assert_int_eq(read_as(&m, m.csize / 2, m.size, 0, m.size), -EIO);
	ck_assert_int_eq(read_as(&m, 0, m.size, 0, 1), -EIO);
	/* Nothing is allocated by what it says. */
	ck_assert_int_eq(
		read_as(&m, m.csize, UINT64_MAX, UINT64_MAX - 5, 5), -EIO);
	/* Bytes behind the stream's end do no harm. */
	ck_assert_int_eq(read_as(&m, m.csize + BEFORE, m.size, 0, m.size), 0);
	ck_assert_int_eq(tasd_source_inflate(m.parent, BEFORE,
				 m.csize + BEFORE + 1, 1, "member", &source),
		-EINVAL);
	drop(&m);
}
END_TEST

START_TEST(no_stream)
{
	char *bytes = malloc(1000), out[10];
	struct tasd_source *parent = NULL, *source = NULL;

	for (int seed = 1; seed < 200; seed++) {
		state = (uint64_t)seed;
		for (int i = 0; i < 1000; i++)
			bytes[i] = (char)rnd(256);
		if (!parent)
			ck_assert_int_eq(
				tasd_source_memory(bytes, 1000, "p", &parent),
				0);
		ck_assert_int_eq(tasd_source_inflate(parent, 0, 1000, 1 << 20,
					 "m", &source),
			0);
		ck_assert_int_eq(
			tasd_source_pread(source, out, 10, (1 << 20) - 10),
			-EIO);
		/* And once more, from whatever was left. */
		ck_assert_int_eq(
			tasd_source_pread(source, out, 10, (1 << 20) - 10),
			-EIO);
		tasd_source_put(source);
	}
	tasd_source_put(parent);
}
END_TEST

/* A bomb costs time by what is read of it, and no memory. */
START_TEST(bomb)
{
	size_t size = 64 << 20;
	char *plain = calloc(size, 1), *packed = malloc(1 << 20), out[100];
	z_stream z = {.zalloc = NULL};
	struct tasd_source *parent = NULL, *source = NULL;
	struct mallinfo2 before, after;

	ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, 0), Z_OK);
	z.next_in = (unsigned char *)plain;
	z.avail_in = (unsigned int)size;
	z.next_out = (unsigned char *)packed;
	z.avail_out = 1 << 20;
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	ck_assert_int_eq(
		tasd_source_memory(packed, z.total_out, "p", &parent), 0);
	deflateEnd(&z);
	free(plain);
	before = mallinfo2();
	ck_assert_int_eq(tasd_source_inflate(
				 parent, 0, parent->size, size, "m", &source),
		0);
	for (uint64_t at = 0; at < size; at += 7 << 20)
		ck_assert_int_eq(tasd_source_pread(source, out, 100, at), 0);
	after = mallinfo2();
	ck_assert_uint_lt(after.uordblks + after.hblkhd,
		before.uordblks + before.hblkhd + (512 << 10));
	tasd_source_put(source);
	tasd_source_put(parent);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		any_order,
		kinds_of_blocks,
		going_back_is_cheap,
		threads,
		many_spans,
		sizes_that_lie,
		no_stream,
		bomb,
		NULL,
	};

	return unit_run("source-inflate", tests);
}
