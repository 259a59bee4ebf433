/*
 * `.tasd`: what every state dict and the mount itself have beside the tree.
 */
#ifndef TASD_FS_META_H
#define TASD_FS_META_H

#include "dict.h"
#include "inode.h"
#include "version.h"

/* The .tasd of a state dict, or of the mount when version is NULL. */
tasd_err tasd_meta_root(struct tasd_fs *fs, struct tasd_version *version,
	struct tasd_inode **ret);

/* tasd_version_drop_name() for what is in .tasd of a view in which a node was
 * open. */
void tasd_meta_drop_view(struct tasd_version *version, enum tasd_dict_view view,
	const struct tasd_node *node);

void tasd_flat_free(struct tasd_flat *flat);

#endif
