/*
 * A stamp is what stat tells of a file's identity and contents.  mtime and
 * ctime are kept in nanoseconds; size catches a change within one clock tick.
 */
#include <source/stamp.h>

static int64_t nanoseconds(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
}

struct tasd_stamp tasd_stamp_of(const struct stat *st)
{
	return (struct tasd_stamp){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = nanoseconds(&st->st_mtim),
		.ctime_ns = nanoseconds(&st->st_ctim),
	};
}

tasd_err tasd_stamp_fd(int fd, struct tasd_stamp *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret = tasd_stamp_of(&st);
	return 0;
}

bool tasd_stamp_equal(const struct tasd_stamp *a, const struct tasd_stamp *b)
{
	return tasd_stamp_same_bytes(a, b) && a->ctime_ns == b->ctime_ns;
}

bool tasd_stamp_same_bytes(
	const struct tasd_stamp *a, const struct tasd_stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns;
}
