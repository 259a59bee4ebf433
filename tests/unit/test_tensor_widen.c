/*
 * Every bit pattern of every type up to 16 bits, against values computed from
 * the formula of the format (sign * mantissa * 2^exponent) in double.
 */
#include "unit.h"
#include <math.h>
#include <string.h>
#include <tensor/widen.h>

struct rules {
	enum tasd_dtype dtype;
	int e, m, bias;
	bool sign;
	uint32_t inf; /* pattern without the sign; 0: has none */
	/* Patterns that are NaN: from nan_from to nan_to without the sign, or
	 * the sign bit alone. */
	uint32_t nan_from, nan_to;
	bool nan_is_minus_zero;
};

static const struct rules all[] = {
	{TASD_DTYPE_F16, 5, 10, 15, true, 0x7c00, 0x7c01, 0x7fff, false},
	{TASD_DTYPE_BF16, 8, 7, 127, true, 0x7f80, 0x7f81, 0x7fff, false},
	{TASD_DTYPE_F8_E4M3FN, 4, 3, 7, true, 0, 0x7f, 0x7f, false},
	{TASD_DTYPE_F8_E5M2, 5, 2, 15, true, 0x7c, 0x7d, 0x7f, false},
	{TASD_DTYPE_F8_E4M3FNUZ, 4, 3, 8, true, 0, 1, 0, true},
	{TASD_DTYPE_F8_E5M2FNUZ, 5, 2, 16, true, 0, 1, 0, true},
	{TASD_DTYPE_F6_E2M3FN, 2, 3, 1, true, 0, 1, 0, false},
	{TASD_DTYPE_F6_E3M2FN, 3, 2, 3, true, 0, 1, 0, false},
	{TASD_DTYPE_F4_E2M1FN, 2, 1, 1, true, 0, 1, 0, false},
};
#define NRULES (sizeof(all) / sizeof(all[0]))

static uint32_t bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static void check_code(const struct rules *r, uint32_t code, float got)
{
	uint32_t sign = code >> (r->e + r->m) & 1;
	uint32_t rest = code & ((1u << (r->e + r->m)) - 1);
	uint32_t mantissa = rest & ((1u << r->m) - 1);
	int exponent = (int)(rest >> r->m);
	uint32_t bits = bits_of(got);
	double want;

	if (!(bits >> 31 == sign))
		ck_abort_msg("%s %#x: sign of %a",
			tasd_dtype_info(r->dtype)->name, code, (double)got);
	if ((rest >= r->nan_from && rest <= r->nan_to) ||
		(r->nan_is_minus_zero && sign && rest == 0)) {
		if (!(isnan(got)))
			ck_abort_msg("%#x is %a", code, (double)got);
		/* The payload keeps its bits at the top. */
		if (!r->nan_is_minus_zero)
			require_eq(bits & 0x7fffff, mantissa << (23 - r->m));
		return;
	}
	if (r->inf && rest == r->inf)
		want = INFINITY;
	else if (exponent == 0)
		want = ldexp(mantissa, 1 - r->bias - r->m);
	else
		want = ldexp(
			mantissa + (1u << r->m), exponent - r->bias - r->m);
	want = sign ? -want : want;
	if (!((double)got == want))
		ck_abort_msg("%s %#x: %a, want %a",
			tasd_dtype_info(r->dtype)->name, code, (double)got,
			want);
}

/* Pack codes as the format does, the general way: a bit stream. */
static void pack(unsigned char *out, const uint32_t *codes, size_t n, int bits)
{
	for (size_t i = 0; i < n * (size_t)bits; i++) {
		uint32_t bit = codes[i / (size_t)bits] >> i % (size_t)bits & 1;

		if (i % 8 == 0)
			out[i / 8] = 0;
		out[i / 8] |= (unsigned char)(bit << i % 8);
	}
}

/* n codes, in runs of at most `run` groups: short runs and long ones take
 * different ways. */
static void check_codes(
	const struct rules *r, const uint32_t *codes, size_t n, size_t run)
{
	int bits = tasd_dtype_info(r->dtype)->bits;
	size_t group = tasd_widen_group(r->dtype);
	size_t width = tasd_widen_group_bytes(r->dtype);
	unsigned char *src = malloc(n * (size_t)bits / 8);
	float *dst = malloc((n + 1) * sizeof(*dst));
	size_t groups = n / group;

	ck_assert(src && dst);
	ck_assert_uint_eq(n % group, 0);
	ck_assert_uint_eq(width * 8, group * (size_t)bits);
	pack(src, codes, n, bits);
	memset(dst, 0x5a, (n + 1) * sizeof(*dst));
	for (size_t at = 0; at < groups; at += run)
		tasd_widen(r->dtype, src + at * width,
			groups - at < run ? groups - at : run,
			dst + at * group);
	for (size_t i = 0; i < n; i++)
		check_code(r, codes[i], dst[i]);
	/* Nothing past the end. */
	ck_assert_uint_eq(bits_of(dst[n]), 0x5a5a5a5a);
	free(src);
	free(dst);
}

START_TEST(every_pattern)
{
	for (size_t i = 0; i < NRULES; i++) {
		const struct rules *r = &all[i];
		int bits = tasd_dtype_info(r->dtype)->bits;
		size_t n = (size_t)1 << bits;
		uint32_t *codes = malloc(n * sizeof(*codes));

		ck_assert_int_eq(r->e + r->m + (r->sign ? 1 : 0), bits);
		ck_assert_ptr_nonnull(codes);
		for (size_t c = 0; c < n; c++)
			codes[c] = (uint32_t)c;
		check_codes(r, codes, n, n);
		check_codes(r, codes, n, 1);
		check_codes(r, codes, n, 67);
		free(codes);
	}
}
END_TEST

/* Each code at each position of a group, next to others. */
START_TEST(every_position)
{
	for (size_t i = 0; i < NRULES; i++) {
		const struct rules *r = &all[i];
		uint32_t mask = (1u << tasd_dtype_info(r->dtype)->bits) - 1;
		uint32_t codes[1024], x = 12345;

		for (size_t c = 0; c < 1024; c++) {
			x = x * 1664525 + 1013904223;
			codes[c] = x >> 16 & mask;
		}
		check_codes(r, codes, 1024, 1024);
		check_codes(r, codes, 1024, 3);
	}
}
END_TEST

START_TEST(e8m0)
{
	unsigned char src[256];
	float dst[256], one;

	for (int i = 0; i < 256; i++)
		src[i] = (unsigned char)i;
	tasd_widen(TASD_DTYPE_F8_E8M0FNU, src, 256, dst);
	for (int i = 0; i < 255; i++) {
		ck_assert_double_eq((double)dst[i], ldexp(1, i - 127));
		tasd_widen(TASD_DTYPE_F8_E8M0FNU, &src[i], 1, &one);
		ck_assert_uint_eq(bits_of(one), bits_of(dst[i]));
	}
	ck_assert(isnan(dst[255]));
	ck_assert_uint_eq(bits_of(dst[0]), 0x00400000);
}
END_TEST

START_TEST(float32_is_copied)
{
	const uint32_t bits[] = {0, 0x80000000, 0x7f800001, 0xffc12345, 1};
	float dst[5];

	tasd_widen(TASD_DTYPE_F32, bits, 5, dst);
	ck_assert_mem_eq(dst, bits, sizeof(bits));
	for (int d = 0; d < TASD_DTYPE_COUNT; d++)
		if (tasd_dtype_info(d)->widens)
			ck_assert_uint_eq(tasd_widen_group_bytes(d) * 8,
				tasd_widen_group(d) * tasd_dtype_info(d)->bits);
}
END_TEST

START_TEST(unaligned_and_odd_lengths)
{
	unsigned char src[2 * 300 + 1];
	float dst[300];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (unsigned char)(i * 37);
	for (size_t n = 0; n < 300; n++) {
		memset(dst, 0x11, sizeof(dst));
		tasd_widen(TASD_DTYPE_BF16, src + 1, n, dst);
		for (size_t i = 0; i < 300; i++)
			require_eq(bits_of(dst[i]),
				i >= n ? 0x11111111
				       : (uint32_t)src[1 + 2 * i] << 16 |
						 (uint32_t)src[2 + 2 * i]
							 << 24);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {every_pattern, every_position, e8m0,
		float32_is_copied, unaligned_and_odd_lengths, NULL};

	return unit_run("tensor widen", tests);
}
