/*
 * UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF.
 */
#ifndef TASD_BASE_UTF8_H
#define TASD_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Length in bytes of the valid character at text (len bytes are left), or 0.
 */
size_t tasd_utf8_next(const char *text, size_t len);

/* Offset of the first byte that is not UTF-8, or len when all of it is. */
size_t tasd_utf8_valid(const char *text, size_t len);

#endif
