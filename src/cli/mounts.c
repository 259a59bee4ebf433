/*
 * mountinfo is read anew for each question: mounts change, and a question is
 * asked once per command.  Paths in it have blanks and backslashes as \ooo.
 */
#include "mounts.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

extern char **environ;

/* \040 and the like, in place. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' &&
			from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
			from[3] <= '7') {
			*to++ = (char)((from[1] - '0') << 6 |
				       (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

void tasd_mount_entry_free(struct tasd_mount_entry *entry)
{
	free(entry->path);
	free(entry->type);
	free(entry->source);
	*entry = (struct tasd_mount_entry){.path = NULL};
}

/* "36 35 98:0 /root /path options - type source options" */
static bool parse_line(char *line, struct tasd_mount_entry *entry)
{
	char *save = NULL, *path = NULL, *type, *source, *word;
	unsigned int major, minor;
	char *dash = strstr(line, " - ");
	int field = 0;

	if (!dash || sscanf(line, "%*d %*d %u:%u", &major, &minor) != 2)
		return false;
	*dash = '\0';
	for (word = strtok_r(line, " ", &save); word;
		word = strtok_r(NULL, " ", &save))
		if (++field == 5)
			path = word;
	type = strtok_r(dash + 3, " \n", &save);
	source = strtok_r(NULL, " \n", &save);
	if (!path || !type)
		return false;
	unescape(path);
	*entry = (struct tasd_mount_entry){.path = strdup(path),
		.type = strdup(type),
		.source = strdup(source ? source : ""),
		.dev = makedev(major, minor)};
	unescape(entry->source);
	return true;
}

enum relation {
	RELATION_AT,
	RELATION_ABOVE, /* path is the mount point or lies below it */
	RELATION_BELOW, /* the mount point is below path */
};

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (len == 1 && dir[0] == '/')
		return path[1] != '\0';
	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static bool relates(const char *mount, const char *path, enum relation how)
{
	switch (how) {
	case RELATION_AT:
		return strcmp(mount, path) == 0;
	case RELATION_ABOVE:
		return strcmp(mount, path) == 0 || is_below(path, mount);
	case RELATION_BELOW:
		return is_below(mount, path);
	}
	return false;
}

/* The last line that relates: what was mounted last hides the others. */
static tasd_err search(
	const char *path, enum relation how, struct tasd_mount_entry *ret)
{
	struct tasd_mount_entry found = {.path = NULL}, entry;
	cleanup_free char *line = NULL;
	size_t room = 0;
	FILE *file = fopen("/proc/self/mountinfo", "re");

	if (!file)
		return -errno;
	while (getline(&line, &room, file) > 0) {
		if (!parse_line(line, &entry))
			continue;
		if (!entry.path || !entry.type || !entry.source ||
			!relates(entry.path, path, how)) {
			tasd_mount_entry_free(&entry);
			continue;
		}
		tasd_mount_entry_free(&found);
		found = entry;
	}
	fclose(file);
	if (!found.path)
		return -ENOENT;
	*ret = found;
	return 0;
}

tasd_err tasd_mount_find(const char *path, struct tasd_mount_entry *ret)
{
	return search(path, RELATION_AT, ret);
}

tasd_err tasd_mount_above(const char *path, struct tasd_mount_entry *ret)
{
	return search(path, RELATION_ABOVE, ret);
}

tasd_err tasd_mount_below(const char *path, struct tasd_mount_entry *ret)
{
	return search(path, RELATION_BELOW, ret);
}

/* The folder's real path and the last component as it stands. */
static tasd_err join_real(const char *path, char **ret)
{
	cleanup_free char *dir = strdup(path);
	cleanup_free char *real = NULL;
	char *slash;

	if (!dir)
		return -ENOMEM;
	while ((slash = strrchr(dir, '/')) && slash != dir && !slash[1])
		*slash = '\0';
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	real = realpath(!slash ? "." : slash == dir ? "/" : dir, NULL);
	if (!real)
		return -errno;
	if (asprintf(ret, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
		    slash ? slash + 1 : dir) < 0)
		return -ENOMEM;
	return 0;
}

tasd_err tasd_mount_path(const char *path, char **ret)
{
	int saved;

	*ret = realpath(path, NULL);
	if (*ret)
		return 0;
	saved = errno;
	if (saved != ENOTCONN && saved != EACCES && saved != EIO)
		return -saved;
	/* The last component cannot be looked at: a dead server, or a mount
	 * of another user. */
	return join_real(path, ret) ? -saved : 0;
}

bool tasd_mount_is_dead(const char *path)
{
	struct statx stx;

	/* Not from the cache: the kernel may still know the attributes. */
	return statx(AT_FDCWD, path, AT_NO_AUTOMOUNT | AT_STATX_FORCE_SYNC,
		       STATX_TYPE, &stx) < 0 &&
	       errno == ENOTCONN;
}

/* Run fusermount3 -u and gather what it says. */
static tasd_err run_fusermount(
	const char *path, bool lazy, char *said, size_t room)
{
	char flag_u[] = "-u", flag_z[] = "-z", flag_end[] = "--";
	char name[] = "fusermount3";
	cleanup_free char *place = strdup(path);
	char *argv[] = {name, flag_u, lazy ? flag_z : flag_end,
		lazy ? flag_end : place, lazy ? place : NULL, NULL};
	posix_spawn_file_actions_t actions;
	size_t len = 0;
	ssize_t n;
	int fds[2], status = 0, err;
	pid_t pid;

	if (!place)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDERR_FILENO);
	err = posix_spawnp(&pid, name, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	while (!err && len + 1 < room &&
		(n = read(fds[0], said + len, room - len - 1)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(fds[0]);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

tasd_err tasd_mount_undo(const char *path, bool lazy, struct tasd_diag *diag)
{
	static const char prefix[] = "fusermount3: ";
	char said[1024] = "";
	const char *text = said;
	tasd_err err;

	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno != EPERM)
		return -errno;
	err = run_fusermount(path, lazy, said, sizeof(said));
	if (!err)
		return 0;
	if (err == -ENOENT)
		return tasd_diag_set(diag, err,
			"fusermount3 is not installed (package fuse3), and "
			"only root may unmount without it");
	if (strstr(said, strerror(EBUSY)))
		return -EBUSY;
	if (strncmp(text, prefix, sizeof(prefix) - 1) == 0)
		text += sizeof(prefix) - 1;
	return tasd_diag_set(diag, err, "%.*s", (int)strcspn(text, "\n"),
		*text ? text : "fusermount3 failed");
}
