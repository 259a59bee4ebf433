/*
 * Folders shown as they are, and the files in them.
 */
#ifndef TASD_FS_LIBRARY_H
#define TASD_FS_LIBRARY_H

#include "inode.h"

struct tasd_library {
	int dirfd;     /* owned */
	char *only;    /* the one name that is shown, or NULL: all */
	bool faces;    /* NAME.tasd is found */
	bool is_root;  /* of the mount: its top has .tasd */
	uint32_t refs; /* atomic */
	uint64_t place_hash;
};

/* Takes dirfd on success; only is copied. */
tasd_err tasd_library_new(int dirfd, const char *only, bool faces, bool is_root,
	struct tasd_library **ret);
struct tasd_library *tasd_library_get(struct tasd_library *library);
void tasd_library_put(struct tasd_library *library);

/* The library's own folder as a node. */
tasd_err tasd_library_root(struct tasd_fs *fs, struct tasd_library *library,
	struct tasd_inode **ret);

/* A library's listing, read at once so that cookies stay true. */
struct tasd_names;
void tasd_names_free(struct tasd_names *names);

#endif
