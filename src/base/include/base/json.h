/*
 * A strict JSON reader that streams: the caller pushes bytes as it reads them
 * and gets one event after the other; nothing is kept.  On top of yajl it
 * refuses what yajl lets through and the libraries that write these files
 * refuse: invalid UTF-8, lone surrogates in escapes, nesting beyond
 * max_depth.  Numbers arrive as the text in the file, so that the caller
 * decides about their range.  Strings may hold NUL (from \u0000).
 *
 * One thread at a time per reader.  Memory: one string of the document at most.
 */
#ifndef TASD_BASE_JSON_H
#define TASD_BASE_JSON_H

#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tasd_json_type {
	TASD_JSON_NULL,
	TASD_JSON_FALSE,
	TASD_JSON_TRUE,
	TASD_JSON_NUMBER, /* text: as written */
	TASD_JSON_STRING, /* text: unescaped UTF-8 */
	TASD_JSON_KEY,	  /* text: unescaped UTF-8 */
	TASD_JSON_MAP_BEGIN,
	TASD_JSON_MAP_END,
	TASD_JSON_ARRAY_BEGIN,
	TASD_JSON_ARRAY_END,
};

struct tasd_json_event {
	enum tasd_json_type type;
	const char *text; /* borrowed until the callback returns */
	size_t len;
	/* Open containers around this event: 0 for the outermost value, its
	 * own BEGIN and END included. */
	unsigned int depth;
};

/*
 * Return 0 to go on.  Anything else stops the reader and is what push() or
 * end() returns; the callback fills its own diag.
 */
typedef tasd_err (*tasd_json_fn)(
	void *ctx, const struct tasd_json_event *event);

struct tasd_json;

tasd_err tasd_json_new(tasd_json_fn fn, void *ctx, unsigned int max_depth,
	struct tasd_json **ret);
void tasd_json_free(struct tasd_json *json);

/* Before the first push: where in its file the text begins, so that messages
 * name bytes of the file.  0 otherwise. */
void tasd_json_starts_at(struct tasd_json *json, uint64_t offset);

/*
 * Feed len bytes.  -EINVAL with diag "invalid JSON at byte N: ..." when the
 * text is not JSON.
 */
tasd_err tasd_json_push(struct tasd_json *json, const char *bytes, size_t len,
	struct tasd_diag *diag);

/* No more bytes follow: -EINVAL when the value is incomplete or missing. */
tasd_err tasd_json_end(struct tasd_json *json, struct tasd_diag *diag);

/*
 * A number's text as an unsigned 64-bit integer: digits only, no sign, no
 * fraction, no exponent, no leading zero (JSON has none).  -EINVAL or -ERANGE.
 */
tasd_err tasd_json_u64(const char *text, size_t len, uint64_t *ret);

/* White space between tokens. */
static inline bool tasd_json_is_space(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* What a type is called in a message: "a number", "a string", ... */
const char *tasd_json_type_name(enum tasd_json_type type);

#endif
