/*
 * One folder of a library: what is in it, sorted, and which of it are
 * containers.  A link is followed by the policy of source/beneath.h only, and
 * one into a hub cache's blobs counts as the file it names.
 */
#include "target.h"
#include <base/cleanup.h>
#include <dirent.h>
#include <fcntl.h>
#include <source/beneath.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const void *a, const void *b)
{
	const struct tasd_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static tasd_err look_at(int rootfd, int dirfd, const char *inside,
	const char *name, struct tasd_entry *entry)
{
	cleanup_free char *path = tasd_path_join(inside, name);
	struct stat st;

	*entry = (struct tasd_entry){.name = strdup(name), .type = '?'};
	if (!path || !entry->name)
		return -ENOMEM;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		entry->type = 'd';
	else if (S_ISREG(st.st_mode))
		entry->type = 'f';
	else if (S_ISLNK(st.st_mode))
		entry->type = 'l';
	if (entry->type == 'l' &&
		tasd_beneath_is_hub_link(rootfd, dirfd, name) &&
		fstatat(dirfd, name, &st, 0) == 0)
		entry->type = 'f';
	entry->size = entry->type == 'f' ? (uint64_t)st.st_size : 0;
	if (entry->type != '?' &&
		tasd_container_probe(rootfd, path, &entry->format, NULL))
		entry->format = NULL;
	return 0;
}

tasd_err tasd_folder_read(int rootfd, const char *inside,
	struct tasd_folder *ret, struct tasd_diag *diag)
{
	struct tasd_folder folder = {.n = 0};
	const struct dirent *item;
	size_t room = 0;
	int fd = -1;
	DIR *dir;
	tasd_err err = tasd_beneath_opendir(rootfd, inside, &fd, diag);

	if (err)
		return err;
	dir = fdopendir(fd);
	if (!dir) {
		err = -errno;
		close(fd);
		return err;
	}
	while (!err && (errno = 0, item = readdir(dir))) {
		if (strcmp(item->d_name, ".") == 0 ||
			strcmp(item->d_name, "..") == 0)
			continue;
		if (folder.n == room) {
			struct tasd_entry *more;

			room = room ? 2 * room : 64;
			more = reallocarray(
				folder.entries, room, sizeof(*more));
			if (!more) {
				err = -ENOMEM;
				break;
			}
			folder.entries = more;
		}
		err = look_at(rootfd, dirfd(dir), inside, item->d_name,
			&folder.entries[folder.n++]);
	}
	if (!err && errno)
		err = -errno;
	closedir(dir);
	if (err) {
		tasd_folder_free(&folder);
		return err;
	}
	if (folder.n)
		qsort(folder.entries, folder.n, sizeof(folder.entries[0]),
			by_name);
	*ret = folder;
	return 0;
}

void tasd_folder_free(struct tasd_folder *folder)
{
	for (size_t i = 0; i < folder->n; i++)
		free(folder->entries[i].name);
	free(folder->entries);
	*folder = (struct tasd_folder){.n = 0};
}

bool tasd_folder_has_face(
	const struct tasd_folder *folder, const struct tasd_entry *entry)
{
	struct tasd_entry key = {.name = NULL};
	bool real;

	if (!entry->format)
		return false;
	key.name = malloc(strlen(entry->name) + sizeof(".tasd"));
	if (!key.name)
		return false;
	strcpy(key.name, entry->name);
	strcat(key.name, ".tasd");
	real = bsearch(&key, folder->entries, folder->n,
		       sizeof(folder->entries[0]), by_name) != NULL;
	free(key.name);
	return !real;
}
