/*
 * Numbers as Python prints them.
 */
#include "pickle.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that hold TASD_PKL_INT_DIGITS digits, and limbs of either base. */
#define INT_BYTES  1792
#define INT_LIMBS  (INT_BYTES / 4)
#define INT_GROUPS (INT_BYTES * 8 / 29 + 1)

/* The magnitude of a two's complement number in limbs of 32 bits. */
static size_t magnitude(
	const unsigned char *bytes, size_t len, bool negative, uint32_t *limbs)
{
	size_t n = (len + 3) / 4;
	unsigned int carry = negative;

	memset(limbs, 0, n * sizeof(*limbs));
	for (size_t i = 0; i < 4 * n; i++) {
		unsigned char b = i < len ? bytes[i] : negative ? 0xff : 0;

		carry += negative ? (unsigned char)~b : b;
		limbs[i / 4] |= (uint32_t)(carry & 0xff) << 8 * (i % 4);
		carry >>= 8;
	}
	return n;
}

tasd_err tasd_pkl_int_text(struct tasd_buf *buf, const struct tasd_pkl *value)
{
	const unsigned char *bytes = (const unsigned char *)value->text.bytes;
	uint32_t limbs[INT_LIMBS], groups[INT_GROUPS];
	size_t ngroups = 0, n;
	struct tasd_buf out = TASD_BUF_EMPTY;
	bool negative;

	if (value->type == TASD_PKL_INT) {
		tasd_buf_printf(buf, "%" PRId64, value->i);
		return 0;
	}
	if (value->text.len > INT_BYTES)
		return -ERANGE;
	negative = bytes[value->text.len - 1] & 0x80;
	n = magnitude(bytes, value->text.len, negative, limbs);
	/* From the top: what there is, times 2^32, plus the next limb. */
	for (size_t i = n; i > 0; i--) {
		uint64_t carry = limbs[i - 1];

		for (size_t g = 0; g < ngroups; g++) {
			carry += (uint64_t)groups[g] << 32;
			groups[g] = (uint32_t)(carry % 1000000000);
			carry /= 1000000000;
		}
		for (; carry; carry /= 1000000000)
			groups[ngroups++] = (uint32_t)(carry % 1000000000);
	}
	tasd_buf_printf(&out, "%" PRIu32, ngroups ? groups[ngroups - 1] : 0);
	for (size_t g = ngroups; g > 1; g--)
		tasd_buf_printf(&out, "%09" PRIu32, groups[g - 2]);
	if (out.len <= TASD_PKL_INT_DIGITS) {
		if (negative)
			tasd_buf_char(buf, '-');
		tasd_buf_add(buf, out.bytes, out.len);
	}
	n = out.len;
	tasd_buf_free(&out);
	return n <= TASD_PKL_INT_DIGITS ? 0 : -ERANGE;
}

/* "d.ddde+xx" with n digits in all; does it read back as f? */
static bool exact(char *text, size_t size, double f, int n)
{
	(void)snprintf(text, size, "%.*e", n - 1, f);
	return strtod(text, NULL) == f;
}

/* Add one to the last of the digits of a text as above. */
static void next_up(char *text)
{
	char *e = strchr(text, 'e'), *at = e;

	while (--at >= text) {
		if (*at == '.')
			continue;
		if (*at != '9') {
			++*at;
			return;
		}
		*at = '0';
	}
	/* All nines: a power of ten, which has a shorter text. */
}

/*
 * The shortest text of a positive number.  A normal number has at most one of
 * up to 15 digits, so 15 finds it; a subnormal one may have many.  Below a
 * power of two the numbers lie closer than above it, so that of 16 digits the
 * next one up may do where the nearest one does not.
 */
static void shortest(char *text, size_t size, double f)
{
	char up[40];

	for (int n = f < 0x1p-1022 ? 1 : 15; n <= 16; n++)
		if (exact(text, size, f, n))
			return;
	(void)snprintf(up, sizeof(up), "%s", text);
	next_up(up);
	if (strtod(up, NULL) == f)
		(void)snprintf(text, size, "%s", up);
	else
		(void)exact(text, size, f, 17);
}

void tasd_pkl_float_text(struct tasd_buf *buf, double f)
{
	char text[40], digits[24];
	size_t n = 0;
	int exponent;

	if (isnan(f)) {
		tasd_buf_str(buf, "nan");
		return;
	}
	if (signbit(f))
		tasd_buf_char(buf, '-');
	if (isinf(f) || f == 0) {
		tasd_buf_str(buf, f == 0 ? "0.0" : "inf");
		return;
	}
	shortest(text, sizeof(text), fabs(f));
	for (const char *at = text; *at != 'e'; at++)
		if (*at != '.')
			digits[n++] = *at;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	exponent = atoi(strchr(text, 'e') + 1);
	if (exponent < -4 || exponent >= 16) {
		tasd_buf_char(buf, digits[0]);
		if (n > 1)
			tasd_buf_char(buf, '.');
		tasd_buf_add(buf, digits + 1, n - 1);
		tasd_buf_printf(buf, "e%c%02d", exponent < 0 ? '-' : '+',
			abs(exponent));
		return;
	}
	if (exponent < 0)
		tasd_buf_str(buf, "0.");
	for (int i = exponent; i < -1; i++)
		tasd_buf_char(buf, '0');
	for (int i = 0; i < (int)n || i <= exponent; i++) {
		if (i == exponent + 1 && exponent >= 0)
			tasd_buf_char(buf, '.');
		tasd_buf_char(buf, i < (int)n ? digits[i] : '0');
	}
	if ((int)n <= exponent + 1)
		tasd_buf_str(buf, ".0");
}
