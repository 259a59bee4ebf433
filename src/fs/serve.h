/*
 * How the bytes of one open file are served.
 *
 * A node's open() says what the bytes are; serve decides how they travel, once
 * per node, and answers every read from then on.
 */
#ifndef TASD_FS_SERVE_H
#define TASD_FS_SERVE_H

#include "inode.h"
#include <format/content.h>

enum tasd_open_kind {
	TASD_OPEN_FILE,    /* a whole regular file: fd */
	TASD_OPEN_WINDOW,  /* a range of a source */
	TASD_OPEN_CONTENT, /* made from a tensor: .npy, float32 */
	TASD_OPEN_TEXT,    /* in memory, immutable */
	TASD_OPEN_LIVE,    /* in memory, differs from open to open */
};

/* One open file: fi->fh points at it. */
struct tasd_open {
	struct tasd_handle handle; /* first */
	struct tasd_inode *inode;  /* referenced */
	enum tasd_open_kind kind;
	uint64_t size; /* in bytes */
	bool changing; /* a file that has changed since it was looked up: not
			  for the page cache */
	union {
		struct {
			int fd; /* owned */
			struct tasd_stamp stamp;
		} file;
		struct {
			struct tasd_source *source; /* owned reference */
			uint64_t offset;
		} window;
		struct tasd_content content; /* owned */
		char *text;                  /* owned */
	};
};

void tasd_open_free(struct tasd_open *open);

/*
 * Choose the node's mode if it has none, count the open, and for passthrough
 * have the kernel hold the backing file.  *ret_backing is the id to reply with,
 * or 0.
 */
enum tasd_serve_mode tasd_serve_begin(
	struct tasd_open *open, int32_t *ret_backing);
/* Give back what tasd_serve_begin() counted. */
void tasd_serve_end(struct tasd_open *open);

/* The node's mode, without a lock: once it is set it stays. */
enum tasd_serve_mode tasd_serve_mode_of(const struct tasd_inode *inode);

/* Read up to len bytes at offset into out; short only at the end. */
tasd_err tasd_serve_pread(struct tasd_open *open, void *out, size_t len,
	uint64_t offset, size_t *ret_len);

/* Buffers of TASD_SERVE_MAX bytes, page-aligned, kept from request to
 * request. */
#define TASD_SERVE_MAX ((size_t)1 << 20)
void *tasd_serve_buffer_get(struct tasd_fs *fs);
void tasd_serve_buffer_put(struct tasd_fs *fs, void *buffer);

#endif
