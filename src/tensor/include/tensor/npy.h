/*
 * The header of a .npy file (format version 1.0, or 2.0 when it is longer than
 * 65535 bytes, or 3.0 when its descr is not ASCII), padded so that the data begins at a multiple of 64.
 * Source of the format: numpy's NEP 1.
 */
#ifndef TASD_TENSOR_NPY_H
#define TASD_TENSOR_NPY_H

#include <base/buf.h>
#include <stdint.h>

/*
 * Append the header for C-order data of that descr and shape.  descr is a plain
 * one without its quotes ("<f4"), or a structure as Python prints it
 * ("[('a', '<i4')]").
 */
void tasd_npy_header(struct tasd_buf *buf, const char *descr,
	const uint64_t *shape, uint32_t ndim);

#endif
