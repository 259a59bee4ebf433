/*
 * Widening works on bit patterns, never on float values, so that a signalling
 * NaN comes out as it went in.
 *
 * 16-bit types go through straight-line code in blocks of a fixed length,
 * which compilers turn into vector code.  Smaller types are decoded by one
 * routine from their description; for long runs its results are first put in
 * a table of at most 256 entries on the stack.
 */
#include <string.h>
#include <tensor/widen.h>

#define BLOCK 64

enum special {
	SPECIAL_IEEE, /* highest exponent: infinity and NaN */
	SPECIAL_FN,   /* all ones: NaN; no infinity */
	SPECIAL_FNUZ, /* the sign bit alone: NaN; no infinity, no -0 */
	SPECIAL_NONE, /* every pattern is a finite number */
	SPECIAL_E8M0, /* an exponent alone: no sign, no zero; all ones: NaN */
};

struct minifloat {
	uint8_t exponent; /* width in bits */
	uint8_t mantissa;
	uint8_t bias;
	uint8_t special; /* enum special */
};

static const struct minifloat minifloats[TASD_DTYPE_COUNT] = {
	[TASD_DTYPE_F8_E4M3FN] = {4, 3, 7, SPECIAL_FN},
	[TASD_DTYPE_F8_E4M3FNUZ] = {4, 3, 8, SPECIAL_FNUZ},
	[TASD_DTYPE_F8_E5M2] = {5, 2, 15, SPECIAL_IEEE},
	[TASD_DTYPE_F8_E5M2FNUZ] = {5, 2, 16, SPECIAL_FNUZ},
	[TASD_DTYPE_F8_E8M0FNU] = {8, 0, 127, SPECIAL_E8M0},
	[TASD_DTYPE_F6_E2M3FN] = {2, 3, 1, SPECIAL_NONE},
	[TASD_DTYPE_F6_E3M2FN] = {3, 2, 3, SPECIAL_NONE},
	[TASD_DTYPE_F4_E2M1FN] = {2, 1, 1, SPECIAL_NONE},
};

/* float32's own parts. */
#define F32_MANTISSA 23
#define F32_BIAS     127
#define F32_INF      0x7f800000u
#define F32_QUIET    0x00400000u

static uint32_t decode_e8m0(uint32_t code)
{
	if (code == 0xff)
		return F32_INF | F32_QUIET;
	/* 2^-127 is below float32's normal numbers: half of the smallest. */
	return code == 0 ? F32_QUIET : code << F32_MANTISSA;
}

/* The float32 bits of one code of a minifloat; higher bits must be 0. */
static uint32_t decode(const struct minifloat *f, uint32_t code)
{
	uint32_t sign_bit = 1u << (f->exponent + f->mantissa);
	uint32_t sign = code & sign_bit ? 1u << 31 : 0;
	uint32_t exponent_max = (1u << f->exponent) - 1;
	uint32_t exponent = code >> f->mantissa & exponent_max;
	uint32_t mantissa = code & ((1u << f->mantissa) - 1);
	unsigned int widen = F32_MANTISSA - f->mantissa;
	unsigned int top;

	if (f->special == SPECIAL_E8M0)
		return decode_e8m0(code);
	if (f->special == SPECIAL_FNUZ && code == sign_bit)
		return sign | F32_INF | F32_QUIET;
	if ((f->special == SPECIAL_IEEE && exponent == exponent_max) ||
		(f->special == SPECIAL_FN &&
			(code | sign_bit) == 2 * sign_bit - 1))
		return sign | F32_INF | mantissa << widen;
	if (exponent > 0)
		return sign | (exponent + F32_BIAS - f->bias) << F32_MANTISSA |
		       mantissa << widen;
	if (mantissa == 0)
		return sign;
	/* Subnormal here, normal in float32: the top bit becomes implied. */
	top = 31 - (unsigned int)__builtin_clz(mantissa);
	exponent = F32_BIAS + 1 - f->bias - f->mantissa + top;
	mantissa =
		mantissa << (F32_MANTISSA - top) & ((1u << F32_MANTISSA) - 1);
	return sign | exponent << F32_MANTISSA | mantissa;
}

/* Unpack one group of codes narrower than a byte. */
static void unpack(unsigned int bits, const unsigned char *src, uint8_t *codes)
{
	uint32_t packed;

	if (bits == 4) {
		codes[0] = src[0] & 0x0f;
		codes[1] = src[0] >> 4;
		return;
	}
	packed = src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16;
	for (unsigned int i = 0; i < 4; i++)
		codes[i] = packed >> 6 * i & 0x3f;
}

static void put(float *dst, uint32_t bits)
{
	memcpy(dst, &bits, sizeof(bits));
}

static void widen_mini(enum tasd_dtype dtype, const unsigned char *src,
	size_t ngroups, float *dst)
{
	const struct minifloat *f = &minifloats[dtype];
	unsigned int bits = tasd_dtype_info(dtype)->bits;
	unsigned int group = tasd_widen_group(dtype);
	unsigned int group_bytes = tasd_widen_group_bytes(dtype);
	uint32_t ncodes = 1u << bits;
	bool use_table = ngroups >= ncodes / group;
	uint32_t table[256];
	uint8_t codes[4];

	for (uint32_t code = 0; use_table && code < ncodes; code++)
		table[code] = decode(f, code);
	if (bits == 8 && use_table) {
		for (size_t i = 0; i < ngroups; i++)
			put(&dst[i], table[src[i]]);
		return;
	}
	for (size_t i = 0; i < ngroups; i++, src += group_bytes) {
		if (bits == 8)
			codes[0] = src[0];
		else
			unpack(bits, src, codes);
		for (unsigned int j = 0; j < group; j++, dst++)
			put(dst, use_table ? table[codes[j]]
					   : decode(f, codes[j]));
	}
}

static inline uint32_t half_bits(uint32_t half)
{
	uint32_t sign = (half & 0x8000) << 16;
	uint32_t rest = half & 0x7fff;
	uint32_t normal = (rest << 13) + ((F32_BIAS - 15) << F32_MANTISSA);
	uint32_t special = rest << 13 | F32_INF;
	/* Exact: at most 10 bits, times a power of two that stays normal. */
	float tiny = (float)(int32_t)rest * 0x1p-24f;
	uint32_t subnormal;

	memcpy(&subnormal, &tiny, sizeof(subnormal));
	/* Masks, not branches, which would keep it from being vectorised. */
	return sign | (subnormal & -(uint32_t)(rest < 0x0400)) |
	       (normal & -(uint32_t)(rest >= 0x0400 && rest < 0x7c00)) |
	       (special & -(uint32_t)(rest >= 0x7c00));
}

static inline void half_run(const unsigned char *restrict src, size_t n,
	unsigned char *restrict dst)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t half;
		uint32_t bits;

		memcpy(&half, src + 2 * i, sizeof(half));
		bits = half_bits(half);
		memcpy(dst + 4 * i, &bits, sizeof(bits));
	}
}

static inline void bfloat_run(const unsigned char *restrict src, size_t n,
	unsigned char *restrict dst)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t bfloat;
		uint32_t bits;

		memcpy(&bfloat, src + 2 * i, sizeof(bfloat));
		bits = (uint32_t)bfloat << 16;
		memcpy(dst + 4 * i, &bits, sizeof(bits));
	}
}

static void widen_half(const unsigned char *src, size_t n, unsigned char *dst)
{
	size_t i = 0;

	for (; n - i >= BLOCK; i += BLOCK)
		half_run(src + 2 * i, BLOCK, dst + 4 * i);
	half_run(src + 2 * i, n - i, dst + 4 * i);
}

static void widen_bfloat(const unsigned char *src, size_t n, unsigned char *dst)
{
	size_t i = 0;

	for (; n - i >= BLOCK; i += BLOCK)
		bfloat_run(src + 2 * i, BLOCK, dst + 4 * i);
	bfloat_run(src + 2 * i, n - i, dst + 4 * i);
}

unsigned int tasd_widen_group(enum tasd_dtype dtype)
{
	switch (tasd_dtype_info(dtype)->bits) {
	case 4:
		return 2;
	case 6:
		return 4;
	default:
		return 1;
	}
}

unsigned int tasd_widen_group_bytes(enum tasd_dtype dtype)
{
	return tasd_widen_group(dtype) * tasd_dtype_info(dtype)->bits / 8;
}

void tasd_widen(
	enum tasd_dtype dtype, const void *src, size_t ngroups, float *dst)
{
	if (!tasd_dtype_info(dtype)->widens || ngroups == 0)
		return;
	if (dtype == TASD_DTYPE_F32)
		memcpy(dst, src, ngroups * sizeof(*dst));
	else if (dtype == TASD_DTYPE_F16)
		widen_half(src, ngroups, (unsigned char *)dst);
	else if (dtype == TASD_DTYPE_BF16)
		widen_bfloat(src, ngroups, (unsigned char *)dst);
	else
		widen_mini(dtype, src, ngroups, dst);
}
