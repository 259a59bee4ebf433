/*
 * The server's state.  One per mount; libfuse's userdata.
 *
 * Lock order: none is taken while another is held, save that a version's lock
 * may be taken while nothing else is.  No lock is held across disk I/O, a reply
 * or a notification:
 *	table.lock	the node table
 *	serve_lock	nopen, mode and backing id of every node; what is open
 *	face.lock	a face's current version
 *	version.lock	a version's lazily made parts
 *	buffers_lock	the spare read buffers
 */
#ifndef TASD_FS_FS_H
#define TASD_FS_FS_H

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 14)

#include "inode.h"
#include "library.h"
#include "notify.h"
#include "version.h"
#include <format/place.h>
#include <fs/mount.h>
#include <fuse_lowlevel.h>

/* Counters that .tasd/stats shows; all atomic. */
struct tasd_stats {
	uint64_t lookups, forgets, opens_passthrough, opens_direct,
		opens_cached, reads, read_bytes, read_errors, containers_read,
		stale, notified;
};

#define TASD_STAT_ADD(fs, field, n)                                            \
	__atomic_add_fetch(&(fs)->stats.field, (n), __ATOMIC_RELAXED)

#define TASD_SPARE_BUFFERS 64

struct tasd_fs {
	struct tasd_fs_options options;
	char *mountpoint; /* absolute */
	struct tasd_place place;
	struct tasd_inode *root;     /* nlookup of its own, for good */
	struct tasd_face *root_face; /* borrowed from root; NULL: a library */
	struct tasd_inode_table table;
	struct tasd_notifier *notifier;
	struct fuse_session *session;
	bool mounted;
	uint64_t init_unique; /* of the INIT request being answered */
	uint64_t offered;     /* INIT flags the kernel offered */
	bool can_passthrough; /* atomic: no try has been refused */
	bool can_map_direct;  /* DIRECT_IO_ALLOW_MMAP is on */
	uint64_t direct_min; /* bytes from which a file is too large to cache */
	const char *no_passthrough; /* why not, for .tasd/stats */
	pthread_mutex_t serve_lock;
	struct tasd_handle handles; /* the ring's head; under serve_lock */
	pthread_mutex_t buffers_lock;
	void *buffers[TASD_SPARE_BUFFERS];
	unsigned int nbuffers;
	struct tasd_stats stats;
};

/* Handlers by group of calls; session.c puts them in one table. */
void tasd_ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void tasd_ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup);
void tasd_ops_forget_multi(
	fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void tasd_ops_getattr(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tasd_ops_readlink(fuse_req_t req, fuse_ino_t ino);
void tasd_ops_statfs(fuse_req_t req, fuse_ino_t ino);
void tasd_ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tasd_ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	struct fuse_file_info *fi);
void tasd_ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tasd_ops_release(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tasd_ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	struct fuse_file_info *fi);
void tasd_ops_opendir(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tasd_ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	struct fuse_file_info *fi);
void tasd_ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size,
	off_t offset, struct fuse_file_info *fi);
void tasd_ops_releasedir(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tasd_ops_getxattr(
	fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void tasd_ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);

/* An entry as the kernel wants it; the node's nlookup is the kernel's. */
tasd_err tasd_ops_entry(struct tasd_inode *inode, struct fuse_entry_param *ret);

/* session.c */
tasd_err tasd_session_new(struct tasd_fs *fs, struct tasd_diag *diag);
tasd_err tasd_session_mount(struct tasd_fs *fs, struct tasd_diag *diag);
tasd_err tasd_session_loop(struct tasd_fs *fs);
void tasd_session_free(struct tasd_fs *fs);

/* stats.c: the text of .tasd/stats. */
void tasd_stats_text(struct tasd_fs *fs, struct tasd_buf *text);

#endif
