/*
 * Where bytes come from.  A source is immutable: once its stamp no longer
 * matches, reads fail rather than mix two states.  Kinds plug in through
 * struct tasd_source_ops; a reader never knows which it has.
 *
 * Counted references, atomic.  pread may be called from many threads at once.
 */
#ifndef TASD_SOURCE_SOURCE_H
#define TASD_SOURCE_SOURCE_H

#include "stamp.h"
#include <base/span.h>
#include <stddef.h>
#include <stdint.h>

struct tasd_source;

struct tasd_source_ops {
	/*
	 * Read exactly len bytes at offset; the caller has checked the range
	 * against size.  0, or -EIO (short, changed), or what pread gives.
	 */
	tasd_err (*pread)(struct tasd_source *source, void *out, size_t len,
		uint64_t offset);
	/* The same for several pieces; NULL: one after the other. */
	tasd_err (*preadv)(struct tasd_source *source,
		const struct tasd_span *spans, size_t nspans);
	void (*free)(struct tasd_source *source);
};

struct tasd_source {
	const struct tasd_source_ops *ops;
	char *name;        /* owned: as messages and user.tasd.source say it,
			      relative to the container's folder */
	uint64_t size;     /* in bytes */
	int fd;            /* the backing file when offsets are offsets in it,
			      else -1; owned by the source */
	unsigned int refs; /* atomic */
	struct tasd_stamp stamp; /* zero when there is no file */
};

/*
 * A regular file that is open already.  Takes fd on success; name is copied.
 */
tasd_err tasd_source_file(int fd, const char *name, struct tasd_source **ret);

/* Bytes in memory; takes bytes (malloc'd) on success. */
tasd_err tasd_source_memory(
	char *bytes, uint64_t size, const char *name, struct tasd_source **ret);

/*
 * What a raw deflate stream (csize bytes of parent at offset) inflates to,
 * which is said to be usize bytes; a read that meets its end finds out.  Any
 * order of reads works, forwards is best; a read far from all before it may
 * have to inflate an eighth of the stream first.  Memory: 0.4 MiB at most,
 * whatever usize says, and 72 KiB for each read that is under way.  Takes a
 * reference to parent.
 * -EINVAL: the range is not inside parent.
 */
tasd_err tasd_source_inflate(struct tasd_source *parent, uint64_t offset,
	uint64_t csize, uint64_t usize, const char *name,
	struct tasd_source **ret);

struct tasd_source *tasd_source_get(struct tasd_source *source);
void tasd_source_put(struct tasd_source *source); /* NULL is fine */

/*
 * Read exactly len bytes at offset.  -EIO when the range is not inside the
 * source or the file no longer holds the bytes that were parsed; never short,
 * never zeros for what is not there.
 */
tasd_err tasd_source_pread(
	struct tasd_source *source, void *out, size_t len, uint64_t offset);

/*
 * Fill all of the spans, best in ascending order.  As tasd_source_pread(), but
 * what each read costs beside its bytes is paid once.
 */
tasd_err tasd_source_preadv(struct tasd_source *source,
	const struct tasd_span *spans, size_t nspans);

/* -ESTALE when the open file no longer holds what it held; 0 if it does. */
tasd_err tasd_source_check(const struct tasd_source *source);

#endif
