/*
 * A folder as it is: names, modes, times, links and attributes of the files
 * below, and NAME.tasd for every container NAME, found by name and not listed
 * (unless asked), so that programs that walk the folder see each checkpoint
 * once.
 *
 * A file's node is one state of the file: its stamp is part of its identity, so
 * a changed file is another node under the same name, and opening the old node
 * answers ESTALE.  A folder's node is the folder, whatever it holds.  Nothing
 * is kept open between calls but the library's own folder: each call walks from
 * there, beneath it.
 */
#include "library.h"
#include "dict.h"
#include "fs.h"
#include "meta.h"
#include "serve.h"
#include <base/cleanup.h>
#include <dirent.h>
#include <format/format.h>
#include <linux/limits.h>
#include <source/beneath.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <xxhash.h>

struct lib_inode {
	struct tasd_inode base;
	struct tasd_library *library; /* owned reference */
	char *path;                   /* from the library's folder; "." is it */
	struct stat st;               /* as seen when it was looked up */
};

static const struct tasd_inode_ops lib_ops;

static struct lib_inode *lib_of(struct tasd_inode *inode)
{
	return (struct lib_inode *)inode;
}

tasd_err tasd_library_new(int dirfd, const char *only, bool faces, bool is_root,
	struct tasd_library **ret)
{
	struct tasd_library *library = calloc(1, sizeof(*library));
	struct stat st;
	uint64_t parts[2];

	if (!library)
		return -ENOMEM;
	if (only && !(library->only = strdup(only))) {
		free(library);
		return -ENOMEM;
	}
	if (fstat(dirfd, &st) != 0) {
		tasd_err err = -errno;

		free(library->only);
		free(library);
		return err;
	}
	parts[0] = st.st_dev;
	parts[1] = st.st_ino;
	library->place_hash = XXH3_64bits(parts, sizeof(parts));
	library->dirfd = dirfd;
	library->faces = faces;
	library->is_root = is_root;
	library->refs = 1;
	*ret = library;
	return 0;
}

struct tasd_library *tasd_library_get(struct tasd_library *library)
{
	__atomic_add_fetch(&library->refs, 1, __ATOMIC_RELAXED);
	return library;
}

void tasd_library_put(struct tasd_library *library)
{
	if (!library ||
		__atomic_sub_fetch(&library->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	close(library->dirfd);
	free(library->only);
	free(library);
}

/* ---- paths -------------------------------------------------------------- */

static char *path_join(const char *dir, const char *name)
{
	char *out = NULL;

	if (strcmp(dir, ".") == 0)
		return strdup(name);
	return asprintf(&out, "%s/%s", dir, name) < 0 ? NULL : out;
}

/* Open the folder that the last component of path is in; *ret_name is that
 * component. */
static tasd_err open_parent(const struct tasd_library *library,
	const char *path, int *ret_fd, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *dir = NULL;

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return tasd_beneath_opendir(library->dirfd, ".", ret_fd, NULL);
	dir = strndup(path, (size_t)(slash - path));
	if (!dir)
		return -ENOMEM;
	return tasd_beneath_opendir(library->dirfd, dir, ret_fd, NULL);
}

/*
 * Open the folder that a node is.  Another folder under its path is another
 * node: by the path the kernel finds that one, and whoever is in the old one
 * must not be told of the new.
 */
static tasd_err open_folder(const struct lib_inode *l, int *ret_fd)
{
	cleanup_fd int fd = -1;
	struct stat now;
	tasd_err err =
		tasd_beneath_opendir(l->library->dirfd, l->path, &fd, NULL);

	if (err)
		return err;
	if (fstat(fd, &now) != 0)
		return -errno;
	if (now.st_dev != l->st.st_dev || now.st_ino != l->st.st_ino) {
		TASD_STAT_ADD(l->base.fs, stale, 1);
		return -ESTALE;
	}
	*ret_fd = tasd_steal_fd(&fd);
	return 0;
}

/*
 * What `name` in the folder dirfd is.  A link from a hub's snapshot to its
 * blobs, out of this library, is the file it leads to.
 */
static tasd_err stat_name(const struct tasd_library *library, int dirfd,
	const char *path, const char *name, struct stat *ret)
{
	if (fstatat(dirfd, name, ret, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (S_ISLNK(ret->st_mode) &&
		tasd_beneath_is_hub_link(library->dirfd, dirfd, name)) {
		cleanup_fd int fd = -1;

		if (tasd_beneath_open(library->dirfd, path, &fd, NULL) == 0 &&
			fstat(fd, ret) != 0)
			return -errno;
	}
	return 0;
}

/* ---- nodes -------------------------------------------------------------- */

/* A file's identity holds its stamp, a folder's does not. */
static struct tasd_stamp identity(const struct stat *st)
{
	struct tasd_stamp stamp = tasd_stamp_of(st);

	if (!S_ISREG(st->st_mode)) {
		stamp.size = 0;
		stamp.mtime_ns = stamp.ctime_ns = 0;
	}
	return stamp;
}

static tasd_err lib_inode(struct tasd_fs *fs, struct tasd_library *library,
	const char *path, const struct stat *st, struct tasd_inode **ret)
{
	struct lib_inode *l = calloc(1, sizeof(*l));
	struct tasd_stamp stamp = identity(st);

	if (!l)
		return -ENOMEM;
	l->path = strdup(path);
	if (!l->path) {
		free(l);
		return -ENOMEM;
	}
	l->base.ops = &lib_ops;
	l->base.fs = fs;
	l->base.refs = 1;
	l->base.ttl = 1;
	l->base.hash = tasd_map_hash(&fs->table.map, path, strlen(path),
		(uintptr_t)library ^ stamp.ino ^ (uint64_t)stamp.mtime_ns * 31 ^
			stamp.size);
	l->library = tasd_library_get(library);
	l->st = *st;
	return tasd_inode_intern(&l->base, ret);
}

tasd_err tasd_library_root(struct tasd_fs *fs, struct tasd_library *library,
	struct tasd_inode **ret)
{
	struct stat st;

	if (fstat(library->dirfd, &st) != 0)
		return -errno;
	return lib_inode(fs, library, ".", &st, ret);
}

static bool lib_same(const struct tasd_inode *a, const struct tasd_inode *b)
{
	const struct lib_inode *x = (const struct lib_inode *)a;
	const struct lib_inode *y = (const struct lib_inode *)b;
	struct tasd_stamp s = identity(&x->st), t = identity(&y->st);

	return x->library == y->library &&
	       (x->st.st_mode & S_IFMT) == (y->st.st_mode & S_IFMT) &&
	       tasd_stamp_equal(&s, &t) && strcmp(x->path, y->path) == 0;
}

static void lib_free(struct tasd_inode *inode)
{
	tasd_library_put(lib_of(inode)->library);
	free(lib_of(inode)->path);
	free(inode);
}

static uint64_t lib_st_ino(const struct stat *st)
{
	uint64_t parts[2] = {st->st_dev, st->st_ino};

	return XXH3_64bits(parts, sizeof(parts));
}

/*
 * A node in the page cache must keep its size; any other is as the file is now,
 * so that a log that grows is seen to grow through an open descriptor.
 */
static tasd_err lib_attr(struct tasd_inode *inode, struct stat *ret)
{
	const struct lib_inode *l = lib_of(inode);
	cleanup_fd int dirfd = -1;
	const char *name;
	struct stat now;

	*ret = l->st;
	if (!S_ISREG(l->st.st_mode) ||
		tasd_serve_mode_of(inode) != TASD_SERVE_CACHED) {
		if (strcmp(l->path, ".") == 0) {
			if (fstat(l->library->dirfd, &now) == 0)
				*ret = now;
		} else if (open_parent(l->library, l->path, &dirfd, &name) ==
				   0 &&
			   stat_name(l->library, dirfd, l->path, name, &now) ==
				   0 &&
			   now.st_ino == l->st.st_ino &&
			   now.st_dev == l->st.st_dev) {
			*ret = now;
		}
	}
	ret->st_ino = lib_st_ino(ret);
	return 0;
}

/* ---- folders ------------------------------------------------------------ */

static tasd_err lib_lookup(
	struct tasd_inode *inode, const char *name, struct tasd_inode **ret)
{
	const struct lib_inode *l = lib_of(inode);
	bool top = strcmp(l->path, ".") == 0;
	cleanup_free char *path = NULL;
	cleanup_fd int dirfd = -1;
	struct stat st;
	size_t base = 0;
	tasd_err err;

	if (top && l->library->is_root && strcmp(name, ".tasd") == 0)
		return tasd_meta_root(inode->fs, NULL, ret);
	if (top && l->library->only && strcmp(name, l->library->only) != 0)
		return -ENOENT;
	path = path_join(l->path, name);
	if (!path)
		return -ENOMEM;
	err = open_folder(l, &dirfd);
	if (err)
		return err;
	err = stat_name(l->library, dirfd, path, name, &st);
	if (!err)
		return lib_inode(inode->fs, l->library, path, &st, ret);
	if (err != -ENOENT || !l->library->faces ||
		!tasd_place_is_face(name, strlen(name), &base))
		return err;
	path[strlen(path) - (strlen(name) - base)] = '\0';
	return tasd_face_lookup(inode->fs, l->library, path, ret);
}

struct name {
	char *text;
	uint64_t st_ino;
	mode_t type;
};

struct tasd_names {
	struct name *names;
	size_t count, room;
};

void tasd_names_free(struct tasd_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->count; i++)
		free(names->names[i].text);
	free(names->names);
	free(names);
}

static tasd_err add_name(struct tasd_names *names, const char *text,
	uint64_t st_ino, mode_t type)
{
	if (names->count == names->room) {
		size_t room = names->room ? 2 * names->room : 64;
		struct name *more =
			reallocarray(names->names, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		names->names = more;
		names->room = room;
	}
	names->names[names->count].text = strdup(text);
	if (!names->names[names->count].text)
		return -ENOMEM;
	names->names[names->count].st_ino = st_ino;
	names->names[names->count].type = type;
	names->count++;
	return 0;
}

/* The type of an entry as the mount shows it. */
static mode_t entry_type(
	const struct lib_inode *l, int dirfd, const struct dirent *entry)
{
	struct stat st;
	cleanup_free char *path = NULL;

	if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
		return DTTOIF(entry->d_type);
	path = path_join(l->path, entry->d_name);
	if (path && stat_name(l->library, dirfd, path, entry->d_name, &st) == 0)
		return st.st_mode & S_IFMT;
	return DTTOIF(entry->d_type);
}

/* With faces=both: NAME.tasd beside NAME, unless that name is taken. */
static tasd_err add_face(const struct lib_inode *l, int dirfd, const char *name,
	struct tasd_names *names)
{
	const struct tasd_format *format = NULL;
	cleanup_free char *path = path_join(l->path, name);
	cleanup_free char *face = NULL;
	struct stat st;

	if (!path || asprintf(&face, "%s.tasd", name) < 0)
		return -ENOMEM;
	if (fstatat(dirfd, face, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (tasd_container_probe(l->library->dirfd, path, &format, NULL) ||
		!format)
		return 0;
	return add_name(names, face, 1, S_IFDIR);
}

static tasd_err read_names(const struct lib_inode *l, struct tasd_names *names)
{
	bool top = strcmp(l->path, ".") == 0;
	bool both = l->library->faces && l->base.fs->options.faces_both;
	int fd = -1;
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	tasd_err err = open_folder(l, &fd);

	if (err)
		return err;
	if (fstat(fd, &st) != 0 || !(dir = fdopendir(fd))) {
		err = -errno;
		close(fd);
		return err;
	}
	while (!err && (errno = 0, entry = readdir(dir))) {
		uint64_t parts[2] = {st.st_dev, entry->d_ino};

		if (strcmp(entry->d_name, ".") == 0 ||
			strcmp(entry->d_name, "..") == 0)
			continue;
		if (top && l->library->only &&
			strcmp(entry->d_name, l->library->only) != 0)
			continue;
		err = add_name(names, entry->d_name,
			XXH3_64bits(parts, sizeof(parts)),
			entry_type(l, fd, entry));
		if (!err && both)
			err = add_face(l, fd, entry->d_name, names);
	}
	if (!err && errno)
		err = -errno;
	closedir(dir);
	return err;
}

static tasd_err lib_opendir(struct tasd_inode *inode, struct tasd_dir *dir)
{
	const struct lib_inode *l = lib_of(inode);
	tasd_err err;

	if (!S_ISDIR(l->st.st_mode))
		return -ENOTDIR;
	dir->names = calloc(1, sizeof(*dir->names));
	if (!dir->names)
		return -ENOMEM;
	err = read_names(l, dir->names);
	if (err) {
		tasd_names_free(dir->names);
		dir->names = NULL;
	}
	return err;
}

static tasd_err lib_entry(
	struct tasd_dir *dir, uint64_t *at, struct tasd_dirent *ret)
{
	const struct name *name;
	size_t len;

	if (*at >= dir->names->count)
		return -ENOENT;
	name = &dir->names->names[(*at)++];
	len = strlen(name->text);
	if (len >= sizeof(ret->name))
		return -ENAMETOOLONG;
	memcpy(ret->name, name->text, len + 1);
	ret->st_ino = name->st_ino;
	ret->type = name->type;
	return 0;
}

static tasd_err lib_entry_node(struct tasd_dir *dir, uint64_t at,
	const char *name, struct tasd_inode **ret)
{
	(void)at;
	return lib_lookup(dir->inode, name, ret);
}

/* ---- files -------------------------------------------------------------- */

/*
 * May an open go on though the file has changed since it was looked up?  Where
 * nothing of it is cached, the open is of the file as it is; otherwise one that
 * is written to all the time, a log, could be opened by luck only.
 */
static bool may_change(const struct tasd_inode *inode,
	const struct tasd_stamp *was, const struct tasd_stamp *now)
{
	return was->dev == now->dev && was->ino == now->ino &&
	       inode->fs->options.mode != TASD_FS_MODE_CACHED &&
	       tasd_serve_mode_of(inode) != TASD_SERVE_CACHED;
}

static tasd_err lib_open(struct tasd_inode *inode, struct tasd_open *open)
{
	const struct lib_inode *l = lib_of(inode);
	struct tasd_stamp was = tasd_stamp_of(&l->st), now;
	cleanup_fd int fd = -1;
	tasd_err err;

	if (S_ISDIR(l->st.st_mode))
		return -EISDIR;
	if (!S_ISREG(l->st.st_mode))
		return -EOPNOTSUPP;
	err = tasd_beneath_open(l->library->dirfd, l->path, &fd, NULL);
	if (!err)
		err = tasd_stamp_fd(fd, &now);
	if (err == -EPERM || err == -EINVAL)
		err = -ESTALE; /* another kind of thing stands there now */
	if (err)
		return err;
	open->changing = !tasd_stamp_equal(&was, &now);
	if (open->changing && !may_change(inode, &was, &now)) {
		TASD_STAT_ADD(inode->fs, stale, 1);
		return -ESTALE;
	}
	open->kind = TASD_OPEN_FILE;
	open->file.fd = tasd_steal_fd(&fd);
	open->file.stamp = now;
	open->size = now.size;
	return 0;
}

static tasd_err lib_readlink(struct tasd_inode *inode, char *out, size_t size)
{
	const struct lib_inode *l = lib_of(inode);
	cleanup_fd int dirfd = -1;
	const char *name;
	ssize_t n;
	tasd_err err = open_parent(l->library, l->path, &dirfd, &name);

	if (err)
		return err;
	n = readlinkat(dirfd, name, out, size);
	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -ENAMETOOLONG;
	out[n] = '\0';
	return 0;
}

/* ---- attributes --------------------------------------------------------- */

/* A path that reaches this node's own file for the *xattr calls, which know no
 * dirfd; good while *fd is open. */
static tasd_err xattr_path(
	const struct lib_inode *l, int *fd, char *out, size_t size)
{
	const char *name;
	tasd_err err;

	if (strcmp(l->path, ".") == 0) {
		snprintf(out, size, "/proc/self/fd/%d", l->library->dirfd);
		return 0;
	}
	err = open_parent(l->library, l->path, fd, &name);
	if (err)
		return err;
	if ((size_t)snprintf(out, size, "/proc/self/fd/%d/%s", *fd, name) >=
		size)
		return -ENAMETOOLONG;
	return 0;
}

/* "." through /proc is a link that must be followed; names must not be. */
static ssize_t get_real(const struct lib_inode *l, const char *path,
	const char *name, char *out, size_t size)
{
	return strcmp(l->path, ".") == 0 ? getxattr(path, name, out, size)
					 : lgetxattr(path, name, out, size);
}

/*
 * What tasdfs says of a plain file, when asked for by name: what container it
 * is, and why it is none.  Not listed, since it reads the file.
 */
static tasd_err own_attr(
	const struct lib_inode *l, const char *name, struct tasd_buf *ret)
{
	const struct tasd_format *format = NULL;
	struct tasd_container *ctr = NULL;
	struct tasd_diag diag = {""};
	tasd_err err;

	if (strcmp(name, "user.tasd.format") != 0 &&
		strcmp(name, "user.tasd.error") != 0)
		return -ENODATA;
	err = tasd_container_probe(l->library->dirfd, l->path, &format, &diag);
	if (err || !format)
		return -ENODATA;
	if (strcmp(name, "user.tasd.format") == 0) {
		tasd_buf_str(ret, format->name);
		return tasd_buf_err(ret);
	}
	err = tasd_container_open(l->library->dirfd, l->path, 0, &ctr, &diag);
	if (err)
		tasd_buf_str(ret, tasd_diag_text(&diag, err));
	else if (ctr->problems)
		tasd_buf_add(ret, ctr->problems,
			ctr->problems_len < 4096 ? ctr->problems_len : 4096);
	tasd_container_put(ctr);
	return ret->len ? tasd_buf_err(ret) : -ENODATA;
}

static tasd_err lib_getxattr(struct tasd_inode *inode,
	const struct tasd_caller *caller, const char *name,
	struct tasd_buf *ret)
{
	const struct lib_inode *l = lib_of(inode);
	cleanup_fd int fd = -1;
	cleanup_free char *value = NULL;
	char path[64 + NAME_MAX + 1];
	ssize_t n;
	tasd_err err;

	(void)caller;
	if (strncmp(name, "user.tasd.", 10) == 0) {
		err = own_attr(l, name, ret);
		if (err != -ENODATA)
			return err;
	}
	err = xattr_path(l, &fd, path, sizeof(path));
	if (err)
		return err;
	value = malloc(XATTR_SIZE_MAX);
	if (!value)
		return -ENOMEM;
	n = get_real(l, path, name, value, XATTR_SIZE_MAX);
	if (n < 0)
		return errno == EOPNOTSUPP ? -ENODATA : -errno;
	tasd_buf_add(ret, value, (size_t)n);
	return tasd_buf_err(ret);
}

static tasd_err lib_listxattr(struct tasd_inode *inode,
	const struct tasd_caller *caller, struct tasd_buf *ret)
{
	const struct lib_inode *l = lib_of(inode);
	cleanup_fd int fd = -1;
	cleanup_free char *list = NULL;
	char path[64 + NAME_MAX + 1];
	ssize_t n;
	tasd_err err = xattr_path(l, &fd, path, sizeof(path));

	(void)caller;
	if (err)
		return err;
	list = malloc(XATTR_LIST_MAX);
	if (!list)
		return -ENOMEM;
	n = strcmp(l->path, ".") == 0 ? listxattr(path, list, XATTR_LIST_MAX)
				      : llistxattr(path, list, XATTR_LIST_MAX);
	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (ssize_t at = 0; at < n;) {
		size_t len = strnlen(list + at, (size_t)(n - at)) + 1;

		/* Other namespaces are the kernel's affair below. */
		if (strncmp(list + at, "user.", 5) == 0)
			tasd_buf_add(ret, list + at, len);
		at += (ssize_t)len;
	}
	return tasd_buf_err(ret);
}

static const struct tasd_inode_ops lib_ops = {
	.what = "library",
	.same = lib_same,
	.free = lib_free,
	.attr = lib_attr,
	.lookup = lib_lookup,
	.opendir = lib_opendir,
	.entry = lib_entry,
	.entry_node = lib_entry_node,
	.open = lib_open,
	.readlink = lib_readlink,
	.getxattr = lib_getxattr,
	.listxattr = lib_listxattr,
};
