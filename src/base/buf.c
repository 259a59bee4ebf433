/*
 * Growth doubles, so appends are cheap; the sticky error means that writers of
 * long documents need no check a line.
 */
#include <base/buf.h>
#include <base/utf8.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tasd_buf_free(struct tasd_buf *buf)
{
	free(buf->bytes);
	*buf = TASD_BUF_EMPTY;
}

static bool grow(struct tasd_buf *buf, size_t more)
{
	size_t need, room;
	char *bytes;

	if (buf->err)
		return false;
	if (__builtin_add_overflow(buf->len, more, &need)) {
		buf->err = -EOVERFLOW;
		return false;
	}
	if (buf->counting || need <= buf->room)
		return true;
	room = buf->room ? buf->room : 128;
	while (room < need)
		room = room > SIZE_MAX / 2 ? need : room * 2;
	bytes = realloc(buf->bytes, room);
	if (!bytes) {
		buf->err = -ENOMEM;
		return false;
	}
	buf->bytes = bytes;
	buf->room = room;
	return true;
}

void tasd_buf_add(struct tasd_buf *buf, const void *bytes, size_t len)
{
	if (!grow(buf, len))
		return;
	if (!buf->counting && len)
		memcpy(buf->bytes + buf->len, bytes, len);
	buf->len += len;
}

void tasd_buf_str(struct tasd_buf *buf, const char *text)
{
	tasd_buf_add(buf, text, strlen(text));
}

void tasd_buf_char(struct tasd_buf *buf, char c)
{
	tasd_buf_add(buf, &c, 1);
}

void tasd_buf_printf(struct tasd_buf *buf, const char *format, ...)
{
	char text[256], *longer = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0) {
		buf->err = buf->err ? buf->err : -EINVAL;
		return;
	}
	if ((size_t)n < sizeof(text)) {
		tasd_buf_add(buf, text, (size_t)n);
		return;
	}
	va_start(args, format);
	n = vasprintf(&longer, format, args);
	va_end(args);
	if (n < 0) {
		buf->err = buf->err ? buf->err : -ENOMEM;
		return;
	}
	tasd_buf_add(buf, longer, (size_t)n);
	free(longer);
}

void tasd_buf_u64(struct tasd_buf *buf, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	tasd_buf_add(buf, digits + at, sizeof(digits) - at);
}

/* The escape of one byte that JSON does not allow raw; 0 when it does. */
static char short_escape(unsigned char c)
{
	switch (c) {
	case '"':
	case '\\':
		return (char)c;
	case '\n':
		return 'n';
	case '\r':
		return 'r';
	case '\t':
		return 't';
	default:
		return 0;
	}
}

/* A surrogate in three bytes, as pickles of Python strings may hold. */
static bool is_surrogate(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;

	return len >= 3 && p[0] == 0xed && p[1] >= 0xa0 && p[1] <= 0xbf &&
	       p[2] >= 0x80 && p[2] <= 0xbf;
}

void tasd_buf_json_str(struct tasd_buf *buf, const char *text, size_t len)
{
	size_t at = 0;

	tasd_buf_char(buf, '"');
	while (at < len && !buf->err) {
		size_t from = at, n = 0;
		unsigned char c = 0;

		while (at < len) {
			c = (unsigned char)text[at];
			n = c < 0x80 ? 1 : tasd_utf8_next(text + at, len - at);
			if (n == 0 || c < 0x20 || c == '"' || c == '\\' ||
				c == 0x7f)
				break;
			at += n;
		}
		tasd_buf_add(buf, text + from, at - from);
		if (at == len)
			break;
		if (n == 0 && is_surrogate(text + at, len - at)) {
			tasd_buf_printf(buf, "\\u%04x",
				0xd000u |
					((unsigned int)text[at + 1] & 0x3f)
						<< 6 |
					((unsigned int)text[at + 2] & 0x3f));
			at += 3;
			continue;
		}
		if (n == 0)
			tasd_buf_printf(buf, "\\udc%02x", c);
		else if (short_escape(c))
			tasd_buf_printf(buf, "\\%c", short_escape(c));
		else
			tasd_buf_printf(buf, "\\u%04x", c);
		at++;
	}
	tasd_buf_char(buf, '"');
}

char *tasd_buf_steal(struct tasd_buf *buf, size_t *ret_len)
{
	char *out;

	tasd_buf_char(buf, '\0');
	if (buf->err || buf->counting)
		return NULL;
	out = buf->bytes;
	if (ret_len)
		*ret_len = buf->len - 1;
	*buf = TASD_BUF_EMPTY;
	return out;
}
