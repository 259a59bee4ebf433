/*
 * A read that must not wait (RWF_NOWAIT) tells whether the bytes are cached,
 * and copies them if so; that costs nothing over a plain read.  Only a cold one
 * pays for the advice to read ahead.
 */
#include <fcntl.h>
#include <source/fileio.h>
#include <sys/uio.h>
#include <unistd.h>

/* Smaller reads are random ones: reading ahead of them wastes the disk. */
#define LARGE_READ ((size_t)128 << 10)
/* Enough for the disk to be busy while one request travels. */
#define AHEAD ((off_t)4 << 20)

static ssize_t read_cached(int fd, void *out, size_t len, uint64_t offset)
{
	struct iovec iov = {.iov_base = out, .iov_len = len};

	return preadv2(fd, &iov, 1, (off_t)offset, RWF_NOWAIT);
}

tasd_err tasd_fileio_pread(
	int fd, void *out, size_t len, uint64_t offset, size_t *ret_len)
{
	char *at = out;
	size_t done = 0;

	if (len >= LARGE_READ) {
		ssize_t n = read_cached(fd, out, len, offset);

		if (n > 0)
			done = (size_t)n;
		if (done < len)
			posix_fadvise(fd, (off_t)(offset + done),
				(off_t)(len - done) + AHEAD,
				POSIX_FADV_WILLNEED);
	}
	while (done < len) {
		ssize_t n = pread(
			fd, at + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	*ret_len = done;
	return 0;
}
