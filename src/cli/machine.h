/*
 * What this machine allows, as far as it can be told without changing
 * anything.
 */
#ifndef TASD_CLI_MACHINE_H
#define TASD_CLI_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

enum tasd_answer {
	TASD_NO,
	TASD_YES,
	TASD_UNKNOWN,
};

/* May this user mount with allow_other? (root, or /etc/fuse.conf says so) */
bool tasd_machine_may_allow_other(void);

/* Does /etc/fuse.conf have the line user_allow_other? */
bool tasd_machine_user_allow_other(void);

/* The first program of that name in PATH, malloc'd; NULL: none. */
char *tasd_machine_program(const char *name);

/* CAP_SYS_ADMIN, and in the first user namespace, as passthrough wants it. */
bool tasd_machine_has_admin(void);
bool tasd_machine_in_first_userns(void);

/* Is Linux at least major.minor? */
bool tasd_machine_kernel_is(int major, int minor);

/* Is option (CONFIG_X) in the kernel's configuration as y or m? */
enum tasd_answer tasd_machine_config(const char *option);

/* The number in a file of /proc or /sys, -1 when there is none. */
long tasd_machine_number(const char *path);

bool tasd_machine_has_openat2(void);

#endif
