/*
 * Both sides are read in blocks.  A block is walked in chunks; a chunk whose
 * bytes are the same on both sides is equal whatever its type, and only the
 * others are decoded: to integers, or to doubles, which hold every value of
 * every float type exactly.
 *
 * A tensor is always read to its end: how many elements differ, and the
 * largest difference, are not known before.
 */
#include "compare.h"
#include "print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/widen.h>

/* About 1 MiB, and a whole number of elements of every numeric type, of
 * chunks of them but for the last, and of groups of 6 bits. */
#define BLOCK ((size_t)1048576 / 48 * 48)

/* Parts (an element, or half a complex one) that are decoded together; a
 * multiple of every widening group. */
#define CHUNK 2048u

struct number {
	enum tasd_measure measure;
	enum tasd_dtype part; /* REAL: what a part is */
	unsigned int bits;    /* of a part */
	unsigned int parts;   /* of an element: 2 for complex */
	bool is_signed;       /* WHOLE */
};

static struct number real(enum tasd_dtype part, unsigned int parts)
{
	return (struct number){
		.measure = TASD_MEASURE_REAL,
		.part = part,
		.bits = tasd_dtype_info(part)->bits,
		.parts = parts,
	};
}

static struct number number_of(const struct tasd_tensor *t)
{
	struct number number = {
		.measure = TASD_MEASURE_WHOLE,
		.bits = tasd_dtype_info(t->dtype)->bits,
		.parts = 1,
	};

	switch ((int)t->dtype) {
	case TASD_DTYPE_C32:
		return real(TASD_DTYPE_F16, 2);
	case TASD_DTYPE_BC32:
		return real(TASD_DTYPE_BF16, 2);
	case TASD_DTYPE_C64:
		return real(TASD_DTYPE_F32, 2);
	case TASD_DTYPE_C128:
		return real(TASD_DTYPE_F64, 2);
	case TASD_DTYPE_F64:
		return real(TASD_DTYPE_F64, 1);
	case TASD_DTYPE_F4_E2M1FN_X2:
		return real(TASD_DTYPE_F4_E2M1FN, 1);
	case TASD_DTYPE_I8:
	case TASD_DTYPE_I16:
	case TASD_DTYPE_I32:
	case TASD_DTYPE_I64:
	case TASD_DTYPE_QI8:
	case TASD_DTYPE_QI32:
		number.is_signed = true;
		return number;
	case TASD_DTYPE_BOOL:
	case TASD_DTYPE_U8:
	case TASD_DTYPE_U16:
	case TASD_DTYPE_U32:
	case TASD_DTYPE_U64:
	case TASD_DTYPE_QU8:
		return number;
	default:
		break;
	}
	if (t->dtype >= TASD_DTYPE_I1 && t->dtype <= TASD_DTYPE_I7)
		number.is_signed = true;
	else if (t->dtype >= TASD_DTYPE_U1 && t->dtype <= TASD_DTYPE_U7)
		number.is_signed = false;
	else if (tasd_dtype_info(t->dtype)->widens)
		return real(t->dtype, 1);
	else
		number.measure = TASD_MEASURE_NONE;
	return number;
}

static void note_whole(
	struct tasd_comparison *c, uint64_t element, uint64_t difference)
{
	c->different++;
	if (c->has_largest && difference <= c->whole)
		return;
	c->has_largest = true;
	c->whole = difference;
	c->at = element;
}

static int64_t load(const struct number *number, const unsigned char *at)
{
	unsigned int spare = 64 - number->bits;
	uint64_t value = 0;

	memcpy(&value, at, number->bits / 8);
	if (number->is_signed)
		return (int64_t)(value << spare) >> spare;
	return (int64_t)value;
}

/* n elements from the element `first` on. */
static void compare_whole(struct tasd_comparison *c,
	const struct number *number, uint64_t first, size_t n,
	const unsigned char *a, const unsigned char *b)
{
	size_t bytes = number->bits / 8;

	for (size_t i = 0; i < n; i++) {
		int64_t x = load(number, a + i * bytes);
		int64_t y = load(number, b + i * bytes);
		bool less =
			number->is_signed ? x < y : (uint64_t)x < (uint64_t)y;

		if (x != y)
			note_whole(c, first + i,
				less ? (uint64_t)y - (uint64_t)x
				     : (uint64_t)x - (uint64_t)y);
	}
}

static void decode(const struct number *number, const unsigned char *bytes,
	size_t nparts, double *out)
{
	float floats[CHUNK];
	unsigned int group = tasd_widen_group(number->part);

	if (number->part == TASD_DTYPE_F64) {
		memcpy(out, bytes, nparts * sizeof(*out));
		return;
	}
	tasd_widen(number->part, bytes, (nparts + group - 1) / group, floats);
	for (size_t i = 0; i < nparts; i++)
		out[i] = (double)floats[i];
}

/* The difference of two parts: 0 for what counts as equal, NaN when only one
 * is NaN. */
static double apart(double x, double y)
{
	if (x == y || (isnan(x) && isnan(y)))
		return 0;
	return fabs(x - y);
}

static void compare_real(struct tasd_comparison *c, const struct number *number,
	uint64_t first, size_t n, const unsigned char *a,
	const unsigned char *b)
{
	double x[CHUNK], y[CHUNK];

	decode(number, a, n * number->parts, x);
	decode(number, b, n * number->parts, y);
	for (size_t i = 0; i < n; i++) {
		size_t at = i * number->parts;
		double difference = apart(x[at], y[at]);

		if (number->parts == 2) {
			double im = apart(x[at + 1], y[at + 1]);

			/* To hypot() an infinity outweighs a NaN. */
			difference = isnan(difference) || isnan(im)
					     ? (double)NAN
					     : hypot(difference, im);
		}
		if (difference == 0)
			continue;
		c->different++;
		if (isnan(difference)) {
			c->nan++;
		} else if (!c->has_largest || difference > c->real) {
			c->has_largest = true;
			c->real = difference;
			c->at = first + i;
		}
	}
}

static uint64_t block_elements(const struct number *number)
{
	return BLOCK * 8 / (number->bits * number->parts);
}

/* One block of numbers; offset is that of its first byte. */
static void compare_numbers(struct tasd_comparison *c,
	const struct number *number, uint64_t offset, size_t len,
	const unsigned char *a, const unsigned char *b)
{
	uint64_t first = offset / BLOCK * block_elements(number);
	size_t parts = len * 8 / number->bits;

	for (size_t at = 0; at < parts; at += CHUNK) {
		size_t n = parts - at < CHUNK ? parts - at : CHUNK;
		size_t from = at * number->bits / 8;
		size_t bytes = n * number->bits / 8;
		uint64_t element = first + at / number->parts;

		if (memcmp(a + from, b + from, bytes) == 0)
			continue;
		if (number->measure == TASD_MEASURE_WHOLE)
			compare_whole(
				c, number, element, n, a + from, b + from);
		else
			compare_real(c, number, element, n / number->parts,
				a + from, b + from);
	}
}

/* One block of anything; item is the bytes of an element. */
static void compare_bytes(struct tasd_comparison *c, uint64_t item,
	uint64_t offset, size_t len, const unsigned char *a,
	const unsigned char *b)
{
	if (memcmp(a, b, len) == 0)
		return;
	for (size_t i = 0; i < len; i++) {
		uint64_t element = (offset + i) / item;

		if (a[i] == b[i] || (c->different && c->at == element))
			continue;
		c->different++;
		c->at = element;
	}
}

static tasd_err read_block(struct tasd_content *content, void *out,
	uint64_t offset, uint64_t size, size_t *ret_len)
{
	tasd_err err = tasd_content_pread(content, out, BLOCK, offset, ret_len);

	if (err)
		return err;
	return *ret_len < BLOCK && *ret_len < size - offset ? -EIO : 0;
}

static tasd_err compare_blocks(struct tasd_content *a, struct tasd_content *b,
	unsigned char *blocks, struct tasd_progress *progress,
	struct tasd_comparison *c, int *ret_side)
{
	const struct tasd_tensor *t = a->node->tensor;
	struct number number = number_of(t);
	uint64_t item = tasd_tensor_item(t);

	if (t->extra && t->extra->descr)
		number.measure = TASD_MEASURE_NONE;
	/* What is smaller than a byte and no number goes by bytes. */
	if (!item)
		item = 1;
	c->measure = number.measure;
	c->elements = number.measure == TASD_MEASURE_NONE
			      ? a->size / item
			      : a->size / BLOCK * block_elements(&number) +
					a->size % BLOCK * 8 /
						(number.bits * number.parts);
	for (uint64_t at = 0; at < a->size; at += BLOCK) {
		size_t len, other;
		tasd_err err;

		*ret_side = 0;
		err = read_block(a, blocks, at, a->size, &len);
		if (err)
			return err;
		*ret_side = 1;
		err = read_block(b, blocks + BLOCK, at, a->size, &other);
		if (err)
			return err;
		if (number.measure == TASD_MEASURE_NONE)
			compare_bytes(c, item, at, len, blocks, blocks + BLOCK);
		else
			compare_numbers(
				c, &number, at, len, blocks, blocks + BLOCK);
		tasd_progress_add(progress, len);
	}
	return 0;
}

tasd_err tasd_compare(struct tasd_content *a, struct tasd_content *b,
	struct tasd_progress *progress, struct tasd_comparison *ret,
	int *ret_side)
{
	unsigned char *blocks = malloc(2 * BLOCK);
	tasd_err err;

	*ret = (struct tasd_comparison){.measure = TASD_MEASURE_NONE};
	*ret_side = 0;
	if (!blocks)
		return -ENOMEM;
	err = a->size == b->size
		      ? compare_blocks(a, b, blocks, progress, ret, ret_side)
		      : -EIO;
	free(blocks);
	return err;
}
