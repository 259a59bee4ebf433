/*
 * Nodes of a state dict: its directories and leaves in each of their views, and
 * the face, which is the state dict's root by place.
 */
#ifndef TASD_FS_DICT_H
#define TASD_FS_DICT_H

#include "inode.h"
#include "version.h"
#include <format/content.h>

/* Where in the mount a node of the tree is seen. */
enum tasd_dict_view {
	TASD_DICT_TREE, /* the tree itself */
	TASD_DICT_NPY,  /* .tasd/npy */
	TASD_DICT_F32,  /* .tasd/f32 */
	TASD_DICT_FLAT, /* .tasd/flat */
};

/* The node of `node` in that view, with one nlookup; version is not taken. */
tasd_err tasd_dict_inode(struct tasd_fs *fs, struct tasd_version *version,
	const struct tasd_node *node, enum tasd_dict_view view,
	struct tasd_inode **ret);

/* The one already known to the kernel, with one nlookup more, or NULL. */
struct tasd_inode *tasd_dict_find(struct tasd_fs *fs,
	struct tasd_version *version, const struct tasd_node *node);

/* Attributes shared by everything in a container. */
void tasd_dict_stat(const struct tasd_version *version, bool is_dir,
	uint64_t size, uint64_t st_ino, struct stat *ret);

/* A directory's listing and a node's attributes, for the nodes of the tree and
 * for the face alike. */
tasd_err tasd_dict_entry(const struct tasd_version *version,
	const struct tasd_node *node, enum tasd_dict_view view, uint64_t *at,
	struct tasd_dirent *ret);
tasd_err tasd_dict_getxattr(const struct tasd_version *version,
	const struct tasd_node *node, const struct tasd_caller *caller,
	const char *name, struct tasd_buf *ret);
tasd_err tasd_dict_listxattr(const struct tasd_version *version,
	const struct tasd_node *node, const struct tasd_caller *caller,
	struct tasd_buf *ret);

/* The state dict's root as a directory that outlives versions.  Takes face,
 * also on failure. */
tasd_err tasd_face_inode(struct tasd_face *face, struct tasd_inode **ret);

/*
 * The face of `path` in library, as a node.  Reads the container; -ENOENT when
 * there is none, -EIO when it is broken.
 */
tasd_err tasd_face_lookup(struct tasd_fs *fs, struct tasd_library *library,
	const char *path, struct tasd_inode **ret);

#endif
