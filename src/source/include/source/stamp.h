/*
 * Which bytes a file held when it was looked at: what tells that a source has
 * changed under a mount.
 */
#ifndef TASD_SOURCE_STAMP_H
#define TASD_SOURCE_STAMP_H

#include <base/err.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct tasd_stamp {
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
};

struct tasd_stamp tasd_stamp_of(const struct stat *st);
tasd_err tasd_stamp_fd(int fd, struct tasd_stamp *ret);

/* The same file, untouched. */
bool tasd_stamp_equal(const struct tasd_stamp *a, const struct tasd_stamp *b);

/*
 * Still the same bytes behind an fd that stayed open: like equal, but a change
 * of ctime alone (unlinked, renamed over, chmod) does not count.
 */
bool tasd_stamp_same_bytes(
	const struct tasd_stamp *a, const struct tasd_stamp *b);

#endif
