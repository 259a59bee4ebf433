/*
 * Writing a safetensors file: tensors of a container, one after the other, in
 * memory that does not grow with their bytes.  One thread.
 */
#ifndef TASD_FORMAT_ST_WRITE_H
#define TASD_FORMAT_ST_WRITE_H

#include "container.h"

struct tasd_st_item {
	const struct tasd_node *node; /* of form TENSOR */
	const char *name;
	uint32_t name_len;
};

struct tasd_st_writing {
	struct tasd_container *ctr;       /* that the nodes are of; borrowed */
	const struct tasd_st_item *items; /* names are distinct */
	size_t nitems;
	const struct tasd_meta *meta; /* names are distinct */
	size_t nmeta;                 /* 0: no __metadata__ */
	/* May be NULL: so many bytes more are written.  Anything but 0 stops
	 * the writer, which returns it. */
	tasd_err (*progress)(void *ctx, uint64_t bytes);
	void *ctx;
};

/*
 * Can a file hold that tensor under its name?
 * -ENOTSUP: safetensors has no such dtype, or no such name.  -ENODATA: a
 * placeholder.  -EIO: it is broken.  diag says it in a few words.
 */
tasd_err tasd_st_write_check(
	const struct tasd_st_item *item, struct tasd_diag *diag);

/*
 * Write all of the file to fd, from its current position on; the header names
 * the items in the order given.  Every item has passed the check.
 * -E2BIG: the header would be larger than readers take.  Else what writing or
 * reading gives; diag tells which, and of which tensor.
 */
tasd_err tasd_st_write(
	int fd, const struct tasd_st_writing *writing, struct tasd_diag *diag);

#endif
