/*
 * Lines go to standard error in one write each, so that lines of several
 * threads do not mix.
 */
#include <base/err.h>
#include <base/log.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 2, 0))) static void line(
	const char *severity, const char *format, va_list args)
{
	char raw[TASD_DIAG_MAX], text[TASD_DIAG_MAX];
	char out[TASD_DIAG_MAX + 64];
	int n = vsnprintf(raw, sizeof(raw), format, args);

	if (n < 0)
		return;
	tasd_print_bytes(
		text, sizeof(text), raw, strnlen(raw, sizeof(raw) - 1));
	n = snprintf(out, sizeof(out), "tasdfs: %s%s\n", severity, text);
	if (n > 0 && write(STDERR_FILENO, out, (size_t)n) < 0)
		return; /* nowhere left to say it */
}

void tasd_log_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line("", format, args);
	va_end(args);
}

void tasd_log_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line("warning: ", format, args);
	va_end(args);
}
