/*
 * The header is made whole, since it names every offset, and then the bytes
 * follow in pieces.
 *
 * The header keeps the order of the items; their bytes are laid out by the
 * alignment they need, largest first, and in the order of the items within
 * one alignment.  With a header padded to a multiple of 8 every element of
 * every tensor lies where a processor wants it, without a gap, which readers
 * would refuse.
 */
#include "st_header.h"
#include <base/checked.h>
#include <base/cleanup.h>
#include <base/utf8.h>
#include <format/content.h>
#include <format/st_write.h>
#include <inttypes.h>
#include <string.h>

#define PIECE          ((size_t)1 << 20)
#define ALIGN_MAX      8u
#define NAME_MAX_SHOWN 128

static const char metadata[] = "__metadata__";

/* torch's pairs of 4-bit elements are F4 with twice the last dimension. */
static const char *dtype_name(enum tasd_dtype dtype)
{
	return tasd_st_dtype_name(dtype == TASD_DTYPE_F4_E2M1FN_X2
					  ? TASD_DTYPE_F4_E2M1FN
					  : dtype);
}

static bool is_name(const struct tasd_st_item *item)
{
	if (item->name_len == strlen(metadata) &&
		memcmp(item->name, metadata, item->name_len) == 0)
		return false;
	return tasd_utf8_valid(item->name, item->name_len) == item->name_len;
}

tasd_err tasd_st_write_check(
	const struct tasd_st_item *item, struct tasd_diag *diag)
{
	const struct tasd_tensor *t = item->node->tensor;
	uint64_t twice;

	if (t->data == TASD_DATA_BROKEN)
		return tasd_diag_set(diag, -EIO, "%s",
			item->node->error ? item->node->error : "is broken");
	if (t->data == TASD_DATA_PLACEHOLDER)
		return tasd_diag_set(
			diag, -ENODATA, "a placeholder: its data is nowhere");
	if ((t->extra && t->extra->descr) || !dtype_name(t->dtype))
		return tasd_diag_set(diag, -ENOTSUP,
			"safetensors has no dtype %s", tasd_tensor_dtype(t));
	if (t->dtype == TASD_DTYPE_F4_E2M1FN_X2 &&
		(t->ndim == 0 ||
			!tasd_mul_u64(t->shape[t->ndim - 1], 2, &twice)))
		return tasd_diag_set(diag, -ENOTSUP,
			"safetensors has no pairs of F4 of this shape");
	if (!is_name(item))
		return tasd_diag_set(
			diag, -ENOTSUP, "safetensors cannot have this name");
	return 0;
}

/* In bytes: 1, 2, 4 or 8. */
static unsigned int alignment(const struct tasd_st_item *item)
{
	unsigned int bytes =
		tasd_dtype_info(item->node->tensor->dtype)->bits / 8;

	if (bytes > ALIGN_MAX)
		return ALIGN_MAX;
	return bytes ? bytes : 1;
}

struct layout {
	const struct tasd_st_item **items; /* as their bytes follow; owned */
	uint64_t *offsets;                 /* of the items as given; owned */
	uint64_t total;
};

static void layout_free(struct layout *layout)
{
	free(layout->items);
	free(layout->offsets);
}

static tasd_err lay_out(
	const struct tasd_st_writing *writing, struct layout *ret)
{
	size_t n = 0;

	*ret = (struct layout){
		.items = calloc(writing->nitems + 1, sizeof(*ret->items)),
		.offsets = calloc(writing->nitems + 1, sizeof(*ret->offsets)),
	};
	if (!ret->items || !ret->offsets)
		return -ENOMEM;
	for (unsigned int align = ALIGN_MAX; align; align /= 2) {
		for (size_t i = 0; i < writing->nitems; i++) {
			const struct tasd_st_item *item = &writing->items[i];

			if (alignment(item) != align)
				continue;
			ret->items[n++] = item;
			ret->offsets[i] = ret->total;
			if (!tasd_add_u64(ret->total,
				    item->node->tensor->nbytes, &ret->total))
				return -EFBIG;
		}
	}
	return 0;
}

static void add_shape(struct tasd_buf *head, const struct tasd_tensor *t)
{
	tasd_buf_str(head, ",\"shape\":[");
	for (uint32_t i = 0; i < t->ndim; i++) {
		bool twice =
			t->dtype == TASD_DTYPE_F4_E2M1FN_X2 && i + 1 == t->ndim;

		if (i)
			tasd_buf_char(head, ',');
		tasd_buf_u64(head, twice ? 2 * t->shape[i] : t->shape[i]);
	}
	tasd_buf_char(head, ']');
}

static void add_meta(
	struct tasd_buf *head, const struct tasd_st_writing *writing)
{
	tasd_buf_printf(head, "\"%s\":{", metadata);
	for (size_t i = 0; i < writing->nmeta; i++) {
		const struct tasd_meta *meta = &writing->meta[i];

		if (i)
			tasd_buf_char(head, ',');
		tasd_buf_json_str(head, meta->name, meta->name_len);
		tasd_buf_char(head, ':');
		tasd_buf_json_str(head, meta->value, meta->value_len);
	}
	tasd_buf_char(head, '}');
}

/* The JSON, padded. */
static tasd_err make_head(struct tasd_buf *head,
	const struct tasd_st_writing *writing, const struct layout *layout,
	struct tasd_diag *diag)
{
	tasd_buf_char(head, '{');
	if (writing->nmeta)
		add_meta(head, writing);
	for (size_t i = 0; i < writing->nitems && !tasd_buf_err(head); i++) {
		const struct tasd_st_item *item = &writing->items[i];
		const struct tasd_tensor *t = item->node->tensor;
		uint64_t from = layout->offsets[i];

		if (i || writing->nmeta)
			tasd_buf_char(head, ',');
		tasd_buf_json_str(head, item->name, item->name_len);
		tasd_buf_printf(
			head, ":{\"dtype\":\"%s\"", dtype_name(t->dtype));
		add_shape(head, t);
		tasd_buf_printf(head,
			",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", from,
			from + t->nbytes);
	}
	tasd_buf_char(head, '}');
	while (head->len % 8)
		tasd_buf_char(head, ' ');
	if (!tasd_buf_err(head) && head->len > TASD_ST_HEADER_MAX) {
		char size[TASD_ST_NUMBER_MAX], max[TASD_ST_NUMBER_MAX];

		return tasd_diag_set(diag, -E2BIG,
			"the header would take %s bytes, safetensors reads at "
			"most %s",
			tasd_st_number(size, head->len),
			tasd_st_number(max, TASD_ST_HEADER_MAX));
	}
	return tasd_buf_err(head);
}

static tasd_err write_all(
	int fd, const void *bytes, size_t len, struct tasd_diag *diag)
{
	const char *from = bytes;

	while (len > 0) {
		ssize_t n = write(fd, from, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tasd_diag_set(diag, -errno, "cannot write: %s",
				strerror(errno));
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

static tasd_err read_failed(
	const struct tasd_st_item *item, tasd_err err, struct tasd_diag *diag)
{
	char name[NAME_MAX_SHOWN];

	tasd_print_bytes(name, sizeof(name), item->name, item->name_len);
	return tasd_diag_set(diag, err, "cannot read %s: %s", name,
		err == -EIO ? "the file has changed or is cut short"
			    : strerror(-err));
}

static tasd_err write_item(int fd, const struct tasd_st_writing *writing,
	const struct tasd_st_item *item, char *piece, struct tasd_diag *diag)
{
	struct tasd_content content;
	uint64_t at = 0;
	tasd_err err = tasd_content_open(
		writing->ctr, item->node, TASD_VIEW_RAW, &content);

	if (err)
		return read_failed(item, err, diag);
	while (at < content.size && !err) {
		size_t n;

		err = tasd_content_pread(&content, piece, PIECE, at, &n);
		if (!err && n == 0)
			err = -EIO;
		if (err) {
			err = read_failed(item, err, diag);
			break;
		}
		err = write_all(fd, piece, n, diag);
		at += n;
		if (!err && writing->progress)
			err = writing->progress(writing->ctx, n);
	}
	tasd_content_close(&content);
	return err;
}

static tasd_err write_file(int fd, const struct tasd_st_writing *writing,
	const struct layout *layout, struct tasd_diag *diag)
{
	cleanup_free char *piece = malloc(PIECE);
	struct tasd_buf head = TASD_BUF_EMPTY;
	unsigned char size[8];
	tasd_err err =
		piece ? make_head(&head, writing, layout, diag) : -ENOMEM;

	for (unsigned int i = 0; i < sizeof(size); i++)
		size[i] = (unsigned char)((uint64_t)head.len >> 8 * i);
	if (!err)
		err = write_all(fd, size, sizeof(size), diag);
	if (!err)
		err = write_all(fd, head.bytes, head.len, diag);
	tasd_buf_free(&head);
	for (size_t i = 0; i < writing->nitems && !err; i++)
		err = write_item(fd, writing, layout->items[i], piece, diag);
	return err;
}

tasd_err tasd_st_write(
	int fd, const struct tasd_st_writing *writing, struct tasd_diag *diag)
{
	struct layout layout;
	tasd_err err = lay_out(writing, &layout);

	if (!err)
		err = write_file(fd, writing, &layout, diag);
	layout_free(&layout);
	return err;
}
