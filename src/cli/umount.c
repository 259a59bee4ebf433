/*
 * tasdfs umount: unmount, and wait until the server is gone, so that what comes
 * next (deleting the source, mounting again) finds nothing of it.
 *
 * Who the server is must be known before: afterwards nothing tells.  Reading
 * the mount's own stats can hang with its server, so a child does it that an
 * alarm ends.
 */
#include "cli.h"
#include "mounts.h"
#include "users.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STATS_SECONDS 5
#define END_SECONDS   10

static const char help[] =
	"Usage: tasdfs umount [OPTION]... MOUNTPOINT\n"
	"\n"
	"Unmount, and return when the server process has ended.\n"
	"\n"
	"  -l, --lazy  detach even while in use; the server ends with the last "
	"open\n"
	"              file, and this command does not wait for it\n"
	"  -h, --help  show this text\n"
	"\n"
	"While files in it are open the mount is busy: the processes are named "
	"and\n"
	"nothing changes. A mount whose server has died is cleared.\n"
	"\n"
	"  tasdfs umount /mnt\n";

enum { SERVER_UNKNOWN = 0, SERVER_DEAD = -1 };

/* In the child: print the number of the line "pid N", or SERVER_DEAD. */
static void report_pid(const char *place, int out)
{
	cleanup_free char *path = NULL;
	char line[256], text[32];
	int pid = 0;
	FILE *file;

	alarm(STATS_SECONDS);
	if (asprintf(&path, "%s/.tasd/stats", place) < 0)
		return;
	file = fopen(path, "re");
	if (!file && errno == ENOTCONN)
		pid = SERVER_DEAD;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "pid %d", &pid) == 1)
			break;
	if (file)
		fclose(file);
	snprintf(text, sizeof(text), "%d", pid);
	if (write(out, text, strlen(text)) < 0)
		return;
}

/* The server's pid, or SERVER_UNKNOWN, or SERVER_DEAD. */
static pid_t server_by_stats(const char *place)
{
	char text[32] = "";
	int fds[2];
	ssize_t n;
	pid_t child, pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return SERVER_UNKNOWN;
	child = fork();
	if (child == 0) {
		report_pid(place, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	n = child < 0 ? 0 : read(fds[0], text, sizeof(text) - 1);
	close(fds[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	pid = n > 0 ? atoi(text) : SERVER_UNKNOWN;
	return pid > 0 && !tasd_is_server(pid) ? SERVER_UNKNOWN : pid;
}

static int busy(const struct tasd_mount_entry *mount)
{
	struct tasd_buf users = TASD_BUF_EMPTY;
	struct tasd_mount_entry below;
	int rc;

	if (!tasd_mount_below(mount->path, &below)) {
		rc = tasd_cli_fail("%s: busy: %s is mounted below it",
			mount->path, below.path);
		tasd_mount_entry_free(&below);
		return rc;
	}
	tasd_users_of_mount(&users, mount);
	if (users.len && !tasd_buf_err(&users))
		rc = tasd_cli_fail("%s: busy: in use by %.*s", mount->path,
			(int)users.len, users.bytes);
	else
		rc = tasd_cli_fail("%s: busy: in use by a process that cannot "
				   "be seen from here",
			mount->path);
	tasd_buf_free(&users);
	return rc;
}

/* Wait for the server's end; pidfd is -1 when it is not known. */
static int wait_end(const char *path, int pidfd, pid_t pid)
{
	struct pollfd fd = {.fd = pidfd, .events = POLLIN};
	int n;

	if (pidfd < 0)
		return TASD_EXIT_OK;
	do
		n = poll(&fd, 1, END_SECONDS * 1000);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return TASD_EXIT_OK;
	return tasd_cli_fail(
		"%s: unmounted, but its server (pid %d) has not ended "
		"after %d seconds",
		path, (int)pid, END_SECONDS);
}

static int undo(const struct tasd_mount_entry *mount, bool lazy)
{
	struct tasd_diag diag = {.text = ""};
	cleanup_fd int pidfd = -1;
	pid_t pid = lazy ? SERVER_UNKNOWN : server_by_stats(mount->path);
	bool dead = pid == SERVER_DEAD;
	tasd_err err;

	if (pid == SERVER_UNKNOWN && !lazy)
		pid = tasd_server_by_connection(mount);
	if (pid > 0)
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	err = tasd_mount_undo(mount->path, lazy, &diag);
	/* Whoever still stands in a dead mount gets nothing from it. */
	if (err == -EBUSY && dead)
		err = tasd_mount_undo(mount->path, true, &diag);
	if (err == -EBUSY)
		return busy(mount);
	if (err)
		return tasd_cli_diag(mount->path, &diag, err);
	return wait_end(mount->path, pidfd, pid);
}

static int umount_path(const char *place, bool lazy)
{
	cleanup_free char *path = NULL;
	struct tasd_mount_entry mount;
	tasd_err err = tasd_mount_path(place, &path);
	int rc;

	if (err)
		return tasd_cli_diag(place, NULL, err);
	err = tasd_mount_find(path, &mount);
	if (err == -ENOENT) {
		if (tasd_mount_above(path, &mount))
			return tasd_cli_fail("%s: not mounted", place);
		rc = strcmp(mount.type, TASD_FSTYPE)
			     ? tasd_cli_fail("%s: not mounted", place)
			     : tasd_cli_fail(
				       "%s: not a mount point, it lies in "
				       "the mount at %s",
				       place, mount.path);
	} else if (err) {
		return tasd_cli_diag("/proc/self/mountinfo", NULL, err);
	} else if (strcmp(mount.type, TASD_FSTYPE) != 0) {
		rc = tasd_cli_fail("%s: not a tasdfs mount but %s; use umount",
			place, mount.type);
	} else {
		rc = undo(&mount, lazy);
	}
	tasd_mount_entry_free(&mount);
	return rc;
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	static const struct option longs[] = {
		{"lazy", no_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
	};
	bool lazy = false;
	int c, rc;

	while ((c = tasd_cli_getopt(cmd, argc, argv, "l", longs, &rc)) !=
		TASD_GETOPT_END) {
		if (c == TASD_GETOPT_EXIT)
			return rc;
		lazy = true;
	}
	rc = tasd_cli_operands(cmd, argc, argv, 1, 1, "MOUNTPOINT");
	return rc ? rc : umount_path(argv[optind], lazy);
}

const struct tasd_command tasd_command_umount = {
	.name = "umount",
	.summary = "unmount, and wait until the server has ended",
	.help = help,
	.run = run,
};
