/*
 * Diagnostics: one line, bounded, and safe to print whatever bytes a hostile
 * file put into its names.
 */
#include <base/err.h>
#include <base/utf8.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A byte that must not reach a terminal or break the one line. */
static bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

/* How the character at text prints: *ret_need bytes, from *ret_used of text;
 * true when it prints as it is. */
static bool prints_plain(
	const char *text, size_t left, size_t *ret_need, size_t *ret_used)
{
	size_t n = tasd_utf8_next(text, left);
	unsigned char c = (unsigned char)text[0];

	/* U+0080..U+009F are control characters in two bytes. */
	if (n == 0 || is_control(c) ||
		(n == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0)) {
		*ret_need = 4;
		*ret_used = 1;
		return false;
	}
	*ret_need = *ret_used = n;
	return true;
}

static bool fits_whole(const char *text, size_t len, size_t room)
{
	size_t total = 0;

	for (size_t at = 0; at < len && total <= room;) {
		size_t need, used;

		prints_plain(text + at, len - at, &need, &used);
		total += need;
		at += used;
	}
	return total <= room;
}

char *tasd_print_bytes(char *out, size_t size, const char *bytes, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	static const char more[] = "...";
	size_t at = 0, used = 0, need = 0, taken = 0;
	bool whole;

	if (size == 0)
		return out;
	whole = fits_whole(bytes, len, size - 1);
	for (; at < len; at += taken, used += need) {
		bool plain = prints_plain(bytes + at, len - at, &need, &taken);
		unsigned char c = (unsigned char)bytes[at];

		if (!whole && used + need + sizeof(more) > size) {
			size_t room = size - used - 1;
			size_t n = room < 3 ? room : 3;

			memcpy(out + used, more, n);
			used += n;
			break;
		}
		if (plain) {
			memcpy(out + used, bytes + at, taken);
			continue;
		}
		out[used] = '\\';
		out[used + 1] = 'x';
		out[used + 2] = hex[c >> 4];
		out[used + 3] = hex[c & 15];
	}
	out[used] = '\0';
	return out;
}

/* The message, and behind it ": " and what diag said before, if it is kept. */
__attribute__((format(printf, 2, 0))) static void fill(struct tasd_diag *diag,
	const char *format, va_list args, const char *kept)
{
	char raw[2 * TASD_DIAG_MAX];
	int n = vsnprintf(raw, sizeof(raw), format, args);
	size_t len = n < 0 ? 0 : (size_t)n;

	if (len >= sizeof(raw))
		len = sizeof(raw) - 1;
	snprintf(raw + len, sizeof(raw) - len, "%s%s", kept ? ": " : "",
		kept ? kept : "");
	len += strlen(raw + len);
	tasd_print_bytes(diag->text, sizeof(diag->text), raw, len);
}

tasd_err tasd_diag_set(
	struct tasd_diag *diag, tasd_err err, const char *format, ...)
{
	va_list args;

	if (!diag)
		return err;
	va_start(args, format);
	fill(diag, format, args, NULL);
	va_end(args);
	return err;
}

tasd_err tasd_diag_prefix(
	struct tasd_diag *diag, tasd_err err, const char *format, ...)
{
	va_list args;

	if (!diag)
		return err;
	va_start(args, format);
	fill(diag, format, args, tasd_diag_text(diag, err));
	va_end(args);
	return err;
}

const char *tasd_diag_text(const struct tasd_diag *diag, tasd_err err)
{
	if (diag && diag->text[0])
		return diag->text;
	return strerror(-err);
}
