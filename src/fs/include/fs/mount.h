/*
 * One mount: what the command line needs of the FUSE server, and all it sees.
 *
 * Order: tasd_fs_new() reads the source, tasd_fs_mount() mounts,
 * tasd_fs_serve() answers until the mount is gone, tasd_fs_free().  Fork (to
 * go to the background) before tasd_fs_new(), since it may start threads.
 */
#ifndef TASD_FS_MOUNT_H
#define TASD_FS_MOUNT_H

#include <base/buf.h>
#include <stdbool.h>

enum tasd_fs_mode {
	TASD_FS_MODE_AUTO,   /* passthrough where allowed, else by size */
	TASD_FS_MODE_CACHED, /* everything through the page cache */
	TASD_FS_MODE_DIRECT, /* everything by direct I/O */
};

struct tasd_fs_options {
	const char *source;
	const char *mountpoint;
	enum tasd_fs_mode mode;
	bool root_folder; /* a container folder is shown as a folder */
	bool faces_both;  /* readdir lists NAME.tasd beside NAME */
	bool nosplit;	  /* keys stay in one piece */
	bool allow_other;
	bool debug;	  /* libfuse's own trace on standard error */
	unsigned int threads; /* 0: as many as cores, at least 2 */
	/* Called once, from the server's thread, when the kernel has taken the
	 * mount: requests are answered from here on. */
	void (*ready)(void *ctx);
	void *ready_ctx;
};

struct tasd_fs;

/*
 * Read the source.  -ENOTSUP: no container and no folder; -EINVAL: broken;
 * -EINVAL too when the source contains the mount point.  diag has one line.
 */
tasd_err tasd_fs_new(const struct tasd_fs_options *options,
	struct tasd_fs **ret, struct tasd_diag *diag);

/* What it is, in one line for people, e.g. "safetensors, 21 tensors, 52.3 KiB". */
void tasd_fs_describe(const struct tasd_fs *fs, struct tasd_buf *line);

tasd_err tasd_fs_mount(struct tasd_fs *fs, struct tasd_diag *diag);

/* 0 once unmounted or ended by SIGTERM, SIGINT or SIGHUP. */
tasd_err tasd_fs_serve(struct tasd_fs *fs);

void tasd_fs_free(struct tasd_fs *fs);

#endif
