/*
 * Handlers about open files.  Opening decides everything; a read is a copy.
 */
#include "abi.h"
#include "fs.h"
#include "serve.h"
#include <fcntl.h>
#include <stdlib.h>

static struct tasd_open *open_of(const struct fuse_file_info *fi)
{
	return (struct tasd_open *)(uintptr_t)fi->fh;
}

static void close_open(struct tasd_open *open)
{
	tasd_handle_drop(open->inode->fs, &open->handle);
	tasd_serve_end(open);
	tasd_open_free(open);
}

/*
 * libfuse before 3.17 has no field for the backing id, so the reply is built
 * here; it is the kernel's own struct.
 */
static int reply_passthrough(
	fuse_req_t req, struct tasd_open *open, int32_t backing)
{
	struct tasd_fuse_open_out out = {.fh = (uintptr_t)open,
		.open_flags = TASD_FOPEN_PASSTHROUGH,
		.backing_id = backing};

	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

void tasd_ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tasd_inode *inode = tasd_inode_of(fuse_req_userdata(req), ino);
	struct tasd_open *open;
	enum tasd_serve_mode mode;
	int32_t backing = 0;
	tasd_err err;

	if ((fi->flags & O_ACCMODE) != O_RDONLY || !inode->ops->open) {
		fuse_reply_err(req, inode->ops->open ? EROFS : EISDIR);
		return;
	}
	open = calloc(1, sizeof(*open));
	if (!open) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	err = inode->ops->open(inode, open);
	if (err) {
		free(open);
		fuse_reply_err(req, -err);
		return;
	}
	open->inode = tasd_inode_get(inode);
	mode = tasd_serve_begin(open, &backing);
	if (mode == TASD_SERVE_UNSET) {
		fuse_reply_err(req, open->changing ? ESTALE : EIO);
		tasd_open_free(open);
		return;
	}
	tasd_handle_add(inode->fs, &open->handle, false);
	if (mode == TASD_SERVE_PASSTHROUGH) {
		if (reply_passthrough(req, open, backing) == -ENOENT)
			close_open(open);
		return;
	}
	fi->fh = (uintptr_t)open;
	fi->direct_io = mode == TASD_SERVE_DIRECT;
	fi->keep_cache = mode == TASD_SERVE_CACHED;
	fi->noflush = 1; /* nothing is written: close needs no answer */
	if (fuse_reply_open(req, fi) == -ENOENT)
		close_open(open);
}

void tasd_ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	struct fuse_file_info *fi)
{
	struct tasd_fs *fs = fuse_req_userdata(req);
	void *buffer = tasd_serve_buffer_get(fs);
	size_t len = 0;
	tasd_err err;

	(void)ino;
	if (!buffer) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (size > TASD_SERVE_MAX)
		size = TASD_SERVE_MAX;
	err = tasd_serve_pread(
		open_of(fi), buffer, size, (uint64_t)offset, &len);
	TASD_STAT_ADD(fs, reads, 1);
	if (err) {
		TASD_STAT_ADD(fs, read_errors, 1);
		fuse_reply_err(req, -err);
	} else {
		TASD_STAT_ADD(fs, read_bytes, len);
		fuse_reply_buf(req, buffer, len);
	}
	tasd_serve_buffer_put(fs, buffer);
}

void tasd_ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(req, 0);
}

void tasd_ops_fsync(
	fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	(void)fi;
	fuse_reply_err(req, 0);
}

void tasd_ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tasd_open *open = open_of(fi);

	(void)ino;
	if (open->inode->ops->closed)
		open->inode->ops->closed(open->inode);
	close_open(open);
	fuse_reply_err(req, 0);
}
