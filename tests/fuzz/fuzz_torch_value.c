/*
 * From a pickle to a state dict, whatever the pickle says.  The storages are
 * there for the asking, in either byte order, so that views are made of any
 * numbers.  What came out is a tree whose tensors lie in their sources and can
 * be read.
 */
#include "fuzz.h"
#include "torch_value.h"
#include <stdlib.h>
#include <string.h>
#include <tensor/gather.h>

#define LIMIT        ((size_t)16 << 20)
#define STORAGE_SIZE 65536u
#define READ_MAX     4096u

static tasd_err find(void *ctx, const struct tasd_torch_persid *persid,
	struct tasd_torch_place *ret)
{
	(void)ctx;
	*ret = (struct tasd_torch_place){.length = persid->nbytes,
		.big_endian = persid->key_len % 2 == 0};
	if (persid->nbytes > STORAGE_SIZE)
		ret->error = "too large for this test";
	return 0;
}

static tasd_err fill(void *ctx, const struct tasd_span *spans, size_t nspans)
{
	const struct tasd_extent *extent = ctx;

	for (size_t i = 0; i < nspans; i++) {
		fuzz_check(spans[i].offset <= extent->length &&
			   spans[i].len <= extent->length - spans[i].offset);
		memset(spans[i].out, 1, spans[i].len);
	}
	return 0;
}

static void check_tensor(
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	const struct tasd_tensor *tensor = node->tensor;
	struct tasd_extent extent = tensor->extent;
	struct tasd_gather gather;
	static char out[READ_MAX];
	uint64_t need = 0, n;

	fuzz_check(tensor &&
		   (node->error != NULL) == (tensor->data == TASD_DATA_BROKEN));
	if (tensor->data == TASD_DATA_BROKEN ||
		tensor->data == TASD_DATA_PLACEHOLDER)
		return;
	fuzz_check(tensor->nextents == 1 && extent.source < ctr->nsources);
	if (tensor->nbytes)
		fuzz_check(extent.offset <= ctr->sources[extent.source]->size &&
			   extent.length <= ctr->sources[extent.source]->size -
						    extent.offset);
	if (tensor->data == TASD_DATA_PLAIN) {
		fuzz_check(extent.length == tensor->nbytes);
		return;
	}
	gather = tasd_gather_of(tensor);
	fuzz_check(tasd_gather_need(&gather, &need) == 0);
	fuzz_check(need <= extent.length);
	n = tensor->nbytes < READ_MAX ? tensor->nbytes : READ_MAX;
	fuzz_check(tasd_gather_pread(&gather, fill, &extent, out, (size_t)n,
			   tensor->nbytes - n) == 0);
}

static void check_node(
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	struct tasd_buf text = TASD_BUF_EMPTY;

	if (node->form == TASD_FORM_TENSOR)
		check_tensor(ctr, node);
	if (node->form == TASD_FORM_VALUE)
		fuzz_check(node->value.bytes || !node->value.len);
	if (node->form == TASD_FORM_LINK)
		fuzz_check(node->link && node->link->form != TASD_FORM_LINK);
	if (node->extra && node->extra->tie)
		fuzz_check(node->extra->tie->extra->nties > 1 &&
			   !node->extra->tie->extra->tie);
	tasd_node_key_json(&text, node);
	tasd_node_path(&text, node);
	fuzz_check(tasd_buf_err(&text) == 0);
	tasd_buf_free(&text);
}

static void check_tree(
	const struct tasd_container *ctr, const struct tasd_node *root)
{
	unsigned int left = 20000;

	for (const struct tasd_node *node = root; node && left;
		node = tasd_node_next(node), left--)
		check_node(ctr, node);
}

static void map(const struct tasd_pickle *pickle, const uint8_t *data,
	size_t size, struct tasd_source *source)
{
	struct tasd_container ctr = {.dirfd = -1};
	struct tasd_diag diag = {""};
	struct tasd_torch torch = {.ctr = &ctr,
		.pickle = pickle,
		.root = pickle->root,
		.stream = (const char *)data,
		.stream_len = size,
		.stream_in_source = size % 2,
		.find = find};
	tasd_err err;

	fuzz_check(tasd_statedict_new(0, LIMIT, &ctr.sd) == 0);
	fuzz_check(tasd_container_add_source(
			   &ctr, tasd_source_get(source), NULL) == 0);
	err = tasd_torch_map(&torch, &diag);
	if (!err)
		err = tasd_statedict_seal(ctr.sd, &diag);
	if (err)
		fuzz_check_refusal(err, &diag);
	if (!err) {
		check_tree(&ctr, tasd_statedict_root(ctr.sd));
		check_tree(&ctr, tasd_statedict_attrs(ctr.sd));
	}
	for (uint32_t i = 0; i < ctr.nsources; i++)
		tasd_source_put(ctr.sources[i]);
	free(ctr.sources);
	free(ctr.problems);
	tasd_statedict_free(ctr.sd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tasd_source *source;
	struct tasd_pickle *pickle = NULL;
	uint64_t used = 0;

	if (!source)
		fuzz_check(tasd_source_memory(calloc(1, STORAGE_SIZE),
				   STORAGE_SIZE, "storages", &source) == 0);
	if (size < STORAGE_SIZE &&
		tasd_pickle_read(data, size, LIMIT, &pickle, &used, NULL) == 0)
		map(pickle, data, size, source);
	tasd_pickle_free(pickle);
	return 0;
}
