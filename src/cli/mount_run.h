/*
 * Mounting, as the two ways to call it see it.  One thread; forks before the
 * server makes any.
 */
#ifndef TASD_CLI_MOUNT_RUN_H
#define TASD_CLI_MOUNT_RUN_H

#include "cli.h"

/* tasdfs mount [OPTION]... SOURCE MOUNTPOINT */
int tasd_mount_run(const struct tasd_command *cmd, int argc, char **argv);

/* As mount(8) calls it: SOURCE MOUNTPOINT [-sfnvrw] [-o ..] */
int tasd_mount_helper(const struct tasd_command *cmd, int argc, char **argv);

#endif
