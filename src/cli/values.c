/*
 * Elements are read a chunk at a time, widened where float32 holds every value
 * of the type, and printed with as few digits as give the same number back.
 */
#include "values.h"
#include "cli.h"
#include "print.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/widen.h>

/* Elements a chunk; a multiple of every widening group. */
#define CHUNK 1024

static void print_double(struct tasd_buf *out, double value, bool is_float)
{
	char text[40];

	if (isnan(value)) {
		tasd_buf_str(out, "nan");
		return;
	}
	if (isinf(value)) {
		tasd_buf_str(out, value < 0 ? "-inf" : "inf");
		return;
	}
	for (int digits = 1; digits <= DBL_DECIMAL_DIG; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (is_float ? strtof(text, NULL) == (float)value
			     : strtod(text, NULL) == value)
			break;
	}
	/* %g turns to an exponent as soon as the digits are used up. */
	if (strchr(text, 'e') && fabs(value) >= 1 && fabs(value) < 1e16)
		snprintf(text, sizeof(text), "%.0f", value);
	tasd_buf_str(out, text);
	if (!strpbrk(text, ".e"))
		tasd_buf_str(out, ".0");
}

static void print_complex(
	struct tasd_buf *out, double re, double im, bool is_float)
{
	print_double(out, re, is_float);
	if (!signbit(im) || isnan(im))
		tasd_buf_char(out, '+');
	print_double(out, im, is_float);
	tasd_buf_char(out, 'j');
}

static uint64_t load(const unsigned char *at, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

static double load_f64(const unsigned char *at)
{
	uint64_t bits = load(at, 8);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static float load_f32(const unsigned char *at)
{
	uint32_t bits = (uint32_t)load(at, 4);
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* One element of a type that fills whole bytes.  false: a type to widen. */
static bool print_plain(
	struct tasd_buf *out, enum tasd_dtype dtype, const unsigned char *at)
{
	unsigned int bytes = tasd_dtype_info(dtype)->bits / 8;
	float half[2];

	switch ((int)dtype) {
	case TASD_DTYPE_BOOL:
		tasd_buf_str(out, *at ? "True" : "False");
		return true;
	case TASD_DTYPE_U8:
	case TASD_DTYPE_U16:
	case TASD_DTYPE_U32:
	case TASD_DTYPE_U64:
		tasd_buf_u64(out, load(at, bytes));
		return true;
	case TASD_DTYPE_I8:
	case TASD_DTYPE_I16:
	case TASD_DTYPE_I32:
	case TASD_DTYPE_I64: {
		unsigned int spare = 64 - 8 * bytes;

		tasd_buf_printf(out, "%" PRId64,
			(int64_t)(load(at, bytes) << spare) >> spare);
		return true;
	}
	case TASD_DTYPE_F32:
		print_double(out, (double)load_f32(at), true);
		return true;
	case TASD_DTYPE_F64:
		print_double(out, load_f64(at), false);
		return true;
	case TASD_DTYPE_C32:
		tasd_widen(TASD_DTYPE_F16, at, 2, half);
		print_complex(out, (double)half[0], (double)half[1], true);
		return true;
	case TASD_DTYPE_C64:
		print_complex(out, (double)load_f32(at),
			(double)load_f32(at + 4), true);
		return true;
	case TASD_DTYPE_C128:
		print_complex(out, load_f64(at), load_f64(at + 8), false);
		return true;
	default:
		return false;
	}
}

static tasd_err print_chunk(struct tasd_buf *out, enum tasd_dtype dtype,
	const unsigned char *bytes, size_t n)
{
	const struct tasd_dtype_info *info = tasd_dtype_info(dtype);
	float wide[CHUNK];
	unsigned int group;

	if (!info->widens || info->bits >= 32) {
		for (size_t i = 0; i < n; i++) {
			if (!print_plain(
				    out, dtype, bytes + i * info->bits / 8))
				return -ENOTSUP;
			tasd_buf_char(out, '\n');
		}
		return 0;
	}
	group = tasd_widen_group(dtype);
	tasd_widen(dtype, bytes, (n + group - 1) / group, wide);
	for (size_t i = 0; i < n; i++) {
		if (!print_plain(out, dtype, bytes + i * info->bits / 8))
			print_double(out, (double)wide[i], true);
		tasd_buf_char(out, '\n');
	}
	return 0;
}

/* Append the n elements from the at-th on. */
static tasd_err read_chunk(struct tasd_buf *out, struct tasd_content *content,
	enum tasd_dtype dtype, uint64_t at, size_t n)
{
	unsigned char bytes[CHUNK * 16];
	unsigned int bits = tasd_dtype_info(dtype)->bits;
	/* A whole chunk, so that a group is never cut; the end of the tensor
	 * may hold less.  at is a multiple of 8: the product comes last. */
	size_t want = CHUNK * (size_t)bits / 8, got;
	tasd_err err =
		tasd_content_pread(content, bytes, want, at / 8 * bits, &got);

	if (err)
		return err;
	if (got < (n * bits + 7) / 8)
		return -EIO;
	memset(bytes + got, 0, sizeof(bytes) - got);
	err = print_chunk(out, dtype, bytes, n);
	return err ? err : tasd_buf_err(out);
}

int tasd_values_print(struct tasd_content *content, const struct tasd_tensor *t,
	uint64_t count, const char *where)
{
	uint64_t elements = tasd_tensor_elements(t);

	if (count > elements)
		count = elements;
	for (uint64_t at = 0; at < count; at += CHUNK) {
		size_t n = count - at < CHUNK ? (size_t)(count - at) : CHUNK;
		struct tasd_buf out = TASD_BUF_EMPTY;
		tasd_err err = read_chunk(&out, content, t->dtype, at, n);
		int rc;

		if (err)
			tasd_buf_free(&out);
		if (err == -ENOTSUP)
			return tasd_cli_fail("%s: numbers of type %s cannot be "
					     "shown",
				where, tasd_tensor_dtype(t));
		if (err)
			return tasd_read_failed(where, err);
		rc = tasd_print_out(&out);
		if (rc)
			return rc;
	}
	return TASD_EXIT_OK;
}
