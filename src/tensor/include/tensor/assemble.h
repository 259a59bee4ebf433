/*
 * Assembly: the row-major bytes of a tensor that is stored as boxes, each of
 * them a part of its index space and row-major by itself.  Geometry only: the
 * caller knows where a box's bytes are.
 *
 * Immutable once made; any thread.  Memory: about 48 bytes a box and dimension
 * in which the boxes differ, and 12 bytes a cut.
 */
#ifndef TASD_TENSOR_ASSEMBLE_H
#define TASD_TENSOR_ASSEMBLE_H

#include <base/err.h>
#include <base/span.h>
#include <stdint.h>

struct tasd_assembly;

struct tasd_box {
	const uint64_t *start; /* ndim each, in elements */
	const uint64_t *size;
};

/*
 * Lay nboxes boxes out over shape; elements have bits bits.  Everything is
 * copied.  Boxes without elements are ignored, and so are those equal to one
 * before them.
 * -EINVAL: a box leaves the shape, two overlap, or some of the shape is in none
 * of them; diag says where.  -E2BIG: too intricate to be laid out, which no
 * division of a mesh is.  -EOVERFLOW: more bytes than 64 bits can say.
 */
tasd_err tasd_assembly_new(const uint64_t *shape, uint32_t ndim, uint64_t bits,
	const struct tasd_box *boxes, uint32_t nboxes,
	struct tasd_assembly **ret, struct tasd_diag *diag);
void tasd_assembly_free(struct tasd_assembly *assembly); /* NULL is fine */

/*
 * Fill the spans from box number `box`; offsets are bytes from its start.
 * Called several times for one read; within a call the spans ascend.
 */
typedef tasd_err (*tasd_assembly_fn)(void *ctx, uint32_t box,
	const struct tasd_span *spans, size_t nspans);

/*
 * Read len bytes of the whole from offset on; the range is inside it.  Only
 * boxes that hold some of it are asked.  What fn returns when it fails.
 */
tasd_err tasd_assembly_pread(const struct tasd_assembly *assembly,
	tasd_assembly_fn fn, void *ctx, void *out, size_t len, uint64_t offset);

/* Bytes of count elements of bits bits, in whole ones; false: not to be said.
 */
static inline int tasd_bits_bytes(
	uint64_t count, uint64_t bits, uint64_t *ret_bytes)
{
	uint64_t total;

	if (__builtin_mul_overflow(count, bits, &total) || total % 8)
		return 0;
	*ret_bytes = total / 8;
	return 1;
}

#endif
