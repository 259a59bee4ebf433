/*
 * Prints pickles as the pickle machine reads them, for diff_pickle.py to hold
 * against Python.  Standard input: each pickle behind its length in four bytes,
 * little-endian.  One line of JSON for each:
 *
 *	{"ok": true, "used": n, "graph": [token, ..], "globals": [..]}
 *	{"ok": false, "error": .., "globals": [[module, name, count, safe], ..]}
 *
 * The graph is in preorder; a token tells type, value and how many parts
 * follow.  A container met before is "r" and its number.  With --safe it prints
 * the table of safe globals instead.
 */
#include "pickle.h"
#include "pickle_safe.h"
#include <base/cleanup.h>
#include <base/utf8.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT      ((size_t)256 << 20)
#define TOKENS_MAX 20000

struct frame {
	const struct tasd_pkl *value;
	uint64_t next;
};

struct dump {
	struct tasd_buf out;
	uint32_t *refs; /* by id: number of the container, plus 1 */
	uint32_t nrefs;
	unsigned int tokens;
	struct frame *stack;
	size_t depth, room;
};

static void hex(struct tasd_buf *buf, const char *bytes, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		tasd_buf_printf(buf, "%02x", (unsigned char)bytes[i]);
}

/* As Python decodes it with surrogateescape. */
static void py2_hex(struct tasd_buf *buf, const char *bytes, uint64_t len)
{
	for (uint64_t at = 0; at < len;) {
		size_t n = tasd_utf8_next(bytes + at, len - at);
		unsigned int c = (unsigned char)bytes[at];

		if (n)
			hex(buf, bytes + at, n);
		else
			tasd_buf_printf(buf, "ed%02x%02x", 0xb0 | c >> 6,
				0x80 | (c & 0x3f));
		at += n ? n : 1;
	}
}

static const char *how_name(const struct tasd_pkl *value)
{
	switch (value->how) {
	case TASD_PKL_REDUCE:
		return "c";
	case TASD_PKL_INST:
	case TASD_PKL_OBJ:
		/* Python makes no difference but this one. */
		return value->object->args->seq.n ||
				       value->object->callable->type !=
					       TASD_PKL_GLOBAL
			       ? "c"
			       : "n";
	default:
		return "n";
	}
}

static void plain(struct tasd_buf *buf, const struct tasd_pkl *value)
{
	switch (value->type) {
	case TASD_PKL_NONE:
		tasd_buf_char(buf, 'N');
		break;
	case TASD_PKL_FALSE:
		tasd_buf_char(buf, 'F');
		break;
	case TASD_PKL_TRUE:
		tasd_buf_char(buf, 'T');
		break;
	case TASD_PKL_INT:
	case TASD_PKL_LONG:
		tasd_buf_char(buf, 'i');
		if (tasd_pkl_int_text(buf, value))
			tasd_buf_char(buf, '!');
		break;
	case TASD_PKL_FLOAT:
		tasd_buf_char(buf, 'f');
		tasd_pkl_float_text(buf, value->f);
		break;
	case TASD_PKL_STR:
		tasd_buf_char(buf, 's');
		hex(buf, value->text.bytes, value->text.len);
		break;
	case TASD_PKL_BYTES:
		tasd_buf_char(buf, value->flags & TASD_PKL_PY2 ? 's' : 'b');
		if (value->flags & TASD_PKL_PY2)
			py2_hex(buf, value->text.bytes, value->text.len);
		else
			hex(buf, value->text.bytes, value->text.len);
		break;
	case TASD_PKL_GLOBAL:
		if (value->global->ext) {
			tasd_buf_printf(buf, "e%" PRIu32, value->global->ext);
			break;
		}
		tasd_buf_char(buf, 'g');
		hex(buf, value->global->module, value->global->module_len);
		tasd_buf_char(buf, ':');
		hex(buf, value->global->name, value->global->name_len);
		break;
	case TASD_PKL_PERSID:
		tasd_buf_char(buf, 'p');
		break;
	default:
		tasd_buf_char(buf, '?');
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The items of a set, sorted: plain ones whole, of others the type. */
static void set_items(struct tasd_buf *buf, const struct tasd_pkl_seq *seq)
{
	char **texts = calloc(seq->n + 1, sizeof(*texts));

	for (uint32_t i = 0; texts && i < seq->n; i++) {
		struct tasd_buf item = TASD_BUF_EMPTY;

		if (seq->at[i]->type == TASD_PKL_TUPLE)
			tasd_buf_char(&item, 't');
		else
			plain(&item, seq->at[i]);
		texts[i] = tasd_buf_steal(&item, NULL);
	}
	if (texts && seq->n)
		qsort(texts, seq->n, sizeof(*texts), by_text);
	for (uint32_t i = 0; texts && i < seq->n; i++) {
		tasd_buf_char(buf, ' ');
		tasd_buf_str(buf, texts[i] ? texts[i] : "");
		free(texts[i]);
	}
	free(texts);
}

/* The token of a value that has parts, or is a bytearray. */
static void compound(struct dump *d, const struct tasd_pkl *value)
{
	const struct tasd_pkl_object *o = value->object;
	struct tasd_buf *buf = &d->out;

	switch (value->type) {
	case TASD_PKL_TUPLE:
		tasd_buf_printf(buf, "t%" PRIu32, value->seq.n);
		break;
	case TASD_PKL_LIST:
		tasd_buf_printf(buf, "l%" PRIu32, value->seq.n);
		break;
	case TASD_PKL_SET:
	case TASD_PKL_FROZENSET:
		tasd_buf_char(buf, value->type == TASD_PKL_SET ? 'S' : 'Z');
		set_items(buf, &value->seq);
		break;
	case TASD_PKL_DICT:
		tasd_buf_printf(buf, "d%" PRIu32, value->map.n);
		break;
	case TASD_PKL_BYTEARRAY:
		tasd_buf_char(buf, 'y');
		hex(buf, value->text.bytes, value->text.len);
		break;
	default:
		tasd_buf_printf(buf, "o%s", how_name(value));
		tasd_buf_printf(buf,
			" %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32,
			o->more && o->more->kwargs ? o->more->kwargs->map.n : 0,
			o->more ? o->more->states.n : 0,
			o->more ? o->more->items.n : 0,
			o->more ? o->more->pairs.n : 0);
	}
}

static bool is_plain(const struct tasd_pkl *value)
{
	switch (value->type) {
	case TASD_PKL_TUPLE:
	case TASD_PKL_LIST:
	case TASD_PKL_SET:
	case TASD_PKL_FROZENSET:
	case TASD_PKL_DICT:
	case TASD_PKL_BYTEARRAY:
	case TASD_PKL_OBJECT:
		return false;
	default:
		return true;
	}
}

/* One token; true when the parts of value are to follow. */
static bool token(
	struct dump *d, const struct tasd_pkl *value, enum tasd_pkl_role role)
{
	bool has_id = value->type != TASD_PKL_TUPLE &&
		      value->type != TASD_PKL_FROZENSET &&
		      role != TASD_PKL_KWARGS;

	/* Python unpacks keyword arguments, and none are like no dict. */
	if (role == TASD_PKL_KWARGS && !value->map.n)
		return false;
	tasd_buf_str(&d->out, d->tokens++ ? ", \"" : "\"");
	if (is_plain(value)) {
		plain(&d->out, value);
	} else if (has_id && d->refs[value->id]) {
		tasd_buf_printf(
			&d->out, "r%" PRIu32 "\"", d->refs[value->id] - 1);
		return false;
	} else {
		if (has_id)
			d->refs[value->id] = ++d->nrefs;
		compound(d, value);
	}
	tasd_buf_char(&d->out, '"');
	return value->type != TASD_PKL_SET && value->type != TASD_PKL_FROZENSET;
}

static tasd_err graph(struct dump *d, const struct tasd_pkl *value)
{
	enum tasd_pkl_role role = TASD_PKL_ITEM;

	while (value && d->tokens < TOKENS_MAX) {
		if (d->depth == d->room) {
			size_t room = d->room ? 2 * d->room : 64;
			struct frame *grown =
				reallocarray(d->stack, room, sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			d->stack = grown;
			d->room = room;
		}
		if (token(d, value, role))
			d->stack[d->depth++] = (struct frame){.value = value};
		for (value = NULL; d->depth && !value;) {
			struct frame *top = &d->stack[d->depth - 1];

			value = tasd_pkl_part(top->value, top->next++, &role);
			if (!value)
				d->depth--;
		}
	}
	return 0;
}

static void globals(struct tasd_buf *buf, const struct tasd_pickle *p)
{
	tasd_buf_str(buf, ", \"globals\": [");
	for (uint32_t i = 0; i < p->nglobals; i++) {
		const struct tasd_pkl_global *g = p->globals[i];

		tasd_buf_str(buf, i ? ", [" : "[");
		tasd_buf_json_str(buf, g->module, g->module_len);
		tasd_buf_str(buf, ", ");
		tasd_buf_json_str(buf, g->name, g->name_len);
		tasd_buf_printf(buf, ", %" PRIu64 ", %s]", g->count,
			g->safe ? "true" : "false");
	}
	tasd_buf_str(buf, "]}\n");
}

static tasd_err one(const char *bytes, uint32_t len)
{
	struct tasd_pickle *p = NULL;
	struct tasd_diag diag = {""};
	struct dump d = {.out = TASD_BUF_EMPTY};
	uint64_t used = 0;
	tasd_err err = tasd_pickle_read(bytes, len, LIMIT, &p, &used, &diag);

	if (!p)
		return -ENOMEM;
	if (err) {
		tasd_buf_str(&d.out, "{\"ok\": false, \"error\": ");
		tasd_buf_json_str(&d.out, diag.text, strlen(diag.text));
		err = 0;
	} else {
		d.refs = calloc(p->nvalues + 1, sizeof(*d.refs));
		tasd_buf_printf(&d.out,
			"{\"ok\": true, \"used\": %" PRIu64 ", \"graph\": [",
			used);
		err = d.refs ? graph(&d, p->root) : -ENOMEM;
		tasd_buf_char(&d.out, ']');
	}
	globals(&d.out, p);
	if (!err)
		err = tasd_buf_err(&d.out);
	if (!err && fwrite(d.out.bytes, 1, d.out.len, stdout) != d.out.len)
		err = -EIO;
	tasd_buf_free(&d.out);
	free(d.refs);
	free(d.stack);
	tasd_pickle_free(p);
	return err;
}

int main(int argc, char **argv)
{
	unsigned char head[4];

	if (argc > 1 && strcmp(argv[1], "--safe") == 0) {
		for (uint32_t i = 0; tasd_pickle_safe_name(i); i++)
			puts(tasd_pickle_safe_name(i));
		return 0;
	}
	while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
		uint32_t len = head[0] | head[1] << 8 | head[2] << 16 |
			       (uint32_t)head[3] << 24;
		/* Exactly as long, so that a sanitizer sees a step too far. */
		cleanup_free char *bytes = malloc(len ? len : 1);

		if (!bytes || fread(bytes, 1, len, stdin) != len ||
			one(bytes, len) || fflush(stdout))
			return 1;
	}
	return 0;
}
