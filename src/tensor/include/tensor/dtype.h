/*
 * The dtype table: one line per element type of every format.
 *
 * Names are torch's (`float32`, `bfloat16`, `float8_e4m3fn`); the table counts
 * bits, since some elements are smaller than a byte.  What a format calls a
 * dtype is that format's own table.
 */
#ifndef TASD_TENSOR_DTYPE_H
#define TASD_TENSOR_DTYPE_H

#include <base/err.h>
#include <stdbool.h>
#include <stdint.h>

enum tasd_dtype {
	TASD_DTYPE_NONE = 0, /* not known: the tensor's metadata is broken */
	TASD_DTYPE_BOOL,
	TASD_DTYPE_U8,
	TASD_DTYPE_I8,
	TASD_DTYPE_U16,
	TASD_DTYPE_I16,
	TASD_DTYPE_U32,
	TASD_DTYPE_I32,
	TASD_DTYPE_U64,
	TASD_DTYPE_I64,
	TASD_DTYPE_F16,
	TASD_DTYPE_BF16,
	TASD_DTYPE_F32,
	TASD_DTYPE_F64,
	TASD_DTYPE_C32, /* complex of two float16 */
	TASD_DTYPE_C64,
	TASD_DTYPE_C128,
	TASD_DTYPE_F8_E4M3FN,
	TASD_DTYPE_F8_E4M3FNUZ,
	TASD_DTYPE_F8_E5M2,
	TASD_DTYPE_F8_E5M2FNUZ,
	TASD_DTYPE_F8_E8M0FNU,
	TASD_DTYPE_F6_E2M3FN, /* 6 bits an element */
	TASD_DTYPE_F6_E3M2FN,
	TASD_DTYPE_F4_E2M1FN, /* 4 bits an element, low nibble first */
	/* torch's own. */
	TASD_DTYPE_F4_E2M1FN_X2, /* a byte: two elements */
	TASD_DTYPE_BC32,         /* complex of two bfloat16 */
	TASD_DTYPE_QI8,          /* integer codes of quantised numbers */
	TASD_DTYPE_QU8,
	TASD_DTYPE_QI32,
	TASD_DTYPE_QU4X2, /* 4 bits an element; each row begins on a byte */
	TASD_DTYPE_QU2X4, /* 2 bits, likewise */
	TASD_DTYPE_BITS8,
	TASD_DTYPE_BITS16,
	TASD_DTYPE_BITS1X8, /* a byte: eight elements */
	TASD_DTYPE_BITS2X4,
	TASD_DTYPE_BITS4X2,
	TASD_DTYPE_U1, /* a byte an element, as all of them up to I7 */
	TASD_DTYPE_U2,
	TASD_DTYPE_U3,
	TASD_DTYPE_U4,
	TASD_DTYPE_U5,
	TASD_DTYPE_U6,
	TASD_DTYPE_U7,
	TASD_DTYPE_I1,
	TASD_DTYPE_I2,
	TASD_DTYPE_I3,
	TASD_DTYPE_I4,
	TASD_DTYPE_I5,
	TASD_DTYPE_I6,
	TASD_DTYPE_I7,
	TASD_DTYPE_COUNT,
};

struct tasd_dtype_info {
	const char *name;  /* what user.tasd.dtype says */
	const char *numpy; /* descr in a .npy header, NULL when numpy has no
			      whole-byte type of that width */
	uint16_t bits;     /* of one element */
	bool widens;       /* a float type whose every value has an exact
			      float32: what tasd_widen() takes */
};

/* Never NULL; TASD_DTYPE_NONE has the name "". */
const struct tasd_dtype_info *tasd_dtype_info(enum tasd_dtype dtype);

/*
 * Bytes of a row-major tensor: dtype times shape (ndim dimensions, each an
 * element count).
 * -EOVERFLOW: the product does not fit 64 bits (a zero dimension makes it 0
 * only when the rest fits, as the writers' own libraries hold it).
 * -EINVAL: elements smaller than a byte do not fill whole bytes, or the dtype
 * is not known.
 */
tasd_err tasd_dtype_nbytes(enum tasd_dtype dtype, const uint64_t *shape,
	uint32_t ndim, uint64_t *ret_nbytes);

#endif
