/*
 * One safetensors file of any bytes.  Beyond what holds of every container: its
 * tensors cover the data exactly, none twice.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

static int by_offset(const void *left, const void *right)
{
	const struct tasd_extent *a = left, *b = right;

	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->length < b->length ? -1 : a->length > b->length;
}

static void check_cover(
	const struct tasd_container *ctr, const uint8_t *data, size_t size)
{
	const struct tasd_node *root = tasd_statedict_root(ctr->sd);
	size_t count = tasd_statedict_totals(ctr->sd).tensors, n = 0;
	struct tasd_extent *extents = calloc(count + 1, sizeof(*extents));
	uint64_t at = 8;

	fuzz_check(extents);
	for (unsigned int i = 0; i < 8; i++)
		at += (uint64_t)data[i] << 8 * i;
	for (const struct tasd_node *node = root; node;
		node = tasd_node_next(node)) {
		if (node->form == TASD_FORM_TENSOR)
			extents[n++] = node->tensor->extent;
	}
	fuzz_check(n == count);
	qsort(extents, n, sizeof(*extents), by_offset);
	for (size_t i = 0; i < n; i++) {
		fuzz_check(extents[i].offset == at);
		at += extents[i].length;
	}
	fuzz_check(at == size);
	free(extents);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int dirfd = -1;
	struct tasd_container *ctr;
	struct tasd_diag diag;
	tasd_err err;

	if (dirfd < 0)
		dirfd = fuzz_folder();
	fuzz_write(dirfd, "m.safetensors", data, size);
	err = tasd_container_open(dirfd, "m.safetensors",
		size & 1 ? TASD_CONTAINER_NOSPLIT : 0, &ctr, &diag);
	if (err) {
		fuzz_check_refusal(err, &diag);
		return 0;
	}
	if (ctr->nsources == 1 && !ctr->problems)
		check_cover(ctr, data, size);
	fuzz_check_container(ctr);
	tasd_container_put(ctr);
	return 0;
}
