/*
 * yajl does the grammar; a scanner in front of it does what yajl is lax about.
 *
 * The scanner walks every chunk first and keeps its state over chunk
 * boundaries: UTF-8 by the ranges of Unicode table 3-7, surrogates in \u
 * escapes (yajl turns a lone one into '?'), white space (yajl takes \v and
 * \f), and how long one string or number may be, which bounds what yajl
 * buffers.  At a byte it refuses, yajl still gets all that stands before it, so
 * events and yajl's own complaints come in the order of the text.
 *
 * yajl starts over at the beginning of a token with every piece of it, so a
 * string that goes on in the next chunk is held back until it is complete.
 *
 * Invariant: yajl never sees a byte the scanner has not passed.
 */
#include <base/buf.h>
#include <base/json.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/* A string is in memory up to three times: held, in yajl, at the caller's. */
#define STRING_MAX ((size_t)16 << 20)
#define TOKEN_MAX  ((size_t)64 << 10)

enum place {
	OUTSIDE, /* between strings */
	STRING,
	ESCAPE, /* after the backslash */
	HEX,    /* in the four digits of \uXXXX */
};

struct scanner {
	enum place place;
	size_t run;            /* bytes of the string or token so far */
	uint32_t code;         /* the digits read in HEX */
	unsigned int left;     /* HEX: digits still to come */
	bool high;             /* a high surrogate waits for its low one */
	unsigned int tails;    /* UTF-8: tail bytes still to come */
	unsigned char low, up; /* range of the next tail byte */
};

struct tasd_json {
	yajl_handle yajl;
	tasd_json_fn fn;
	void *ctx;
	locale_t plain; /* "C": numbers do not depend on the user's locale */
	unsigned int max_depth;
	unsigned int depth;
	uint64_t at;          /* where in the file the next chunk begins */
	uint64_t given;       /* where what yajl gets next begins */
	struct tasd_buf held; /* the beginning of a string that goes on */
	struct scanner scan;
	tasd_err err;       /* sticky */
	const char *reason; /* why we, not yajl or the caller, stopped it */
};

static bool utf8_lead(struct scanner *s, unsigned char c)
{
	s->low = 0x80;
	s->up = 0xbf;
	if (c < 0xc2 || c > 0xf4)
		return false;
	s->tails = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	if (c == 0xe0)
		s->low = 0xa0; /* shorter would do */
	else if (c == 0xed)
		s->up = 0x9f; /* surrogates */
	else if (c == 0xf0)
		s->low = 0x90;
	else if (c == 0xf4)
		s->up = 0x8f; /* past U+10FFFF */
	return true;
}

static const char *scan_hex(struct scanner *s, unsigned char c)
{
	unsigned int digit;

	if (c >= '0' && c <= '9')
		digit = c - '0';
	else if ((c | 32) >= 'a' && (c | 32) <= 'f')
		digit = (c | 32u) - 'a' + 10;
	else
		return "four hex digits must follow \\u";
	s->code = s->code << 4 | digit;
	if (--s->left)
		return NULL;
	s->place = STRING;
	if (s->code >= 0xdc00 && s->code <= 0xdfff) {
		if (!s->high)
			return "lone low surrogate";
		s->high = false;
	} else if (s->high) {
		return "lone high surrogate";
	} else {
		s->high = s->code >= 0xd800 && s->code <= 0xdbff;
	}
	return NULL;
}

/* A byte of a string that is not plain ASCII. */
static const char *scan_string(struct scanner *s, unsigned char c)
{
	if (s->tails) {
		if (c < s->low || c > s->up)
			return "invalid UTF-8";
		s->low = 0x80;
		s->up = 0xbf;
		s->tails--;
		return NULL;
	}
	if (c == '\\') {
		s->place = ESCAPE;
		return NULL;
	}
	if (s->high)
		return "lone high surrogate";
	if (c == '"') {
		s->place = OUTSIDE;
		s->run = 0;
		return NULL;
	}
	if (c < 0x20)
		return "control character in a string";
	if (c >= 0x80 && !utf8_lead(s, c))
		return "invalid UTF-8";
	return NULL;
}

static const char *scan_outside(struct scanner *s, unsigned char c)
{
	switch (c) {
	case '"':
		s->place = STRING;
		s->run = 0;
		return NULL;
	case ' ':
	case '\t':
	case '\n':
	case '\r':
	case ',':
	case ':':
	case '{':
	case '}':
	case '[':
	case ']':
		s->run = 0;
		return NULL;
	default:
		if (c < 0x20 || c >= 0x7f)
			return "unexpected byte";
		if (++s->run > TOKEN_MAX)
			return "token too long";
		return NULL;
	}
}

static const char *scan_byte(struct scanner *s, unsigned char c)
{
	switch (s->place) {
	case OUTSIDE:
		return scan_outside(s, c);
	case STRING:
		return scan_string(s, c);
	case ESCAPE:
		s->place = STRING;
		if (c == 'u') {
			s->place = HEX;
			s->left = 4;
			s->code = 0;
		} else if (s->high) {
			return "lone high surrogate";
		}
		return NULL; /* yajl knows the letters */
	case HEX:
		return scan_hex(s, c);
	default:
		return "unexpected byte";
	}
}

/* What the scanner found in a chunk. */
struct scanned {
	size_t good;        /* bytes that yajl may see */
	const char *reason; /* why not all of them; else NULL */
	size_t closed;      /* the end of the string that was open, or 0 */
	size_t opened;      /* the start of the string that is open at the
			       end: 0 for one that was so before */
};

static struct scanned scan(
	struct scanner *s, const unsigned char *bytes, size_t len)
{
	struct scanned out = {0};
	size_t at = 0;

	while (at < len) {
		size_t from = at;
		bool outside = s->place == OUTSIDE;

		if (s->place == STRING && !s->tails && !s->high)
			while (at < len && bytes[at] >= 0x20 &&
				bytes[at] < 0x80 && bytes[at] != '"' &&
				bytes[at] != '\\')
				at++;
		if (at < len) {
			out.reason = scan_byte(s, bytes[at]);
			if (out.reason)
				break;
			at++;
		}
		if (s->place == OUTSIDE) {
			if (!outside && out.closed == 0)
				out.closed = at;
			continue;
		}
		if (outside)
			out.opened = from;
		s->run += at - from;
		if (s->run > STRING_MAX) {
			out.reason = "string longer than 16 MiB";
			break;
		}
	}
	out.good = at;
	return out;
}

/* The callbacks give yajl 1 to go on, 0 to stop. */

static int emit(struct tasd_json *json, enum tasd_json_type type,
	unsigned int depth, const void *text, size_t len)
{
	struct tasd_json_event event = {
		.type = type,
		.text = text ? text : "",
		.len = len,
		.depth = depth,
	};

	json->err = json->fn(json->ctx, &event);
	return json->err == 0;
}

static int begin(struct tasd_json *json, enum tasd_json_type type)
{
	if (json->depth >= json->max_depth) {
		json->reason = "nested too deeply";
		return 0;
	}
	return emit(json, type, json->depth++, NULL, 0);
}

static int end(struct tasd_json *json, enum tasd_json_type type)
{
	return emit(json, type, --json->depth, NULL, 0);
}

static int on_null(void *ctx)
{
	struct tasd_json *json = ctx;

	return emit(json, TASD_JSON_NULL, json->depth, NULL, 0);
}

static int on_boolean(void *ctx, int value)
{
	struct tasd_json *json = ctx;

	return emit(json, value ? TASD_JSON_TRUE : TASD_JSON_FALSE, json->depth,
		NULL, 0);
}

/* Only a long number or one with an exponent can be past what a double holds.
 */
static bool may_overflow(const char *text, size_t len)
{
	return len > 300 || memchr(text, 'e', len) || memchr(text, 'E', len);
}

static int on_number(void *ctx, const char *text, size_t len)
{
	struct tasd_json *json = ctx;

	if (may_overflow(text, len)) {
		char *copy = strndup(text, len);
		double value;

		if (!copy) {
			json->err = -ENOMEM;
			return 0;
		}
		value = strtod_l(copy, NULL, json->plain);
		free(copy);
		if (__builtin_isinf(value)) {
			json->reason = "number out of range";
			return 0;
		}
	}
	return emit(json, TASD_JSON_NUMBER, json->depth, text, len);
}

static int on_string(void *ctx, const unsigned char *text, size_t len)
{
	struct tasd_json *json = ctx;

	return emit(json, TASD_JSON_STRING, json->depth, text, len);
}

static int on_key(void *ctx, const unsigned char *text, size_t len)
{
	struct tasd_json *json = ctx;

	return emit(json, TASD_JSON_KEY, json->depth, text, len);
}

static int on_map_begin(void *ctx)
{
	return begin(ctx, TASD_JSON_MAP_BEGIN);
}

static int on_map_end(void *ctx)
{
	return end(ctx, TASD_JSON_MAP_END);
}

static int on_array_begin(void *ctx)
{
	return begin(ctx, TASD_JSON_ARRAY_BEGIN);
}

static int on_array_end(void *ctx)
{
	return end(ctx, TASD_JSON_ARRAY_END);
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_map_begin,
	.yajl_map_key = on_key,
	.yajl_end_map = on_map_end,
	.yajl_start_array = on_array_begin,
	.yajl_end_array = on_array_end,
};

tasd_err tasd_json_new(tasd_json_fn fn, void *ctx, unsigned int max_depth,
	struct tasd_json **ret)
{
	struct tasd_json *json = calloc(1, sizeof(*json));

	if (!json)
		return -ENOMEM;
	json->fn = fn;
	json->ctx = ctx;
	json->max_depth = max_depth;
	json->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	json->yajl = yajl_alloc(&callbacks, NULL, json);
	if (!json->yajl || json->plain == (locale_t)0) {
		tasd_json_free(json);
		return -ENOMEM;
	}
	/* The scanner has done it, and strictly. */
	yajl_config(json->yajl, yajl_dont_validate_strings, 1);
	*ret = json;
	return 0;
}

void tasd_json_free(struct tasd_json *json)
{
	if (!json)
		return;
	if (json->yajl)
		yajl_free(json->yajl);
	tasd_buf_free(&json->held);
	if (json->plain != (locale_t)0)
		freelocale(json->plain);
	free(json);
}

void tasd_json_starts_at(struct tasd_json *json, uint64_t offset)
{
	json->at = json->given = offset;
}

static tasd_err refuse(struct tasd_json *json, struct tasd_diag *diag,
	uint64_t at, const char *reason)
{
	json->err = -EINVAL;
	return tasd_diag_set(diag, -EINVAL, "invalid JSON at byte %llu: %s",
		(unsigned long long)at, reason);
}

/* yajl's sentence without its "parse error: " and newline. */
static tasd_err refuse_by_yajl(
	struct tasd_json *json, struct tasd_diag *diag, uint64_t at)
{
	unsigned char *raw = yajl_get_error(json->yajl, 0, NULL, 0);
	char *text = (char *)raw, *colon;
	tasd_err err;

	if (!raw)
		return refuse(json, diag, at, "not JSON");
	colon = strstr(text, "error: ");
	if (colon)
		text = colon + strlen("error: ");
	text[strcspn(text, "\n")] = '\0';
	err = refuse(json, diag, at, text);
	yajl_free_error(json->yajl, raw);
	return err;
}

/* What a status other than ok means, at byte `at` of the whole text. */
static tasd_err stopped(struct tasd_json *json, struct tasd_diag *diag,
	yajl_status status, uint64_t at)
{
	if (status == yajl_status_error)
		return refuse_by_yajl(json, diag, at);
	if (json->reason)
		return refuse(json, diag, at, json->reason);
	return json->err;
}

static tasd_err give(struct tasd_json *json, const void *bytes, size_t len,
	struct tasd_diag *diag)
{
	yajl_status status = yajl_parse(json->yajl, bytes, len);
	size_t used;

	if (status == yajl_status_ok) {
		json->given += len;
		return 0;
	}
	/* The byte yajl stumbled over is the last one it took. */
	used = yajl_get_bytes_consumed(json->yajl);
	return stopped(json, diag, status, json->given + (used ? used - 1 : 0));
}

static tasd_err give_held(struct tasd_json *json, struct tasd_diag *diag)
{
	tasd_err err = tasd_buf_err(&json->held);

	if (!err)
		err = give(json, json->held.bytes, json->held.len, diag);
	json->held.len = 0;
	return err;
}

tasd_err tasd_json_push(struct tasd_json *json, const char *bytes, size_t len,
	struct tasd_diag *diag)
{
	struct scanned s;
	size_t from = 0, to;
	bool in_string;
	tasd_err err = 0;

	if (json->err)
		return json->err;
	s = scan(&json->scan, (const unsigned char *)bytes, len);
	in_string = json->scan.place != OUTSIDE && !s.reason;
	if (json->held.len) {
		from = s.closed ? s.closed : s.good;
		tasd_buf_add(&json->held, bytes, from);
		if (s.closed || s.reason)
			err = give_held(json, diag);
	}
	to = in_string ? s.opened : s.good;
	if (!err && to > from)
		err = give(json, bytes + from, to - from, diag);
	if (err)
		return json->err = err;
	if (s.reason)
		return refuse(json, diag, json->at + s.good, s.reason);
	if (to < from)
		to = from; /* all of it is held already */
	tasd_buf_add(&json->held, bytes + to, s.good - to);
	json->at += len;
	return tasd_buf_err(&json->held);
}

tasd_err tasd_json_end(struct tasd_json *json, struct tasd_diag *diag)
{
	yajl_status status;

	if (json->err)
		return json->err;
	if (json->held.len) {
		tasd_err err = give_held(json, diag);

		if (err)
			return json->err = err;
	}
	/* yajl does not miss the end of a string behind the value. */
	if (json->scan.place != OUTSIDE)
		return refuse(json, diag, json->at, "premature EOF");
	status = yajl_complete_parse(json->yajl);
	if (status != yajl_status_ok)
		return stopped(json, diag, status, json->at);
	return 0;
}

tasd_err tasd_json_u64(const char *text, size_t len, uint64_t *ret)
{
	uint64_t value = 0;

	if (len == 0 || (len > 1 && text[0] == '0'))
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		unsigned int digit = (unsigned char)text[i] - (unsigned int)'0';

		if (digit > 9)
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10u, &value) ||
			__builtin_add_overflow(value, digit, &value)) {
			/* All of it must still be digits to be out of range. */
			while (++i < len)
				if (text[i] < '0' || text[i] > '9')
					return -EINVAL;
			return -ERANGE;
		}
	}
	*ret = value;
	return 0;
}

const char *tasd_json_type_name(enum tasd_json_type type)
{
	switch (type) {
	case TASD_JSON_NULL:
		return "null";
	case TASD_JSON_FALSE:
		return "false";
	case TASD_JSON_TRUE:
		return "true";
	case TASD_JSON_NUMBER:
		return "a number";
	case TASD_JSON_STRING:
		return "a string";
	case TASD_JSON_KEY:
		return "a key";
	case TASD_JSON_MAP_BEGIN:
	case TASD_JSON_MAP_END:
		return "an object";
	case TASD_JSON_ARRAY_BEGIN:
	case TASD_JSON_ARRAY_END:
		return "an array";
	default:
		return "something else";
	}
}
