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

char *tasd_print_bytes(char *out, size_t size, const char *bytes, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	static const char more[] = "...";
	size_t at = 0, used = 0;

	if (size == 0)
		return out;
	while (at < len) {
		size_t n = tasd_utf8_next(bytes + at, len - at);
		bool plain = n > 0 && !is_control((unsigned char)bytes[at]);
		size_t need = plain ? n : 4;

		/* U+0080..U+009F are control characters in two bytes. */
		if (n == 2 && (unsigned char)bytes[at] == 0xc2 &&
			(unsigned char)bytes[at + 1] < 0xa0) {
			plain = false;
			n = 1;
			need = 4;
		}
		if (used + need + sizeof(more) > size) {
			size_t room = size - used - 1;

			n = room < 3 ? room : 3;
			memcpy(out + used, more, n);
			used += n;
			break;
		}
		if (plain) {
			memcpy(out + used, bytes + at, n);
			at += n;
		} else {
			unsigned char c = (unsigned char)bytes[at++];

			out[used] = '\\';
			out[used + 1] = 'x';
			out[used + 2] = hex[c >> 4];
			out[used + 3] = hex[c & 15];
		}
		used += need;
	}
	out[used] = '\0';
	return out;
}

tasd_err tasd_diag_set(
	struct tasd_diag *diag, tasd_err err, const char *format, ...)
{
	char raw[2 * TASD_DIAG_MAX];
	va_list args;
	int n;

	if (!diag)
		return err;
	va_start(args, format);
	n = vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	if (n < 0)
		n = 0;
	if ((size_t)n >= sizeof(raw))
		n = sizeof(raw) - 1;
	tasd_print_bytes(diag->text, sizeof(diag->text), raw, (size_t)n);
	return err;
}

tasd_err tasd_diag_prefix(
	struct tasd_diag *diag, tasd_err err, const char *format, ...)
{
	char raw[2 * TASD_DIAG_MAX];
	va_list args;
	int n;

	if (!diag)
		return err;
	va_start(args, format);
	n = vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	if (n < 0)
		n = 0;
	if ((size_t)n < sizeof(raw))
		snprintf(raw + n, sizeof(raw) - (size_t)n, ": %s",
			tasd_diag_text(diag, err));
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
