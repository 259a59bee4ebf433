/*
 * Small questions about texts.  Pure functions; any thread.
 */
#ifndef TASD_BASE_TEXT_H
#define TASD_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Do these len bytes end in `end`? */
static inline bool tasd_text_ends_with(
	const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && memcmp(text + len - n, end, n) == 0;
}

/* Is it a file name with that suffix, and something before it? */
static inline bool tasd_text_has_suffix(const char *name, const char *suffix)
{
	size_t len = strlen(name);

	return len > strlen(suffix) && tasd_text_ends_with(name, len, suffix);
}

#endif
