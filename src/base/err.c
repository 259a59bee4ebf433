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

/* Returns how many bytes of raw are filled; a longer text is cut. */
__attribute__((format(printf, 3, 0))) static size_t print_raw(
	char *raw, size_t size, const char *format, va_list args)
{
	int n = vsnprintf(raw, size, format, args);

	if (n < 0) {
		raw[0] = '\0';
		return 0;
	}
	return (size_t)n < size ? (size_t)n : size - 1;
}

tasd_err tasd_diag_set(
	struct tasd_diag *diag, tasd_err err, const char *format, ...)
{
	char raw[2 * TASD_DIAG_MAX];
	va_list args;
	size_t n;

	if (!diag)
		return err;
	va_start(args, format);
	n = print_raw(raw, sizeof(raw), format, args);
	va_end(args);
	tasd_print_bytes(diag->text, sizeof(diag->text), raw, n);
	return err;
}

tasd_err tasd_diag_prefix(
	struct tasd_diag *diag, tasd_err err, const char *format, ...)
{
	char raw[2 * TASD_DIAG_MAX];
	va_list args;
	size_t n;

	if (!diag)
		return err;
	va_start(args, format);
	n = print_raw(raw, sizeof(raw), format, args);
	va_end(args);
	snprintf(raw + n, sizeof(raw) - n, ": %s", tasd_diag_text(diag, err));
	tasd_print_bytes(
		diag->text, sizeof(diag->text), raw, strnlen(raw, sizeof(raw)));
	return err;
}

const char *tasd_diag_text(const struct tasd_diag *diag, tasd_err err)
{
	if (diag && diag->text[0])
		return diag->text;
	return strerror(-err);
}
