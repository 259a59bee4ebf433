/*
 * Reading a pickle that stands in the test as a string literal.
 */
#ifndef TASD_TESTS_PICKLE_UNIT_H
#define TASD_TESTS_PICKLE_UNIT_H

#include "pickle.h"
#include "unit.h"
#include <string.h>

#define ROOM ((size_t)64 << 20)

struct got {
	struct tasd_pickle *pickle;
	const struct tasd_pkl *root;
	uint64_t used;
	tasd_err err;
	struct tasd_diag diag;
};

/* What was read stays until the test's process ends, and is not lost. */
struct kept {
	struct kept *next;
	void *bytes;
	struct tasd_pickle *pickle;
};
static struct kept *kept;

static inline struct got read_room(const void *bytes, size_t len, size_t room)
{
	struct got g = {.diag = {""}};
	/* Exactly as long, so that a sanitizer sees a step too far. */
	char *copy = malloc(len ? len : 1);
	struct kept *keep = malloc(sizeof(*keep));

	ck_assert_ptr_nonnull(copy);
	ck_assert_ptr_nonnull(keep);
	if (len)
		memcpy(copy, bytes, len);
	g.err = tasd_pickle_read(copy, len, room, &g.pickle, &g.used, &g.diag);
	ck_assert_ptr_nonnull(g.pickle);
	g.root = g.pickle->root;
	ck_assert_int_eq(g.root != NULL, g.err == 0);
	keep->next = kept;
	keep->bytes = copy;
	keep->pickle = g.pickle;
	kept = keep;
	return g;
}

static inline struct got read_bytes(const void *bytes, size_t len)
{
	return read_room(bytes, len, ROOM);
}

static inline struct got read_ok(const void *bytes, size_t len)
{
	struct got g = read_bytes(bytes, len);

	ck_assert_msg(g.err == 0, "%s", g.diag.text);
	return g;
}

/* The stream as a literal, which may hold NULs. */
#define READ(text) read_ok(text, sizeof(text) - 1)

static inline void check_text(const struct tasd_pkl *value,
	enum tasd_pkl_type type, const char *want, size_t len)
{
	ck_assert_uint_eq(value->type, type);
	ck_assert_uint_eq(value->text.len, len);
	if (len)
		ck_assert_mem_eq(value->text.bytes, want, len);
}
#define IS_TEXT(value, type, want)                                             \
	check_text(value, type, want, sizeof(want) - 1)

static inline void is_int(const struct tasd_pkl *value, const char *want)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;

	ck_assert_int_eq(tasd_pkl_int_text(&buf, value), 0);
	tasd_buf_char(&buf, '\0');
	ck_assert_str_eq(buf.bytes, want);
	tasd_buf_free(&buf);
}

#endif
