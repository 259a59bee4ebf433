/*
 * Values that are text: numbers and strings, and lists, tuples and sets of
 * nothing but those, which are one JSON text however they nest.
 *
 * Whether a list is such a one, and how long its text is, is found out once and
 * kept.  A list or set that several places refer to must be a file of its own,
 * so that they can be links to it; hence it makes what it is in a directory.
 * Tuples have no identity and are written out wherever they are, but a few of
 * them can stand for 2^40 items: a text has a limit, which what the pickle
 * spells out never meets.
 */
#include "torch_inner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In costs: what is no text, what is being looked at; other values are 1 more
 * than the bytes of its text. */
#define NO_TEXT UINT32_MAX
#define ASKED   (UINT32_MAX - 1)

bool tasd_torch_seq(struct tasd_torch_map *map, const struct tasd_pkl *value,
	const struct tasd_pkl_seq **ret_seq, enum tasd_kind *ret_kind)
{
	static const struct tasd_pkl_seq none;
	const struct tasd_pkl_object *o;
	const struct tasd_pkl *arg;

	if (value->type >= TASD_PKL_TUPLE &&
		value->type <= TASD_PKL_FROZENSET) {
		*ret_seq = &value->seq;
		*ret_kind = value->type == TASD_PKL_TUPLE  ? TASD_KIND_TUPLE
			    : value->type == TASD_PKL_LIST ? TASD_KIND_LIST
							   : TASD_KIND_SET;
		return true;
	}
	if (value->type != TASD_PKL_OBJECT)
		return false;
	o = value->object;
	switch ((int)tasd_torch_tag(map, o->callable)) {
	case TASD_TORCH_SET_TYPE:
		*ret_kind = TASD_KIND_SET;
		break;
	case TASD_TORCH_LIST_TYPE:
		*ret_kind = TASD_KIND_LIST;
		break;
	case TASD_TORCH_TUPLE_TYPE:
		*ret_kind = TASD_KIND_TUPLE;
		break;
	default:
		return false;
	}
	arg = tasd_torch_arg(&o->args->seq, 0);
	*ret_seq = !arg ? &none : &arg->seq;
	return value->how == TASD_PKL_REDUCE && !o->more &&
	       (!arg || arg->type == TASD_PKL_LIST ||
		       arg->type == TASD_PKL_TUPLE);
}

/* The characters of a str, each a byte.  false: some have no room in one. */
static bool latin1(struct tasd_buf *buf, const char *text, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 0x80) {
			if (c > 0xc3 || ++i == len)
				return false;
			c = (unsigned char)(c << 6 | (text[i] & 0x3f));
		}
		tasd_buf_char(buf, (char)c);
	}
	return true;
}

static bool is_latin1(const struct tasd_pkl *encoding)
{
	static const char *const names[] = {
		"latin1", "latin-1", "iso-8859-1", "latin_1", "iso8859-1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (tasd_pkl_is_str(encoding, names[i]))
			return true;
	return false;
}

static bool is_ascii(const char *text, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

/* A str that says bytes, by _codecs.encode(text, "latin1") or bytearray(). */
static bool encoded(struct tasd_torch_map *map, const struct tasd_pkl_seq *args,
	struct tasd_buf *buf, const char **ret_bytes, uint64_t *ret_len)
{
	const struct tasd_pkl *text = tasd_torch_arg(args, 0);

	if (args->n != 2 || text->type != TASD_PKL_STR ||
		!is_latin1(args->at[1]) ||
		!tasd_torch_work(map, text->text.len))
		return false;
	*ret_bytes = text->text.bytes;
	*ret_len = text->text.len;
	if (is_ascii(text->text.bytes, text->text.len))
		return true;
	buf->len = 0;
	if (!latin1(buf, text->text.bytes, text->text.len))
		return false;
	*ret_bytes = buf->bytes;
	*ret_len = buf->len;
	return true;
}

bool tasd_torch_encoded(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const struct tasd_pkl **ret_text)
{
	const struct tasd_pkl_seq *args;

	if (value->type != TASD_PKL_OBJECT || value->object->more ||
		tasd_torch_tag(map, value->object->callable) !=
			TASD_TORCH_ENCODE)
		return false;
	args = &value->object->args->seq;
	*ret_text = tasd_torch_arg(args, 0);
	return args->n == 2 && (*ret_text)->type == TASD_PKL_STR &&
	       is_latin1(args->at[1]);
}

bool tasd_torch_bytes(struct tasd_torch_map *map, const struct tasd_pkl *value,
	struct tasd_buf *buf, const char **ret_bytes, uint64_t *ret_len)
{
	const struct tasd_pkl_seq *args;
	const struct tasd_pkl *arg;
	int tag;

	if (value->type == TASD_PKL_BYTES ||
		value->type == TASD_PKL_BYTEARRAY ||
		(value->type == TASD_PKL_STR && value->flags & TASD_PKL_PY2)) {
		*ret_bytes = value->text.bytes;
		*ret_len = value->text.len;
		return true;
	}
	if (value->type != TASD_PKL_OBJECT || value->object->more)
		return false;
	args = &value->object->args->seq;
	tag = (int)tasd_torch_tag(map, value->object->callable);
	if (tag == TASD_TORCH_ENCODE)
		return encoded(map, args, buf, ret_bytes, ret_len);
	if (tag != TASD_TORCH_BYTES_TYPE)
		return false;
	arg = tasd_torch_arg(args, 0);
	if (args->n == 1 && arg->type == TASD_PKL_BYTES) {
		*ret_bytes = arg->text.bytes;
		*ret_len = arg->text.len;
		return true;
	}
	/* bytearray(encode(..)): protocol 2 has no other bytes. */
	if (args->n == 1 && arg->type == TASD_PKL_OBJECT &&
		tasd_torch_tag(map, arg->object->callable) == TASD_TORCH_ENCODE)
		return encoded(
			map, &arg->object->args->seq, buf, ret_bytes, ret_len);
	*ret_bytes = "";
	*ret_len = 0;
	return args->n == 0 || encoded(map, args, buf, ret_bytes, ret_len);
}

static bool real(const struct tasd_pkl *value, double *ret)
{
	if (value->type == TASD_PKL_FLOAT)
		*ret = value->f;
	else if (value->type == TASD_PKL_INT)
		*ret = (double)value->i;
	else
		return false;
	return true;
}

bool tasd_torch_complex(struct tasd_torch_map *map,
	const struct tasd_pkl *value, double *ret_re, double *ret_im)
{
	const struct tasd_pkl_seq *args;

	if (value->type != TASD_PKL_OBJECT || value->object->more ||
		tasd_torch_tag(map, value->object->callable) !=
			TASD_TORCH_COMPLEX_TYPE)
		return false;
	args = &value->object->args->seq;
	return args->n == 2 && real(args->at[0], ret_re) &&
	       real(args->at[1], ret_im);
}

/* As in a complex number: 1.0 is "1". */
static void short_float(struct tasd_buf *buf, double f)
{
	size_t before = buf->len;

	tasd_pkl_float_text(buf, f);
	if (!tasd_buf_err(buf) && buf->len - before > 2 &&
		memcmp(buf->bytes + buf->len - 2, ".0", 2) == 0)
		buf->len -= 2;
}

void tasd_torch_complex_text(struct tasd_buf *buf, double re, double im)
{
	bool both = re != 0 || signbit(re);

	if (both) {
		tasd_buf_char(buf, '(');
		short_float(buf, re);
		if (isnan(im) || !signbit(im))
			tasd_buf_char(buf, '+');
	}
	short_float(buf, im);
	tasd_buf_str(buf, both ? "j)" : "j");
}

/* As Python's json writes it. */
static void json_float(struct tasd_buf *buf, double f)
{
	if (isnan(f))
		tasd_buf_str(buf, "NaN");
	else if (isinf(f))
		tasd_buf_str(buf, f < 0 ? "-Infinity" : "Infinity");
	else
		tasd_pkl_float_text(buf, f);
}

static void json_hex(struct tasd_buf *buf, const char *bytes, uint64_t len)
{
	static const char digits[] = "0123456789abcdef";

	tasd_buf_str(buf, "{\"bytes\": \"");
	for (uint64_t i = 0; i < len; i++) {
		tasd_buf_char(buf, digits[(unsigned char)bytes[i] >> 4]);
		tasd_buf_char(buf, digits[bytes[i] & 15]);
	}
	tasd_buf_str(buf, "\"}");
}

/* A plain value as JSON.  false: it is none, or an int of too many digits. */
static bool json_atom(struct tasd_torch_map *map, struct tasd_buf *buf,
	const struct tasd_pkl *value)
{
	const char *bytes;
	uint64_t len;
	double re, im;

	switch ((int)value->type) {
	case TASD_PKL_NONE:
		tasd_buf_str(buf, "null");
		return true;
	case TASD_PKL_FALSE:
		tasd_buf_str(buf, "false");
		return true;
	case TASD_PKL_TRUE:
		tasd_buf_str(buf, "true");
		return true;
	case TASD_PKL_INT:
	case TASD_PKL_LONG:
		return tasd_pkl_int_text(buf, value) == 0;
	case TASD_PKL_FLOAT:
		json_float(buf, value->f);
		return true;
	case TASD_PKL_STR:
		tasd_buf_json_str(
			buf, value->text.bytes, (size_t)value->text.len);
		return true;
	default:
		break;
	}
	if (tasd_torch_bytes(map, value, &map->text, &bytes, &len)) {
		json_hex(buf, bytes, len);
		return true;
	}
	if (!tasd_torch_complex(map, value, &re, &im))
		return false;
	tasd_buf_str(buf, "{\"complex\": [");
	json_float(buf, re);
	tasd_buf_str(buf, ", ");
	json_float(buf, im);
	tasd_buf_str(buf, "]}");
	return true;
}

static uint32_t atom_cost(
	struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	struct tasd_buf count = tasd_buf_counting();

	if (!json_atom(map, &count, value) || count.len > map->text_max)
		return NO_TEXT;
	return (uint32_t)count.len + 1;
}

struct walk {
	const struct tasd_pkl *value;
	const struct tasd_pkl_seq *seq;
	uint64_t cost;
	uint32_t next;
};

struct walks {
	struct walk *at;
	size_t depth, room;
};

static tasd_err enter(struct walks *walks, const struct tasd_pkl *value,
	const struct tasd_pkl_seq *seq)
{
	if (walks->depth == walks->room) {
		size_t room = walks->room ? 2 * walks->room : 16;
		struct walk *grown =
			reallocarray(walks->at, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		walks->at = grown;
		walks->room = room;
	}
	walks->at[walks->depth++] =
		(struct walk){.value = value, .seq = seq, .cost = 2};
	return 0;
}

/* May it be part of another's text? */
static bool embeds(const struct tasd_torch_map *map,
	const struct tasd_pkl *value, enum tasd_kind kind)
{
	return kind == TASD_KIND_TUPLE || value->type == TASD_PKL_FROZENSET ||
	       !(map->met[value->id / 8] >> value->id % 8 & 1);
}

/* One item more: *ret is what has to be looked at before, or NULL. */
static tasd_err cost_step(
	struct tasd_torch_map *map, struct walks *walks, bool *ret_down)
{
	struct walk *top = &walks->at[walks->depth - 1];
	const struct tasd_pkl *item = top->seq->at[top->next];
	const struct tasd_pkl_seq *seq;
	enum tasd_kind kind;
	uint32_t *cost = &map->costs[item->id];
	bool is_seq = tasd_torch_seq(map, item, &seq, &kind);

	*ret_down = false;
	if (!*cost && is_seq) {
		*cost = ASKED;
		*ret_down = true;
		return enter(walks, item, seq);
	}
	if (!*cost)
		*cost = atom_cost(map, item);
	top->next++;
	if (*cost >= ASKED || (is_seq && !embeds(map, item, kind)))
		top->cost = NO_TEXT;
	else
		top->cost += *cost - 1 + 2;
	if (top->cost > map->text_max) {
		top->cost = NO_TEXT;
		top->next = top->seq->n;
	}
	return 0;
}

tasd_err tasd_torch_is_plain(struct tasd_torch_map *map,
	const struct tasd_pkl *value, bool *ret_plain)
{
	struct walks walks = {.at = NULL};
	const struct tasd_pkl_seq *seq;
	enum tasd_kind kind;
	tasd_err err = 0;
	bool down;

	if (!map->costs[value->id] && tasd_torch_seq(map, value, &seq, &kind)) {
		map->costs[value->id] = ASKED;
		err = enter(&walks, value, seq);
	}
	while (!err && walks.depth) {
		struct walk *top = &walks.at[walks.depth - 1];

		if (top->next < top->seq->n) {
			err = cost_step(map, &walks, &down);
			continue;
		}
		map->costs[top->value->id] = top->cost == NO_TEXT
						     ? NO_TEXT
						     : (uint32_t)top->cost + 1;
		walks.depth--;
	}
	free(walks.at);
	*ret_plain = !err && map->costs[value->id] < ASKED &&
		     map->costs[value->id] + map->texts < TASD_TORCH_TEXTS_MAX;
	return err;
}

tasd_err tasd_torch_json(struct tasd_torch_map *map, struct tasd_buf *buf,
	const struct tasd_pkl *value)
{
	struct walks walks = {.at = NULL};
	const struct tasd_pkl_seq *seq;
	enum tasd_kind kind;
	tasd_err err = 0;

	/* It is plain, so nothing here is cyclic or too much. */
	if (tasd_torch_seq(map, value, &seq, &kind))
		err = enter(&walks, value, seq);
	tasd_buf_char(buf, '[');
	while (!err && walks.depth) {
		struct walk *top = &walks.at[walks.depth - 1];
		const struct tasd_pkl *item;

		if (top->next == top->seq->n) {
			tasd_buf_char(buf, ']');
			walks.depth--;
			continue;
		}
		if (top->next)
			tasd_buf_str(buf, ", ");
		item = top->seq->at[top->next++];
		if (!tasd_torch_seq(map, item, &seq, &kind)) {
			(void)json_atom(map, buf, item);
			continue;
		}
		tasd_buf_char(buf, '[');
		err = enter(&walks, item, seq);
	}
	free(walks.at);
	return err ? err : tasd_buf_err(buf);
}

/* A number, with a newline; kind and text. */
static tasd_err number(struct tasd_buf *buf, const struct tasd_pkl *value,
	struct tasd_torch_shape *shape)
{
	tasd_err err = 0;

	switch ((int)value->type) {
	case TASD_PKL_NONE:
		shape->kind = TASD_KIND_NONE;
		tasd_buf_str(buf, "None");
		break;
	case TASD_PKL_FALSE:
	case TASD_PKL_TRUE:
		shape->kind = TASD_KIND_BOOL;
		tasd_buf_str(
			buf, value->type == TASD_PKL_TRUE ? "True" : "False");
		break;
	case TASD_PKL_FLOAT:
		shape->kind = TASD_KIND_FLOAT;
		tasd_pkl_float_text(buf, value->f);
		break;
	default:
		shape->kind = TASD_KIND_INT;
		err = tasd_pkl_int_text(buf, value);
	}
	tasd_buf_char(buf, '\n');
	return err;
}

tasd_err tasd_torch_plain(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	struct tasd_buf *buf = &map->text;
	const char *bytes;

	shape->form = TASD_FORM_VALUE;
	if (value->type >= TASD_PKL_STR) {
		shape->kind = value->type == TASD_PKL_STR ? TASD_KIND_STR
							  : TASD_KIND_BYTES;
		if (value->type == TASD_PKL_BYTEARRAY)
			shape->class = "builtins.bytearray";
		bytes = value->text.bytes;
		shape->len = value->text.len;
	} else {
		buf->len = 0;
		if (number(buf, value, shape))
			return tasd_torch_broken(map, shape,
				"a number of more than %d digits",
				TASD_PKL_INT_DIGITS);
		if (tasd_buf_err(buf))
			return tasd_buf_err(buf);
		bytes = buf->bytes;
		shape->len = buf->len;
	}
	shape->bytes = tasd_arena_copy(map->arena, bytes, (size_t)shape->len);
	return shape->bytes ? 0 : -E2BIG;
}
