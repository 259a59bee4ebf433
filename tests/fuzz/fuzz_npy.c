/*
 * A .npy or .npz file of any bytes.  Beyond what holds of every container: no
 * two arrays of a .npz that are stored lie on the same bytes.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

static int by_offset(const void *left, const void *right)
{
	const struct tasd_extent *a = left, *b = right;

	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void check_apart(const struct tasd_container *ctr)
{
	const struct tasd_node *root = tasd_statedict_root(ctr->sd);
	size_t count = tasd_statedict_totals(ctr->sd).tensors, n = 0;
	struct tasd_extent *extents = calloc(count + 1, sizeof(*extents));

	fuzz_check(extents);
	for (const struct tasd_node *node = root; node;
		node = tasd_node_next(node)) {
		const struct tasd_tensor *tensor = node->tensor;

		if (node->form == TASD_FORM_TENSOR && tensor->nextents == 1 &&
			tensor->extent.source == 0 && tensor->extent.length)
			extents[n++] = tensor->extent;
	}
	qsort(extents, n, sizeof(*extents), by_offset);
	for (size_t i = 1; i < n; i++)
		fuzz_check(extents[i - 1].offset + extents[i - 1].length <=
			   extents[i].offset);
	free(extents);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int dirfd = -1;
	const char *name = size > 0 && data[0] == 'P' ? "m.npz" : "m.npy";
	struct tasd_container *ctr;
	struct tasd_diag diag;
	tasd_err err;

	if (dirfd < 0)
		dirfd = fuzz_folder();
	fuzz_write(dirfd, name, data, size);
	err = tasd_container_open(dirfd, name,
		size & 1 ? TASD_CONTAINER_NOSPLIT : 0, &ctr, &diag);
	if (err) {
		fuzz_check_refusal(err, &diag);
		return 0;
	}
	check_apart(ctr);
	fuzz_check_container(ctr);
	tasd_container_put(ctr);
	return 0;
}
