/*
 * Reading from a descriptor at an offset, for everything that reads a file's
 * own bytes.  Any thread.
 */
#ifndef TASD_SOURCE_FILEIO_H
#define TASD_SOURCE_FILEIO_H

#include <base/err.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Read up to len bytes at offset; *ret_len is short only at the end of the
 * file.  What is cached is copied at once.  When a large read finds that its
 * bytes are not, the disk is asked for what follows too, so that the next read
 * of a sequence finds them: readers that come through FUSE arrive one request
 * at a time, and the kernel's own readahead below them stays small.
 */
tasd_err tasd_fileio_pread(
	int fd, void *out, size_t len, uint64_t offset, size_t *ret_len);

#endif
