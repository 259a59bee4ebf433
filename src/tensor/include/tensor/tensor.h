/*
 * What is known of one tensor: element type, shape, and where its bytes lie.
 * No bytes, no sources, no names.  Immutable once its container is read;
 * allocated in the container's arena.
 */
#ifndef TASD_TENSOR_TENSOR_H
#define TASD_TENSOR_TENSOR_H

#include "dtype.h"

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
};

struct tasd_tensor {
	const uint64_t *shape; /* ndim element counts; NULL when ndim is 0 */
	uint64_t nbytes;       /* exact size of the row-major bytes */
	uint32_t ndim;
	uint8_t dtype; /* enum tasd_dtype */
	uint8_t data;  /* enum tasd_tensor_data */
	uint16_t nextents;
	union {
		struct tasd_extent extent;	   /* nextents <= 1 */
		const struct tasd_extent *extents; /* nextents > 1 */
	};
};

static inline const struct tasd_extent *tasd_tensor_extents(
	const struct tasd_tensor *tensor)
{
	return tensor->nextents > 1 ? tensor->extents : &tensor->extent;
}

#endif
