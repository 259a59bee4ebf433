/*
 * What is known of one tensor: element type, shape, and where its bytes lie.
 * No bytes, no sources, no names.  Immutable once its container is read;
 * allocated in the container's arena.
 */
#ifndef TASD_TENSOR_TENSOR_H
#define TASD_TENSOR_TENSOR_H

#include "dtype.h"
#include <stddef.h>

/* A run of bytes in one of the container's sources. */
struct tasd_extent {
	uint64_t offset; /* in bytes, from the source's start */
	uint64_t length; /* in bytes */
	uint32_t source; /* index in the container's table of sources */
};

/* How the extents become the row-major bytes that users see. */
enum tasd_tensor_data {
	TASD_DATA_PLAIN,       /* extents, one after the other */
	TASD_DATA_PLACEHOLDER, /* metadata only: ENODATA at open */
	TASD_DATA_BROKEN,      /* the node's error says why: EIO at open */
	TASD_DATA_STRIDED,     /* the extents are a storage, and extra tells
				  how to gather the elements from it */
};

/* Bytes to be reversed, since the storage is big-endian: within each element,
 * count units of unit bytes from offset on. */
struct tasd_swap {
	uint64_t offset;
	uint64_t count;
	uint32_t unit; /* 2 to 16 */
};

/* What only some tensors have; in the container's arena. */
struct tasd_tensor_extra {
	/* As saved, in elements, ndim of them; NULL: row-major.  With data
	 * PLAIN or PLACEHOLDER they are only told. */
	const uint64_t *stride;
	uint64_t start; /* where in the storage element 0 is, in elements */
	uint64_t item;  /* bytes of an element that has a descr; else 0 */
	const struct tasd_swap *swaps; /* nswaps, by offset, disjoint */
	uint32_t nswaps;
	/* Tensors that look at the same bytes have the same one; 0: none. */
	uint32_t storage;
	/* numpy's descr, little-endian, of an element that the dtype table
	 * does not have ("<U5", "[('a', '<i4')]"); dtype is NONE then.  As
	 * Python prints it, but a plain one without its quotes. */
	const char *descr;
	const char *device; /* "cuda:0"; NULL: not said */
};

struct tasd_tensor {
	const uint64_t *shape; /* ndim element counts; NULL when ndim is 0 */
	uint64_t nbytes;       /* exact size of the row-major bytes */
	uint32_t ndim;
	uint8_t dtype; /* enum tasd_dtype */
	uint8_t data;  /* enum tasd_tensor_data */
	uint16_t nextents;
	const struct tasd_tensor_extra *extra; /* NULL: nothing to tell */
	union {
		struct tasd_extent extent;         /* nextents <= 1 */
		const struct tasd_extent *extents; /* nextents > 1 */
	};
};

static inline const struct tasd_extent *tasd_tensor_extents(
	const struct tasd_tensor *tensor)
{
	return tensor->nextents > 1 ? tensor->extents : &tensor->extent;
}

/* What user.tasd.dtype says. */
static inline const char *tasd_tensor_dtype(const struct tasd_tensor *tensor)
{
	if (tensor->extra && tensor->extra->descr)
		return tensor->extra->descr;
	return tasd_dtype_info(tensor->dtype)->name;
}

/* The descr of a .npy file of it; NULL when numpy has no such type. */
static inline const char *tasd_tensor_descr(const struct tasd_tensor *tensor)
{
	if (tensor->extra && tensor->extra->descr)
		return tensor->extra->descr;
	return tasd_dtype_info(tensor->dtype)->numpy;
}

/* Bytes of an element; 0 when it is not known or no whole number. */
static inline uint64_t tasd_tensor_item(const struct tasd_tensor *tensor)
{
	uint16_t bits = tasd_dtype_info(tensor->dtype)->bits;

	if (tensor->extra && tensor->extra->descr)
		return tensor->extra->item;
	return bits % 8 == 0 ? bits / 8 : 0;
}

#endif
