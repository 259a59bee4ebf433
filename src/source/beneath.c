/*
 * The kernel resolves names (openat2, RESOLVE_BENEATH), so no race between a
 * look and an open leads out.  What it refuses because a link leaves the folder
 * may still be a link of the Hugging Face hub's cache:
 *
 *	.../models--X/snapshots/REV/[sub/]NAME -> .../models--X/blobs/HASH
 *
 * That link is never followed: its text is read, resolved as text against the
 * place it lies in, compared with the one shape allowed, and the blob is then
 * opened from its models--X folder with no symlink on the way.
 *
 * Anything is opened with O_PATH first: opening a device or a FIFO for reading
 * has effects of its own.
 */
#include <base/cleanup.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <source/beneath.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define RESOLVE_LINKS (RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
#define RESOLVE_NONE  (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

/* The kernel answers EAGAIN when a rename races with "..". */
#define OPEN_TRIES 16

/* A descriptor, or a negative errno value. */
static int open_resolving(
	int dirfd, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = resolve,
	};
	long fd;

	for (int i = 0; i < OPEN_TRIES; i++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			break;
	}
	/* -EPERM is what we say of names that lead out; the kernel says EXDEV
	 * of those, and EPERM only where something else forbids the open. */
	return errno == EPERM ? -EACCES : -errno;
}

/* Open what is known to be a regular file only; -EINVAL when it is not. */
static tasd_err open_regular(
	int dirfd, const char *path, uint64_t resolve, int *ret_fd)
{
	cleanup_fd int place = -1;
	cleanup_fd int fd = -1;
	struct stat seen, got;

	place = open_resolving(dirfd, path, O_PATH, resolve);
	if (place < 0)
		return place;
	if (fstat(place, &seen) < 0)
		return -errno;
	if (!S_ISREG(seen.st_mode))
		return -EINVAL;
	fd = open_resolving(
		dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, resolve);
	if (fd < 0)
		return fd;
	if (fstat(fd, &got) < 0)
		return -errno;
	/* It may have been replaced in between, by another regular file. */
	if (!S_ISREG(got.st_mode))
		return -EINVAL;
	*ret_fd = tasd_steal_fd(&fd);
	return 0;
}

/* Does the name climb out of its folder, whatever lies there? */
static bool climbs_out(const char *path)
{
	long depth = 0;

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.')
			depth--;
		else if (n > 0 && !(n == 1 && path[0] == '.'))
			depth++;
		if (depth < 0)
			return true;
		path += n;
		path += strspn(path, "/");
	}
	return false;
}

/* Where an open directory is, as the kernel says. */
static tasd_err path_of_fd(int fd, char out[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX);
	if (n < 0)
		return -errno;
	if (n == PATH_MAX || out[0] != '/')
		return -EPERM;
	out[n] = '\0';
	return 0;
}

/*
 * Resolve link text against the directory base, as text: the result is
 * absolute, without "." and "..".
 */
static tasd_err join_as_text(
	const char *base, const char *text, char out[PATH_MAX])
{
	size_t len = 0;

	if (text[0] != '/') {
		len = strlen(base);
		if (len >= PATH_MAX)
			return -EPERM;
		memcpy(out, base, len);
		while (len > 0 && out[len - 1] == '/')
			len--;
	}
	while (*text) {
		size_t n;

		text += strspn(text, "/");
		n = strcspn(text, "/");
		if (n == 2 && text[0] == '.' && text[1] == '.') {
			while (len > 0 && out[len - 1] != '/')
				len--;
			if (len > 0)
				len--;
		} else if (n > 0 && !(n == 1 && text[0] == '.')) {
			if (len + 1 + n >= PATH_MAX)
				return -EPERM;
			out[len++] = '/';
			memcpy(out + len, text, n);
			len += n;
		}
		text += n;
	}
	out[len] = '\0';
	return 0;
}

/*
 * For a directory at or below .../models--X/snapshots/REV: the length of
 * ".../models--X", and how many components follow it.  0: it is not.
 */
static size_t hub_model_len(const char *path, unsigned int *ret_below)
{
	static const char snapshots[] = "/snapshots/";
	static const char models[] = "models--";
	const char *at = path, *found = NULL;
	unsigned int below = 0;

	while ((at = strstr(at, snapshots))) {
		const char *name = at;

		while (name > path && name[-1] != '/')
			name--;
		if ((size_t)(at - name) > strlen(models) &&
			strncmp(name, models, strlen(models)) == 0)
			found = at;
		at++;
	}
	if (!found || !found[strlen(snapshots)])
		return 0;
	for (at = found; *at; at++)
		below += *at == '/';
	*ret_below = below;
	return (size_t)(found - path);
}

/* A link that leads from a hub snapshot to a blob of the same model. */
struct hub_link {
	int modelfd; /* models--X, owned */
	char model[PATH_MAX];
	char blob[sizeof("blobs/") + NAME_MAX]; /* in it: blobs/HASH */
};

static tasd_err hub_model_open(
	int dirfd, unsigned int below, const char *model, int *ret_fd)
{
	char up[PATH_MAX], where[PATH_MAX];
	cleanup_fd int fd = -1;
	size_t len = 0;
	tasd_err err;

	if (below > PATH_MAX / 3 - 1)
		return -EPERM;
	for (unsigned int i = 0; i < below; i++, len += 3)
		memcpy(up + len, "../", 3);
	up[len] = '\0';
	fd = openat(dirfd, up, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = path_of_fd(fd, where);
	if (err)
		return err;
	if (strcmp(where, model) != 0)
		return -EPERM; /* moved meanwhile */
	*ret_fd = tasd_steal_fd(&fd);
	return 0;
}

/* -EPERM unless `name` in dirfd is such a link. */
static tasd_err hub_link_read(int dirfd, const char *name, struct hub_link *ret)
{
	static const char blobs[] = "/blobs/";
	char text[PATH_MAX], where[PATH_MAX], target[PATH_MAX];
	const char *hash;
	unsigned int below = 0;
	ssize_t n = readlinkat(dirfd, name, text, sizeof(text));
	size_t len;
	tasd_err err;

	if (n < 0 || n == sizeof(text))
		return -EPERM;
	text[n] = '\0';
	err = path_of_fd(dirfd, where);
	if (err)
		return err;
	len = hub_model_len(where, &below);
	if (len == 0)
		return -EPERM;
	err = join_as_text(where, text, target);
	if (err)
		return err;
	if (strncmp(target, where, len) != 0 ||
		strncmp(target + len, blobs, strlen(blobs)) != 0)
		return -EPERM;
	hash = target + len + strlen(blobs);
	if (!hash[0] || strchr(hash, '/') || strlen(hash) > NAME_MAX)
		return -EPERM;
	memcpy(ret->model, where, len);
	ret->model[len] = '\0';
	snprintf(ret->blob, sizeof(ret->blob), "blobs/%s", hash);
	return hub_model_open(dirfd, below, ret->model, &ret->modelfd);
}

/* The kernel said that path leads out: perhaps it is the hub's own way. */
static tasd_err hub_resolve(int dirfd, const char *path, struct hub_link *ret)
{
	cleanup_fd int parent = -1;
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX] = ".";

	if (slash) {
		size_t len = (size_t)(slash - path);

		if (len >= sizeof(folder))
			return -EPERM;
		memcpy(folder, path, len);
		folder[len] = '\0';
	}
	parent = open_resolving(
		dirfd, folder, O_PATH | O_DIRECTORY, RESOLVE_LINKS);
	if (parent < 0)
		return -EPERM;
	return hub_link_read(parent, slash ? slash + 1 : path, ret);
}

static tasd_err open_hub_link(int dirfd, const char *path, int *ret_fd)
{
	struct hub_link link;
	tasd_err err = hub_resolve(dirfd, path, &link);

	if (err)
		return err;
	err = open_regular(link.modelfd, link.blob, RESOLVE_NONE, ret_fd);
	close(link.modelfd);
	return err == -ELOOP ? -EPERM : err;
}

static int open_hub_place(int dirfd, const char *path)
{
	struct hub_link link;
	int fd = hub_resolve(dirfd, path, &link);

	if (fd < 0)
		return fd;
	fd = open_resolving(link.modelfd, link.blob, O_PATH, RESOLVE_NONE);
	close(link.modelfd);
	return fd == -ELOOP ? -EPERM : fd;
}

static tasd_err refuse(struct tasd_diag *diag, tasd_err err)
{
	if (err == -EPERM)
		return tasd_diag_set(diag, err,
			"leads out of the folder and is not followed");
	if (err == -EINVAL)
		return tasd_diag_set(diag, err, "not a regular file");
	return tasd_diag_set(diag, err, "%s", strerror(-err));
}

static tasd_err check_name(const char *path, struct tasd_diag *diag)
{
	if (!path[0])
		return tasd_diag_set(diag, -EINVAL, "empty file name");
	if (path[0] == '/')
		return tasd_diag_set(
			diag, -EINVAL, "an absolute file name is not followed");
	if (climbs_out(path))
		return refuse(diag, -EPERM);
	return 0;
}

tasd_err tasd_beneath_open(
	int dirfd, const char *path, int *ret_fd, struct tasd_diag *diag)
{
	tasd_err err = check_name(path, diag);

	if (err)
		return err;
	err = open_regular(dirfd, path, RESOLVE_LINKS, ret_fd);
	if (err == -EXDEV)
		err = open_hub_link(dirfd, path, ret_fd);
	return err ? refuse(diag, err) : 0;
}

tasd_err tasd_beneath_opendir(
	int dirfd, const char *path, int *ret_fd, struct tasd_diag *diag)
{
	tasd_err err = check_name(path, diag);
	int fd;

	if (err)
		return err;
	fd = open_resolving(dirfd, path, O_RDONLY | O_DIRECTORY, RESOLVE_LINKS);
	if (fd == -EXDEV)
		fd = -EPERM;
	if (fd < 0)
		return refuse(diag, fd);
	*ret_fd = fd;
	return 0;
}

tasd_err tasd_beneath_stat(int dirfd, const char *path, struct stat *ret)
{
	cleanup_fd int fd = -1;
	tasd_err err = check_name(path, NULL);

	if (err)
		return err;
	fd = open_resolving(dirfd, path, O_PATH, RESOLVE_LINKS);
	if (fd == -EXDEV)
		fd = open_hub_place(dirfd, path);
	if (fd < 0)
		return fd;
	return fstat(fd, ret) < 0 ? -errno : 0;
}

/* Is the absolute path inside the directory root, or root itself? */
static bool is_inside(const char *path, const char *root)
{
	size_t len = strlen(root);

	while (len > 0 && root[len - 1] == '/')
		len--;
	return strncmp(path, root, len) == 0 &&
	       (path[len] == '/' || path[len] == '\0');
}

bool tasd_beneath_is_hub_link(int rootfd, int dirfd, const char *name)
{
	cleanup_fd int modelfd = -1;
	cleanup_fd int blob = -1;
	struct hub_link link;
	char root[PATH_MAX];
	struct stat st;

	if (hub_link_read(dirfd, name, &link))
		return false;
	modelfd = link.modelfd;
	if (path_of_fd(rootfd, root) || is_inside(link.model, root))
		return false;
	blob = open_resolving(modelfd, link.blob, O_PATH, RESOLVE_NONE);
	return blob >= 0 && fstat(blob, &st) == 0 && S_ISREG(st.st_mode);
}
