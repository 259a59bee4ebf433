/*
 * The words for the command `mount`.
 */
#ifndef TASD_CLI_MOUNT_HELP_H
#define TASD_CLI_MOUNT_HELP_H

extern const char tasd_mount_summary[];
extern const char tasd_mount_help[];

#endif
