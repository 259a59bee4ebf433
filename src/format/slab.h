/*
 * Reading ahead of what is gathered.  A transposed matrix of which a megabyte
 * is wanted needs a few bytes of every row of its storage; of sixteen megabytes
 * it needs sixteen times as many bytes, at nearly the same cost.  So a reader
 * that goes forwards gets its bytes from a slab that was gathered at once.
 *
 * One set a container, of a few slabs for the tensors read last.  Any thread.
 * Memory: SLABS times two parts of TASD_SLAB_MAX, given back as readers end.
 */
#ifndef TASD_FORMAT_SLAB_H
#define TASD_FORMAT_SLAB_H

#include <base/err.h>
#include <stdint.h>

#define TASD_SLAB_MAX ((size_t)16 << 20)

struct tasd_slabs;

tasd_err tasd_slabs_new(struct tasd_slabs **ret);
void tasd_slabs_free(struct tasd_slabs *slabs); /* NULL is fine */

/* Gather exactly len bytes at offset. */
typedef tasd_err (*tasd_slab_fn)(
	void *ctx, void *out, size_t len, uint64_t offset);

/*
 * Read len bytes at offset of what has size bytes, inside it.  owner tells
 * apart what is read, and fn gathers it.  The errors of fn.
 */
tasd_err tasd_slabs_pread(struct tasd_slabs *slabs, const void *owner,
	uint64_t size, tasd_slab_fn fn, void *ctx, void *out, size_t len,
	uint64_t offset);

/* A reader of owner has ended: give back what is held for it. */
void tasd_slabs_drop(struct tasd_slabs *slabs, const void *owner);

#endif
