/*
 * The formats table, and the line a format writes to be in it.
 *
 * A format recognises its container by content, reads its metadata into a
 * state dict and its files into sources, and never runs or maps anything.  It
 * knows nothing of FUSE or of the store.  Adding one is a file and a line in
 * formats.c.
 */
#ifndef TASD_FORMAT_FORMAT_H
#define TASD_FORMAT_FORMAT_H

#include "container.h"

#define TASD_PROBE_BYTES 4096

/* What a format may look at to say whether a place is its own. */
struct tasd_probe {
	const unsigned char *head; /* the file's first bytes; NULL: a folder */
	size_t head_len;	   /* <= TASD_PROBE_BYTES */
	uint64_t size;		   /* of the file */
	int fd;			   /* the file, or the folder */
	const char *name;	   /* last component of the path */
};

enum tasd_verdict {
	TASD_VERDICT_NO,
	TASD_VERDICT_MAYBE, /* by its name only: read() says what is wrong */
	TASD_VERDICT_YES,
};

struct tasd_format {
	const char *name; /* what user.tasd.format says */
	enum tasd_verdict (*probe)(const struct tasd_probe *probe);
	/*
	 * Read metadata into ctr (state dict made, not yet sealed; no sources
	 * but the file itself, index 0, when it is one).  Whole-container
	 * trouble: error and diag.  One tensor's trouble: its node's error and
	 * TASD_DATA_BROKEN, and a problem on the container.
	 */
	tasd_err (*read)(struct tasd_container *ctr, struct tasd_diag *diag);
};

/* All of them, in the order they are asked; ends with NULL. */
extern const struct tasd_format *const tasd_formats[];

#endif
