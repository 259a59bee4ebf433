/*
 * The index as msgpack: the maps and arrays of index.c, one object.  Texts are
 * str with the bytes as they are; a reader decodes them with surrogateescape
 * where a key was not UTF-8.
 */
#include <base/json.h>
#include <format/content.h>
#include <format/format.h>
#include <format/index.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Depth of a tuple key's JSON; Python's own keys are a few deep. */
#define KEY_DEPTH_MAX 64

static int write_to_buf(void *data, const char *bytes, size_t len)
{
	struct tasd_buf *buf = data;

	tasd_buf_add(buf, bytes, len);
	return tasd_buf_err(buf) ? -1 : 0;
}

static void pack_bytes(msgpack_packer *pk, const char *text, size_t len)
{
	msgpack_pack_str(pk, len);
	msgpack_pack_str_body(pk, text, len);
}

static void pack_text(msgpack_packer *pk, const char *text)
{
	pack_bytes(pk, text, strlen(text));
}

/* A number's text as the shortest type that holds it exactly, else a double. */
static void pack_number(msgpack_packer *pk, const char *text, size_t len)
{
	char copy[64];
	uint64_t value;
	bool minus = len > 0 && text[0] == '-';

	if (tasd_json_u64(text + minus, len - minus, &value) == 0) {
		if (!minus) {
			msgpack_pack_uint64(pk, value);
			return;
		}
		if (value <= (uint64_t)INT64_MAX) {
			msgpack_pack_int64(pk, -(int64_t)value);
			return;
		}
	}
	if (len >= sizeof(copy)) {
		pack_bytes(pk, text, len);
		return;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	msgpack_pack_double(pk, strtod(copy, NULL));
}

/*
 * JSON text as msgpack in two passes, since a msgpack container begins with
 * its count: the first counts the items of each container, in the order in
 * which they begin, the second writes.
 */
struct converter {
	msgpack_packer *pk; /* NULL in the first pass */
	uint32_t *counts;   /* owned */
	size_t ncounts, room;
	size_t at;                  /* second pass: the next container */
	size_t open[KEY_DEPTH_MAX]; /* first pass: those not closed yet */
};

static tasd_err count_event(
	struct converter *c, const struct tasd_json_event *e)
{
	bool begins = e->type == TASD_JSON_MAP_BEGIN ||
		      e->type == TASD_JSON_ARRAY_BEGIN;
	bool ends =
		e->type == TASD_JSON_MAP_END || e->type == TASD_JSON_ARRAY_END;

	/* A pair of a map counts at its key. */
	if (!ends && e->depth > 0) {
		size_t parent = c->open[e->depth - 1];
		bool in_map = c->counts[parent] >> 31;

		if (e->type == TASD_JSON_KEY || !in_map)
			c->counts[parent]++;
	}
	if (!begins)
		return 0;
	if (c->ncounts == c->room) {
		size_t room = c->room ? 2 * c->room : 16;
		uint32_t *counts =
			realloc(c->counts, room * sizeof(*c->counts));

		if (!counts)
			return -ENOMEM;
		c->counts = counts;
		c->room = room;
	}
	c->open[e->depth] = c->ncounts;
	c->counts[c->ncounts++] = e->type == TASD_JSON_MAP_BEGIN ? 1u << 31 : 0;
	return 0;
}

static tasd_err write_event(
	struct converter *c, const struct tasd_json_event *e)
{
	switch (e->type) {
	case TASD_JSON_NULL:
		msgpack_pack_nil(c->pk);
		break;
	case TASD_JSON_FALSE:
		msgpack_pack_false(c->pk);
		break;
	case TASD_JSON_TRUE:
		msgpack_pack_true(c->pk);
		break;
	case TASD_JSON_NUMBER:
		pack_number(c->pk, e->text, e->len);
		break;
	case TASD_JSON_STRING:
	case TASD_JSON_KEY:
		pack_bytes(c->pk, e->text, e->len);
		break;
	case TASD_JSON_MAP_BEGIN:
		msgpack_pack_map(c->pk, c->counts[c->at++] & ~(1u << 31));
		break;
	case TASD_JSON_ARRAY_BEGIN:
		msgpack_pack_array(c->pk, c->counts[c->at++]);
		break;
	case TASD_JSON_MAP_END:
	case TASD_JSON_ARRAY_END:
	default:
		break;
	}
	return 0;
}

static tasd_err on_event(void *ctx, const struct tasd_json_event *e)
{
	struct converter *c = ctx;

	return c->pk ? write_event(c, e) : count_event(c, e);
}

static tasd_err read_json(struct converter *c, const char *text, size_t len)
{
	struct tasd_json *json;
	tasd_err err = tasd_json_new(on_event, c, KEY_DEPTH_MAX, &json);

	if (err)
		return err;
	err = tasd_json_push(json, text, len, NULL);
	if (!err)
		err = tasd_json_end(json, NULL);
	tasd_json_free(json);
	return err;
}

/* Any JSON text of ours; what cannot be converted is packed as the text. */
static void pack_json(msgpack_packer *pk, const char *text, size_t len)
{
	struct converter c = {.pk = NULL};

	if (read_json(&c, text, len)) {
		pack_bytes(pk, text, len);
	} else {
		c.pk = pk;
		(void)read_json(&c, text, len);
	}
	free(c.counts);
}

static void pack_component(
	msgpack_packer *pk, struct tasd_buf *text, const struct tasd_key *key)
{
	if (key->type == TASD_KEY_STR) {
		pack_bytes(pk, key->text, key->len);
		return;
	}
	text->len = 0;
	tasd_key_json(text, key);
	pack_json(pk, text->bytes, text->len);
}

/* Groups above a node have no component of their own in its key. */
static bool has_component(
	const struct tasd_node *above, const struct tasd_node *node)
{
	return above->key.type != TASD_KEY_WHOLE &&
	       (above == node || above->kind != TASD_KIND_GROUP);
}

static void pack_key(
	msgpack_packer *pk, struct tasd_buf *text, const struct tasd_node *node)
{
	uint32_t count = 0;

	for (const struct tasd_node *n = node; n->parent; n = n->parent)
		count += has_component(n, node);
	msgpack_pack_array(pk, count);
	/* From the top: each time up to the one that is next.  Keys are a few
	 * components deep. */
	for (uint32_t want = count; want > 0; want--) {
		const struct tasd_node *n = node;
		uint32_t at = 0;

		for (;; n = n->parent) {
			if (has_component(n, node) && ++at == want)
				break;
		}
		pack_component(pk, text, &n->key);
	}
}

static void pack_tensor(msgpack_packer *pk, const struct tasd_tensor *tensor)
{
	pack_text(pk, "dtype");
	pack_text(pk, tasd_tensor_dtype(tensor));
	pack_text(pk, "shape");
	msgpack_pack_array(pk, tensor->ndim);
	for (uint32_t i = 0; i < tensor->ndim; i++)
		msgpack_pack_uint64(pk, tensor->shape[i]);
	pack_text(pk, "nbytes");
	msgpack_pack_uint64(pk, tensor->nbytes);
}

static void pack_node(msgpack_packer *pk, struct tasd_buf *text,
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	const struct tasd_tensor *tensor =
		node->form == TASD_FORM_TENSOR ? node->tensor : NULL;
	struct tasd_source *source = NULL;
	uint64_t offset = 0;
	bool known = tensor && tasd_tensor_dtype(tensor)[0] != '\0';
	bool window =
		tasd_content_window(ctr, node, TASD_VIEW_RAW, &source, &offset);

	msgpack_pack_map(
		pk, 4 + 3 * (size_t)known + (node->error != NULL) + window);
	pack_text(pk, "path");
	text->len = 0;
	tasd_node_path(text, node);
	pack_bytes(pk, text->bytes, text->len);
	pack_text(pk, "key");
	pack_key(pk, text, node);
	pack_text(pk, "kind");
	pack_text(pk, tasd_kind_name(node->kind));
	pack_text(pk, "order");
	msgpack_pack_uint32(pk, node->order);
	if (known)
		pack_tensor(pk, tensor);
	if (node->error) {
		pack_text(pk, "error");
		pack_text(pk, node->error);
	}
	if (window) {
		pack_text(pk, "source");
		msgpack_pack_map(pk, 3);
		pack_text(pk, "file");
		pack_text(pk, source->name);
		pack_text(pk, "offset");
		msgpack_pack_uint64(pk, offset);
		pack_text(pk, "length");
		msgpack_pack_uint64(pk, tensor->nbytes);
	}
}

static void pack_problems(msgpack_packer *pk, const char *problems)
{
	size_t lines = 1;

	for (const char *p = problems; *p; p++)
		lines += *p == '\n';
	msgpack_pack_array(pk, lines);
	while (lines-- > 0) {
		size_t n = strcspn(problems, "\n");

		pack_bytes(pk, problems, n);
		problems += n + (lines > 0);
	}
}

static void pack_top(msgpack_packer *pk, const struct tasd_container *ctr)
{
	struct tasd_statedict_totals totals = tasd_statedict_totals(ctr->sd);

	msgpack_pack_map(pk, 6 + (ctr->problems != NULL));
	pack_text(pk, "tasdfs_index");
	msgpack_pack_int(pk, TASD_INDEX_VERSION);
	pack_text(pk, "format");
	pack_text(pk, ctr->format->name);
	pack_text(pk, "tensors");
	msgpack_pack_uint64(pk, totals.tensors);
	pack_text(pk, "bytes");
	msgpack_pack_uint64(pk, totals.bytes);
	pack_text(pk, "meta");
	msgpack_pack_map(pk, ctr->nmeta);
	for (uint32_t i = 0; i < ctr->nmeta; i++) {
		pack_bytes(pk, ctr->meta[i].name, ctr->meta[i].name_len);
		pack_bytes(pk, ctr->meta[i].value, ctr->meta[i].value_len);
	}
	if (ctr->problems) {
		pack_text(pk, "problems");
		pack_problems(pk, ctr->problems);
	}
}

void tasd_index_msgpack(struct tasd_buf *buf, const struct tasd_container *ctr)
{
	const struct tasd_node *root = tasd_statedict_root(ctr->sd);
	struct tasd_buf text = TASD_BUF_EMPTY;
	msgpack_packer pk;
	size_t count = 0;

	msgpack_packer_init(&pk, buf, write_to_buf);
	pack_top(&pk, ctr);
	for (const struct tasd_node *n = tasd_node_next(root); n;
		n = tasd_node_next(n))
		count++;
	pack_text(&pk, "nodes");
	msgpack_pack_array(&pk, count);
	for (const struct tasd_node *n = tasd_node_next(root);
		n && !tasd_buf_err(buf); n = tasd_node_next(n))
		pack_node(&pk, &text, ctr, n);
	if (tasd_buf_err(&text) && !buf->err)
		buf->err = tasd_buf_err(&text);
	tasd_buf_free(&text);
}
