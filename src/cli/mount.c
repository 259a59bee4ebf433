/*
 * Mounting: the only part of the command line that needs the server.  It is a
 * program of its own, mount.fuse.tasdfs, which `tasdfs mount` runs.
 *
 * In the background the server is a child, forked before the server is made
 * since that may start threads.  Until the mount is ready the child keeps the
 * caller's standard error, so that whatever goes wrong is said where the
 * caller looks, by us or by fusermount3; then it lets go of everything.
 *
 *	child:  'R' and the line to print, once the kernel has the mount
 *	        'E'  refused, and all is said
 *	        end without either: it died
 */
#include "cli.h"
#include "machine.h"
#include "mount_opts.h"
#include "mount_run.h"
#include "mounts.h"
#include "print.h"
#include "target.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <fs/mount.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define STACKED_MAX 32

struct mounting {
	struct tasd_mount_opts opts;
	const char *source; /* as given, for messages */
	char *absolute;     /* owned: the source from / */
	char *place;        /* owned: the mount point, real path */
	struct tasd_fs *fs; /* owned */
	int to_parent;      /* owned; -1 in the foreground */
	int log_fd;         /* owned; -1: none */
};

static char *describe(const struct mounting *m)
{
	struct tasd_buf line = TASD_BUF_EMPTY;

	tasd_print_name(&line, m->place, strlen(m->place));
	tasd_buf_str(&line, ": ");
	tasd_fs_describe(m->fs, &line);
	tasd_buf_char(&line, '\n');
	return tasd_buf_steal(&line, NULL);
}

static bool write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

/* Standard error becomes the log, or nothing. */
static void leave_stderr(struct mounting *m)
{
	int fd = m->log_fd;

	if (fd < 0 && m->to_parent < 0)
		return;
	if (fd < 0)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		dup2(fd, STDERR_FILENO);
		close(fd);
	}
	m->log_fd = -1;
}

static void on_ready(void *ctx)
{
	struct mounting *m = ctx;
	cleanup_free char *line = describe(m);
	size_t len = line ? strlen(line) : 0;

	if (m->opts.ready_fd >= 0) {
		write_all(m->opts.ready_fd, line ? line : "\n", len ? len : 1);
		close(m->opts.ready_fd);
		m->opts.ready_fd = -1;
	}
	leave_stderr(m);
	if (m->to_parent < 0) {
		if (!m->opts.quiet)
			write_all(STDOUT_FILENO, line ? line : "\n",
				len ? len : 1);
		return;
	}
	/* Whoever asked for the mount has given up: undo it. */
	if (!write_all(m->to_parent, "R", 1) ||
		!write_all(m->to_parent, line ? line : "", len))
		kill(getpid(), SIGTERM);
	close(m->to_parent);
	m->to_parent = -1;
}

/* A message is about the source unless it begins with what it is about. */
static int refused(const struct mounting *m, const char *usual,
	const struct tasd_diag *diag, tasd_err err)
{
	const char *const named[] = {m->place, m->absolute};

	for (size_t i = 0; i < 2; i++) {
		size_t len = strlen(named[i]);

		if (strncmp(diag->text, named[i], len) == 0 &&
			diag->text[len] == ':')
			usual = named[i];
	}
	return tasd_cli_diag(usual, diag, err);
}

/* Make the server and serve until the end.  Says what goes wrong. */
static int serve(struct mounting *m)
{
	struct tasd_diag diag = {.text = ""};
	tasd_err err;

	signal(SIGPIPE, SIG_IGN);
	m->opts.fs.source = m->absolute;
	m->opts.fs.mountpoint = m->place;
	m->opts.fs.ready = on_ready;
	m->opts.fs.ready_ctx = m;
	err = tasd_fs_new(&m->opts.fs, &m->fs, &diag);
	if (err)
		return refused(m, m->source, &diag, err);
	err = tasd_fs_mount(m->fs, &diag);
	if (err) {
		refused(m, m->place, &diag, err);
		tasd_fs_free(m->fs);
		return TASD_EXIT_FAIL;
	}
	err = tasd_fs_serve(m->fs);
	if (err)
		tasd_cli_diag(m->place, NULL, err);
	tasd_fs_free(m->fs);
	return err ? TASD_EXIT_FAIL : TASD_EXIT_OK;
}

static int in_child(struct mounting *m)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), rc;

	setsid();
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		close(null);
	}
	if (chdir("/") < 0)
		rc = tasd_cli_diag("/", NULL, -errno);
	else
		rc = serve(m);
	if (m->to_parent >= 0)
		write_all(m->to_parent, "E", 1);
	return rc;
}

/* The server cannot be asked for noexec; root can add it to the mount. */
static int add_noexec(const struct mounting *m)
{
	const unsigned long kept =
		MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME | MS_NODIRATIME;
	struct statvfs st;
	unsigned long flags;
	struct tasd_diag diag = {.text = ""};
	int rc;

	/* statvfs has the same bits for these. */
	if (statvfs(m->place, &st) == 0) {
		flags = (st.f_flag & kept) | MS_NOEXEC | MS_REMOUNT | MS_BIND;
		if (mount(NULL, m->place, NULL, flags, NULL) == 0)
			return TASD_EXIT_OK;
	}
	rc = tasd_cli_fail("%s: -o noexec: %s", m->place, strerror(errno));
	tasd_mount_undo(m->place, true, &diag);
	return rc;
}

static int said_nothing(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return tasd_cli_fail("the server was killed by signal %d (%s) "
				     "before the mount was ready",
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	return tasd_cli_fail(
		"the server ended before the mount was ready (status %d)",
		WEXITSTATUS(status));
}

static int in_parent(const struct mounting *m, int from_child, pid_t child)
{
	struct tasd_buf said = TASD_BUF_EMPTY;
	char part[4096];
	ssize_t n;
	int rc = TASD_EXIT_OK;

	while ((n = read(from_child, part, sizeof(part))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		tasd_buf_add(&said, part, (size_t)n);
	}
	if (said.len == 0)
		rc = said_nothing(child);
	else if (said.bytes[0] != 'R')
		rc = TASD_EXIT_FAIL;
	else if (m->opts.noexec)
		rc = add_noexec(m);
	if (!rc && !m->opts.quiet)
		write_all(STDOUT_FILENO, said.bytes + 1, said.len - 1);
	tasd_buf_free(&said);
	return rc;
}

static int in_background(struct mounting *m)
{
	int fds[2], rc;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return tasd_cli_fail("pipe: %s", strerror(errno));
	child = fork();
	if (child < 0) {
		rc = tasd_cli_fail("fork: %s", strerror(errno));
		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	if (child == 0) {
		close(fds[0]);
		m->to_parent = fds[1];
		return in_child(m);
	}
	close(fds[1]);
	rc = in_parent(m, fds[0], child);
	close(fds[0]);
	return rc;
}

/* Mounts of ours whose server has died are in the way: clear them. */
static int clear_dead(const char *place)
{
	for (int i = 0; i < STACKED_MAX && tasd_mount_is_dead(place); i++) {
		struct tasd_diag diag = {.text = ""};
		struct tasd_mount_entry entry;
		tasd_err err = tasd_mount_find(place, &entry);
		int rc = TASD_EXIT_OK;

		if (err)
			return tasd_cli_diag(place, NULL, -ENOTCONN);
		if (strcmp(entry.type, TASD_FSTYPE) != 0)
			rc = tasd_cli_fail("%s: a dead mount of type %s is "
					   "there; unmount it first",
				place, entry.type);
		tasd_mount_entry_free(&entry);
		if (rc)
			return rc;
		err = tasd_mount_undo(place, true, &diag);
		if (err)
			return tasd_cli_diag(place, &diag, err);
	}
	return TASD_EXIT_OK;
}

static int check_place(const char *given, char **ret_place)
{
	struct tasd_mount_entry entry;
	struct stat st;
	tasd_err err = tasd_mount_path(given, ret_place);
	int rc;

	if (err == -ENOENT)
		return tasd_cli_fail("%s: no such directory; make it first: "
				     "mkdir %s",
			given, given);
	if (err)
		return tasd_cli_diag(given, NULL, err);
	rc = clear_dead(*ret_place);
	if (rc)
		return rc;
	if (stat(*ret_place, &st) < 0)
		return tasd_cli_diag(given, NULL, -errno);
	if (!S_ISDIR(st.st_mode))
		return tasd_cli_fail(
			"%s: not a directory, and a mount point must be one",
			given);
	if (tasd_mount_find(*ret_place, &entry))
		return TASD_EXIT_OK;
	if (strcmp(entry.type, TASD_FSTYPE) == 0)
		rc = tasd_cli_fail("%s: %s is mounted there already; tasdfs "
				   "umount it first",
			given, entry.source);
	tasd_mount_entry_free(&entry);
	return rc;
}

static tasd_err make_absolute(const char *path, char **ret)
{
	cleanup_free char *cwd = NULL;

	if (path[0] == '/') {
		*ret = strdup(path);
		return *ret ? 0 : -ENOMEM;
	}
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return -errno;
	*ret = tasd_path_join(cwd, path);
	return *ret ? 0 : -ENOMEM;
}

/* All that can be refused before there is a server. */
static int prepare(struct mounting *m, const char *place)
{
	tasd_err err;
	int rc = check_place(place, &m->place);

	if (rc)
		return rc;
	err = make_absolute(m->source, &m->absolute);
	if (err)
		return tasd_cli_diag(m->source, NULL, err);
	if (m->opts.fs.allow_other && !tasd_machine_may_allow_other())
		return tasd_cli_fail(
			"-o allow_other: only root may use it, unless "
			"/etc/fuse.conf has the line user_allow_other");
	if (m->opts.noexec && geteuid() != 0)
		return tasd_cli_fail("-o noexec: only root may use it");
	if (!m->opts.log)
		return TASD_EXIT_OK;
	m->log_fd = open(
		m->opts.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (m->log_fd < 0)
		return tasd_cli_diag(m->opts.log, NULL, -errno);
	return TASD_EXIT_OK;
}

static int mount_source(struct mounting *m, const char *place)
{
	int rc = prepare(m, place);

	if (!rc)
		rc = m->opts.foreground ? serve(m) : in_background(m);
	if (m->to_parent >= 0)
		close(m->to_parent);
	if (m->log_fd >= 0)
		close(m->log_fd);
	free(m->absolute);
	free(m->place);
	return rc;
}

static struct mounting mounting_new(void)
{
	return (struct mounting){
		.opts = {.ready_fd = -1}, .to_parent = -1, .log_fd = -1};
}

int tasd_mount_run(const struct tasd_command *cmd, int argc, char **argv)
{
	static const struct option longs[] = {{NULL, 0, NULL, 0}};
	struct mounting m = mounting_new();
	struct tasd_diag diag = {.text = ""};
	int c, rc = TASD_EXIT_OK;

	while (!rc && (c = tasd_cli_getopt(cmd, argc, argv, "fdo:", longs,
			       &rc)) != TASD_GETOPT_END) {
		if (c == TASD_GETOPT_EXIT)
			goto out;
		if (c == 'o' && !tasd_mount_opts_parse(&m.opts, optarg, &diag))
			rc = tasd_cli_usage(cmd, "%s", diag.text);
		if (c == 'd')
			m.opts.fs.debug = true;
		if (c != 'o')
			m.opts.foreground = true;
	}
	if (!rc)
		rc = tasd_cli_operands(
			cmd, argc, argv, 2, 2, "SOURCE MOUNTPOINT");
	if (!rc && m.opts.foreground && m.opts.noexec)
		rc = tasd_cli_usage(cmd, "-o noexec does not go with -f");
	if (!rc) {
		m.source = argv[optind];
		rc = mount_source(&m, argv[optind + 1]);
	}
out:
	tasd_mount_opts_free(&m.opts);
	return rc;
}

int tasd_mount_helper(const struct tasd_command *cmd, int argc, char **argv)
{
	struct mounting m = mounting_new();
	struct tasd_diag diag = {.text = ""};
	bool fake = false;
	int c, rc = TASD_EXIT_OK;

	m.opts.quiet = true;
	opterr = 0;
	while (!rc && (c = getopt(argc, argv, "sfnvrwo:t:N:")) != -1) {
		if (c == 'f')
			fake = true;
		else if (c == 'v')
			m.opts.quiet = false;
		else if (c == 'o' &&
			 !tasd_mount_opts_parse(&m.opts, optarg, &diag))
			rc = tasd_cli_usage(cmd, "%s", diag.text);
		else if (c == '?')
			rc = tasd_cli_usage(cmd, "unknown option -%c", optopt);
	}
	if (!rc)
		rc = tasd_cli_operands(
			cmd, argc, argv, 2, 2, "SOURCE MOUNTPOINT");
	if (!rc && !fake) {
		m.source = argv[optind];
		rc = mount_source(&m, argv[optind + 1]);
	}
	tasd_mount_opts_free(&m.opts);
	return rc;
}
