/*
 * Bytes that are written as text: each byte as the character of that number, in
 * UTF-8, as protocol 2 pickles have them.  A source of the bytes, decoded while
 * it is read.
 */
#ifndef TASD_FORMAT_LATIN1_H
#define TASD_FORMAT_LATIN1_H

#include <source/source.h>

/*
 * text (len bytes) is what stands at offset in parent, which the source takes a
 * reference to; it is looked at now only.  Memory: 8 bytes for every 64 KiB.
 * -EINVAL: some character is no byte.
 */
tasd_err tasd_source_latin1(struct tasd_source *parent, uint64_t offset,
	const char *text, uint64_t len, struct tasd_source **ret);

#endif
