/*
 * What the files of the command line share: a command, how its options are
 * read, and how things are said.  One thread.
 *
 * Nothing here or in the commands that only read touches FUSE; mount.c, in a
 * program of its own, is the only user of the server.
 */
#ifndef TASD_CLI_CLI_H
#define TASD_CLI_CLI_H

#include <base/err.h>
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

enum tasd_exit {
	TASD_EXIT_OK = 0,
	TASD_EXIT_FAIL = 1,
	TASD_EXIT_USAGE = 2,
};

struct tasd_command {
	const char *name;
	const char *summary; /* for the list of commands */
	const char *help;    /* the whole --help, at most 24 lines of 80 */
	/* argv[0] is the command's name.  Returns an enum tasd_exit. */
	int (*run)(const struct tasd_command *cmd, int argc, char **argv);
};

extern const struct tasd_command tasd_command_mount;
extern const struct tasd_command tasd_command_umount;
extern const struct tasd_command tasd_command_ls;
extern const struct tasd_command tasd_command_tree;
extern const struct tasd_command tasd_command_info;
extern const struct tasd_command tasd_command_cat;
extern const struct tasd_command tasd_command_diff;
extern const struct tasd_command tasd_command_export;
extern const struct tasd_command tasd_command_scan;
extern const struct tasd_command tasd_command_doctor;

/* What `tasdfs mount` calls the program that mounts, as its argv[0]. */
#define TASD_MOUNT_NAME "tasdfs mount"

/*
 * First of all: a standard descriptor that the caller closed would be the next
 * file opened, and be closed or written to in its place.  What stands there
 * afterwards answers EBADF, as a closed one does.
 */
void tasd_cli_keep_stdio(void);

/* What tasd_cli_getopt() returns besides an option's value. */
#define TASD_GETOPT_END  (-1)
#define TASD_GETOPT_EXIT (-2) /* all is said; *ret_exit is the exit status */

/*
 * getopt_long() that adds --help and explains what it does not know, naming
 * the nearest option.  longs ends with a zero entry; its values are below 256
 * or above 512.
 */
int tasd_cli_getopt(const struct tasd_command *cmd, int argc, char **argv,
	const char *shorts, const struct option *longs, int *ret_exit);

/*
 * For a command whose only option is --json.  false: all is said, *ret_exit is
 * the exit status.
 */
bool tasd_cli_only_json(const struct tasd_command *cmd, int argc, char **argv,
	bool *ret_json, int *ret_exit);

/*
 * The operands after the options: between min and max of them, `what` names
 * them in order ("SOURCE [PATH]").  Those that must be there are not empty.
 * TASD_EXIT_USAGE and a line when not.
 */
int tasd_cli_operands(const struct tasd_command *cmd, int argc, char **argv,
	int min, int max, const char *what);

/* "tasdfs: COMMAND: ...; see tasdfs COMMAND --help" and TASD_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int tasd_cli_usage(
	const struct tasd_command *cmd, const char *format, ...);

/* "tasdfs: ..." on standard error, and TASD_EXIT_FAIL. */
__attribute__((format(printf, 1, 2))) int tasd_cli_fail(
	const char *format, ...);

/* What diag says, without the name of `where` if it begins with that. */
const char *tasd_cli_reason(
	const char *where, const struct tasd_diag *diag, tasd_err err);

/* "tasdfs: WHERE: reason" and TASD_EXIT_FAIL. */
int tasd_cli_diag(
	const char *where, const struct tasd_diag *diag, tasd_err err);

/* The bytes of `where` could not be read. */
int tasd_read_failed(const char *where, tasd_err err);

/*
 * The nearest of n names, or NULL when none is near.  at() gives the i-th;
 * NULL is skipped.
 */
const char *tasd_cli_nearest(const char *word, size_t n,
	const char *(*at)(const void *ctx, size_t i), const void *ctx);

#endif
