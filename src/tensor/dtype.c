/*
 * One line per element type.  The numpy descr of the types numpy does not know
 * is a void of their width, as ml_dtypes writes bfloat16 and float8, so that
 * np.load gives the bits and a caller may view them as what they are.
 */
#include <base/checked.h>
#include <tensor/dtype.h>

static const struct tasd_dtype_info table[TASD_DTYPE_COUNT] = {
	[TASD_DTYPE_NONE] = {"", NULL, 0, false},
	[TASD_DTYPE_BOOL] = {"bool", "|b1", 8, false},
	[TASD_DTYPE_U8] = {"uint8", "|u1", 8, false},
	[TASD_DTYPE_I8] = {"int8", "|i1", 8, false},
	[TASD_DTYPE_U16] = {"uint16", "<u2", 16, false},
	[TASD_DTYPE_I16] = {"int16", "<i2", 16, false},
	[TASD_DTYPE_U32] = {"uint32", "<u4", 32, false},
	[TASD_DTYPE_I32] = {"int32", "<i4", 32, false},
	[TASD_DTYPE_U64] = {"uint64", "<u8", 64, false},
	[TASD_DTYPE_I64] = {"int64", "<i8", 64, false},
	[TASD_DTYPE_F16] = {"float16", "<f2", 16, true},
	[TASD_DTYPE_BF16] = {"bfloat16", "<V2", 16, true},
	[TASD_DTYPE_F32] = {"float32", "<f4", 32, true},
	[TASD_DTYPE_F64] = {"float64", "<f8", 64, false},
	[TASD_DTYPE_C32] = {"complex32", "<V4", 32, false},
	[TASD_DTYPE_C64] = {"complex64", "<c8", 64, false},
	[TASD_DTYPE_C128] = {"complex128", "<c16", 128, false},
	[TASD_DTYPE_F8_E4M3FN] = {"float8_e4m3fn", "|V1", 8, true},
	[TASD_DTYPE_F8_E4M3FNUZ] = {"float8_e4m3fnuz", "|V1", 8, true},
	[TASD_DTYPE_F8_E5M2] = {"float8_e5m2", "|V1", 8, true},
	[TASD_DTYPE_F8_E5M2FNUZ] = {"float8_e5m2fnuz", "|V1", 8, true},
	[TASD_DTYPE_F8_E8M0FNU] = {"float8_e8m0fnu", "|V1", 8, true},
	[TASD_DTYPE_F6_E2M3FN] = {"float6_e2m3fn", NULL, 6, true},
	[TASD_DTYPE_F6_E3M2FN] = {"float6_e3m2fn", NULL, 6, true},
	[TASD_DTYPE_F4_E2M1FN] = {"float4_e2m1fn", NULL, 4, true},
	[TASD_DTYPE_F4_E2M1FN_X2] = {"float4_e2m1fn_x2", "|V1", 8, false},
	[TASD_DTYPE_BC32] = {"bcomplex32", "<V4", 32, false},
	[TASD_DTYPE_QI8] = {"qint8", "|i1", 8, false},
	[TASD_DTYPE_QU8] = {"quint8", "|u1", 8, false},
	[TASD_DTYPE_QI32] = {"qint32", "<i4", 32, false},
	[TASD_DTYPE_QU4X2] = {"quint4x2", NULL, 4, false},
	[TASD_DTYPE_QU2X4] = {"quint2x4", NULL, 2, false},
	[TASD_DTYPE_BITS8] = {"bits8", "|V1", 8, false},
	[TASD_DTYPE_BITS16] = {"bits16", "<V2", 16, false},
	[TASD_DTYPE_BITS1X8] = {"bits1x8", "|V1", 8, false},
	[TASD_DTYPE_BITS2X4] = {"bits2x4", "|V1", 8, false},
	[TASD_DTYPE_BITS4X2] = {"bits4x2", "|V1", 8, false},
	[TASD_DTYPE_U1] = {"uint1", "|u1", 8, false},
	[TASD_DTYPE_U2] = {"uint2", "|u1", 8, false},
	[TASD_DTYPE_U3] = {"uint3", "|u1", 8, false},
	[TASD_DTYPE_U4] = {"uint4", "|u1", 8, false},
	[TASD_DTYPE_U5] = {"uint5", "|u1", 8, false},
	[TASD_DTYPE_U6] = {"uint6", "|u1", 8, false},
	[TASD_DTYPE_U7] = {"uint7", "|u1", 8, false},
	[TASD_DTYPE_I1] = {"int1", "|i1", 8, false},
	[TASD_DTYPE_I2] = {"int2", "|i1", 8, false},
	[TASD_DTYPE_I3] = {"int3", "|i1", 8, false},
	[TASD_DTYPE_I4] = {"int4", "|i1", 8, false},
	[TASD_DTYPE_I5] = {"int5", "|i1", 8, false},
	[TASD_DTYPE_I6] = {"int6", "|i1", 8, false},
	[TASD_DTYPE_I7] = {"int7", "|i1", 8, false},
};

const struct tasd_dtype_info *tasd_dtype_info(enum tasd_dtype dtype)
{
	return &table[(unsigned int)dtype < TASD_DTYPE_COUNT ? dtype
							     : TASD_DTYPE_NONE];
}

tasd_err tasd_dtype_nbytes(enum tasd_dtype dtype, const uint64_t *shape,
	uint32_t ndim, uint64_t *ret_nbytes)
{
	uint64_t product = 1;
	uint64_t bits = tasd_dtype_info(dtype)->bits;

	if (bits == 0)
		return -EINVAL;
	/* From left to right, as safetensors multiplies: a zero stops the
	 * product from growing only for the dimensions after it. */
	for (uint32_t i = 0; i < ndim; i++) {
		if (!tasd_mul_u64(product, shape[i], &product))
			return -EOVERFLOW;
	}
	if (!tasd_mul_u64(product, bits, &product))
		return -EOVERFLOW;
	if (product % 8 != 0)
		return -EINVAL;
	*ret_nbytes = product / 8;
	return 0;
}
