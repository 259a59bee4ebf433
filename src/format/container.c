/*
 * Opening: find the file or folder by the policy of names, ask the formats
 * which of them it is, let that one read it, seal the state dict.  After that
 * nothing changes but the count of references.
 *
 * The container's own file is source 0 (the index, for a folder), so "does its
 * place still hold what was read" is one question for all sources.
 */
#include "slab.h"
#include "sniff.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <format/format.h>
#include <source/beneath.h>
#include <source/fileio.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Problems kept as text, and how long each may be. */
#define PROBLEMS_KEPT 1000

/* An open file or folder, before it is known what it is. */
struct found {
	int fd;
	bool is_folder;
	struct stat st;
	size_t head_len;
	unsigned char head[TASD_PROBE_BYTES];
};

/* On success found->fd is the caller's to close. */
static tasd_err find(int dirfd, const char *name, struct found *found,
	struct tasd_diag *diag)
{
	cleanup_fd int fd = -1;
	tasd_err err = tasd_beneath_open(dirfd, name, &fd, diag);

	found->is_folder = false;
	found->head_len = 0;
	if (err == -EINVAL &&
		tasd_beneath_opendir(dirfd, name, &fd, NULL) == 0) {
		found->is_folder = true;
		err = 0;
		if (diag)
			diag->text[0] = '\0';
	}
	if (err)
		return err;
	if (fstat(fd, &found->st) < 0)
		return -errno;
	found->fd = fd;
	if (!found->is_folder)
		err = tasd_fileio_pread(fd, found->head, sizeof(found->head), 0,
			&found->head_len);
	if (err)
		return err;
	(void)tasd_steal_fd(&fd);
	return 0;
}

static const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* NULL and diag when no format takes it. */
static const struct tasd_format *choose(
	const struct found *found, const char *name, struct tasd_diag *diag)
{
	const struct tasd_format *maybe = NULL;
	const struct tasd_probe probe = {
		.head = found->is_folder ? NULL : found->head,
		.head_len = found->head_len,
		.size = (uint64_t)found->st.st_size,
		.fd = found->fd,
		.name = last_component(name),
	};
	const char *what;

	for (size_t i = 0; tasd_formats[i]; i++) {
		enum tasd_verdict verdict = tasd_formats[i]->probe(&probe);

		if (verdict == TASD_VERDICT_YES)
			return tasd_formats[i];
		if (verdict == TASD_VERDICT_MAYBE && !maybe)
			maybe = tasd_formats[i];
	}
	what = tasd_sniff(&probe);
	if (maybe && !what)
		return maybe;
	if (!what)
		what = found->is_folder ? "a folder that is no checkpoint"
					: "not a checkpoint of a known format";
	tasd_diag_set(diag, -ENOTSUP, "%s", what);
	return NULL;
}

tasd_err tasd_container_probe(int dirfd, const char *name,
	const struct tasd_format **ret_format, struct tasd_diag *diag)
{
	struct found found;
	tasd_err err = find(dirfd, name, &found, diag);

	if (err)
		return err;
	*ret_format = choose(&found, name, diag);
	close(found.fd);
	return 0;
}

static void container_free(struct tasd_container *ctr)
{
	for (uint32_t i = 0; i < ctr->nsources; i++)
		tasd_source_put(ctr->sources[i]);
	free(ctr->sources);
	tasd_slabs_free(ctr->slabs);
	tasd_statedict_free(ctr->sd);
	if (ctr->dirfd >= 0)
		close(ctr->dirfd);
	if (ctr->rootfd >= 0)
		close(ctr->rootfd);
	free(ctr->name);
	free(ctr->path);
	free(ctr->problems);
	free(ctr);
}

/* Remember where it is; for a file, the folder it lies in. */
static tasd_err set_place(struct tasd_container *ctr, int dirfd,
	const char *path, const struct found *found)
{
	cleanup_free char *folder = strdup(path);
	const char *slash = strrchr(path, '/');

	ctr->path = strdup(path);
	if (!folder || !ctr->path)
		return -ENOMEM;
	ctr->rootfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	if (ctr->rootfd < 0)
		return -errno;
	ctr->st = ctr->place = found->st;
	if (found->is_folder) {
		ctr->dirfd = fcntl(found->fd, F_DUPFD_CLOEXEC, 0);
		return ctr->dirfd < 0 ? -errno : 0;
	}
	ctr->stamp = tasd_stamp_of(&found->st);
	ctr->name = strdup(last_component(path));
	if (!ctr->name)
		return -ENOMEM;
	if (!slash)
		strcpy(folder, ".");
	else
		folder[slash - path] = '\0';
	return tasd_beneath_opendir(dirfd, folder, &ctr->dirfd, NULL);
}

/* ---- who may read ------------------------------------------------------- */

/* Rights as a folder has them: what may be read may be searched. */
static mode_t rights(const struct stat *st)
{
	return (st->st_mode & 0555) |
	       (S_ISREG(st->st_mode) ? (st->st_mode & 0444) >> 2 : 0);
}

/*
 * Leave in *st only what `other` allows too.  A mode speaks of its own owner
 * and group: whoever is neither the same owner nor the same group may be of
 * any class there.
 */
static void restrict_to(struct stat *st, const struct stat *other)
{
	mode_t has = rights(st), may = rights(other);
	mode_t any = (may >> 3) & may & 07;
	mode_t user = st->st_uid == other->st_uid ? may >> 6 : any;
	mode_t group = st->st_gid == other->st_gid ? may >> 3 : any;
	mode_t rest = st->st_gid == other->st_gid ? may : any;

	if (may == 0555)
		return;
	if (has == 0555) {
		st->st_uid = other->st_uid;
		st->st_gid = other->st_gid;
	} else {
		may = (user & 07) << 6 | (group & 07) << 3 | (rest & 07);
	}
	st->st_mode = (st->st_mode & ~(mode_t)0777) | (has & may);
}

void tasd_container_access(const struct tasd_container *ctr,
	const struct tasd_node *node, struct stat *ret)
{
	const struct tasd_tensor *tensor = node->tensor;
	bool found = false;
	struct stat st;

	*ret = ctr->st;
	if (node->form != TASD_FORM_TENSOR)
		return;
	for (uint32_t i = 0; i < tensor->nextents; i++) {
		uint32_t at = tasd_tensor_extents(tensor)[i].source;
		int fd = ctr->sources[at]->fd;

		/* Source 0, and what is made of it, is the container. */
		if (at == 0 || fd < 0 || fstat(fd, &st) != 0)
			continue;
		if (found)
			restrict_to(ret, &st);
		else
			*ret = st;
		found = true;
	}
}

/* Takes found->fd. */
static tasd_err read_found(struct tasd_container *ctr, struct found *found,
	unsigned int flags, struct tasd_diag *diag)
{
	cleanup_fd int fd = found->fd;
	struct tasd_source *source;
	struct stat index;
	tasd_err err;

	err = tasd_statedict_new(
		flags & TASD_CONTAINER_NOSPLIT ? TASD_STATEDICT_NOSPLIT : 0,
		TASD_CONTAINER_MEMORY, &ctr->sd);
	if (err)
		return err;
	if (!found->is_folder) {
		err = tasd_source_file(fd, ctr->name, &source);
		if (err)
			return err;
		(void)tasd_steal_fd(&fd);
		err = tasd_container_add_source(ctr, source, NULL);
		if (err)
			return err;
		ctr->stamp = source->stamp;
	}
	err = ctr->format->read(ctr, diag);
	if (err)
		return err;
	if (found->is_folder && ctr->nsources > 0 && ctr->sources[0]->fd >= 0 &&
		fstat(ctr->sources[0]->fd, &index) == 0)
		restrict_to(&ctr->st, &index);
	return tasd_statedict_seal(ctr->sd, diag);
}

tasd_err tasd_container_open(int dirfd, const char *name, unsigned int flags,
	struct tasd_container **ret, struct tasd_diag *diag)
{
	struct tasd_container *ctr;
	struct tasd_diag own;
	struct found found;
	tasd_err err;

	if (!diag)
		diag = &own;
	diag->text[0] = '\0';
	if (flags & ~(unsigned int)TASD_CONTAINER_NOSPLIT)
		return -EINVAL;
	err = find(dirfd, name, &found, diag);
	if (err)
		return err;
	ctr = calloc(1, sizeof(*ctr));
	if (!ctr) {
		close(found.fd);
		return -ENOMEM;
	}
	ctr->refs = 1;
	ctr->dirfd = ctr->rootfd = -1;
	ctr->format = choose(&found, name, diag);
	err = ctr->format ? set_place(ctr, dirfd, name, &found) : -ENOTSUP;
	if (err)
		close(found.fd);
	else
		err = read_found(ctr, &found, flags, diag);
	if (err) {
		container_free(ctr);
		if (err == -E2BIG && !diag->text[0])
			tasd_diag_set(diag, err,
				"its metadata needs more than %zu MiB",
				TASD_CONTAINER_MEMORY >> 20);
		return err;
	}
	*ret = ctr;
	return 0;
}

struct tasd_container *tasd_container_get(struct tasd_container *ctr)
{
	__atomic_add_fetch(&ctr->refs, 1, __ATOMIC_RELAXED);
	return ctr;
}

void tasd_container_put(struct tasd_container *ctr)
{
	if (ctr && __atomic_sub_fetch(&ctr->refs, 1, __ATOMIC_ACQ_REL) == 0)
		container_free(ctr);
}

/* Does path beneath dirfd hold the file that the stamp is of, untouched? */
static bool holds(int dirfd, const char *path, const struct tasd_stamp *stamp)
{
	struct tasd_stamp now;
	struct stat st;

	if (tasd_beneath_stat(dirfd, path, &st))
		return false;
	now = tasd_stamp_of(&st);
	return tasd_stamp_equal(&now, stamp);
}

/* The same folder, open to the same users; and when something was wrong in it,
 * no entry came or went: a missing shard may be there now. */
static bool holds_folder(const struct tasd_container *ctr)
{
	const struct stat *was = &ctr->place;
	struct stat now;

	if (tasd_beneath_stat(ctr->rootfd, ctr->path, &now))
		return false;
	return now.st_dev == was->st_dev && now.st_ino == was->st_ino &&
	       now.st_mode == was->st_mode && now.st_uid == was->st_uid &&
	       now.st_gid == was->st_gid &&
	       (ctr->nproblems == 0 || tasd_stamp_of(&now).mtime_ns ==
					       tasd_stamp_of(was).mtime_ns);
}

/* A file beside the container's own, source 0, which is looked at always. */
static bool holds_source(const struct tasd_container *ctr, uint32_t at)
{
	const struct tasd_source *source = ctr->sources[at];

	return at == 0 || source->fd < 0 ||
	       holds(ctr->dirfd, source->name, &source->stamp);
}

tasd_err tasd_container_check(
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	const struct tasd_tensor *tensor;

	if (ctr->name && !holds(ctr->rootfd, ctr->path, &ctr->stamp))
		return -ESTALE;
	if (!ctr->name && !holds_folder(ctr))
		return -ESTALE;
	if (!ctr->name && ctr->nsources > 0 &&
		!holds(ctr->dirfd, ctr->sources[0]->name, &ctr->stamp))
		return -ESTALE;
	if (!node) {
		for (uint32_t i = 1; i < ctr->nsources; i++)
			if (!holds_source(ctr, i))
				return -ESTALE;
		return 0;
	}
	if (node->form != TASD_FORM_TENSOR)
		return 0;
	tensor = node->tensor;
	for (uint32_t i = 0; i < tensor->nextents; i++)
		if (!holds_source(ctr, tasd_tensor_extents(tensor)[i].source))
			return -ESTALE;
	return 0;
}

tasd_err tasd_container_add_source(struct tasd_container *ctr,
	struct tasd_source *source, uint32_t *ret_index)
{
	uint32_t n = ctr->nsources;

	/* Full at every power of two. */
	if ((n & (n - 1)) == 0) {
		size_t room = n ? 2 * (size_t)n : 1;
		struct tasd_source **sources = realloc(
			ctr->sources, room * sizeof(struct tasd_source *));

		if (!sources) {
			tasd_source_put(source);
			return -ENOMEM;
		}
		ctr->sources = sources;
	}
	ctr->sources[n] = source;
	ctr->nsources = n + 1;
	if (ret_index)
		*ret_index = n;
	return 0;
}

tasd_err tasd_container_add_meta(struct tasd_container *ctr, const char *name,
	size_t name_len, const char *value, size_t value_len)
{
	struct tasd_arena *arena = tasd_statedict_arena(ctr->sd);
	uint32_t n = ctr->nmeta;
	struct tasd_meta meta = {
		.name_len = (uint32_t)name_len,
		.value_len = (uint32_t)value_len,
	};

	if (name_len > UINT32_MAX || value_len > UINT32_MAX)
		return -E2BIG;
	if ((n & (n - 1)) == 0) {
		size_t room = n ? 2 * (size_t)n : 1;
		struct tasd_meta *all =
			tasd_arena_alloc(arena, room * sizeof(*all));

		if (!all)
			return -E2BIG;
		if (n)
			memcpy(all, ctr->meta, n * sizeof(*all));
		ctr->meta = all;
	}
	meta.name = tasd_arena_copy(arena, name, name_len);
	meta.value = tasd_arena_copy(arena, value, value_len);
	if (!meta.name || !meta.value)
		return -E2BIG;
	ctr->meta[n] = meta;
	ctr->nmeta = n + 1;
	return 0;
}

void tasd_container_problem(struct tasd_container *ctr, const char *format, ...)
{
	char raw[2 * TASD_DIAG_MAX], line[TASD_DIAG_MAX];
	size_t len, old = ctr->problems_len;
	char *text;
	va_list args;

	if (++ctr->nproblems > PROBLEMS_KEPT)
		return;
	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	tasd_print_bytes(line, sizeof(line), raw, strlen(raw));
	len = strlen(line);
	text = realloc(ctr->problems, old + 1 + len + 1);
	if (!text)
		return; /* it still counts */
	ctr->problems = text;
	if (old)
		text[old++] = '\n';
	memcpy(text + old, line, len + 1);
	ctr->problems_len = old + len;
}
