#include "unit.h"
#include <errno.h>
#include <string.h>
#include <tensor/dtype.h>

#define U64_MAX UINT64_MAX

START_TEST(table_is_complete)
{
	for (int d = TASD_DTYPE_NONE + 1; d < TASD_DTYPE_COUNT; d++) {
		const struct tasd_dtype_info *info = tasd_dtype_info(d);

		ck_assert_ptr_nonnull(info->name);
		ck_assert_uint_gt(strlen(info->name), 0);
		ck_assert_uint_gt(info->bits, 0);
		/* The width in the descr is the width in bits. */
		if (info->numpy)
			ck_assert_int_eq(atoi(info->numpy + 2) * 8, info->bits);
		else
			ck_assert_uint_ne(info->bits % 8, 0);
		for (int e = TASD_DTYPE_NONE; e < d; e++)
			ck_assert_str_ne(info->name, tasd_dtype_info(e)->name);
	}
	ck_assert_str_eq(tasd_dtype_info(TASD_DTYPE_NONE)->name, "");
	ck_assert_ptr_eq(tasd_dtype_info(TASD_DTYPE_COUNT),
		tasd_dtype_info(TASD_DTYPE_NONE));
	ck_assert_ptr_eq(
		tasd_dtype_info(12345), tasd_dtype_info(TASD_DTYPE_NONE));
}
END_TEST

START_TEST(names_are_torchs)
{
	static const struct {
		enum tasd_dtype dtype;
		const char *name;
		const char *numpy;
	} rows[] = {
		{TASD_DTYPE_BOOL, "bool", "|b1"},
		{TASD_DTYPE_I64, "int64", "<i8"},
		{TASD_DTYPE_U8, "uint8", "|u1"},
		{TASD_DTYPE_F16, "float16", "<f2"},
		{TASD_DTYPE_BF16, "bfloat16", "<V2"},
		{TASD_DTYPE_F32, "float32", "<f4"},
		{TASD_DTYPE_C64, "complex64", "<c8"},
		{TASD_DTYPE_C128, "complex128", "<c16"},
		{TASD_DTYPE_F8_E4M3FN, "float8_e4m3fn", "|V1"},
		{TASD_DTYPE_F8_E5M2FNUZ, "float8_e5m2fnuz", "|V1"},
		{TASD_DTYPE_F8_E8M0FNU, "float8_e8m0fnu", "|V1"},
		{TASD_DTYPE_F4_E2M1FN, "float4_e2m1fn", NULL},
		{TASD_DTYPE_F6_E3M2FN, "float6_e3m2fn", NULL},
		{TASD_DTYPE_F4_E2M1FN_X2, "float4_e2m1fn_x2", "|V1"},
		{TASD_DTYPE_BC32, "bcomplex32", "<V4"},
		{TASD_DTYPE_QI32, "qint32", "<i4"},
		{TASD_DTYPE_QU4X2, "quint4x2", NULL},
		{TASD_DTYPE_BITS16, "bits16", "<V2"},
		{TASD_DTYPE_U7, "uint7", "|u1"},
		{TASD_DTYPE_I1, "int1", "|i1"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct tasd_dtype_info *info =
			tasd_dtype_info(rows[i].dtype);

		ck_assert_str_eq(info->name, rows[i].name);
		ck_assert_pstr_eq(info->numpy, rows[i].numpy);
	}
}
END_TEST

/* Verdicts of safetensors 0.8 on a tensor of that dtype and shape. */
static const struct {
	enum tasd_dtype dtype;
	uint32_t ndim;
	uint64_t shape[4];
	tasd_err err;
	uint64_t nbytes;
} sizes[] = {
	{TASD_DTYPE_F32, 0, {0}, 0, 4},
	{TASD_DTYPE_F32, 1, {3}, 0, 12},
	{TASD_DTYPE_F32, 3, {2, 3, 5}, 0, 120},
	{TASD_DTYPE_BOOL, 2, {7, 1}, 0, 7},
	{TASD_DTYPE_C128, 1, {2}, 0, 32},
	{TASD_DTYPE_F32, 1, {0}, 0, 0},
	{TASD_DTYPE_F16, 3, {3, 0, 5}, 0, 0},
	{TASD_DTYPE_F32, 2, {U64_MAX, 0}, 0, 0},
	{TASD_DTYPE_F32, 3, {0, U64_MAX, U64_MAX}, 0, 0},
	{TASD_DTYPE_F32, 3, {U64_MAX, 0, U64_MAX}, 0, 0},
	{TASD_DTYPE_F32, 3, {(uint64_t)1 << 63, 2, 0}, -EOVERFLOW, 0},
	{TASD_DTYPE_U8, 2, {U64_MAX, U64_MAX}, -EOVERFLOW, 0},
	{TASD_DTYPE_U8, 2, {(uint64_t)1 << 32, (uint64_t)1 << 32}, -EOVERFLOW,
		0},
	/* The count fits, its bits do not. */
	{TASD_DTYPE_U8, 1, {(uint64_t)1 << 61}, -EOVERFLOW, 0},
	{TASD_DTYPE_U8, 1, {((uint64_t)1 << 61) - 1}, 0,
		((uint64_t)1 << 61) - 1},
	{TASD_DTYPE_F32, 1, {((uint64_t)1 << 59) - 1}, 0,
		((uint64_t)1 << 61) - 4},
	{TASD_DTYPE_F32, 1, {(uint64_t)1 << 59}, -EOVERFLOW, 0},
	{TASD_DTYPE_F4_E2M1FN, 2, {2, 8}, 0, 8},
	{TASD_DTYPE_F4_E2M1FN, 1, {3}, -EINVAL, 0},
	{TASD_DTYPE_F4_E2M1FN, 1, {0}, 0, 0},
	{TASD_DTYPE_F4_E2M1FN, 0, {0}, -EINVAL, 0},
	{TASD_DTYPE_F6_E2M3FN, 1, {4}, 0, 3},
	{TASD_DTYPE_F6_E3M2FN, 1, {2}, -EINVAL, 0},
	{TASD_DTYPE_F6_E3M2FN, 2, {2, 2}, 0, 3},
	{TASD_DTYPE_F6_E3M2FN, 1, {1}, -EINVAL, 0},
	{TASD_DTYPE_NONE, 1, {1}, -EINVAL, 0},
};

START_TEST(nbytes)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t got = 99;
		tasd_err err = tasd_dtype_nbytes(
			sizes[i].dtype, sizes[i].shape, sizes[i].ndim, &got);

		ck_assert_msg(err == sizes[i].err, "row %zu: %d", i, err);
		ck_assert_msg(got == (err ? 99 : sizes[i].nbytes),
			"row %zu: %llu", i, (unsigned long long)got);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		table_is_complete, names_are_torchs, nbytes, NULL};

	return unit_run("tensor dtype", tests);
}
