/*
 * The user's own path may pass through any link; the last component is taken
 * as it stands when the policy of names allows it (a hub snapshot's link keeps
 * the folder its shards are named from), else as what it leads to.
 */
#include <base/cleanup.h>
#include <fcntl.h>
#include <format/format.h>
#include <format/place.h>
#include <source/beneath.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static tasd_err open_folder(const char *path, int *ret_fd)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* "a/b" -> folder a, name b; absolute paths, links of the folder resolved. */
static tasd_err split(const char *path, struct tasd_place *place)
{
	cleanup_free char *copy = strdup(path);
	cleanup_free char *folder = NULL;
	char *slash;
	const char *name;

	if (!copy)
		return -ENOMEM;
	slash = strrchr(copy, '/');
	name = slash ? slash + 1 : copy;
	if (slash)
		*slash = '\0';
	folder = realpath(!slash ? "." : copy[0] ? copy : "/", NULL);
	if (!folder)
		return -errno;
	place->name = strdup(name);
	if (!place->name ||
		asprintf(&place->path, "%s/%s",
			strcmp(folder, "/") ? folder : "", name) < 0) {
		place->path = NULL;
		return -ENOMEM;
	}
	return open_folder(folder, &place->dirfd);
}

static tasd_err folder_place(const char *path, struct tasd_place *place)
{
	place->name = strdup(".");
	if (!place->name)
		return -ENOMEM;
	place->path = realpath(path, NULL);
	if (!place->path)
		return -errno;
	return open_folder(path, &place->dirfd);
}

static tasd_err file_place(const char *path, struct tasd_place *place)
{
	cleanup_free char *real = NULL;
	struct stat st;
	tasd_err err = split(path, place);

	if (err)
		return err;
	err = tasd_beneath_stat(place->dirfd, place->name, &st);
	if (err != -EPERM)
		return err;
	/* A link of the user's that leads elsewhere. */
	real = realpath(path, NULL);
	if (!real)
		return -errno;
	tasd_place_close(place);
	return split(real, place);
}

static tasd_err open_place(
	const char *path, struct tasd_place *place, struct tasd_diag *diag)
{
	struct stat st;
	tasd_err err;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		err = folder_place(path, place);
	else if (S_ISREG(st.st_mode))
		err = file_place(path, place);
	else
		err = tasd_diag_set(
			diag, -ENOTSUP, "neither a regular file nor a folder");
	if (err)
		return err;
	err = tasd_container_probe(
		place->dirfd, place->name, &place->format, diag);
	if (err)
		return err;
	return place->format || S_ISDIR(st.st_mode) ? 0 : -ENOTSUP;
}

tasd_err tasd_place_open(
	const char *path, struct tasd_place *ret, struct tasd_diag *diag)
{
	struct tasd_place place = {.dirfd = -1};
	tasd_err err;

	if (diag)
		diag->text[0] = '\0';
	err = open_place(path, &place, diag);
	if (err) {
		tasd_place_close(&place);
		if (diag && !diag->text[0])
			tasd_diag_set(diag, err, "%s", strerror(-err));
		return err;
	}
	if (diag)
		diag->text[0] = '\0';
	*ret = place;
	return 0;
}

void tasd_place_close(struct tasd_place *place)
{
	tasd_cleanup_fd(&place->dirfd);
	free(place->name);
	free(place->path);
	place->name = place->path = NULL;
	place->format = NULL;
}

bool tasd_place_is_face(const char *name, size_t len, size_t *ret_base_len)
{
	static const char suffix[] = ".tasd";
	size_t n = strlen(suffix);

	if (len <= n || memcmp(name + len - n, suffix, n) != 0)
		return false;
	*ret_base_len = len - n;
	return true;
}
