/*
 * Random views, read in random ranges, against walking them element by
 * element; the seed is printed.  Then the limits, and what gathering costs in
 * reads.
 */
#include "unit.h"
#include <stdio.h>
#include <string.h>
#include <tensor/gather.h>
#include <time.h>

struct storage {
	unsigned char *bytes;
	uint64_t size;
	uint64_t reads, read_bytes;
	uint64_t fail_at; /* the read that fails; 0: none */
};

static tasd_err read_storage(
	void *ctx, const struct tasd_span *spans, size_t nspans)
{
	struct storage *st = ctx;

	for (size_t i = 0; i < nspans; i++) {
		const struct tasd_span *s = &spans[i];

		ck_assert_uint_le(s->offset, st->size);
		ck_assert_uint_le(s->len, st->size - s->offset);
		ck_assert_uint_gt(s->len, 0);
		st->reads++;
		st->read_bytes += s->len;
		if (st->reads == st->fail_at)
			return -EIO;
		memcpy(s->out, st->bytes + s->offset, s->len);
	}
	return 0;
}

static uint64_t state;

static uint64_t rnd(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return n ? state % n : 0;
}

static void swap_element(const struct tasd_gather *g, unsigned char *element)
{
	for (uint32_t i = 0; i < g->nswaps; i++) {
		const struct tasd_swap *s = &g->swaps[i];

		for (uint64_t c = 0; c < s->count; c++) {
			unsigned char *at = element + s->offset + c * s->unit;

			for (uint32_t k = 0; k < s->unit / 2; k++) {
				unsigned char t = at[k];

				at[k] = at[s->unit - 1 - k];
				at[s->unit - 1 - k] = t;
			}
		}
	}
}

/* All bytes of the view, one element after the other; free() them. */
static unsigned char *naive(const struct tasd_gather *g,
	const struct storage *st, uint64_t elements)
{
	unsigned char *out = malloc(elements * g->item + 1);
	uint64_t index[16] = {0};

	for (uint64_t e = 0; e < elements; e++) {
		uint64_t at = g->start;

		for (uint32_t i = 0; i < g->ndim; i++)
			at += index[i] * g->stride[i];
		memcpy(out + e * g->item, st->bytes + at * g->item, g->item);
		swap_element(g, out + e * g->item);
		for (uint32_t i = g->ndim; i-- > 0;) {
			if (++index[i] < g->shape[i])
				break;
			index[i] = 0;
		}
	}
	return out;
}

static void make_swaps(struct tasd_gather *g, struct tasd_swap *swaps)
{
	static const uint32_t units[] = {2, 3, 4, 8, 12, 16};
	uint64_t at = 0;

	g->swaps = swaps;
	g->nswaps = 0;
	while (g->nswaps < 4) {
		uint32_t unit = units[rnd(6)];
		uint64_t count = 1 + rnd(3);

		at += rnd(3);
		if (at + unit * count > g->item)
			break;
		swaps[g->nswaps++] = (struct tasd_swap){
			.offset = at, .count = count, .unit = unit};
		at += unit * count;
	}
}

static const uint64_t items[] = {1, 2, 4, 8, 16, 3, 6, 14, 12, 40, 24};

static void try_view(void)
{
	uint64_t shape[8], stride[8], need = 0, elements = 1, step = 1;
	struct tasd_swap swaps[4];
	struct tasd_gather g = {.shape = shape, .stride = stride};
	struct storage st = {.bytes = NULL};
	unsigned char *want, *got;
	unsigned int order[8], kind = (unsigned int)rnd(6);

	g.ndim = (uint32_t)rnd(6);
	g.item = items[rnd(11)];
	g.start = rnd(5);
	for (uint32_t i = 0; i < g.ndim; i++) {
		shape[i] = rnd(8) == 0 ? 1 : 1 + rnd(g.ndim > 3 ? 7 : 40);
		order[i] = i;
		elements *= shape[i];
	}
	if (rnd(40) == 0 && g.ndim > 0) {
		shape[rnd(g.ndim)] = 0;
		elements = 0;
	}
	for (uint32_t i = g.ndim; i-- > 1;) {
		uint32_t j = (uint32_t)rnd(i + 1);
		unsigned int t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	/* Permuted and dense, with gaps, expanded, or anything. */
	for (uint32_t i = 0; i < g.ndim; i++) {
		unsigned int d = kind == 0 ? g.ndim - 1 - i : order[i];

		stride[d] = step;
		if (kind == 3 && rnd(3) == 0)
			stride[d] = 0;
		if (kind == 4)
			stride[d] = rnd(50);
		step *= shape[d] ? shape[d] : 1;
		if (kind == 2)
			step += rnd(3) == 0 ? rnd(2000) / (i + 1) : rnd(3);
	}
	if (rnd(3) == 0)
		make_swaps(&g, swaps);
	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	if (need > (64 << 20))
		return;
	st.size = need;
	st.bytes = malloc(need + 1);
	for (uint64_t i = 0; i < need; i++)
		st.bytes[i] = (unsigned char)(rnd(0), state >> 24);
	want = naive(&g, &st, elements);
	got = malloc(elements * g.item + 1);
	for (int round = 0; round < 8; round++) {
		uint64_t size = elements * g.item;
		uint64_t from = round ? rnd(size + 1) : 0;
		uint64_t len = round ? rnd(size - from + 1) : size;

		if (round > 4 && len > 20)
			len = rnd(20);
		memset(got, 0xa5, size + 1);
		ck_assert_int_eq(tasd_gather_pread(
					 &g, read_storage, &st, got, len, from),
			0);
		ck_assert_mem_eq(got, want + from, len);
		ck_assert_uint_eq(got[len], 0xa5);
	}
	free(st.bytes);
	free(want);
	free(got);
}

START_TEST(random_views)
{
	const char *seed = getenv("TASD_SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	state = seed ? strtoull(seed, NULL, 0)
		     : (uint64_t)now.tv_nsec * 2654435761u + 1;
	printf("seed %llu\n", (unsigned long long)state);
	fflush(stdout);
	for (int i = 0; i < 3000; i++)
		try_view();
}
END_TEST

/* Larger than any buffer inside: several batches, groups and lanes. */
static void try_large(uint64_t rows, uint64_t cols, uint64_t item)
{
	uint64_t shape[] = {cols, rows}, stride[] = {1, cols}, need = 0;
	struct tasd_gather g = {
		.shape = shape, .stride = stride, .ndim = 2, .item = item};
	struct storage st = {.bytes = NULL};
	unsigned char *want, *got;

	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	ck_assert_uint_eq(need, rows * cols * item);
	st.size = need;
	st.bytes = malloc(need);
	for (uint64_t i = 0; i < need; i++)
		st.bytes[i] = (unsigned char)(rnd(0), state >> 24);
	want = naive(&g, &st, rows * cols);
	got = malloc(need);
	for (uint64_t at = 0; at < need; at += 1 << 20) {
		size_t n = need - at < 1 << 20 ? (size_t)(need - at) : 1 << 20;

		ck_assert_int_eq(tasd_gather_pread(&g, read_storage, &st,
					 got + at, n, at),
			0);
	}
	ck_assert_mem_eq(got, want, need);
	free(st.bytes);
	free(want);
	free(got);
}

START_TEST(large_views)
{
	state = 12345;
	try_large(1024, 4096, 4);
	try_large(4096, 1024, 2);
	try_large(3, 700001, 8);
	try_large(700001, 3, 8);
	try_large(1, 1 << 22, 1);
	try_large(300, 300, 50);
}
END_TEST

START_TEST(limits)
{
	uint64_t shape[70], stride[70], need;
	struct tasd_swap swap = {.offset = 0, .count = 1, .unit = 4};
	struct tasd_gather g = {.shape = shape, .stride = stride, .item = 4};

	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	ck_assert_uint_eq(need, 4);
	for (int i = 0; i < 70; i++) {
		shape[i] = 2;
		stride[i] = 0;
	}
	/* 2^63 elements fit, 2^64 do not, even when all are one. */
	g.item = 1;
	g.ndim = 63;
	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	ck_assert_uint_eq(need, 1);
	g.ndim = 64;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EOVERFLOW);
	/* A zero hides nothing. */
	shape[3] = 0;
	g.ndim = 70;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EOVERFLOW);
	g.ndim = 10;
	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	ck_assert_uint_eq(need, 0);
	g.ndim = 1;
	shape[0] = 3;
	stride[0] = (uint64_t)1 << 63;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EOVERFLOW);
	stride[0] = (UINT64_MAX - 1) / 2;
	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	ck_assert_uint_eq(need, UINT64_MAX);
	g.item = 2;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EOVERFLOW);
	g.item = 0;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EINVAL);
	stride[0] = 1;
	g.swaps = &swap;
	g.nswaps = 1;
	g.item = 3;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EINVAL);
	g.item = 4;
	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	swap.count = UINT64_MAX / 4;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EINVAL);
	swap.count = 1;
	swap.unit = 17;
	g.item = 32;
	ck_assert_int_eq(tasd_gather_need(&g, &need), -EINVAL);
}
END_TEST

/* A view that walks a huge storage reads what it needs and no more. */
START_TEST(reads_are_few)
{
	uint64_t shape[] = {64, 3, 3, 64}, stride[] = {576, 3, 1, 9};
	uint64_t need = 0, n = 64 * 9 * 64 * 4;
	struct tasd_gather g = {
		.shape = shape, .stride = stride, .ndim = 4, .item = 4};
	struct storage st = {.bytes = calloc(n, 1), .size = n};
	unsigned char *out = malloc(n);

	/* The last three permuted: 64 blocks that lie side by side. */
	ck_assert_int_eq(tasd_gather_need(&g, &need), 0);
	ck_assert_uint_eq(need, n);
	ck_assert_int_eq(
		tasd_gather_pread(&g, read_storage, &st, out, n, 0), 0);
	ck_assert_uint_le(st.reads, 2);
	ck_assert_uint_eq(st.read_bytes, n);

	/* One element in 64 KiB: nothing between is read. */
	free(st.bytes);
	st = (struct storage){.bytes = calloc(100 << 16, 1), .size = 100 << 16};
	shape[0] = 100;
	stride[0] = 1 << 14;
	g.ndim = 1;
	ck_assert_int_eq(
		tasd_gather_pread(&g, read_storage, &st, out, 400, 0), 0);
	ck_assert_uint_eq(st.reads, 100);
	ck_assert_uint_eq(st.read_bytes, 400);

	/* One value for all: one read. */
	stride[0] = 0;
	st.reads = 0;
	ck_assert_int_eq(
		tasd_gather_pread(&g, read_storage, &st, out, 400, 0), 0);
	ck_assert_uint_eq(st.reads, 1);
	free(st.bytes);
	free(out);
}
END_TEST

START_TEST(failures_come_through)
{
	uint64_t shape[] = {1000, 1000}, stride[] = {1, 1000};
	struct tasd_gather g = {
		.shape = shape, .stride = stride, .ndim = 2, .item = 4};
	struct storage st = {.bytes = calloc(4000000, 1), .size = 4000000};
	unsigned char *out = malloc(4000000);
	uint64_t reads;

	ck_assert_int_eq(
		tasd_gather_pread(&g, read_storage, &st, out, 4000000, 0), 0);
	reads = st.reads;
	ck_assert_uint_gt(reads, 1);
	for (uint64_t i = 1; i <= reads; i++) {
		st.reads = 0;
		st.fail_at = i;
		ck_assert_int_eq(tasd_gather_pread(&g, read_storage, &st, out,
					 4000000, 0),
			-EIO);
	}
	free(st.bytes);
	free(out);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		random_views,
		large_views,
		limits,
		reads_are_few,
		failures_come_through,
		NULL,
	};

	return unit_run("tensor-gather", tests);
}
