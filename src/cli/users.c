/*
 * Names of links in /proc are compared as text: following them would ask the
 * very server that may be hung.  Mappings are told by their device.
 */
#include "users.h"
#include <base/cleanup.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NAMED_MAX 5

static void read_comm(pid_t pid, char *out, size_t room)
{
	char path[64];
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, out, room - 1);
	if (n < 0)
		n = 0;
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

bool tasd_is_server(pid_t pid)
{
	char comm[64];

	/* The kernel keeps 15 bytes of mount.fuse.tasdfs. */
	read_comm(pid, comm, sizeof(comm));
	return strncmp(comm, "tasdfs", 6) == 0 ||
	       strcmp(comm, "mount.fuse.tasd") == 0;
}

/* Does the link PID/what lead to dir or below it? */
static bool link_leads(pid_t pid, const char *what, const char *dir)
{
	char path[300], to[PATH_MAX];
	size_t len = strlen(dir);
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return false;
	to[n] = '\0';
	return strncmp(to, dir, len) == 0 && (to[len] == '/' || !to[len]);
}

static bool maps_device(pid_t pid, dev_t dev)
{
	char path[64], wanted[32], found[32];
	cleanup_free char *line = NULL;
	size_t room = 0;
	bool hit = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	snprintf(wanted, sizeof(wanted), "%02x:%02x", major(dev), minor(dev));
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!hit && getline(&line, &room, file) > 0)
		hit = sscanf(line, "%*s %*s %*s %31s", found) == 1 &&
		      strcmp(found, wanted) == 0;
	fclose(file);
	return hit;
}

/* Call fn for each number that is a name in the folder; stop when it is true.
 */
static bool each_number(
	const char *folder, bool (*fn)(void *ctx, int number), void *ctx)
{
	const struct dirent *item;
	bool hit = false;
	DIR *dir = opendir(folder);

	if (!dir)
		return false;
	while (!hit && (item = readdir(dir)))
		if (isdigit((unsigned char)item->d_name[0]))
			hit = fn(ctx, atoi(item->d_name));
	closedir(dir);
	return hit;
}

struct open_file {
	pid_t pid;
	const char *dir;
};

static bool file_is_below(void *ctx, int number)
{
	const struct open_file *f = ctx;
	char what[32];

	snprintf(what, sizeof(what), "fd/%d", number);
	return link_leads(f->pid, what, f->dir);
}

static bool uses(pid_t pid, const struct tasd_mount_entry *mount)
{
	struct open_file f = {.pid = pid, .dir = mount->path};
	char folder[64];

	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
	return link_leads(pid, "cwd", mount->path) ||
	       link_leads(pid, "root", mount->path) ||
	       each_number(folder, file_is_below, &f) ||
	       maps_device(pid, mount->dev);
}

struct users {
	struct tasd_buf *line;
	const struct tasd_mount_entry *mount;
	unsigned int found;
};

static bool add_user(void *ctx, int number)
{
	struct users *users = ctx;
	char comm[64];

	if (number == getpid() || !uses(number, users->mount))
		return false;
	if (users->found++ >= NAMED_MAX)
		return false;
	read_comm(number, comm, sizeof(comm));
	tasd_buf_printf(users->line, "%s%s (pid %d)",
		users->found > 1 ? ", " : "", *comm ? comm : "?", number);
	return false;
}

void tasd_users_of_mount(
	struct tasd_buf *line, const struct tasd_mount_entry *mount)
{
	struct users users = {.line = line, .mount = mount};

	each_number("/proc", add_user, &users);
	if (users.found > NAMED_MAX)
		tasd_buf_printf(line, " and %u more", users.found - NAMED_MAX);
}

struct connection {
	pid_t pid;
	unsigned int id;
	pid_t found;
};

static bool is_connection(void *ctx, int number)
{
	const struct connection *c = ctx;
	char path[80], line[256];
	unsigned int id;
	bool hit = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)c->pid, number);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!hit && fgets(line, sizeof(line), file))
		hit = sscanf(line, "fuse_connection: %u", &id) == 1 &&
		      id == c->id;
	fclose(file);
	return hit;
}

static bool serves(void *ctx, int number)
{
	struct connection *c = ctx;
	char folder[64];

	c->pid = number;
	snprintf(folder, sizeof(folder), "/proc/%d/fdinfo", number);
	if (!tasd_is_server(number) || !each_number(folder, is_connection, c))
		return false;
	c->found = number;
	return true;
}

pid_t tasd_server_by_connection(const struct tasd_mount_entry *mount)
{
	/* The connection is called by the mount's anonymous device. */
	struct connection c = {.id = (unsigned int)minor(mount->dev) |
				     (unsigned int)major(mount->dev) << 20,
		.found = -1};

	return each_number("/proc", serves, &c) ? c.found : -1;
}
