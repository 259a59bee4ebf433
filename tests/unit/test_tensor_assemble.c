/*
 * Random divisions of random shapes, read in random ranges, against the whole;
 * then divisions with a box moved or taken away, against counting elements.
 * The seed is printed.
 */
#include "unit.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tensor/assemble.h>
#include <time.h>

#define NDIM_MAX 4u
#define BOXES    64u

static uint64_t state;

static uint64_t rnd(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return n ? state % n : 0;
}

static void seed(void)
{
	const char *given = getenv("TASD_TEST_SEED");

	state = given ? strtoull(given, NULL, 0)
		      : (uint64_t)time(NULL) * 2654435761u + 1;
	printf("TASD_TEST_SEED=%llu\n", (unsigned long long)state);
	fflush(stdout);
}

struct division {
	uint64_t shape[NDIM_MAX];
	uint32_t ndim;
	uint64_t start[BOXES][NDIM_MAX], size[BOXES][NDIM_MAX];
	struct tasd_box boxes[BOXES];
	uint32_t nboxes;
	unsigned char *bytes[BOXES]; /* of each box, row-major */
	uint64_t nbytes[BOXES];
	unsigned char *whole;
	uint64_t total;
	uint64_t asked[BOXES]; /* bytes read of each */
};

static uint64_t volume(const struct division *d, uint32_t box)
{
	uint64_t n = 1;

	for (uint32_t k = 0; k < d->ndim; k++)
		n *= d->size[box][k];
	return n;
}

/* Begin with one box and cut a random one in two until there are enough. */
static void divide(struct division *d, uint32_t nboxes)
{
	memset(d, 0, sizeof(*d));
	d->ndim = (uint32_t)rnd(NDIM_MAX + 1);
	for (uint32_t k = 0; k < d->ndim; k++)
		d->shape[k] = d->size[0][k] = 1 + rnd(9);
	d->nboxes = 1;
	while (d->ndim && d->nboxes < nboxes) {
		uint32_t from = (uint32_t)rnd(d->nboxes);
		uint32_t dim = (uint32_t)rnd(d->ndim), to = d->nboxes;
		/* Empty boxes too, now and then. */
		uint64_t at = rnd(d->size[from][dim] + 1);

		d->nboxes++;
		memcpy(d->start[to], d->start[from], sizeof(d->start[to]));
		memcpy(d->size[to], d->size[from], sizeof(d->size[to]));
		d->size[from][dim] = at;
		d->start[to][dim] += at;
		d->size[to][dim] -= at;
	}
	for (uint32_t i = 0; i < d->nboxes; i++)
		d->boxes[i] = (struct tasd_box){
			.start = d->start[i], .size = d->size[i]};
}

/* Give the boxes the bytes of a whole made at random. */
static void fill(struct division *d, uint64_t item)
{
	uint64_t elements = 1;

	for (uint32_t k = 0; k < d->ndim; k++)
		elements *= d->shape[k];
	d->total = elements * item;
	d->whole = malloc(d->total + 1);
	for (uint64_t i = 0; i < d->total; i++)
		d->whole[i] = (unsigned char)rnd(256);
	for (uint32_t b = 0; b < d->nboxes; b++) {
		uint64_t n = volume(d, b);

		d->nbytes[b] = n * item;
		d->bytes[b] = malloc(n * item + 1);
		for (uint64_t i = 0; i < n; i++) {
			uint64_t rest = i, flat = 0, step = 1;

			for (uint32_t k = d->ndim; k-- > 0;) {
				flat += step *
					(d->start[b][k] + rest % d->size[b][k]);
				rest /= d->size[b][k];
				step *= d->shape[k];
			}
			memcpy(d->bytes[b] + i * item, d->whole + flat * item,
				item);
		}
	}
}

static void empty(struct division *d)
{
	free(d->whole);
	for (uint32_t b = 0; b < d->nboxes; b++)
		free(d->bytes[b]);
}

static tasd_err read_box(void *ctx, uint32_t box, const struct tasd_span *spans,
	size_t nspans)
{
	struct division *d = ctx;

	require_op(box, <, d->nboxes);
	for (size_t i = 0; i < nspans; i++) {
		require_op(spans[i].offset, <=, d->nbytes[box]);
		require_op(spans[i].len, <=,
			d->nbytes[box] - spans[i].offset);
		require(i == 0 || spans[i].offset > spans[i - 1].offset);
		memcpy(spans[i].out, d->bytes[box] + spans[i].offset,
			spans[i].len);
		d->asked[box] += spans[i].len;
	}
	return 0;
}

START_TEST(random_divisions_read_back)
{
	seed();
	for (int round = 0; round < 3000; round++) {
		struct tasd_assembly *a = NULL;
		struct tasd_diag diag = {""};
		uint64_t item = 1 + rnd(8);
		struct division d;
		unsigned char *out;

		divide(&d, 1 + (uint32_t)rnd(BOXES));
		fill(&d, item);
		ck_assert_msg(tasd_assembly_new(d.shape, d.ndim, item * 8,
				      d.boxes, d.nboxes, &a, &diag) == 0,
			"%s", diag.text);
		out = malloc(d.total + 1);
		for (int i = 0; i < 10; i++) {
			uint64_t from = rnd(d.total + 1);
			uint64_t len = rnd(d.total - from + 1);

			require_eq(tasd_assembly_pread(
					   a, read_box, &d, out, len, from),
				0);
			require(memcmp(out, d.whole + from, len) == 0);
		}
		tasd_assembly_free(a);
		free(out);
		empty(&d);
	}
}
END_TEST

/* By counting: is each element in one box, and no box outside? */
static bool tiles(const struct division *d)
{
	uint64_t elements = 1, covered = 0;
	unsigned char *in;
	bool good = true;

	for (uint32_t k = 0; k < d->ndim; k++)
		elements *= d->shape[k];
	in = calloc(elements + 1, 1);
	for (uint32_t b = 0; b < d->nboxes && good; b++) {
		uint64_t n = volume(d, b);

		for (uint32_t k = 0; k < d->ndim && n; k++)
			if (d->start[b][k] + d->size[b][k] > d->shape[k])
				good = false;
		for (uint64_t i = 0; i < n && good; i++) {
			uint64_t rest = i, flat = 0, step = 1;

			for (uint32_t k = d->ndim; k-- > 0;) {
				flat += step *
					(d->start[b][k] + rest % d->size[b][k]);
				rest /= d->size[b][k];
				step *= d->shape[k];
			}
			good = !in[flat];
			in[flat] = 1;
			covered++;
		}
	}
	free(in);
	return good && covered == elements;
}

START_TEST(what_does_not_tile_is_refused)
{
	unsigned int refused = 0, taken = 0;

	seed();
	for (int round = 0; round < 20000; round++) {
		struct tasd_assembly *a = NULL;
		struct tasd_diag diag = {""};
		struct division d;
		uint32_t box, dim;
		bool same = false;
		tasd_err err;

		divide(&d, 1 + (uint32_t)rnd(12));
		if (!d.ndim)
			continue;
		box = (uint32_t)rnd(d.nboxes);
		dim = (uint32_t)rnd(d.ndim);
		if (rnd(2))
			d.start[box][dim] = rnd(d.shape[dim] + 2);
		else
			d.size[box][dim] = rnd(d.shape[dim] + 2);
		/* Equal boxes are no overlap for us. */
		for (uint32_t i = 0; i < d.nboxes; i++)
			for (uint32_t k = 0; k < i; k++)
				same |= volume(&d, i) &&
					!memcmp(d.start[i], d.start[k],
						sizeof(d.start[i])) &&
					!memcmp(d.size[i], d.size[k],
						sizeof(d.size[i]));
		if (same)
			continue;
		err = tasd_assembly_new(
			d.shape, d.ndim, 8, d.boxes, d.nboxes, &a, &diag);
		if (tiles(&d)) {
			ck_assert_msg(err == 0, "%s", diag.text);
			taken++;
		} else {
			ck_assert_int_eq(err, -EINVAL);
			ck_assert_str_ne(diag.text, "");
			refused++;
		}
		if (!err)
			tasd_assembly_free(a);
	}
	ck_assert_uint_gt(refused, 1000);
	ck_assert_uint_gt(taken, 1000);
}
END_TEST

START_TEST(equal_boxes_count_once)
{
	static const uint64_t shape[] = {4, 2}, at[] = {0, 0}, at2[] = {2, 0},
			      half[] = {2, 2};
	const struct tasd_box boxes[] = {{at, half}, {at2, half}, {at, half}};
	struct tasd_assembly *a = NULL;

	ck_assert_int_eq(
		tasd_assembly_new(shape, 2, 32, boxes, 3, &a, NULL), 0);
	tasd_assembly_free(a);
}
END_TEST

static tasd_err note_box(void *ctx, uint32_t box, const struct tasd_span *spans,
	size_t nspans)
{
	uint64_t *seen = ctx;

	*seen |= (uint64_t)1 << box;
	for (size_t i = 0; i < nspans; i++)
		memset(spans[i].out, 0, spans[i].len);
	return 0;
}

/* Eight columns of a matrix: a range within one column's part of a row asks for
 * that box alone, and a row for all of them. */
START_TEST(only_the_boxes_needed_are_asked)
{
	static const uint64_t shape[] = {16, 64};
	uint64_t starts[8][2], sizes[8][2];
	struct tasd_assembly *a = NULL;
	struct tasd_box boxes[8];
	uint64_t seen = 0;
	char out[256];

	for (unsigned int i = 0; i < 8; i++) {
		starts[i][0] = 0;
		starts[i][1] = 8 * i;
		sizes[i][0] = 16;
		sizes[i][1] = 8;
		boxes[i] = (struct tasd_box){starts[i], sizes[i]};
	}
	ck_assert_int_eq(
		tasd_assembly_new(shape, 2, 32, boxes, 8, &a, NULL), 0);
	ck_assert_int_eq(tasd_assembly_pread(
				 a, note_box, &seen, out, 32, 3 * 256 + 5 * 32),
		0);
	ck_assert_uint_eq(seen, 1 << 5);
	seen = 0;
	ck_assert_int_eq(
		tasd_assembly_pread(a, note_box, &seen, out, 256, 256), 0);
	ck_assert_uint_eq(seen, 255);
	tasd_assembly_free(a);
}
END_TEST

static tasd_err refuse(void *ctx, uint32_t box, const struct tasd_span *spans,
	size_t nspans)
{
	(void)ctx;
	(void)spans;
	(void)nspans;
	return box == 1 ? -EIO : 0;
}

START_TEST(errors_and_limits)
{
	static const uint64_t huge[] = {UINT64_MAX, 3}, none[] = {0, 0};
	static const uint64_t four[] = {4}, zero[] = {0}, two[] = {2},
			      one[] = {1}, odd[] = {3};
	const struct tasd_box half[] = {{zero, two}, {two, two}};
	const struct tasd_box nibbles[] = {{zero, one}, {one, odd}};
	const struct tasd_box all = {none, huge};
	struct tasd_assembly *a = NULL;
	char out[16];

	ck_assert_int_eq(tasd_assembly_new(huge, 2, 8, &all, 1, &a, NULL),
		-EOVERFLOW);
	/* A box that ends within a byte. */
	ck_assert_int_eq(
		tasd_assembly_new(four, 1, 4, nibbles, 2, &a, NULL), -EINVAL);
	/* Nothing at all of something. */
	ck_assert_int_eq(
		tasd_assembly_new(four, 1, 8, NULL, 0, &a, NULL), -EINVAL);
	/* All of nothing. */
	ck_assert_int_eq(tasd_assembly_new(zero, 1, 8, NULL, 0, &a, NULL), 0);
	tasd_assembly_free(a);
	ck_assert_int_eq(tasd_assembly_new(four, 1, 4, half, 2, &a, NULL), 0);
	ck_assert_int_eq(
		tasd_assembly_pread(a, refuse, NULL, out, 2, 0), -EIO);
	ck_assert_int_eq(tasd_assembly_pread(a, refuse, NULL, out, 1, 0), 0);
	tasd_assembly_free(a);
}
END_TEST

/* Staircases in every direction: each cut of one dimension meets all boxes. */
START_TEST(intricate_ones_end)
{
	enum { N = 20000 };
	uint64_t (*start)[2] = calloc(N, sizeof(*start));
	uint64_t (*size)[2] = calloc(N, sizeof(*size));
	struct tasd_box *boxes = calloc(N, sizeof(*boxes));
	static const uint64_t shape[] = {N, N};
	struct tasd_assembly *a = NULL;

	for (uint64_t i = 0; i < N; i++) {
		start[i][0] = i / 2;
		size[i][0] = N - i;
		start[i][1] = i;
		size[i][1] = 1;
		boxes[i] = (struct tasd_box){start[i], size[i]};
	}
	ck_assert_int_lt(
		tasd_assembly_new(shape, 2, 8, boxes, N, &a, NULL), 0);
	free(start);
	free(size);
	free(boxes);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {random_divisions_read_back,
		what_does_not_tile_is_refused, equal_boxes_count_once,
		only_the_boxes_needed_are_asked, errors_and_limits,
		intricate_ones_end, NULL};

	return unit_run("tensor-assemble", tests);
}
