/*
 * Which processes have to do with a mount, as /proc shows them to this user.
 */
#ifndef TASD_CLI_USERS_H
#define TASD_CLI_USERS_H

#include "mounts.h"
#include <base/buf.h>

/*
 * Append "bash (pid 12), python3 (pid 40)" for the processes that hold the
 * mount busy: by an open file, a mapping, or as their working or root folder.
 * Names a few and counts the rest; appends nothing when none is found.
 */
void tasd_users_of_mount(
	struct tasd_buf *line, const struct tasd_mount_entry *mount);

/*
 * The process that serves the mount, by its connection in /proc/PID/fdinfo
 * (Linux 6.16 and later); -1 when that does not tell.
 */
pid_t tasd_server_by_connection(const struct tasd_mount_entry *mount);

/* Is pid a process of this program? */
bool tasd_is_server(pid_t pid);

#endif
