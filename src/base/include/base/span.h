/*
 * A piece of a source that is wanted, and where it goes.  Readers of many
 * small pieces hand them over together, so that what is done once for each
 * read is done once for all.
 */
#ifndef TASD_BASE_SPAN_H
#define TASD_BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>

struct tasd_span {
	uint64_t offset; /* in bytes, from the source's start */
	size_t len;
	void *out; /* len bytes */
};

#endif
