/*
 * mount.fuse.tasdfs: the server.  `tasdfs mount` runs it under the name
 * TASD_MOUNT_NAME, with the options people use; under its own name it takes
 * those of mount(8).
 */
#include "cli.h"
#include "mount_help.h"
#include "mount_run.h"
#include <base/limits.h>
#include <string.h>

static const struct tasd_command command = {
	.name = "mount",
	.summary = tasd_mount_summary,
	.help = tasd_mount_help,
	.run = tasd_mount_run,
};

int main(int argc, char **argv)
{
	tasd_cli_keep_stdio();
	tasd_limits_raise_files();
	if (argc > 0 && strcmp(argv[0], TASD_MOUNT_NAME) == 0)
		return command.run(&command, argc, argv);
	return tasd_mount_helper(&command, argc, argv);
}
