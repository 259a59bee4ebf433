/*
 * What is open: files and directories, one list a mount.  The kernel releases
 * each, but not when the connection ends first; what is left then is freed
 * here.
 */
#ifndef TASD_FS_HANDLE_H
#define TASD_FS_HANDLE_H

#include <stdbool.h>

struct tasd_fs;

/* The first member of whatever fi->fh points at; under fs->serve_lock. */
struct tasd_handle {
	struct tasd_handle *prev, *next;
	bool is_dir;
};

/* From the reply that opens it on. */
void tasd_handle_add(
	struct tasd_fs *fs, struct tasd_handle *handle, bool is_dir);
void tasd_handle_drop(struct tasd_fs *fs, struct tasd_handle *handle);

/* At the end, when no request runs any more and the session is gone. */
void tasd_handles_drain(struct tasd_fs *fs);

#endif
