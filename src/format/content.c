/*
 * A view is a head (the .npy header; nothing for the raw bytes) and a body.
 * The body is the tensor's bytes as its extents hold them, or the same widened
 * to float32, block by block, or a value's text.
 */
#include "slab.h"
#include <base/checked.h>
#include <format/content.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/gather.h>
#include <tensor/npy.h>
#include <tensor/widen.h>

/* Pieces of a storage that are handed on together. */
#define PIECES 64u

/* One block of widening: this many floats at most, and what they come from. */
#define BLOCK_FLOATS 8192u
#define BLOCK_BYTES  (BLOCK_FLOATS * sizeof(float))

/* Bytes of the tensor as float32. */
static bool widened_size(const struct tasd_tensor *tensor, uint64_t *ret_size)
{
	uint64_t groups =
		tensor->nbytes / tasd_widen_group_bytes(tensor->dtype);

	return tasd_mul_u64(groups,
		tasd_widen_group(tensor->dtype) * sizeof(float), ret_size);
}

bool tasd_content_exists(const struct tasd_node *node, enum tasd_view view)
{
	const struct tasd_dtype_info *info;
	uint64_t size;

	if (node->form != TASD_FORM_TENSOR)
		return node->form == TASD_FORM_VALUE && view == TASD_VIEW_RAW;
	info = tasd_dtype_info(node->tensor->dtype);
	switch (view) {
	case TASD_VIEW_RAW:
		return true;
	case TASD_VIEW_NPY:
		return tasd_tensor_descr(node->tensor) != NULL;
	case TASD_VIEW_F32:
		return info->widens && widened_size(node->tensor, &size);
	default:
		return false;
	}
}

static void add_head(
	struct tasd_buf *buf, const struct tasd_node *node, enum tasd_view view)
{
	const struct tasd_tensor *tensor = node->tensor;

	if (view == TASD_VIEW_NPY)
		tasd_npy_header(buf, tasd_tensor_descr(tensor), tensor->shape,
			tensor->ndim);
	else if (view == TASD_VIEW_F32)
		tasd_npy_header(buf, "<f4", tensor->shape, tensor->ndim);
}

/* The view exists. */
static uint64_t body_size(const struct tasd_node *node, enum tasd_view view)
{
	uint64_t size = 0;

	if (node->form == TASD_FORM_VALUE)
		return node->value.len;
	if (view != TASD_VIEW_F32)
		return node->tensor->nbytes;
	(void)widened_size(node->tensor, &size);
	return size;
}

static bool is_gathered(const struct tasd_node *node)
{
	return node->form == TASD_FORM_TENSOR &&
	       node->tensor->data == TASD_DATA_STRIDED;
}

uint64_t tasd_content_size(const struct tasd_node *node, enum tasd_view view)
{
	struct tasd_buf head = tasd_buf_counting();
	uint64_t size;

	if (!tasd_content_exists(node, view))
		return 0;
	add_head(&head, node, view);
	return tasd_add_u64(head.len, body_size(node, view), &size) ? size : 0;
}

tasd_err tasd_content_open(struct tasd_container *ctr,
	const struct tasd_node *node, enum tasd_view view,
	struct tasd_content *ret)
{
	struct tasd_buf head = TASD_BUF_EMPTY;

	if (!tasd_content_exists(node, view))
		return -ENOENT;
	if (node->form == TASD_FORM_TENSOR) {
		if (node->tensor->data == TASD_DATA_PLACEHOLDER)
			return -ENODATA;
		if (node->tensor->data == TASD_DATA_BROKEN)
			return -EIO;
	} else if (node->error) {
		return -EIO; /* a value that could not be read */
	}
	add_head(&head, node, view);
	if (tasd_buf_err(&head)) {
		tasd_err err = tasd_buf_err(&head);

		tasd_buf_free(&head);
		return err;
	}
	*ret = (struct tasd_content){
		.ctr = tasd_container_get(ctr),
		.node = node,
		.head = head.bytes,
		.head_len = head.len,
		.size = head.len + body_size(node, view),
		.view = view,
	};
	return 0;
}

void tasd_content_close(struct tasd_content *content)
{
	if (is_gathered(content->node))
		tasd_slabs_drop(__atomic_load_n(&content->ctr->slabs,
					__ATOMIC_ACQUIRE),
			content->node);
	tasd_container_put(content->ctr);
	free(content->head);
	content->ctr = NULL;
	content->head = NULL;
}

/* Exactly len bytes of the tensor's own, at offset. */
static tasd_err read_extents(const struct tasd_content *content, char *out,
	uint64_t len, uint64_t offset)
{
	const struct tasd_tensor *tensor = content->node->tensor;
	const struct tasd_extent *extents = tasd_tensor_extents(tensor);

	for (uint32_t i = 0; i < tensor->nextents && len > 0; i++) {
		const struct tasd_extent *e = &extents[i];
		uint64_t n;
		tasd_err err;

		if (offset >= e->length) {
			offset -= e->length;
			continue;
		}
		n = e->length - offset < len ? e->length - offset : len;
		err = tasd_source_pread(content->ctr->sources[e->source], out,
			(size_t)n, e->offset + offset);
		if (err)
			return err;
		out += n;
		len -= n;
		offset = 0;
	}
	return len ? -EIO : 0;
}

/* Pieces of the storage, which may be of several extents. */
static tasd_err read_storage(
	void *ctx, const struct tasd_span *spans, size_t nspans)
{
	const struct tasd_content *content = ctx;
	const struct tasd_tensor *tensor = content->node->tensor;
	const struct tasd_extent *e = &tensor->extent;
	struct tasd_span pieces[PIECES];
	tasd_err err = 0;

	for (size_t i = 0; i < nspans && tensor->nextents > 1 && !err; i++)
		err = read_extents(content, spans[i].out, spans[i].len,
			spans[i].offset);
	if (tensor->nextents > 1)
		return err;
	while (nspans > 0 && !err) {
		size_t n = nspans < PIECES ? nspans : PIECES;

		for (size_t i = 0; i < n; i++) {
			if (tensor->nextents == 0 ||
				!tasd_range_fits(spans[i].offset, spans[i].len,
					e->length))
				return -EIO;
			pieces[i] = spans[i];
			pieces[i].offset += e->offset;
		}
		err = tasd_source_preadv(
			content->ctr->sources[e->source], pieces, n);
		spans += n;
		nspans -= n;
	}
	return err;
}

static tasd_err gather(void *ctx, void *out, size_t len, uint64_t offset)
{
	const struct tasd_content *content = ctx;
	struct tasd_gather g = tasd_gather_of(content->node->tensor);

	return tasd_gather_pread(&g, read_storage, ctx, out, len, offset);
}

/* The container's slabs, made when they are first needed; NULL: no memory. */
static struct tasd_slabs *slabs_of(struct tasd_container *ctr)
{
	struct tasd_slabs *slabs =
		__atomic_load_n(&ctr->slabs, __ATOMIC_ACQUIRE);
	struct tasd_slabs *made = NULL;

	if (slabs || tasd_slabs_new(&made))
		return slabs;
	if (__atomic_compare_exchange_n(&ctr->slabs, &slabs, made, false,
		    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	tasd_slabs_free(made);
	return slabs;
}

/* Bytes that were gathered before are handed out only when the files they are
 * from have not changed since. */
static tasd_err check_sources(const struct tasd_content *content)
{
	const struct tasd_tensor *tensor = content->node->tensor;
	struct tasd_source *const *sources = content->ctr->sources;
	tasd_err err = content->ctr->nsources > 0
			       ? tasd_source_check(sources[0])
			       : 0;

	for (uint32_t i = 0; i < tensor->nextents && !err; i++) {
		uint32_t at = tasd_tensor_extents(tensor)[i].source;

		err = at ? tasd_source_check(sources[at]) : 0;
	}
	return err ? -EIO : 0;
}

/* Exactly len bytes of the row-major ones, at offset. */
static tasd_err read_tensor(const struct tasd_content *content, char *out,
	uint64_t len, uint64_t offset)
{
	const struct tasd_tensor *tensor = content->node->tensor;
	void *ctx = (void *)(uintptr_t)content;
	struct tasd_slabs *slabs = NULL;
	tasd_err err;

	if (tensor->data != TASD_DATA_STRIDED)
		return read_extents(content, out, len, offset);
	/* Only the byte order differs: there is nothing to be gained. */
	if (tensor->extra->stride)
		slabs = slabs_of(content->ctr);
	if (!slabs)
		return gather(ctx, out, (size_t)len, offset);
	err = tasd_slabs_pread(slabs, content->node, tensor->nbytes, gather,
		ctx, out, (size_t)len, offset);
	return err ? err : check_sources(content);
}

/*
 * Bytes of the widened tensor at any offset: whole groups are read and widened
 * block by block, and of the first and last block only what was asked for is
 * handed out.
 */
static tasd_err read_widened(const struct tasd_content *content, char *out,
	uint64_t len, uint64_t offset)
{
	enum tasd_dtype dtype = content->node->tensor->dtype;
	unsigned int group = tasd_widen_group(dtype);
	unsigned int group_bytes = tasd_widen_group_bytes(dtype);
	uint64_t wide = group * sizeof(float); /* bytes of a widened group */
	char narrow[BLOCK_BYTES];
	float floats[BLOCK_FLOATS];

	while (len > 0) {
		uint64_t first = offset / wide, skip = offset % wide;
		uint64_t count = (skip + len + wide - 1) / wide;
		uint64_t n;
		tasd_err err;

		if (count > BLOCK_FLOATS / group)
			count = BLOCK_FLOATS / group;
		err = read_tensor(content, narrow, count * group_bytes,
			first * group_bytes);
		if (err)
			return err;
		tasd_widen(dtype, narrow, (size_t)count, floats);
		n = count * wide - skip < len ? count * wide - skip : len;
		memcpy(out, (const char *)floats + skip, (size_t)n);
		out += n;
		len -= n;
		offset += n;
	}
	return 0;
}

static tasd_err read_body(const struct tasd_content *content, char *out,
	uint64_t len, uint64_t offset)
{
	const struct tasd_node *node = content->node;

	if (node->form == TASD_FORM_VALUE) {
		memcpy(out, node->value.bytes + offset, (size_t)len);
		return 0;
	}
	if (content->view == TASD_VIEW_F32)
		return read_widened(content, out, len, offset);
	return read_tensor(content, out, len, offset);
}

tasd_err tasd_content_pread(struct tasd_content *content, void *out, size_t len,
	uint64_t offset, size_t *ret_len)
{
	uint64_t total, head = 0;
	tasd_err err;

	*ret_len = 0;
	if (offset >= content->size)
		return 0;
	total = content->size - offset < len ? content->size - offset : len;
	if (offset < content->head_len) {
		head = content->head_len - offset < total
			       ? content->head_len - offset
			       : total;
		memcpy(out, content->head + offset, (size_t)head);
	}
	if (total > head) {
		err = read_body(content, (char *)out + head, total - head,
			offset + head - content->head_len);
		if (err)
			return err;
	}
	*ret_len = (size_t)total;
	return 0;
}

bool tasd_content_window(const struct tasd_container *ctr,
	const struct tasd_node *node, enum tasd_view view,
	struct tasd_source **ret_source, uint64_t *ret_offset)
{
	const struct tasd_tensor *tensor;
	struct tasd_source *source;

	if (view != TASD_VIEW_RAW || node->form != TASD_FORM_TENSOR)
		return false;
	tensor = node->tensor;
	if (tensor->data != TASD_DATA_PLAIN || tensor->nextents != 1)
		return false;
	source = ctr->sources[tensor->extent.source];
	if (source->fd < 0)
		return false;
	*ret_source = source;
	*ret_offset = tensor->extent.offset;
	return true;
}
