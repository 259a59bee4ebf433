/*
 * The options of tasdfs mount: what -o says, and what follows from it.
 */
#ifndef TASD_CLI_MOUNT_OPTS_H
#define TASD_CLI_MOUNT_OPTS_H

#include <fs/mount.h>
#include <stdbool.h>

struct tasd_mount_opts {
	struct tasd_fs_options fs; /* source and mountpoint are set later */
	char *log;                 /* owned; NULL: none */
	int ready_fd;              /* -1: none */
	bool foreground;
	bool noexec;
	bool quiet; /* print no line */
};

/*
 * Take one comma-separated list; a backslash makes the next character plain.
 * false: refused, and diag says why, with the nearest name of an option.
 */
bool tasd_mount_opts_parse(
	struct tasd_mount_opts *opts, const char *list, struct tasd_diag *diag);

void tasd_mount_opts_free(struct tasd_mount_opts *opts);

#endif
