/*
 * `.tasd`: what every state dict and the mount itself have beside the tree.
 */
#ifndef TASD_FS_META_H
#define TASD_FS_META_H

#include "inode.h"
#include "version.h"

/* The .tasd of a state dict, or of the mount when version is NULL. */
tasd_err tasd_meta_root(struct tasd_fs *fs, struct tasd_version *version,
	struct tasd_inode **ret);

void tasd_flat_free(struct tasd_flat *flat);

#endif
