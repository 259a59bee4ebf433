/*
 * A view is a head (the .npy header; nothing for the raw bytes) and a body.
 * The body is the tensor's bytes as its extents hold them, or the same widened
 * to float32, block by block, or a value's text.
 */
#include <base/checked.h>
#include <format/content.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/npy.h>
#include <tensor/widen.h>

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
		if (node->tensor->data != TASD_DATA_PLAIN)
			return -EIO;
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
		err = read_extents(content, narrow, count * group_bytes,
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
	return read_extents(content, out, len, offset);
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
