/*
 * tasdfs doctor: what this machine allows, what follows, and what to do.
 *
 * One function a question.  Only "bad" keeps a mount from working; a "note"
 * costs speed or a feature.
 */
#include "cli.h"
#include "machine.h"
#include "print.h"
#include <base/cleanup.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define CHECKS_MAX 16
#define TEXT_MAX   256

#define INDENT         21
#define TERMINAL_WIDTH 80

static const char help[] = "Usage: tasdfs doctor [OPTION]...\n"
			   "\n"
			   "Tell what this machine allows this user, and what "
			   "to do about the rest:\n"
			   "FUSE, fusermount3, allow_other, passthrough, "
			   "openat2, request size, open\n"
			   "files, ptrace scope, CUDA. Changes nothing.\n"
			   "\n"
			   "      --json  one JSON object\n"
			   "  -h, --help  show this text\n"
			   "\n"
			   "Each line is ok, note (slower, or a feature less) "
			   "or bad (mounting fails).\n"
			   "Exit status: 0 mounting works, 1 it does not.\n";

enum status {
	STATUS_OK,
	STATUS_NOTE,
	STATUS_BAD,
};

static const char *const status_names[] = {"ok", "note", "bad"};

struct check {
	const char *name;
	enum status status;
	char text[TEXT_MAX];
	const char *advice; /* NULL: nothing to do */
};

struct report {
	struct check checks[CHECKS_MAX];
	size_t n;
};

__attribute__((format(printf, 5, 6))) static void add(struct report *report,
	const char *name, enum status status, const char *advice,
	const char *format, ...)
{
	struct check *check = &report->checks[report->n];
	va_list args;

	if (report->n >= CHECKS_MAX)
		return;
	report->n++;
	check->name = name;
	check->status = status;
	check->advice = status == STATUS_OK ? NULL : advice;
	va_start(args, format);
	vsnprintf(check->text, sizeof(check->text), format, args);
	va_end(args);
}

static void check_kernel(struct report *report)
{
	struct utsname name;

	if (uname(&name) < 0)
		return;
	if (tasd_machine_kernel_is(5, 6))
		add(report, "kernel", STATUS_OK, NULL, "Linux %s",
			name.release);
	else
		add(report, "kernel", STATUS_BAD,
			"use Linux 5.6 or later (6.9 for full speed)",
			"Linux %s", name.release);
}

static void check_device(struct report *report)
{
	cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		add(report, "/dev/fuse", STATUS_OK, NULL, "can be opened");
	else if (errno == ENOENT)
		add(report, "/dev/fuse", STATUS_BAD,
			"modprobe fuse; in a container start it with --device "
			"/dev/fuse",
			"is not there");
	else if (errno == EACCES)
		add(report, "/dev/fuse", STATUS_BAD,
			"as root: chmod 666 /dev/fuse",
			"cannot be opened by this user");
	else
		add(report, "/dev/fuse", STATUS_BAD,
			"in a container start it with --device /dev/fuse",
			"cannot be opened: %s", strerror(errno));
}

/* root mounts by itself; everybody else needs the setuid helper. */
static void check_fusermount(struct report *report)
{
	bool admin = tasd_machine_has_admin();
	cleanup_free char *path = tasd_machine_program("fusermount3");
	struct stat st;

	add(report, "CAP_SYS_ADMIN", admin ? STATUS_OK : STATUS_NOTE, NULL,
		admin ? "held: mounts by itself"
		      : "not held: mounts by fusermount3");
	if (!path)
		add(report, "fusermount3", admin ? STATUS_NOTE : STATUS_BAD,
			"install the package fuse3", "not found%s",
			admin ? ", and only needed without CAP_SYS_ADMIN" : "");
	else if (stat(path, &st) == 0 && st.st_uid == 0 &&
		 (st.st_mode & S_ISUID))
		add(report, "fusermount3", STATUS_OK, NULL, "%s, setuid root",
			path);
	else
		add(report, "fusermount3", admin ? STATUS_NOTE : STATUS_BAD,
			"as root: chmod u+s the file, or install the package "
			"fuse3 again",
			"%s is not setuid root", path);
}

static void check_allow_other(struct report *report)
{
	if (tasd_machine_user_allow_other())
		add(report, "allow_other", STATUS_OK, NULL,
			"allowed for every user by /etc/fuse.conf");
	else
		add(report, "allow_other",
			tasd_machine_has_admin() ? STATUS_OK : STATUS_NOTE,
			"only for -o allow_other: put the line "
			"user_allow_other in /etc/fuse.conf",
			"allowed for root only");
}

static void check_passthrough(struct report *report)
{
	static const char cost[] =
		"nothing to repair: whole files are then read through the "
		"server, at about half the speed";
	enum tasd_answer config =
		tasd_machine_config("CONFIG_FUSE_PASSTHROUGH");

	if (!tasd_machine_kernel_is(6, 9))
		add(report, "passthrough", STATUS_NOTE, cost,
			"needs Linux 6.9 or later");
	else if (config == TASD_NO)
		add(report, "passthrough", STATUS_NOTE, cost,
			"this kernel is built without "
			"CONFIG_FUSE_PASSTHROUGH");
	else if (!tasd_machine_has_admin())
		add(report, "passthrough", STATUS_NOTE, cost,
			"needs CAP_SYS_ADMIN: mount as root for it");
	else if (!tasd_machine_in_first_userns())
		add(report, "passthrough", STATUS_NOTE, cost,
			"needs CAP_SYS_ADMIN outside of user namespaces");
	else
		add(report, "passthrough", STATUS_OK, NULL,
			config == TASD_YES
				? "whole files are read at full speed"
				: "should work (the kernel's configuration "
				  "cannot be read)");
}

static void check_openat2(struct report *report)
{
	if (tasd_machine_has_openat2())
		add(report, "openat2", STATUS_OK, NULL, "works");
	else
		add(report, "openat2", STATUS_BAD,
			"use Linux 5.6 or later; in a container, a runtime "
			"whose seccomp profile knows openat2",
			"%s: files inside folders cannot be opened safely",
			strerror(errno));
}

static void check_request_size(struct report *report)
{
	long pages = tasd_machine_number("/proc/sys/fs/fuse/max_pages_limit");
	long kib = pages * (sysconf(_SC_PAGESIZE) / 1024);

	if (pages < 0)
		add(report, "request size", STATUS_OK, NULL,
			"the kernel's own limit, 1 MiB");
	else if (kib >= 1024)
		add(report, "request size", STATUS_OK, NULL,
			"max_pages_limit is %ld: requests of 1 MiB", pages);
	else
		add(report, "request size", STATUS_NOTE,
			"as root: echo 256 > "
			"/proc/sys/fs/fuse/max_pages_limit",
			"max_pages_limit is %ld: requests of %ld KiB only",
			pages, kib);
}

static void check_open_files(struct report *report)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= 4096)
		add(report, "open files", STATUS_OK, NULL,
			"limit %llu, can be raised to %llu",
			(unsigned long long)limit.rlim_cur,
			(unsigned long long)limit.rlim_max);
	else
		add(report, "open files", STATUS_NOTE,
			"raise the hard limit (ulimit -Hn) for checkpoints of "
			"many shards",
			"hard limit %llu", (unsigned long long)limit.rlim_max);
}

static void check_ptrace(struct report *report)
{
	long scope = tasd_machine_number("/proc/sys/kernel/yama/ptrace_scope");

	if (scope <= 0)
		add(report, "ptrace scope", STATUS_OK, NULL,
			"%s; only matters to copies into other processes",
			scope < 0 ? "not restricted" : "0, not restricted");
	else
		add(report, "ptrace scope", STATUS_NOTE,
			"only for copies into other processes' memory: mount "
			"as root, or sysctl kernel.yama.ptrace_scope=0",
			"%ld, restricted", scope);
}

static void check_cuda(struct report *report)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (driver) {
		add(report, "CUDA", STATUS_OK, NULL,
			"libcuda.so.1 is there; only needed for device "
			"copies");
		dlclose(driver);
		return;
	}
	add(report, "CUDA", STATUS_NOTE,
		"only for device copies: install the NVIDIA driver",
		"libcuda.so.1 is not there");
}

static bool can_mount(const struct report *report)
{
	for (size_t i = 0; i < report->n; i++)
		if (report->checks[i].status == STATUS_BAD)
			return false;
	return true;
}

/* Wrapped at the edge of a terminal. */
static void print_advice(struct tasd_buf *out, const char *text)
{
	size_t column = 0;

	tasd_buf_printf(out, "%*s->", INDENT, "");
	while (*text) {
		size_t n = strcspn(text, " ");

		if (column && INDENT + 2 + column + 1 + n > TERMINAL_WIDTH) {
			tasd_buf_printf(out, "\n%*s", INDENT + 2, "");
			column = 0;
		}
		tasd_buf_char(out, ' ');
		tasd_buf_add(out, text, n);
		column += n + 1;
		text += n;
		text += strspn(text, " ");
	}
	tasd_buf_char(out, '\n');
}

static void print_text(struct tasd_buf *out, const struct report *report)
{
	for (size_t i = 0; i < report->n; i++) {
		const struct check *check = &report->checks[i];

		tasd_buf_printf(out, "%-4s  %-13s  %s\n",
			status_names[check->status], check->name, check->text);
		if (check->advice)
			print_advice(out, check->advice);
	}
	tasd_buf_str(out,
		can_mount(report)
			? "\nMounting works for this user.\n"
			: "\nMounting does not work for this user; ls, tree, "
			  "info and cat do.\n");
}

static void print_json(struct tasd_buf *out, const struct report *report)
{
	tasd_buf_printf(out, "{\"can_mount\": %s, \"checks\": [",
		can_mount(report) ? "true" : "false");
	for (size_t i = 0; i < report->n; i++) {
		const struct check *check = &report->checks[i];

		tasd_buf_str(out, i ? ",\n {" : "\n {");
		tasd_json_pair(out, "name", check->name);
		tasd_buf_str(out, ", ");
		tasd_json_pair(out, "status", status_names[check->status]);
		tasd_buf_str(out, ", ");
		tasd_json_pair(out, "text", check->text);
		if (check->advice) {
			tasd_buf_str(out, ", ");
			tasd_json_pair(out, "advice", check->advice);
		}
		tasd_buf_char(out, '}');
	}
	tasd_buf_str(out, "\n]}\n");
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	struct report report = {.n = 0};
	struct tasd_buf out = TASD_BUF_EMPTY;
	bool json = false;
	int rc;

	if (!tasd_cli_only_json(cmd, argc, argv, &json, &rc))
		return rc;
	rc = tasd_cli_operands(cmd, argc, argv, 0, 0, "");
	if (rc)
		return rc;
	check_kernel(&report);
	check_device(&report);
	check_fusermount(&report);
	check_allow_other(&report);
	check_passthrough(&report);
	check_openat2(&report);
	check_request_size(&report);
	check_open_files(&report);
	check_ptrace(&report);
	check_cuda(&report);
	if (json)
		print_json(&out, &report);
	else
		print_text(&out, &report);
	rc = json ? tasd_print_json(&out) : tasd_print_out(&out);
	if (rc)
		return rc;
	return can_mount(&report) ? TASD_EXIT_OK : TASD_EXIT_FAIL;
}

const struct tasd_command tasd_command_doctor = {
	.name = "doctor",
	.summary = "tell what this machine allows, and what to do about it",
	.help = help,
	.run = run,
};
