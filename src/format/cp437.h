/*
 * The character set of names in a zip that does not say they are UTF-8.
 */
#ifndef TASD_FORMAT_CP437_H
#define TASD_FORMAT_CP437_H

#include <base/buf.h>

/* Append len bytes of code page 437, in UTF-8. */
void tasd_cp437_add(struct tasd_buf *buf, const char *text, size_t len);

#endif
