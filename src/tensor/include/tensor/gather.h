/*
 * Gathering: the row-major, little-endian bytes of a strided view, any range
 * of them, from a storage that is read in pieces.
 *
 * Any thread.  Memory: about a megabyte a call, whatever the view.
 */
#ifndef TASD_TENSOR_GATHER_H
#define TASD_TENSOR_GATHER_H

#include "tensor.h"
#include <base/span.h>

/*
 * Fill each span from the storage (offsets are bytes from its start).  Called
 * several times for one gather; within a call the spans mostly ascend.
 */
typedef tasd_err (*tasd_gather_fn)(
	void *ctx, const struct tasd_span *spans, size_t nspans);

struct tasd_gather {
	const uint64_t *shape;  /* ndim; NULL when ndim is 0 */
	const uint64_t *stride; /* in elements; NULL: row-major */
	uint32_t ndim;
	uint64_t start; /* of the first element in the storage, in elements */
	uint64_t item;  /* bytes of an element, not 0 */
	const struct tasd_swap *swaps;
	uint32_t nswaps;
};

/* The gather of a tensor whose data is TASD_DATA_STRIDED. */
struct tasd_gather tasd_gather_of(const struct tasd_tensor *tensor);

/*
 * How many bytes the storage must have: 0 for a view with no elements.
 * -EOVERFLOW: more than 64 bits can say, or the view itself is.
 * -EINVAL: item is 0, or a swap is not within it.
 */
tasd_err tasd_gather_need(const struct tasd_gather *g, uint64_t *ret_bytes);

/*
 * Read len bytes of the view from offset on; the range is inside it, and
 * tasd_gather_need() was asked once.  What fn returns when it fails, -ENOMEM.
 */
tasd_err tasd_gather_pread(const struct tasd_gather *g, tasd_gather_fn fn,
	void *ctx, void *out, size_t len, uint64_t offset);

#endif
