/*
 * One thread at a time reads a face's container (`reading`); the others wait
 * for it without holding anything.  A version is published whole or not at all.
 */
#include "dict.h"
#include "fs.h"
#include "meta.h"
#include <base/cleanup.h>
#include <base/log.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct tasd_version *tasd_version_get(struct tasd_version *version)
{
	__atomic_add_fetch(&version->refs, 1, __ATOMIC_RELAXED);
	return version;
}

void tasd_version_put(struct tasd_version *version)
{
	if (!version ||
		__atomic_sub_fetch(&version->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	tasd_flat_free(version->flat);
	tasd_library_put(version->files);
	tasd_container_put(version->ctr);
	pthread_mutex_destroy(&version->lock);
	free(version);
}

/* Its sources are one file and what is made of it (inflated members). */
static bool is_one_file(const struct tasd_container *ctr)
{
	for (uint32_t i = 1; i < ctr->nsources; i++)
		if (ctr->sources[i]->fd >= 0)
			return false;
	return true;
}

bool tasd_version_is_stale(const struct tasd_version *version)
{
	return __atomic_load_n(&version->stale, __ATOMIC_RELAXED);
}

void tasd_version_drop_name(struct tasd_version *version,
	const struct tasd_inode *probe, const char *name)
{
	struct tasd_inode *dir = tasd_inode_lookup(version->fs, probe);

	if (!dir)
		return;
	if (version->fs->notifier)
		tasd_notifier_drop_name(
			version->fs->notifier, dir, name, strlen(name));
	tasd_inode_forget(dir, 1);
}

tasd_err tasd_version_check(
	struct tasd_version *version, const struct tasd_node *node)
{
	if (!tasd_version_is_stale(version) &&
		tasd_container_check(version->ctr, node) == 0)
		return 0;
	__atomic_store_n(&version->stale, true, __ATOMIC_RELAXED);
	TASD_STAT_ADD(version->fs, stale, 1);
	return -ESTALE;
}

/*
 * The container's own files as a folder, for .tasd/files: one file when it is
 * one, else the folder that its files are in.
 */
static tasd_err make_files(
	const struct tasd_container *ctr, struct tasd_library **ret)
{
	const char *only = is_one_file(ctr) ? ctr->name : NULL;
	cleanup_fd int fd = fcntl(ctr->dirfd, F_DUPFD_CLOEXEC, 3);
	tasd_err err;

	if (fd < 0)
		return -errno;
	err = tasd_library_new(fd, only, false, false, ret);
	if (!err)
		fd = -1; /* the library's now */
	return err;
}

static tasd_err version_new(const struct tasd_face *face,
	struct tasd_container *ctr, struct tasd_version **ret)
{
	struct tasd_version *v = calloc(1, sizeof(*v));
	tasd_err err;

	if (!v)
		return -ENOMEM;
	pthread_mutex_init(&v->lock, NULL);
	v->refs = 1;
	v->fs = face->fs;
	v->is_root = face->is_root;
	v->place_hash = XXH3_64bits_withSeed(
		face->path, strlen(face->path), face->library->place_hash);
	v->ctr = tasd_container_get(ctr);
	err = make_files(ctr, &v->files);
	if (err) {
		tasd_version_put(v);
		return err;
	}
	*ret = v;
	return 0;
}

tasd_err tasd_face_new(struct tasd_fs *fs, struct tasd_library *library,
	const char *path, bool is_root, struct tasd_face **ret)
{
	struct tasd_face *face = calloc(1, sizeof(*face));

	if (!face)
		return -ENOMEM;
	face->path = strdup(path);
	if (!face->path) {
		free(face);
		return -ENOMEM;
	}
	face->fs = fs;
	face->library = tasd_library_get(library);
	face->is_root = is_root;
	pthread_mutex_init(&face->lock, NULL);
	pthread_cond_init(&face->done, NULL);
	*ret = face;
	return 0;
}

void tasd_face_free(struct tasd_face *face)
{
	if (!face)
		return;
	tasd_version_put(face->current);
	tasd_library_put(face->library);
	pthread_mutex_destroy(&face->lock);
	pthread_cond_destroy(&face->done);
	free(face->path);
	free(face);
}

struct tasd_version *tasd_face_last(struct tasd_face *face)
{
	struct tasd_version *v;

	pthread_mutex_lock(&face->lock);
	v = face->current ? tasd_version_get(face->current) : NULL;
	pthread_mutex_unlock(&face->lock);
	return v;
}

/* Tell the kernel to drop the names of the old root that it knows. */
static void drop_names(struct tasd_face *face, struct tasd_inode *node,
	struct tasd_version *old)
{
	const struct tasd_node *root = tasd_statedict_root(old->ctr->sd);

	if (!node || !face->fs->notifier)
		return;
	if (tasd_notifier_has_epoch(face->fs->notifier)) {
		tasd_notifier_drop_all(face->fs->notifier);
		return;
	}
	for (uint32_t i = 0; i < root->dir.nchildren; i++) {
		const struct tasd_node *child = root->dir.children[i];
		struct tasd_inode *known = tasd_dict_find(face->fs, old, child);

		if (!known)
			continue;
		tasd_inode_forget(known, 1);
		tasd_notifier_drop_name(
			face->fs->notifier, node, child->name, child->name_len);
	}
	tasd_notifier_drop_name(face->fs->notifier, node, ".tasd", 5);
}

static tasd_err read_version(struct tasd_face *face, struct tasd_version **ret,
	struct tasd_diag *diag)
{
	struct tasd_container *ctr = NULL;
	unsigned int flags =
		face->fs->options.nosplit ? TASD_CONTAINER_NOSPLIT : 0;
	tasd_err err = tasd_container_open(
		face->library->dirfd, face->path, flags, &ctr, diag);

	if (err)
		return err;
	TASD_STAT_ADD(face->fs, containers_read, 1);
	err = version_new(face, ctr, ret);
	tasd_container_put(ctr);
	return err;
}

/*
 * The version to start from: the current one if it is fresh as far as is known,
 * else NULL with `reading` set, which makes the caller the reader.
 */
static struct tasd_version *begin(struct tasd_face *face)
{
	struct tasd_version *v = NULL;

	pthread_mutex_lock(&face->lock);
	while (face->reading)
		pthread_cond_wait(&face->done, &face->lock);
	if (face->current && !tasd_version_is_stale(face->current))
		v = tasd_version_get(face->current);
	else
		face->reading = true;
	pthread_mutex_unlock(&face->lock);
	return v;
}

tasd_err tasd_face_current(struct tasd_face *face, struct tasd_inode *node,
	struct tasd_version **ret)
{
	struct tasd_version *fresh = NULL, *old;
	struct tasd_diag diag = {""};
	tasd_err err;

	while ((fresh = begin(face))) {
		if (tasd_version_check(fresh, NULL) == 0) {
			*ret = fresh;
			return 0;
		}
		tasd_version_put(fresh);
	}
	err = read_version(face, &fresh, &diag);
	pthread_mutex_lock(&face->lock);
	old = face->current;
	face->current = fresh;
	face->listed = NULL;
	face->diag = diag;
	face->reading = false;
	if (fresh)
		tasd_version_get(fresh);
	pthread_cond_broadcast(&face->done);
	pthread_mutex_unlock(&face->lock);
	if (err && old)
		tasd_log_warn("%s: %s", face->path, tasd_diag_text(&diag, err));
	if (old) {
		drop_names(face, node, old);
		tasd_version_put(old);
	}
	*ret = fresh;
	return err;
}
