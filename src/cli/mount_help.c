/*
 * What `tasdfs mount --help` says: known to the program that people call and to
 * the one that mounts.
 */
#include "mount_help.h"

const char tasd_mount_summary[] = "mount a checkpoint, or a folder of them";

const char tasd_mount_help[] =
	"Usage: tasdfs mount [OPTION]... SOURCE MOUNTPOINT\n"
	"\n"
	"Mount a checkpoint, or a folder of them, read-only. Returns when the "
	"mount is\n"
	"ready and says in a line what it is.\n"
	"\n"
	"  -f           stay in the foreground\n"
	"  -d           show libfuse's trace of requests; implies -f\n"
	"  -o OPT,...   mount options:\n"
	"     root=folder     show a container folder's files, not its state "
	"dict\n"
	"     faces=both      list NAME.tasd beside each container NAME\n"
	"     nosplit         do not split keys at their dots\n"
	"     allow_other     let other users in\n"
	"     mode=MODE       auto, cached or direct: how bytes are served\n"
	"     threads=N       default: as many as cores\n"
	"     log=FILE        where the server writes what it has to say\n"
	"     ready_fd=N      write the line to this file descriptor as well\n"
	"  -h, --help   show this text\n"
	"\n"
	"  tasdfs mount model.safetensors /mnt\n"
	"  tasdfs mount -o faces=both ~/checkpoints /mnt\n"
	"  tasdfs umount /mnt\n";
