/*
 * Exact widening to float32, for the readers (numpy first) that have no
 * bfloat16, float8 or smaller.  NaN stays NaN with its sign and payload bits
 * where the target has room; infinities and subnormals are exact.
 */
#ifndef TASD_TENSOR_WIDEN_H
#define TASD_TENSOR_WIDEN_H

#include "dtype.h"
#include <stddef.h>

/*
 * Elements are handled in groups that begin on a byte: 1 for whole-byte
 * types, 2 for 4-bit, 4 for 6-bit ones (little-endian bit order within the
 * group).  tasd_widen_group_bytes() is the width of such a group in src.
 */
unsigned int tasd_widen_group(enum tasd_dtype dtype);
unsigned int tasd_widen_group_bytes(enum tasd_dtype dtype);

/*
 * Widen ngroups groups from src into dst (ngroups * group floats, in the
 * host's order, which is little-endian).  dtype->widens must hold.
 */
void tasd_widen(enum tasd_dtype dtype, const void *src, size_t ngroups,
	float *dst);

#endif
