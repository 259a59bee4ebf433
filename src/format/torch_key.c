/*
 * Keys of dicts.  What DESIGN's section 2.1 has no form for (a class, a dtype,
 * an object as a key) is shown as an attribute in angle brackets, so that what
 * lies under it can be reached; what exactly it was, is not told.
 */
#include "npy_literal.h"
#include "torch_inner.h"
#include <stdio.h>
#include <string.h>

/* Tuples within tuples, and the text of one, as a key. */
#define DEPTH_MAX 16u
#define TEXT_MAX  ((size_t)64 << 10)

/* A key that is no tuple and has a form.  Texts that are not in the stream go
 * to the end of buf. */
static bool simple(struct tasd_torch_map *map, struct tasd_buf *buf,
	const struct tasd_pkl *value, struct tasd_key *ret)
{
	size_t at = buf->len;
	uint64_t len = 0;

	*ret = (struct tasd_key){.text = ""};
	switch ((int)value->type) {
	case TASD_PKL_NONE:
		ret->type = TASD_KEY_NONE;
		return true;
	case TASD_PKL_FALSE:
		ret->type = TASD_KEY_FALSE;
		return true;
	case TASD_PKL_TRUE:
		ret->type = TASD_KEY_TRUE;
		return true;
	case TASD_PKL_STR:
	case TASD_PKL_BYTES:
		ret->type = value->type == TASD_PKL_STR ? TASD_KEY_STR
							: TASD_KEY_BYTES;
		if (value->text.len > INT32_MAX)
			return false;
		ret->text = value->text.bytes;
		ret->len = (uint32_t)value->text.len;
		return true;
	case TASD_PKL_INT:
	case TASD_PKL_LONG:
		ret->type = TASD_KEY_INT;
		if (tasd_pkl_int_text(buf, value))
			return false;
		break;
	case TASD_PKL_FLOAT:
		ret->type = TASD_KEY_FLOAT;
		tasd_pkl_float_text(buf, value->f);
		break;
	default:
		ret->type = TASD_KEY_BYTES;
		if (!tasd_torch_bytes(map, value, buf, &ret->text, &len) ||
			len > INT32_MAX)
			return false;
		ret->len = (uint32_t)len;
		return true;
	}
	if (tasd_buf_err(buf))
		return false;
	ret->text = buf->bytes + at;
	ret->len = (uint32_t)(buf->len - at);
	return true;
}

/* One item of a tuple. */
static bool item_text(struct tasd_torch_map *map, struct tasd_buf *buf,
	const struct tasd_pkl *value, bool json)
{
	struct tasd_buf own = TASD_BUF_EMPTY;
	struct tasd_key key;
	bool ok = simple(map, &own, value, &key);

	if (ok && json)
		tasd_key_json(buf, &key);
	else if (ok && key.type == TASD_KEY_STR)
		tasd_literal_print(buf, key.text, key.len);
	else if (ok)
		tasd_key_print(buf, &key);
	tasd_buf_free(&own);
	return ok;
}

/* "(1, 'a')", or the array [1,"a"]; tuples in it are {"tuple":[..]}. */
static bool tuple_text(struct tasd_torch_map *map, struct tasd_buf *buf,
	const struct tasd_pkl *value, bool json)
{
	struct {
		const struct tasd_pkl *value;
		uint32_t next;
	} stack[DEPTH_MAX] = {{.value = value}};
	unsigned int depth = 1;

	tasd_buf_char(buf, json ? '[' : '(');
	while (depth) {
		const struct tasd_pkl *tuple = stack[depth - 1].value, *item;
		uint32_t next = stack[depth - 1].next++;

		if (next == tuple->seq.n) {
			if (!json)
				tasd_buf_str(buf, next == 1 ? ",)" : ")");
			else
				tasd_buf_str(buf, depth > 1 ? "]}" : "]");
			depth--;
			continue;
		}
		if (next)
			tasd_buf_str(buf, json ? "," : ", ");
		item = tuple->seq.at[next];
		if (buf->len > TEXT_MAX || depth == DEPTH_MAX)
			return false;
		if (item->type != TASD_PKL_TUPLE) {
			if (!item_text(map, buf, item, json))
				return false;
			continue;
		}
		tasd_buf_str(buf, json ? "{\"tuple\":[" : "(");
		stack[depth].value = item;
		stack[depth++].next = 0;
	}
	return !tasd_buf_err(buf);
}

/* What it prints as, and behind a NUL the JSON array. */
static bool tuple_key(struct tasd_torch_map *map, struct tasd_buf *buf,
	const struct tasd_pkl *value, struct tasd_key *ret)
{
	size_t len;

	buf->len = 0;
	if (!tuple_text(map, buf, value, false))
		return false;
	len = buf->len;
	tasd_buf_char(buf, '\0');
	if (!tuple_text(map, buf, value, true))
		return false;
	tasd_buf_char(buf, '\0');
	if (tasd_buf_err(buf))
		return false;
	*ret = (struct tasd_key){.text = buf->bytes,
		.len = (uint32_t)len,
		.type = TASD_KEY_TUPLE};
	return true;
}

tasd_err tasd_torch_key_again(struct tasd_torch_map *map,
	const struct tasd_pkl *key, uint32_t position, struct tasd_key *ret)
{
	const char *what = tasd_pkl_type_name(key);
	const char *space = strchr(what, ' ');

	map->text.len = 0;
	tasd_buf_printf(&map->text, "<%s %u>", space ? space + 1 : what,
		(unsigned int)position);
	if (tasd_buf_err(&map->text))
		return tasd_buf_err(&map->text);
	*ret = (struct tasd_key){.text = map->text.bytes,
		.len = (uint32_t)map->text.len,
		.type = TASD_KEY_ATTR};
	return 0;
}

tasd_err tasd_torch_key(struct tasd_torch_map *map, const struct tasd_pkl *key,
	uint32_t position, struct tasd_key *ret)
{
	const char *class = tasd_torch_class(map, key);

	map->text.len = 0;
	if (key->type == TASD_PKL_TUPLE ? tuple_key(map, &map->text, key, ret)
					: simple(map, &map->text, key, ret))
		return 0;
	if (!class)
		return tasd_torch_key_again(map, key, position, ret);
	map->text.len = 0;
	tasd_buf_printf(&map->text, "<%s>", class);
	*ret = (struct tasd_key){.text = map->text.bytes,
		.len = (uint32_t)map->text.len,
		.type = TASD_KEY_ATTR};
	return tasd_buf_err(&map->text);
}
