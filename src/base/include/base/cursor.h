/*
 * The bounded cursor: the only way a parser looks at container bytes.
 *
 * A cursor never reads past its end and never allocates.  A call that does
 * not fit returns -ENODATA and leaves the cursor where it was, so a caller
 * can say how many bytes were missing (tasd_cursor_left()).
 */
#ifndef TASD_BASE_CURSOR_H
#define TASD_BASE_CURSOR_H

#include "err.h"
#include <stdint.h>

struct tasd_cursor {
	const unsigned char *base; /* borrowed */
	uint64_t size;		   /* bytes at base */
	uint64_t at;		   /* offset of the next byte, <= size */
};

static inline struct tasd_cursor tasd_cursor_over(
	const void *bytes, uint64_t size)
{
	return (struct tasd_cursor){.base = bytes, .size = size, .at = 0};
}

static inline uint64_t tasd_cursor_left(const struct tasd_cursor *c)
{
	return c->size - c->at;
}

/* Borrow the next n bytes. */
tasd_err tasd_cursor_take(
	struct tasd_cursor *c, uint64_t n, const unsigned char **ret_bytes);
tasd_err tasd_cursor_skip(struct tasd_cursor *c, uint64_t n);

/* Unsigned integers of the given width and byte order. */
tasd_err tasd_cursor_u8(struct tasd_cursor *c, uint8_t *ret);
tasd_err tasd_cursor_u16le(struct tasd_cursor *c, uint16_t *ret);
tasd_err tasd_cursor_u32le(struct tasd_cursor *c, uint32_t *ret);
tasd_err tasd_cursor_u64le(struct tasd_cursor *c, uint64_t *ret);

#endif
