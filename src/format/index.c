/*
 * The index as JSON and as a table.  Written in one walk over the sealed tree,
 * a line a node; index_msgpack.c writes the same maps and arrays.
 */
#include <format/content.h>
#include <format/format.h>
#include <format/index.h>
#include <string.h>

/* The longest dtype of the table, float8_e4m3fnuz. */
#define DTYPE_WIDTH 15

/* A table's columns are no wider than these, so that one long name does not
 * push the others out of sight. */
#define PATH_WIDTH_MAX  60
#define SHAPE_WIDTH_MAX 24

static void add_field(struct tasd_buf *buf, const char *name)
{
	tasd_buf_str(buf, ", \"");
	tasd_buf_str(buf, name);
	tasd_buf_str(buf, "\": ");
}

static void add_text(struct tasd_buf *buf, const char *text)
{
	tasd_buf_json_str(buf, text, strlen(text));
}

static void add_shape(struct tasd_buf *buf, const struct tasd_tensor *tensor)
{
	tasd_buf_char(buf, '[');
	for (uint32_t i = 0; i < tensor->ndim; i++) {
		if (i > 0)
			tasd_buf_str(buf, ", ");
		tasd_buf_u64(buf, tensor->shape[i]);
	}
	tasd_buf_char(buf, ']');
}

static void add_node(struct tasd_buf *buf, struct tasd_buf *path,
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	const struct tasd_tensor *tensor =
		node->form == TASD_FORM_TENSOR ? node->tensor : NULL;
	struct tasd_source *source;
	uint64_t offset;

	path->len = 0;
	tasd_node_path(path, node);
	tasd_buf_str(buf, "{\"path\": ");
	tasd_buf_json_str(buf, path->bytes, path->len);
	add_field(buf, "key");
	tasd_node_key_json(buf, node);
	add_field(buf, "kind");
	add_text(buf, tasd_kind_name(node->kind));
	add_field(buf, "order");
	tasd_buf_u64(buf, node->order);
	if (tensor && tasd_tensor_dtype(tensor)[0]) {
		add_field(buf, "dtype");
		add_text(buf, tasd_tensor_dtype(tensor));
		add_field(buf, "shape");
		add_shape(buf, tensor);
		add_field(buf, "nbytes");
		tasd_buf_u64(buf, tensor->nbytes);
	}
	if (node->error) {
		add_field(buf, "error");
		add_text(buf, node->error);
	}
	if (tasd_content_window(ctr, node, TASD_VIEW_RAW, &source, &offset)) {
		add_field(buf, "source");
		tasd_buf_str(buf, "{\"file\": ");
		add_text(buf, source->name);
		add_field(buf, "offset");
		tasd_buf_u64(buf, offset);
		add_field(buf, "length");
		tasd_buf_u64(buf, tensor->nbytes);
		tasd_buf_char(buf, '}');
	}
	tasd_buf_char(buf, '}');
}

static void add_meta(struct tasd_buf *buf, const struct tasd_container *ctr)
{
	tasd_buf_char(buf, '{');
	for (uint32_t i = 0; i < ctr->nmeta; i++) {
		const struct tasd_meta *meta = &ctr->meta[i];

		if (i > 0)
			tasd_buf_str(buf, ", ");
		tasd_buf_json_str(buf, meta->name, meta->name_len);
		tasd_buf_str(buf, ": ");
		tasd_buf_json_str(buf, meta->value, meta->value_len);
	}
	tasd_buf_char(buf, '}');
}

static void add_problems(struct tasd_buf *buf, const struct tasd_container *ctr)
{
	const char *at = ctr->problems;

	tasd_buf_char(buf, '[');
	while (at) {
		size_t n = strcspn(at, "\n");

		if (at != ctr->problems)
			tasd_buf_str(buf, ", ");
		tasd_buf_json_str(buf, at, n);
		at = at[n] ? at + n + 1 : NULL;
	}
	tasd_buf_char(buf, ']');
}

void tasd_index_json(struct tasd_buf *buf, const struct tasd_container *ctr)
{
	struct tasd_statedict_totals totals = tasd_statedict_totals(ctr->sd);
	const struct tasd_node *root = tasd_statedict_root(ctr->sd);
	struct tasd_buf path = TASD_BUF_EMPTY;
	bool first = true;

	tasd_buf_printf(buf, "{\"tasdfs_index\": %d", TASD_INDEX_VERSION);
	add_field(buf, "format");
	add_text(buf, ctr->format->name);
	add_field(buf, "tensors");
	tasd_buf_u64(buf, totals.tensors);
	add_field(buf, "bytes");
	tasd_buf_u64(buf, totals.bytes);
	add_field(buf, "meta");
	add_meta(buf, ctr);
	if (ctr->problems) {
		add_field(buf, "problems");
		add_problems(buf, ctr);
	}
	add_field(buf, "nodes");
	tasd_buf_char(buf, '[');
	for (const struct tasd_node *n = tasd_node_next(root);
		n && !tasd_buf_err(buf) && !tasd_buf_err(&path);
		n = tasd_node_next(n)) {
		tasd_buf_str(buf, first ? "\n" : ",\n");
		first = false;
		add_node(buf, &path, ctr, n);
	}
	tasd_buf_str(buf, "]}\n");
	if (tasd_buf_err(&path) && !buf->err)
		buf->err = tasd_buf_err(&path);
	tasd_buf_free(&path);
}

/* Characters, which is what columns are made of. */
static size_t columns(const struct tasd_buf *text)
{
	size_t count = 0;

	for (size_t i = 0; i < text->len; i++)
		count += ((unsigned char)text->bytes[i] & 0xc0) != 0x80;
	return count;
}

static void add_column(
	struct tasd_buf *buf, const struct tasd_buf *text, size_t width)
{
	tasd_buf_add(buf, text->bytes, text->len);
	for (size_t n = columns(text); n < width; n++)
		tasd_buf_char(buf, ' ');
	tasd_buf_str(buf, "  ");
}

struct widths {
	size_t path, shape;
};

static void widen_to(size_t *width, size_t len, size_t max)
{
	if (len > max)
		len = max;
	if (len > *width)
		*width = len;
}

static void add_row(struct tasd_buf *buf, struct tasd_buf *text,
	const struct widths *widths, const struct tasd_node *node)
{
	const struct tasd_tensor *tensor =
		node->form == TASD_FORM_TENSOR ? node->tensor : NULL;
	bool known = tensor && tasd_tensor_dtype(tensor)[0] != '\0';

	text->len = 0;
	tasd_node_path(text, node);
	add_column(buf, text, widths->path);
	text->len = 0;
	tasd_buf_str(text, known    ? tasd_tensor_dtype(tensor)
			   : tensor ? "broken"
				    : tasd_kind_name(node->kind));
	add_column(buf, text, DTYPE_WIDTH);
	text->len = 0;
	if (known)
		add_shape(text, tensor);
	add_column(buf, text, widths->shape);
	tasd_buf_printf(buf, "%14llu",
		(unsigned long long)tasd_content_size(node, TASD_VIEW_RAW));
	if (node->error) {
		tasd_buf_str(buf, "  ");
		tasd_buf_str(buf, node->error);
	}
	tasd_buf_char(buf, '\n');
}

void tasd_index_table(struct tasd_buf *buf, const struct tasd_container *ctr)
{
	const struct tasd_node *root = tasd_statedict_root(ctr->sd);
	struct tasd_buf text = TASD_BUF_EMPTY;
	struct widths widths = {0};

	for (const struct tasd_node *n = root; n; n = tasd_node_next(n)) {
		if (n->form == TASD_FORM_DIR)
			continue;
		text.len = 0;
		tasd_node_path(&text, n);
		widen_to(&widths.path, columns(&text), PATH_WIDTH_MAX);
		text.len = 0;
		if (n->form == TASD_FORM_TENSOR)
			add_shape(&text, n->tensor);
		widen_to(&widths.shape, text.len, SHAPE_WIDTH_MAX);
	}
	for (const struct tasd_node *n = root;
		n && !tasd_buf_err(buf) && !tasd_buf_err(&text);
		n = tasd_node_next(n)) {
		if (n->form != TASD_FORM_DIR)
			add_row(buf, &text, &widths, n);
	}
	if (tasd_buf_err(&text) && !buf->err)
		buf->err = tasd_buf_err(&text);
	tasd_buf_free(&text);
}
