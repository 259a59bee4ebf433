/*
 * Opening a file by a name that is not to be trusted: it stays beneath a
 * folder, whatever the name, its symlinks or a racing rename say.
 *
 * The symlink policy (DESIGN section 9): a link may stay beneath the folder, or
 * lead from models--X/snapshots/.. to the blobs of the same models--X, as the
 * Hugging Face hub lays its cache.  Any other is never followed.
 *
 * Any thread.  These use openat2; nothing outside the folder is ever opened.
 */
#ifndef TASD_SOURCE_BENEATH_H
#define TASD_SOURCE_BENEATH_H

#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/*
 * Open the regular file `path` (relative, no NUL) beneath the directory dirfd,
 * read-only, O_CLOEXEC | O_NONBLOCK | O_NOCTTY.
 * -EPERM: the name or a link leads out.  -ELOOP, -ENOENT, -EACCES: as open(2).
 * -EINVAL: not a regular file, or an empty or absolute name.
 */
tasd_err tasd_beneath_open(
	int dirfd, const char *path, int *ret_fd, struct tasd_diag *diag);

/* The same for a directory (O_DIRECTORY); "." is dirfd itself. */
tasd_err tasd_beneath_opendir(
	int dirfd, const char *path, int *ret_fd, struct tasd_diag *diag);

/*
 * What tasd_beneath_open() would open, looked at and not opened: a directory,
 * device or anything else is told by ret->st_mode.  Errors as there.
 */
tasd_err tasd_beneath_stat(int dirfd, const char *path, struct stat *ret);

/*
 * Would the policy open the symlink `name` in directory dirfd only because it
 * leads from a hub snapshot to its blobs, out of the folder rootfd?  Then it
 * is shown as the regular file it names.
 */
bool tasd_beneath_is_hub_link(int rootfd, int dirfd, const char *name);

#endif
