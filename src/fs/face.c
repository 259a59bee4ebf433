/*
 * The root directory of a state dict, by place.  It is the one directory of a
 * container that outlives versions: what is found in it belongs to the version
 * that the place holds now.
 *
 * While a place holds nothing readable (cut short while mounted, say), its face
 * stays, refuses lookups with EIO and says why in user.tasd.error.
 */
#include "dict.h"
#include "fs.h"
#include "meta.h"
#include <base/cleanup.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct face_inode {
	struct tasd_inode base;
	struct tasd_face *face; /* owned */
};

static const struct tasd_inode_ops face_ops;

static struct tasd_face *face_of(struct tasd_inode *inode)
{
	return ((struct face_inode *)inode)->face;
}

/* What a program is told when the container cannot be read. */
static tasd_err told(tasd_err err)
{
	switch (-err) {
	case 0:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EACCES:
		return err;
	default:
		return -EIO;
	}
}

static void face_init(struct face_inode *f, struct tasd_face *face)
{
	uint64_t salt = (uintptr_t)face->library;

	*f = (struct face_inode){
		.base = {.ops = &face_ops,
			.fs = face->fs,
			.refs = 1,
			.ttl = 1, /* owner and mode are the place's now */
			.hash = tasd_map_hash(&face->fs->table.map, face->path,
				strlen(face->path), salt)},
		.face = face};
}

tasd_err tasd_face_inode(struct tasd_face *face, struct tasd_inode **ret)
{
	struct face_inode *f = malloc(sizeof(*f));

	if (!f) {
		tasd_face_free(face);
		return -ENOMEM;
	}
	face_init(f, face);
	return tasd_inode_intern(&f->base, ret);
}

/* Gone, or never a container: no such name.  Broken: it is there, and opening
 * it must not look like an empty directory. */
static tasd_err told_by_lookup(tasd_err err)
{
	switch (-err) {
	case ENOTSUP:
	case ENOENT:
	case ENOTDIR:
	case EPERM:
	case ELOOP:
		return -ENOENT;
	default:
		return told(err);
	}
}

tasd_err tasd_face_lookup(struct tasd_fs *fs, struct tasd_library *library,
	const char *path, struct tasd_inode **ret)
{
	struct tasd_version *version = NULL;
	struct tasd_face *face = NULL;
	struct tasd_inode *known;
	struct face_inode probe;
	tasd_err err = tasd_face_new(fs, library, path, false, &face);

	if (err)
		return err;
	face_init(&probe, face);
	known = tasd_inode_lookup(fs, &probe.base);
	if (known) {
		tasd_face_free(face);
		face = face_of(known);
	}
	err = tasd_face_current(face, known, &version);
	tasd_version_put(version);
	if (!err && !known)
		return tasd_face_inode(face, ret);
	if (err && known)
		tasd_inode_forget(known, 1);
	else if (err)
		tasd_face_free(face);
	else
		*ret = known;
	return told_by_lookup(err);
}

static bool face_same(const struct tasd_inode *a, const struct tasd_inode *b)
{
	const struct tasd_face *x = ((const struct face_inode *)a)->face;
	const struct tasd_face *y = ((const struct face_inode *)b)->face;

	return x->library == y->library && strcmp(x->path, y->path) == 0;
}

static void face_inode_free(struct tasd_inode *inode)
{
	tasd_face_free(face_of(inode));
	free(inode);
}

static tasd_err face_attr(struct tasd_inode *inode, struct stat *ret)
{
	struct tasd_face *face = face_of(inode);
	struct tasd_version *v = tasd_face_last(face);
	uint64_t parts[2];

	if (!v) {
		memset(ret, 0, sizeof(*ret));
		ret->st_mode = S_IFDIR | 0555;
		ret->st_nlink = 2;
	} else {
		tasd_dict_stat(v, true, 0, 0, ret);
		tasd_version_put(v);
	}
	parts[0] = XXH3_64bits(face->path, strlen(face->path));
	parts[1] = face->library->place_hash;
	ret->st_ino = XXH3_64bits(parts, sizeof(parts));
	return 0;
}

static tasd_err face_child(
	struct tasd_inode *inode, const char *name, struct tasd_inode **ret)
{
	struct tasd_version *v = NULL;
	const struct tasd_node *root, *child;
	tasd_err err = tasd_face_current(face_of(inode), inode, &v);

	if (err)
		return told(err);
	root = tasd_statedict_root(v->ctr->sd);
	if (strcmp(name, ".tasd") == 0) {
		err = tasd_meta_root(inode->fs, v, ret);
	} else {
		child = tasd_statedict_child(
			v->ctr->sd, root, name, strlen(name));
		err = child ? tasd_dict_inode(
				      inode->fs, v, child, TASD_DICT_TREE, ret)
			    : -ENOENT;
	}
	tasd_version_put(v);
	return err;
}

static tasd_err face_opendir(struct tasd_inode *inode, struct tasd_dir *dir)
{
	struct tasd_face *face = face_of(inode);
	tasd_err err = tasd_face_current(face, inode, &dir->version);

	if (err)
		return told(err);
	pthread_mutex_lock(&face->lock);
	dir->keep = face->listed == dir->version;
	dir->cache = face->current == dir->version;
	if (dir->cache)
		face->listed = dir->version;
	pthread_mutex_unlock(&face->lock);
	return 0;
}

static tasd_err face_entry(
	struct tasd_dir *dir, uint64_t *at, struct tasd_dirent *ret)
{
	return tasd_dict_entry(dir->version,
		tasd_statedict_root(dir->version->ctr->sd), TASD_DICT_TREE, at,
		ret);
}

static tasd_err face_entry_node(struct tasd_dir *dir, uint64_t at,
	const char *name, struct tasd_inode **ret)
{
	const struct tasd_node *root =
		tasd_statedict_root(dir->version->ctr->sd);

	(void)name;
	return tasd_dict_inode(dir->inode->fs, dir->version,
		root->dir.children[at], TASD_DICT_TREE, ret);
}

static tasd_err face_getxattr(struct tasd_inode *inode,
	const struct tasd_caller *caller, const char *name,
	struct tasd_buf *ret)
{
	struct tasd_face *face = face_of(inode);
	struct tasd_version *v = NULL;
	tasd_err err = tasd_face_current(face, inode, &v);

	if (!err) {
		err = tasd_dict_getxattr(
			v, tasd_statedict_root(v->ctr->sd), caller, name, ret);
		tasd_version_put(v);
		return err;
	}
	if (strcmp(name, "user.tasd.error") != 0)
		return -ENODATA;
	pthread_mutex_lock(&face->lock);
	tasd_buf_str(ret, tasd_diag_text(&face->diag, err));
	pthread_mutex_unlock(&face->lock);
	return tasd_buf_err(ret);
}

static tasd_err face_listxattr(struct tasd_inode *inode,
	const struct tasd_caller *caller, struct tasd_buf *ret)
{
	struct tasd_version *v = NULL;
	tasd_err err = tasd_face_current(face_of(inode), inode, &v);

	if (err) {
		static const char only[] = "user.tasd.error";

		tasd_buf_add(ret, only, sizeof(only));
		return tasd_buf_err(ret);
	}
	err = tasd_dict_listxattr(
		v, tasd_statedict_root(v->ctr->sd), caller, ret);
	tasd_version_put(v);
	return err;
}

static const struct tasd_inode_ops face_ops = {
	.what = "face",
	.same = face_same,
	.free = face_inode_free,
	.attr = face_attr,
	.lookup = face_child,
	.opendir = face_opendir,
	.entry = face_entry,
	.entry_node = face_entry_node,
	.getxattr = face_getxattr,
	.listxattr = face_listxattr,
};
