/*
 * Finding what SOURCE [PATH] means.
 *
 * In a library each component is looked for as a real entry first; only when
 * there is none is NAME.tasd the face of NAME, and the rest of the path lies in
 * that container's state dict.  In a state dict a path of names is tried first,
 * then the whole text as a dotted key.
 */
#include "target.h"
#include "cli.h"
#include <base/cleanup.h>
#include <dirent.h>
#include <fcntl.h>
#include <source/beneath.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

char *tasd_path_join(const char *dir, const char *name)
{
	char *out = NULL;

	if (strcmp(dir, ".") == 0 || dir[0] == '\0')
		return strdup(name);
	if (strcmp(name, ".") == 0 || name[0] == '\0')
		return strdup(dir);
	return asprintf(&out, "%s/%s", dir, name) < 0 ? NULL : out;
}

/* Without leading, doubled and trailing slashes; "." for nothing. */
static char *tidy(const char *path)
{
	char *out = malloc(strlen(path) + 2), *to = out;

	if (!out)
		return NULL;
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n > 0 && !(n == 1 && path[0] == '.')) {
			if (to != out)
				*to++ = '/';
			memcpy(to, path, n);
			to += n;
		}
		path += n + (path[n] == '/');
	}
	*to = '\0';
	if (to == out)
		strcpy(out, ".");
	return out;
}

static const struct tasd_node *by_dotted_key(
	const struct tasd_statedict *sd, const char *key)
{
	size_t len = strlen(key);
	struct tasd_buf dotted = TASD_BUF_EMPTY;
	const struct tasd_node *n = tasd_statedict_root(sd), *found = NULL;

	while (!found && (n = tasd_node_next(n))) {
		dotted.len = 0;
		tasd_node_dotted(&dotted, n);
		if (dotted.len == len && memcmp(dotted.bytes, key, len) == 0)
			found = n;
	}
	tasd_buf_free(&dotted);
	return found;
}

/* Find path, tidied, in the container that target has. */
static tasd_err find_node(
	struct tasd_target *target, const char *path, struct tasd_diag *diag)
{
	const struct tasd_statedict *sd = target->ctr->sd;
	const struct tasd_node *node = tasd_statedict_root(sd);

	if (path && strcmp(path, ".") != 0) {
		node = tasd_statedict_lookup(sd, path);
		if (!node)
			node = by_dotted_key(sd, path);
		if (!node)
			return tasd_diag_set(
				diag, -ENOENT, "no such key or path: %s", path);
	}
	if (node->form == TASD_FORM_LINK)
		node = node->link;
	target->kind = TASD_TARGET_NODE;
	target->node = node;
	return 0;
}

static tasd_err open_container(struct tasd_target *target, const char *name,
	const char *path, struct tasd_diag *diag)
{
	tasd_err err = tasd_container_open(
		target->place.dirfd, name, 0, &target->ctr, diag);

	if (err)
		return err;
	return find_node(target, path, diag);
}

/* Name the target for messages: SOURCE and the path beneath it. */
static tasd_err set_where(
	struct tasd_target *target, const char *source, const char *inside)
{
	char *where = tasd_path_join(source, inside);

	if (!where)
		return -ENOMEM;
	free(target->where);
	target->where = where;
	return 0;
}

/* NAME.tasd is not there itself: the container NAME, and rest inside it. */
static tasd_err open_face(struct tasd_target *target, const char *source,
	const char *face, const char *rest, struct tasd_diag *diag)
{
	const char *slash = strrchr(face, '/');
	const char *last = slash ? slash + 1 : face;
	cleanup_free char *base = NULL;
	size_t len;
	tasd_err err;

	if (!tasd_place_is_face(last, strlen(last), &len)) {
		err = set_where(target, source, face);
		return err ? err
			   : tasd_diag_set(
				     diag, -ENOENT, "%s", strerror(ENOENT));
	}
	base = strndup(face, (size_t)(last - face) + len);
	if (!base)
		return -ENOMEM;
	err = set_where(target, source, base);
	if (err)
		return err;
	return open_container(target, base, rest, diag);
}

static tasd_err found_file(struct tasd_target *target, const char *source,
	const char *path, const char *rest, unsigned int flags,
	struct tasd_diag *diag)
{
	tasd_err err = set_where(target, source, path);

	if (err)
		return err;
	if (*rest)
		return tasd_diag_set(diag, -ENOTDIR,
			"a file, not a folder; a checkpoint's state dict is "
			"%s.tasd",
			path);
	if (flags & TASD_TARGET_OPEN)
		return open_container(target, path, NULL, diag);
	target->kind = TASD_TARGET_FILE;
	target->inside = strdup(path);
	return target->inside ? 0 : -ENOMEM;
}

static tasd_err found_folder(struct tasd_target *target, const char *source,
	const char *path, unsigned int flags, struct tasd_diag *diag)
{
	const struct tasd_format *format = NULL;
	tasd_err err = set_where(target, source, path);

	if (err)
		return err;
	if ((flags & TASD_TARGET_OPEN) && strcmp(path, ".") != 0 &&
		!tasd_container_probe(
			target->place.dirfd, path, &format, NULL) &&
		format)
		return open_container(target, path, NULL, diag);
	target->kind = TASD_TARGET_FOLDER;
	target->inside = strdup(path);
	return target->inside ? 0 : -ENOMEM;
}

/* Walk path, tidied, down a library. */
static tasd_err walk_library(struct tasd_target *target, const char *source,
	const char *path, unsigned int flags, struct tasd_diag *diag)
{
	const char *end = path;
	int root = target->place.dirfd;

	if (strcmp(path, ".") == 0)
		return found_folder(target, source, path, flags, diag);
	for (;;) {
		cleanup_free char *head = NULL;
		cleanup_fd int fd = -1;
		tasd_err err;

		end += strcspn(end, "/");
		head = strndup(path, (size_t)(end - path));
		if (!head)
			return -ENOMEM;
		end += *end == '/';
		err = tasd_beneath_opendir(root, head, &fd, diag);
		if (!err && !*end)
			return found_folder(target, source, head, flags, diag);
		if (!err)
			continue;
		if (!tasd_beneath_open(root, head, &fd, diag))
			return found_file(
				target, source, head, end, flags, diag);
		if (err == -ENOENT)
			return open_face(target, source, head, end, diag);
		if (!set_where(target, source, head) && !diag->text[0])
			tasd_diag_set(diag, err, "%s", strerror(-err));
		return err;
	}
}

/*
 * source is not there: is it a face, or a path in one?  Then split it in the
 * path of the container and the path inside.
 */
static tasd_err split_face(
	const char *source, char **ret_source, char **ret_path)
{
	const char *at = source;

	while (*at) {
		size_t n = strcspn(at, "/"), base;
		struct stat st;
		cleanup_free char *name = NULL;

		if (tasd_place_is_face(at, n, &base)) {
			name = strndup(source, (size_t)(at - source) + base);
			if (!name)
				return -ENOMEM;
			if (stat(name, &st) == 0) {
				*ret_path = strdup(at + n);
				*ret_source = tasd_steal_ptr(&name);
				return *ret_path ? 0 : -ENOMEM;
			}
		}
		at += n + (at[n] == '/');
	}
	return -ENOENT;
}

static tasd_err open_place(const char *source, const char *path,
	unsigned int flags, struct tasd_target *target, struct tasd_diag *diag)
{
	cleanup_free char *tidied = tidy(path ? path : "");
	tasd_err err = tidied ? set_where(target, source, ".") : -ENOMEM;

	if (!err)
		err = tasd_place_open(source, &target->place, diag);
	if (err)
		return err;
	if (target->place.format)
		return open_container(target, target->place.name, tidied, diag);
	return walk_library(target, source, tidied, flags, diag);
}

int tasd_target_open(const char *source, const char *path, unsigned int flags,
	struct tasd_target *ret)
{
	struct tasd_target target = {.place = {.dirfd = -1}};
	cleanup_free char *base = NULL, *rest = NULL, *both = NULL;
	struct tasd_diag diag = {.text = ""};
	tasd_err err = open_place(source, path, flags, &target, &diag);

	if ((err == -ENOENT || err == -ENOTDIR) && !target.place.name &&
		split_face(source, &base, &rest) == 0) {
		tasd_target_close(&target);
		both = tasd_path_join(rest, path ? path : "");
		err = both ? open_place(base, both, flags, &target, &diag)
			   : -ENOMEM;
	}
	if (err) {
		tasd_cli_diag(target.where ? target.where : source, &diag, err);
		tasd_target_close(&target);
		return TASD_EXIT_FAIL;
	}
	*ret = target;
	return TASD_EXIT_OK;
}

void tasd_target_close(struct tasd_target *target)
{
	if (target->ctr)
		tasd_container_put(target->ctr);
	if (target->place.name)
		tasd_place_close(&target->place);
	free(target->inside);
	free(target->where);
	*target = (struct tasd_target){.place = {.dirfd = -1}};
}
