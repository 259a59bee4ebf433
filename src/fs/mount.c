/*
 * Putting a mount together: the place, its root node, the session.
 */
#include "dict.h"
#include "fs.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <format/format.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Does the mount show the folder fs->place.dirfd, and not just one file? */
static bool shows_folder(const struct tasd_fs *fs)
{
	struct tasd_version *v;
	bool shows;

	if (!fs->root_face)
		return true;
	v = tasd_face_last(fs->root_face);
	shows = !v || !v->files->only;
	tasd_version_put(v);
	return shows;
}

/* Would the mount show itself? Walk up from the mount point and compare. */
static tasd_err check_outside(const struct tasd_fs *fs, struct tasd_diag *diag)
{
	cleanup_fd int fd =
		open(fs->mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat source, at, above;

	if (fd < 0)
		return tasd_diag_set(diag, -errno, "%s: %s", fs->mountpoint,
			strerror(errno));
	if (fstat(fs->place.dirfd, &source) != 0 || fstat(fd, &at) != 0)
		return -errno;
	for (;;) {
		int up;

		if (at.st_dev == source.st_dev && at.st_ino == source.st_ino)
			return tasd_diag_set(diag, -EINVAL,
				"%s: is inside the source %s: mount it "
				"elsewhere",
				fs->mountpoint, fs->place.path);
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0 || fstat(up, &above) != 0) {
			if (up >= 0)
				close(up);
			return 0; /* as far up as we may look */
		}
		close(fd);
		fd = up;
		if (above.st_dev == at.st_dev && above.st_ino == at.st_ino)
			return 0;
		at = above;
	}
}

static tasd_err make_root(struct tasd_fs *fs, struct tasd_diag *diag)
{
	bool library = !fs->place.format || fs->options.root_folder;
	struct tasd_library *folder = NULL;
	struct tasd_version *version = NULL;
	struct tasd_face *face = NULL;
	int fd = fcntl(fs->place.dirfd, F_DUPFD_CLOEXEC, 3);
	tasd_err err;

	if (fd < 0)
		return -errno;
	err = tasd_library_new(
		fd, library ? NULL : fs->place.name, library, library, &folder);
	if (err) {
		close(fd);
		return err;
	}
	if (library) {
		err = tasd_library_root(fs, folder, &fs->root);
	} else {
		err = tasd_face_new(fs, folder, fs->place.name, true, &face);
		if (!err)
			err = tasd_face_current(face, NULL, &version);
		tasd_version_put(version);
		if (err && face)
			*diag = face->diag;
		if (!err)
			err = tasd_face_inode(face, &fs->root);
		else
			tasd_face_free(face);
		fs->root_face = err ? NULL : face;
	}
	tasd_library_put(folder);
	return err;
}

/* A quarter of the memory: its pages stand in the cache of the file below as
 * well. */
static uint64_t too_large_to_cache(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (pages <= 0 || page <= 0)
		return UINT64_MAX;
	return (uint64_t)pages / 4 * (uint64_t)page;
}

tasd_err tasd_fs_new(const struct tasd_fs_options *options,
	struct tasd_fs **ret, struct tasd_diag *diag)
{
	struct tasd_fs *fs = calloc(1, sizeof(*fs));
	tasd_err err;

	if (!fs)
		return -ENOMEM;
	fs->options = *options;
	fs->place.dirfd = -1;
	fs->handles.prev = fs->handles.next = &fs->handles;
	fs->direct_min = too_large_to_cache();
	pthread_mutex_init(&fs->serve_lock, NULL);
	pthread_mutex_init(&fs->buffers_lock, NULL);
	tasd_inode_table_init(&fs->table);
	fs->mountpoint = realpath(options->mountpoint, NULL);
	err = fs->mountpoint ? 0
			     : tasd_diag_set(diag, -errno, "%s: %s",
				       options->mountpoint, strerror(errno));
	if (!err)
		err = tasd_place_open(options->source, &fs->place, diag);
	if (!err && fs->options.root_folder && strcmp(fs->place.name, ".") != 0)
		err = tasd_diag_set(diag, -EINVAL,
			"%s: root=folder is for a folder, this is a file",
			fs->place.path);
	if (!err)
		err = make_root(fs, diag);
	if (!err && shows_folder(fs))
		err = check_outside(fs, diag);
	if (!err)
		err = tasd_session_new(fs, diag);
	if (err) {
		tasd_fs_free(fs);
		return err;
	}
	*ret = fs;
	return 0;
}

/* 53568 -> "52.3 KiB". */
static void add_size(struct tasd_buf *line, uint64_t bytes)
{
	static const char *const units[] = {
		"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes;
	unsigned int unit = 0;

	while (value >= 1024 && unit < 5) {
		value /= 1024;
		unit++;
	}
	tasd_buf_printf(line, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void tasd_fs_describe(const struct tasd_fs *fs, struct tasd_buf *line)
{
	struct tasd_version *v =
		fs->root_face ? tasd_face_last(fs->root_face) : NULL;
	struct tasd_statedict_totals totals;

	if (!v) {
		tasd_buf_printf(line, "library %s", fs->place.path);
		return;
	}
	totals = tasd_statedict_totals(v->ctr->sd);
	tasd_buf_printf(line, "%s, %llu tensor%s, ", v->ctr->format->name,
		(unsigned long long)totals.tensors,
		totals.tensors == 1 ? "" : "s");
	add_size(line, totals.bytes);
	if (v->ctr->nproblems)
		tasd_buf_printf(line, ", %u problem%s (see user.tasd.error)",
			v->ctr->nproblems, v->ctr->nproblems == 1 ? "" : "s");
	tasd_version_put(v);
}

tasd_err tasd_fs_mount(struct tasd_fs *fs, struct tasd_diag *diag)
{
	return tasd_session_mount(fs, diag);
}

tasd_err tasd_fs_serve(struct tasd_fs *fs)
{
	tasd_err err = tasd_notifier_new(fs, &fs->notifier);

	return err ? err : tasd_session_loop(fs);
}

void tasd_fs_free(struct tasd_fs *fs)
{
	if (!fs)
		return;
	/* The notifier uses the session; what is open uses the table. */
	tasd_notifier_free(fs->notifier);
	fs->notifier = NULL;
	tasd_session_free(fs);
	tasd_handles_drain(fs);
	tasd_inode_table_drain(fs);
	for (unsigned int i = 0; i < fs->nbuffers; i++)
		free(fs->buffers[i]);
	tasd_place_close(&fs->place);
	pthread_mutex_destroy(&fs->serve_lock);
	pthread_mutex_destroy(&fs->buffers_lock);
	pthread_mutex_destroy(&fs->table.lock);
	free(fs->mountpoint);
	free(fs);
}
