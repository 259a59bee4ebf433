/*
 * What is mounted where, as /proc/self/mountinfo tells, and the ways to
 * unmount.  Used by mount and umount.
 */
#ifndef TASD_CLI_MOUNTS_H
#define TASD_CLI_MOUNTS_H

#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TASD_FSTYPE "fuse.tasdfs"

struct tasd_mount_entry {
	char *path;   /* mount point; owned */
	char *type;   /* file system type; owned */
	char *source; /* owned */
	dev_t dev;
};

/*
 * The absolute path of a mount point without symlinks.  Unlike realpath(3)
 * the place itself may be a mount whose server has died.  malloc'd.
 */
tasd_err tasd_mount_path(const char *path, char **ret);

/*
 * The uppermost mount at exactly path.  -ENOENT: none.
 */
tasd_err tasd_mount_find(const char *path, struct tasd_mount_entry *ret);

/* The mount that path lies in, for messages. */
tasd_err tasd_mount_above(const char *path, struct tasd_mount_entry *ret);

/* The first mount below path, for messages.  -ENOENT: none. */
tasd_err tasd_mount_below(const char *path, struct tasd_mount_entry *ret);

void tasd_mount_entry_free(struct tasd_mount_entry *entry);

/*
 * Unmount path: umount2(2) where this process may, else by fusermount3.
 * -EBUSY: in use.  diag has what fusermount3 said when it failed otherwise.
 */
tasd_err tasd_mount_undo(const char *path, bool lazy, struct tasd_diag *diag);

/* Did the server of the mount at path die?  (Any access gives ENOTCONN.) */
bool tasd_mount_is_dead(const char *path);

#endif
