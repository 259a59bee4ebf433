/*
 * The choice, once per node, at its first open (never changed afterwards, since
 * the kernel refuses to mix them on one inode):
 *
 *	a whole file of its own	  PASSTHROUGH where allowed
 *	a range, or made bytes	  CACHED: mapped, re-read and random reads cost
 *				  nothing after the first (docs/performance.md)
 *	too large for the cache	  DIRECT: caching it twice would push out the
 *				  rest of the machine's memory
 *
 * `-o mode=` overrides all of it, for measuring.
 *
 * The kernel ties a passthrough node to one backing object while any such open
 * lives, so later opens share the first one's id; the last close gives it back.
 */
#include "serve.h"
#include "abi.h"
#include "fs.h"
#include <base/log.h>
#include <source/fileio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

void tasd_open_free(struct tasd_open *open)
{
	if (!open)
		return;
	switch (open->kind) {
	case TASD_OPEN_FILE:
		if (open->file.fd >= 0)
			close(open->file.fd);
		break;
	case TASD_OPEN_WINDOW:
		tasd_source_put(open->window.source);
		break;
	case TASD_OPEN_CONTENT:
		tasd_content_close(&open->content);
		break;
	case TASD_OPEN_TEXT:
	case TASD_OPEN_LIVE:
		free(open->text);
		break;
	}
	tasd_inode_put(open->inode);
	free(open);
}

enum tasd_serve_mode tasd_serve_mode_of(const struct tasd_inode *inode)
{
	return __atomic_load_n(&inode->mode, __ATOMIC_RELAXED);
}

static void no_passthrough(struct tasd_fs *fs, int why)
{
	if (!__atomic_exchange_n(&fs->can_passthrough, false, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&fs->no_passthrough,
		why == EPERM ? "needs CAP_SYS_ADMIN"
			     : "refused by the kernel for this file system",
		__ATOMIC_RELAXED);
	tasd_log_info("no passthrough (%s): files are served by the server",
		strerror(why));
}

/* Have the kernel hold fd as a backing file; 0 when it does not. */
static int32_t backing_open(struct tasd_fs *fs, int fd)
{
	struct tasd_fuse_backing_map map = {.fd = fd};
	int id;

	if (!__atomic_load_n(&fs->can_passthrough, __ATOMIC_RELAXED))
		return 0;
	id = ioctl(fuse_session_fd(fs->session), TASD_FUSE_BACKING_OPEN, &map);
	if (id > 0)
		return id;
	no_passthrough(fs, id < 0 ? errno : EINVAL);
	return 0;
}

static void backing_close(struct tasd_fs *fs, int32_t id)
{
	uint32_t arg = (uint32_t)id;

	ioctl(fuse_session_fd(fs->session), TASD_FUSE_BACKING_CLOSE, &arg);
}

/* What suits these bytes when passthrough does not. */
static enum tasd_serve_mode choose(const struct tasd_open *open)
{
	const struct tasd_fs *fs = open->inode->fs;

	if (open->kind == TASD_OPEN_LIVE || open->changing)
		return TASD_SERVE_DIRECT;
	if (fs->options.mode == TASD_FS_MODE_CACHED)
		return TASD_SERVE_CACHED;
	if (fs->options.mode == TASD_FS_MODE_DIRECT)
		return TASD_SERVE_DIRECT;
	if (open->kind != TASD_OPEN_FILE && open->kind != TASD_OPEN_WINDOW)
		return TASD_SERVE_CACHED;
	/* Without it a shared mapping of a direct file is ENODEV. */
	if (!fs->can_map_direct || open->size < fs->direct_min)
		return TASD_SERVE_CACHED;
	return TASD_SERVE_DIRECT;
}

static void count_open(struct tasd_fs *fs, enum tasd_serve_mode mode)
{
	switch (mode) {
	case TASD_SERVE_PASSTHROUGH:
		TASD_STAT_ADD(fs, opens_passthrough, 1);
		break;
	case TASD_SERVE_DIRECT:
		TASD_STAT_ADD(fs, opens_direct, 1);
		break;
	case TASD_SERVE_CACHED:
		TASD_STAT_ADD(fs, opens_cached, 1);
		break;
	case TASD_SERVE_UNSET:
		break;
	}
}

enum tasd_serve_mode tasd_serve_begin(
	struct tasd_open *open, int32_t *ret_backing)
{
	struct tasd_inode *inode = open->inode;
	struct tasd_fs *fs = inode->fs;
	bool may_pass = open->kind == TASD_OPEN_FILE &&
			fs->options.mode == TASD_FS_MODE_AUTO;
	int32_t spare = 0;
	enum tasd_serve_mode mode;

	/* The ioctl runs without the lock; when two first opens race, the
	 * loser's id is given back. */
	pthread_mutex_lock(&fs->serve_lock);
	if (may_pass && inode->backing_id == 0 &&
		((inode->mode == TASD_SERVE_UNSET && open->size > 0) ||
			inode->mode == TASD_SERVE_PASSTHROUGH)) {
		pthread_mutex_unlock(&fs->serve_lock);
		spare = backing_open(fs, open->file.fd);
		pthread_mutex_lock(&fs->serve_lock);
	}
	if (inode->mode == TASD_SERVE_UNSET)
		__atomic_store_n(&inode->mode,
			spare ? TASD_SERVE_PASSTHROUGH : choose(open),
			__ATOMIC_RELAXED);
	mode = inode->mode;
	if (mode == TASD_SERVE_CACHED && open->changing) {
		/* Another open was first, and before the change. */
		pthread_mutex_unlock(&fs->serve_lock);
		if (spare)
			backing_close(fs, spare);
		return TASD_SERVE_UNSET;
	}
	if (mode == TASD_SERVE_PASSTHROUGH && inode->backing_id == 0) {
		inode->backing_id = spare;
		spare = 0;
		if (inode->backing_id == 0) {
			/* It passed before and does not now: no other mode
			 * could take over on this node. */
			pthread_mutex_unlock(&fs->serve_lock);
			return TASD_SERVE_UNSET;
		}
	}
	inode->nopen++;
	*ret_backing = mode == TASD_SERVE_PASSTHROUGH ? inode->backing_id : 0;
	pthread_mutex_unlock(&fs->serve_lock);
	if (spare)
		backing_close(fs, spare);
	count_open(fs, mode);
	return mode;
}

void tasd_serve_end(struct tasd_open *open)
{
	struct tasd_inode *inode = open->inode;
	struct tasd_fs *fs = inode->fs;
	int32_t id = 0;

	pthread_mutex_lock(&fs->serve_lock);
	if (--inode->nopen == 0) {
		id = inode->backing_id;
		inode->backing_id = 0;
	}
	pthread_mutex_unlock(&fs->serve_lock);
	if (id)
		backing_close(fs, id);
}

/*
 * A whole file.  Served directly it is what the file below is at that moment,
 * like the file itself; kept in the page cache it must not mix two states.
 */
static tasd_err read_file(struct tasd_open *open, void *out, size_t len,
	uint64_t offset, size_t *ret_len)
{
	struct tasd_stamp now;
	tasd_err err =
		tasd_fileio_pread(open->file.fd, out, len, offset, ret_len);

	if (err || tasd_serve_mode_of(open->inode) != TASD_SERVE_CACHED)
		return err;
	err = tasd_stamp_fd(open->file.fd, &now);
	if (!err && !tasd_stamp_same_bytes(&now, &open->file.stamp))
		err = -EIO;
	return err;
}

tasd_err tasd_serve_pread(struct tasd_open *open, void *out, size_t len,
	uint64_t offset, size_t *ret_len)
{
	*ret_len = 0;
	if (open->kind == TASD_OPEN_FILE)
		return read_file(open, out, len, offset, ret_len);
	if (offset >= open->size)
		return 0;
	if (len > open->size - offset)
		len = (size_t)(open->size - offset);
	if (open->kind == TASD_OPEN_CONTENT)
		return tasd_content_pread(
			&open->content, out, len, offset, ret_len);
	*ret_len = len;
	if (open->kind == TASD_OPEN_WINDOW)
		return tasd_source_pread(open->window.source, out, len,
			open->window.offset + offset);
	memcpy(out, open->text + offset, len);
	return 0;
}

void *tasd_serve_buffer_get(struct tasd_fs *fs)
{
	void *buffer = NULL;

	pthread_mutex_lock(&fs->buffers_lock);
	if (fs->nbuffers)
		buffer = fs->buffers[--fs->nbuffers];
	pthread_mutex_unlock(&fs->buffers_lock);
	if (!buffer)
		buffer = aligned_alloc(4096, TASD_SERVE_MAX);
	return buffer;
}

void tasd_serve_buffer_put(struct tasd_fs *fs, void *buffer)
{
	pthread_mutex_lock(&fs->buffers_lock);
	if (fs->nbuffers < TASD_SPARE_BUFFERS) {
		fs->buffers[fs->nbuffers++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&fs->buffers_lock);
	free(buffer);
}
