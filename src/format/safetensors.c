/*
 * One safetensors file: every tensor of its header is an item of the root, in
 * the order in which the header names them, and one range of the file.
 */
#include "formats.h"
#include "metaset.h"
#include "st_header.h"
#include <base/text.h>
#include <string.h>

struct reading {
	struct tasd_container *ctr;
	struct tasd_metaset metas;
};

static enum tasd_verdict probe_safetensors(const struct tasd_probe *probe)
{
	if (!probe->head)
		return TASD_VERDICT_NO;
	if (tasd_st_plausible(probe->head, probe->head_len))
		return TASD_VERDICT_YES;
	return tasd_text_has_suffix(probe->name, ".safetensors")
		       ? TASD_VERDICT_MAYBE
		       : TASD_VERDICT_NO;
}

static tasd_err add_tensor(void *ctx, const char *name, uint32_t len,
	const struct tasd_tensor *tensor, const char **ret_name)
{
	struct reading *reading = ctx;
	struct tasd_statedict *sd = reading->ctr->sd;
	struct tasd_node *node;
	tasd_err err = tasd_statedict_add(
		sd, tasd_statedict_root(sd), tasd_key_str(name, len), &node);

	if (err)
		return err;
	node->kind = TASD_KIND_TENSOR;
	node->form = TASD_FORM_TENSOR;
	node->tensor = tasd_st_tensor_copy(tasd_statedict_arena(sd), tensor);
	*ret_name = node->key.text;
	return node->tensor ? 0 : -E2BIG;
}

static tasd_err add_meta(void *ctx, const char *name, uint32_t name_len,
	const char *value, uint32_t value_len)
{
	struct reading *reading = ctx;

	return tasd_metaset_put(&reading->metas, TASD_META_REPLACE, name,
		name_len, value, value_len);
}

static tasd_err read_safetensors(
	struct tasd_container *ctr, struct tasd_diag *diag)
{
	struct reading reading = {.ctr = ctr};
	const struct tasd_st_sink sink = {
		.ctx = &reading,
		.tensor = add_tensor,
		.meta = add_meta,
		.budget = tasd_statedict_arena(ctr->sd),
	};
	tasd_err err;

	tasd_metaset_init(&reading.metas, ctr);
	err = tasd_st_header_read(ctr->sources[0], 0, &sink, diag);
	tasd_metaset_free(&reading.metas);
	return err;
}

const struct tasd_format tasd_format_safetensors = {
	.name = "safetensors",
	.probe = probe_safetensors,
	.read = read_safetensors,
};
