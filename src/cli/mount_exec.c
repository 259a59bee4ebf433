/*
 * tasdfs mount: hands over to mount.fuse.tasdfs, the one program that is linked
 * with FUSE, so that everything else works where there is none.
 */
#include "cli.h"
#include "mount_help.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder this program is in. */
static int own_folder(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 1);
	char *slash;

	if (n <= 0)
		return -1;
	out[n] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return -1;
	*slash = '\0';
	return 0;
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	static char name[] = TASD_MOUNT_NAME;
	char folder[PATH_MAX] = "", path[PATH_MAX + 64];

	(void)cmd;
	(void)argc;
	argv[0] = name;
	if (own_folder(folder, sizeof(folder)) == 0) {
		snprintf(path, sizeof(path), "%s/mount.fuse.tasdfs", folder);
		execv(path, argv);
		snprintf(path, sizeof(path), "%s/../sbin/mount.fuse.tasdfs",
			folder);
		execv(path, argv);
	}
	execv(TASD_SBINDIR "/mount.fuse.tasdfs", argv);
	return tasd_cli_fail("mount: cannot run mount.fuse.tasdfs: %s; is it "
			     "installed beside tasdfs or in " TASD_SBINDIR "?",
		strerror(errno));
}

const struct tasd_command tasd_command_mount = {
	.name = "mount",
	.summary = tasd_mount_summary,
	.help = tasd_mount_help,
	.run = run,
};
