/*
 * One table: our own options, those that are always so, and those that fstab
 * or mount(8) add and that mean nothing to a read-only mount.
 */
#include "mount_opts.h"
#include "cli.h"
#include <base/cleanup.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 256

enum option_id {
	OPT_NOTHING, /* taken, and without effect */
	OPT_ROOT,
	OPT_FACES,
	OPT_NOSPLIT,
	OPT_MODE,
	OPT_ALLOW_OTHER,
	OPT_THREADS,
	OPT_LOG,
	OPT_READY_FD,
	OPT_NOEXEC,
	OPT_EXEC,
};

struct known_option {
	const char *name;
	enum option_id id;
	const char *values; /* NULL: takes none */
};

static const struct known_option known[] = {
	{"root", OPT_ROOT, "folder or dict"},
	{"faces", OPT_FACES, "both or one"},
	{"nosplit", OPT_NOSPLIT, NULL},
	{"mode", OPT_MODE, "auto, cached or direct"},
	{"allow_other", OPT_ALLOW_OTHER, NULL},
	{"threads", OPT_THREADS, "a number from 1 to 256"},
	{"log", OPT_LOG, "a file"},
	{"ready_fd", OPT_READY_FD, "the number of an open file"},
	{"noexec", OPT_NOEXEC, NULL},
	{"exec", OPT_EXEC, NULL},
	/* Always so. */
	{"ro", OPT_NOTHING, NULL},
	{"nosuid", OPT_NOTHING, NULL},
	{"nodev", OPT_NOTHING, NULL},
	{"default_permissions", OPT_NOTHING, NULL},
	{"noatime", OPT_NOTHING, NULL},
	{"nodiratime", OPT_NOTHING, NULL},
};

/* For the boot scripts, or about writing. */
static const char *const foreign[] = {
	"rw",
	"suid",
	"dev",
	"auto",
	"noauto",
	"defaults",
	"user",
	"nouser",
	"users",
	"owner",
	"group",
	"_netdev",
	"nofail",
	"sync",
	"async",
	"dirsync",
	"atime",
	"diratime",
	"relatime",
	"norelatime",
	"strictatime",
	"nostrictatime",
	"lazytime",
	"nolazytime",
	"iversion",
	"noiversion",
	"silent",
	"loud",
	"comment",
	"uhelper",
	"helper",
};

static const char *known_at(const void *ctx, size_t i)
{
	(void)ctx;
	return known[i].name;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool is_foreign(const char *name)
{
	if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0)
		return true;
	for (size_t i = 0; i < COUNT(foreign); i++)
		if (strcmp(foreign[i], name) == 0)
			return true;
	return false;
}

/* A decimal number from min to max, or -1. */
static int number(const char *text, int min, int max)
{
	char *end;
	long value;

	if (!isdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	return errno || *end || value < min || value > max ? -1 : (int)value;
}

/* *ret_yes: value is yes_word; false when it is neither word. */
static bool choose(
	const char *value, const char *yes, const char *no, bool *ret_yes)
{
	*ret_yes = strcmp(value, yes) == 0;
	return *ret_yes || strcmp(value, no) == 0;
}

static bool set_mode(enum tasd_fs_mode *mode, const char *value)
{
	if (strcmp(value, "auto") == 0)
		*mode = TASD_FS_MODE_AUTO;
	else if (strcmp(value, "cached") == 0)
		*mode = TASD_FS_MODE_CACHED;
	else if (strcmp(value, "direct") == 0)
		*mode = TASD_FS_MODE_DIRECT;
	else
		return false;
	return true;
}

static bool set_log(struct tasd_mount_opts *opts, const char *value)
{
	if (!*value)
		return false;
	free(opts->log);
	opts->log = strdup(value);
	return opts->log != NULL;
}

static bool set_value(
	struct tasd_mount_opts *opts, enum option_id id, const char *value)
{
	int n;

	switch (id) {
	case OPT_NOTHING:
		return true;
	case OPT_ROOT:
		return choose(value, "folder", "dict", &opts->fs.root_folder);
	case OPT_FACES:
		return choose(value, "both", "one", &opts->fs.faces_both);
	case OPT_NOSPLIT:
		opts->fs.nosplit = true;
		return true;
	case OPT_MODE:
		return set_mode(&opts->fs.mode, value);
	case OPT_ALLOW_OTHER:
		opts->fs.allow_other = true;
		return true;
	case OPT_THREADS:
		n = number(value, 1, THREADS_MAX);
		opts->fs.threads = n > 0 ? (unsigned int)n : 0;
		return n > 0;
	case OPT_LOG:
		return set_log(opts, value);
	case OPT_READY_FD:
		opts->ready_fd = number(value, 0, 1 << 20);
		return opts->ready_fd >= 0 &&
		       fcntl(opts->ready_fd, F_GETFD) >= 0;
	case OPT_NOEXEC:
		opts->noexec = true;
		return true;
	case OPT_EXEC:
		opts->noexec = false;
		return true;
	}
	return false;
}

static bool unknown_name(const char *name, struct tasd_diag *diag)
{
	const char *near = tasd_cli_nearest(name, COUNT(known), known_at, NULL);

	if (near)
		tasd_diag_set(diag, -EINVAL,
			"unknown option -o %s, did you mean %s?", name, near);
	else
		tasd_diag_set(diag, -EINVAL, "unknown option -o %s", name);
	return false;
}

static bool take(
	struct tasd_mount_opts *opts, char *item, struct tasd_diag *diag)
{
	char *value = strchr(item, '=');

	if (value)
		*value++ = '\0';
	if (is_foreign(item))
		return true;
	for (size_t i = 0; i < COUNT(known); i++) {
		const struct known_option *k = &known[i];

		if (strcmp(k->name, item) != 0)
			continue;
		if (value && !k->values)
			tasd_diag_set(
				diag, -EINVAL, "-o %s takes no value", item);
		else if (!value && k->values)
			tasd_diag_set(diag, -EINVAL,
				"-o %s=... needs a value: %s", item, k->values);
		else if (!set_value(opts, k->id, value ? value : ""))
			tasd_diag_set(diag, -EINVAL, "-o %s=%s: expected %s",
				item, value, k->values);
		else
			return true;
		return false;
	}
	return unknown_name(item, diag);
}

bool tasd_mount_opts_parse(
	struct tasd_mount_opts *opts, const char *list, struct tasd_diag *diag)
{
	cleanup_free char *item = malloc(strlen(list) + 1);
	char *to = item;

	if (!item) {
		tasd_diag_set(diag, -ENOMEM, "%s", strerror(ENOMEM));
		return false;
	}
	for (;; list++) {
		if (*list && *list != ',') {
			if (*list == '\\' && list[1])
				list++;
			*to++ = *list;
			continue;
		}
		*to = '\0';
		if (to != item && !take(opts, item, diag))
			return false;
		to = item;
		if (!*list)
			return true;
	}
}

void tasd_mount_opts_free(struct tasd_mount_opts *opts)
{
	free(opts->log);
	opts->log = NULL;
}
