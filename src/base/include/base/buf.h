/*
 * A growing byte buffer.  The first failed append makes it sticky: later
 * appends do nothing and tasd_buf_err() says why, so a writer checks once, at
 * the end.  A buffer made with tasd_buf_counting() stores nothing and only
 * counts, which gives the exact size of a text before it is made.
 */
#ifndef TASD_BASE_BUF_H
#define TASD_BASE_BUF_H

#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tasd_buf {
	char *bytes; /* owned; not terminated; NULL while empty or counting */
	size_t len;
	size_t room;
	bool counting;
	tasd_err err;
};

#define TASD_BUF_EMPTY                                                         \
	(struct tasd_buf) { .bytes = NULL }

static inline struct tasd_buf tasd_buf_counting(void)
{
	return (struct tasd_buf){.counting = true};
}

void tasd_buf_free(struct tasd_buf *buf);
static inline tasd_err tasd_buf_err(const struct tasd_buf *buf)
{
	return buf->err;
}

void tasd_buf_add(struct tasd_buf *buf, const void *bytes, size_t len);
void tasd_buf_str(struct tasd_buf *buf, const char *text);
void tasd_buf_char(struct tasd_buf *buf, char c);
__attribute__((format(printf, 2, 3))) void tasd_buf_printf(
	struct tasd_buf *buf, const char *format, ...);
void tasd_buf_u64(struct tasd_buf *buf, uint64_t value); /* decimal */

/*
 * Append a JSON string with its quotes.  text is UTF-8 in which a lone
 * surrogate may stand as three bytes; that becomes \udXXX, and any other
 * invalid byte becomes \udcXX (Python's surrogateescape), so nothing is lost.
 * Only what JSON requires is escaped otherwise.
 */
void tasd_buf_json_str(struct tasd_buf *buf, const char *text, size_t len);

/* Terminate and hand over the bytes (free() them); NULL on a sticky error. */
char *tasd_buf_steal(struct tasd_buf *buf, size_t *ret_len);

#endif
