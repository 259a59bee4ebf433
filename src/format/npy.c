/*
 * A .npy file: one bare array, shown as the file `array` with the key [].
 */
#include "formats.h"
#include "npy_header.h"
#include <base/text.h>
#include <string.h>

static enum tasd_verdict probe_npy(const struct tasd_probe *probe)
{
	if (!probe->head)
		return TASD_VERDICT_NO;
	if (probe->head_len >= TASD_NPY_MAGIC_LEN &&
		memcmp(probe->head, TASD_NPY_MAGIC, TASD_NPY_MAGIC_LEN) == 0)
		return TASD_VERDICT_YES;
	return tasd_text_has_suffix(probe->name, ".npy") ? TASD_VERDICT_MAYBE
							 : TASD_VERDICT_NO;
}

static tasd_err read_npy(struct tasd_container *ctr, struct tasd_diag *diag)
{
	struct tasd_arena *arena = tasd_statedict_arena(ctr->sd);
	const struct tasd_key key = {
		.text = "array", .len = 5, .type = TASD_KEY_WHOLE};
	struct tasd_source *source = ctr->sources[0];
	struct tasd_node *node;
	struct tasd_npy npy;
	tasd_err err =
		tasd_npy_read(source, 0, source->size, arena, &npy, diag);

	/* It is one, and cannot be shown. */
	if (err == -ENOTSUP)
		return -EINVAL;
	if (!err)
		err = tasd_statedict_add(
			ctr->sd, tasd_statedict_root(ctr->sd), key, &node);
	if (err)
		return err;
	node->kind = TASD_KIND_NDARRAY;
	node->form = TASD_FORM_TENSOR;
	node->tensor = tasd_npy_tensor(&npy, 0, npy.header_len, arena);
	return node->tensor ? 0 : -E2BIG;
}

const struct tasd_format tasd_format_npy = {
	.name = "npy",
	.probe = probe_npy,
	.read = read_npy,
};
