/*
 * The temporary name has the process's number and random bytes in it, so that
 * two commands that write one file do not meet; the later name wins.
 */
#include "outfile.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define TRIES 16

static tasd_err failed(struct tasd_diag *diag, tasd_err err, const char *what)
{
	return tasd_diag_set(diag, err, "cannot %s: %s", what, strerror(-err));
}

static tasd_err open_folder(
	const char *path, struct tasd_outfile *out, struct tasd_diag *diag)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	cleanup_free char *dir = NULL;

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return tasd_diag_set(diag, -EISDIR, "a folder, not a file");
	dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	out->name = strdup(name);
	if (!dir || !out->name)
		return -ENOMEM;
	out->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return out->dirfd < 0 ? failed(diag, -errno, "open its folder") : 0;
}

static tasd_err look(const struct tasd_outfile *out, struct tasd_diag *diag)
{
	struct stat st;

	if (fstatat(out->dirfd, out->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return tasd_diag_set(
			diag, -EEXIST, "there already, and no regular file");
	if (!out->replace)
		return tasd_diag_set(
			diag, -EEXIST, "there already; -f replaces it");
	return 0;
}

static tasd_err make_temp(struct tasd_outfile *out, struct tasd_diag *diag)
{
	for (int i = 0; i < TRIES; i++) {
		uint32_t random;

		if (getrandom(&random, sizeof(random), 0) !=
			(ssize_t)sizeof(random))
			return -EIO;
		snprintf(out->temp, sizeof(out->temp),
			".tasdfs-export.%ld.%08" PRIx32, (long)getpid(),
			random);
		out->fd = openat(out->dirfd, out->temp,
			O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (out->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	out->temp[0] = '\0';
	return failed(diag, -errno, "write into its folder");
}

tasd_err tasd_outfile_begin(const char *path, bool replace,
	struct tasd_outfile *ret, struct tasd_diag *diag)
{
	struct tasd_outfile out = {.dirfd = -1, .fd = -1, .replace = replace};
	tasd_err err = open_folder(path, &out, diag);

	if (!err)
		err = look(&out, diag);
	if (!err)
		err = make_temp(&out, diag);
	if (err)
		tasd_outfile_close(&out);
	else
		*ret = out;
	return err;
}

tasd_err tasd_outfile_reserve(struct tasd_outfile *out, uint64_t bytes)
{
	if (bytes > INT64_MAX)
		return -EFBIG;
	/* Only what it cannot hold is told; not every file system can say. */
	if (bytes && fallocate(out->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) &&
		(errno == ENOSPC || errno == EFBIG))
		return -errno;
	return 0;
}

/* Give the file its name; never over another unless asked. */
static tasd_err take_name(const struct tasd_outfile *out)
{
	int dir = out->dirfd;

	if (out->replace)
		return renameat(dir, out->temp, dir, out->name) ? -errno : 0;
	if (renameat2(dir, out->temp, dir, out->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(dir, out->temp, dir, out->name, 0))
		return -errno;
	unlinkat(dir, out->temp, 0);
	return 0;
}

tasd_err tasd_outfile_commit(struct tasd_outfile *out, struct tasd_diag *diag)
{
	tasd_err err;

	if (fsync(out->fd))
		return failed(diag, -errno, "write");
	/* Some file systems tell of lost bytes only here. */
	if (close(tasd_steal_fd(&out->fd)))
		return failed(diag, -errno, "write");
	err = take_name(out);
	if (err == -EEXIST)
		return tasd_diag_set(
			diag, err, "there already; -f replaces it");
	if (err)
		return failed(diag, err, "rename");
	out->temp[0] = '\0';
	if (fsync(out->dirfd) && errno != EINVAL && errno != EROFS)
		return failed(diag, -errno, "sync its folder");
	return 0;
}

void tasd_outfile_close(struct tasd_outfile *out)
{
	if (out->temp[0])
		unlinkat(out->dirfd, out->temp, 0);
	tasd_cleanup_fd(&out->fd);
	tasd_cleanup_fd(&out->dirfd);
	free(out->name);
	out->name = NULL;
	out->temp[0] = '\0';
}
