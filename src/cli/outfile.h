/*
 * A file that appears whole or not at all: it is written under another name in
 * the same folder and gets its own when all of it is on the disk.
 */
#ifndef TASD_CLI_OUTFILE_H
#define TASD_CLI_OUTFILE_H

#include <base/err.h>
#include <stdbool.h>
#include <stdint.h>

struct tasd_outfile {
	int dirfd; /* owned */
	int fd;    /* to write to; owned */
	char *name;
	char temp[64]; /* empty once there is none */
	bool replace;
};

/*
 * -EEXIST: path is there, and replace is false or it is no file.
 * Whatever fails has left nothing behind.
 */
tasd_err tasd_outfile_begin(const char *path, bool replace,
	struct tasd_outfile *ret, struct tasd_diag *diag);

/* Room for so many bytes: -ENOSPC or -EFBIG when it is known to be missing. */
tasd_err tasd_outfile_reserve(struct tasd_outfile *out, uint64_t bytes);

/* The bytes, then the name, are made durable. */
tasd_err tasd_outfile_commit(struct tasd_outfile *out, struct tasd_diag *diag);

/* Without a commit before, nothing of it stays. */
void tasd_outfile_close(struct tasd_outfile *out);

#endif
