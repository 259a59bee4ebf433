/*
 * A state dict's nodes in four views of one tree.  In .tasd/npy and .tasd/f32
 * a leaf NAME is NAME.npy; a directory whose own name ends in ".npy" gets a
 * "%" there (which no escaped name ends in, but for the empty key), so that the
 * two never meet.  .tasd/flat has no directories: each tensor under its dotted
 * key; its listing is meta.c's, its leaves are these nodes.
 *
 * Everything is answered from the version the node was found in.  Only opening
 * looks at the files: changed since -> ESTALE, and the kernel looks up again.
 */
#include "dict.h"
#include "fs.h"
#include "meta.h"
#include "serve.h"
#include <base/cleanup.h>
#include <base/text.h>
#include <format/attr.h>
#include <statedict/name.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NPY_SUFFIX     ".npy"
#define NPY_SUFFIX_LEN (sizeof(NPY_SUFFIX) - 1)

struct dict_inode {
	struct tasd_inode base;
	struct tasd_version *version; /* owned reference */
	const struct tasd_node *node; /* lives in the version */
	enum tasd_dict_view view;
};

static const struct tasd_inode_ops dict_ops;

static struct dict_inode *dict_of(struct tasd_inode *inode)
{
	return (struct dict_inode *)inode;
}

static enum tasd_view content_view(enum tasd_dict_view view)
{
	switch (view) {
	case TASD_DICT_NPY:
		return TASD_VIEW_NPY;
	case TASD_DICT_F32:
		return TASD_VIEW_F32;
	case TASD_DICT_TREE:
	case TASD_DICT_FLAT:
		break;
	}
	return TASD_VIEW_RAW;
}

static bool has_suffix(enum tasd_dict_view view)
{
	return view == TASD_DICT_NPY || view == TASD_DICT_F32;
}

/* Tied tensors are one file of several names: the first of them stands for it.
 */
static const struct tasd_node *first_tie(const struct tasd_node *node)
{
	return node->extra && node->extra->tie ? node->extra->tie : node;
}

static uint64_t dict_st_ino(const struct tasd_version *version,
	const struct tasd_node *node, enum tasd_dict_view view)
{
	uint64_t parts[3] = {
		version->place_hash, first_tie(node)->path_hash, view};

	return XXH3_64bits(parts, sizeof(parts));
}

static void dict_init(struct dict_inode *d, struct tasd_fs *fs,
	struct tasd_version *version, const struct tasd_node *node,
	enum tasd_dict_view view)
{
	uint64_t parts[3] = {(uintptr_t)version, (uintptr_t)node, view};

	*d = (struct dict_inode){.base = {.ops = &dict_ops,
					 .fs = fs,
					 .refs = 1,
					 .ttl = TASD_TTL_LONG,
					 .hash = tasd_map_hash(&fs->table.map,
						 parts, sizeof(parts), 0)},
		.version = version,
		.node = node,
		.view = view};
}

tasd_err tasd_dict_inode(struct tasd_fs *fs, struct tasd_version *version,
	const struct tasd_node *node, enum tasd_dict_view view,
	struct tasd_inode **ret)
{
	struct dict_inode *d = malloc(sizeof(*d));

	if (!d)
		return -ENOMEM;
	dict_init(d, fs, tasd_version_get(version), node, view);
	return tasd_inode_intern(&d->base, ret);
}

struct tasd_inode *tasd_dict_find(struct tasd_fs *fs,
	struct tasd_version *version, const struct tasd_node *node)
{
	struct dict_inode probe;

	dict_init(&probe, fs, version, node, TASD_DICT_TREE);
	return tasd_inode_lookup(fs, &probe.base);
}

static bool dict_same(const struct tasd_inode *a, const struct tasd_inode *b)
{
	const struct dict_inode *x = (const struct dict_inode *)a;
	const struct dict_inode *y = (const struct dict_inode *)b;

	return x->version == y->version && x->node == y->node &&
	       x->view == y->view;
}

static void dict_free(struct tasd_inode *inode)
{
	tasd_version_put(dict_of(inode)->version);
	free(inode);
}

void tasd_dict_stat(const struct tasd_version *version, bool is_dir,
	uint64_t size, uint64_t st_ino, struct stat *ret)
{
	const struct stat *st = &version->ctr->st;
	mode_t mode = st->st_mode & 0555;

	memset(ret, 0, sizeof(*ret));
	/* A directory is searched by whoever may read it. */
	if (is_dir)
		ret->st_mode = S_IFDIR | mode | (mode & 0444) >> 2;
	else
		ret->st_mode = S_IFREG | (mode & 0444);
	ret->st_ino = st_ino;
	ret->st_nlink = is_dir ? 2 : 1;
	ret->st_uid = st->st_uid;
	ret->st_gid = st->st_gid;
	ret->st_size = (off_t)size;
	ret->st_blocks = (blkcnt_t)(size / 512 + (size % 512 != 0));
	ret->st_blksize = 4096;
	ret->st_atim = st->st_atim;
	ret->st_mtim = st->st_mtim;
	ret->st_ctim = st->st_ctim;
}

static tasd_err dict_attr(struct tasd_inode *inode, struct stat *ret)
{
	const struct dict_inode *d = dict_of(inode);
	const struct tasd_node *node = d->node;
	bool is_dir = node->form == TASD_FORM_DIR;
	struct stat file;
	uint64_t size =
		is_dir ? 0 : tasd_content_size(node, content_view(d->view));

	tasd_dict_stat(d->version, is_dir, size,
		dict_st_ino(d->version, node, d->view), ret);
	if (node->form == TASD_FORM_TENSOR) {
		tasd_container_access(d->version->ctr, node, &file);
		ret->st_mode = S_IFREG | (file.st_mode & 0444);
		ret->st_uid = file.st_uid;
		ret->st_gid = file.st_gid;
	}
	if (node->form == TASD_FORM_LINK)
		ret->st_mode = S_IFLNK | 0777;
	if (first_tie(node)->extra && first_tie(node)->extra->nties > 1)
		ret->st_nlink = first_tie(node)->extra->nties;
	return 0;
}

/* ---- names in the views ------------------------------------------------- */

/* Does node stand in that view? */
static bool in_view(const struct tasd_node *node, enum tasd_dict_view view)
{
	if (node->form == TASD_FORM_DIR || view == TASD_DICT_TREE)
		return true;
	return tasd_content_exists(node, content_view(view));
}

/* The node's name in that view, terminated; out holds any name. */
static tasd_err view_name(const struct tasd_node *node,
	enum tasd_dict_view view, char *out, size_t size)
{
	struct tasd_buf name = TASD_BUF_EMPTY;
	bool is_dir = node->form == TASD_FORM_DIR;
	tasd_err err;

	if (!has_suffix(view)) {
		tasd_buf_add(&name, node->name, node->name_len);
	} else if (is_dir) {
		tasd_name_cut(
			&name, node->name, node->name_len, TASD_NAME_MAX - 1);
		if (tasd_text_ends_with(node->name, node->name_len, NPY_SUFFIX))
			tasd_buf_char(&name, '%');
	} else {
		tasd_name_cut(&name, node->name, node->name_len,
			TASD_NAME_MAX - NPY_SUFFIX_LEN);
		tasd_buf_str(&name, NPY_SUFFIX);
	}
	tasd_buf_char(&name, '\0');
	err = tasd_buf_err(&name);
	if (!err && name.len > size)
		err = -ENAMETOOLONG;
	if (!err)
		memcpy(out, name.bytes, name.len);
	tasd_buf_free(&name);
	return err;
}

/*
 * Names that were cut again to make room for the suffix: compare with each
 * child that is long enough for that; there are few.
 */
static const struct tasd_node *find_cut(
	const struct tasd_node *dir, enum tasd_dict_view view, const char *name)
{
	char other[TASD_NAME_MAX + 8];

	for (uint32_t i = 0; i < dir->dir.nchildren; i++) {
		const struct tasd_node *child = dir->dir.children[i];

		if (child->name_len <= TASD_NAME_MAX - NPY_SUFFIX_LEN ||
			memcmp(child->name, name, 64) != 0)
			continue;
		if (view_name(child, view, other, sizeof(other)) == 0 &&
			strcmp(other, name) == 0)
			return child;
	}
	return NULL;
}

static const struct tasd_node *find_child(const struct tasd_version *version,
	const struct tasd_node *dir, enum tasd_dict_view view, const char *name)
{
	const struct tasd_statedict *sd = version->ctr->sd;
	const struct tasd_node *node;
	size_t len = strlen(name);

	if (!has_suffix(view))
		return tasd_statedict_child(sd, dir, name, len);
	if (len > TASD_NAME_MAX - NPY_SUFFIX_LEN - 1 &&
		(node = find_cut(dir, view, name)))
		return node;
	if (tasd_text_ends_with(name, len, NPY_SUFFIX)) {
		node = tasd_statedict_child(
			sd, dir, name, len - NPY_SUFFIX_LEN);
		return node && node->form != TASD_FORM_DIR ? node : NULL;
	}
	if (len > 1 && name[len - 1] == '%' &&
		tasd_text_ends_with(name, len - 1, NPY_SUFFIX))
		len--;
	node = tasd_statedict_child(sd, dir, name, len);
	return node && node->form == TASD_FORM_DIR ? node : NULL;
}

/* ---- directories -------------------------------------------------------- */

static tasd_err dict_lookup(
	struct tasd_inode *inode, const char *name, struct tasd_inode **ret)
{
	const struct dict_inode *d = dict_of(inode);
	const struct tasd_node *child;
	tasd_err err;

	if (d->node->form != TASD_FORM_DIR)
		return -ENOTDIR;
	child = find_child(d->version, d->node, d->view, name);
	if (child && in_view(child, d->view))
		return tasd_dict_inode(
			inode->fs, d->version, child, d->view, ret);
	/* Not in this version: there may be one by now that has it. */
	err = tasd_version_check(d->version, d->node);
	return err ? err : -ENOENT;
}

static tasd_err dict_opendir(struct tasd_inode *inode, struct tasd_dir *dir)
{
	const struct dict_inode *d = dict_of(inode);
	tasd_err err;

	if (d->node->form != TASD_FORM_DIR)
		return -ENOTDIR;
	err = tasd_version_check(d->version, d->node);
	if (err)
		return err;
	dir->version = tasd_version_get(d->version);
	dir->cache = dir->keep = true;
	return 0;
}

/* Shared with the face, whose listing is its root's. */
tasd_err tasd_dict_entry(const struct tasd_version *version,
	const struct tasd_node *node, enum tasd_dict_view view, uint64_t *at,
	struct tasd_dirent *ret)
{
	while (*at < node->dir.nchildren) {
		const struct tasd_node *child = node->dir.children[(*at)++];

		if (!in_view(child, view))
			continue;
		ret->st_ino = dict_st_ino(version, child, view);
		ret->type = child->form == TASD_FORM_DIR    ? S_IFDIR
			    : child->form == TASD_FORM_LINK ? S_IFLNK
							    : S_IFREG;
		return view_name(child, view, ret->name, sizeof(ret->name));
	}
	return -ENOENT;
}

static tasd_err dict_entry(
	struct tasd_dir *dir, uint64_t *at, struct tasd_dirent *ret)
{
	const struct dict_inode *d = dict_of(dir->inode);

	return tasd_dict_entry(d->version, d->node, d->view, at, ret);
}

static tasd_err dict_entry_node(struct tasd_dir *dir, uint64_t at,
	const char *name, struct tasd_inode **ret)
{
	const struct dict_inode *d = dict_of(dir->inode);

	(void)name;
	return tasd_dict_inode(dir->inode->fs, d->version,
		d->node->dir.children[at], d->view, ret);
}

/* ---- leaves ------------------------------------------------------------- */

static tasd_err dict_open(struct tasd_inode *inode, struct tasd_open *open)
{
	const struct dict_inode *d = dict_of(inode);
	enum tasd_view view = content_view(d->view);
	struct tasd_source *source = NULL;
	uint64_t offset = 0;
	tasd_err err;

	if (d->node->form == TASD_FORM_DIR)
		return -EISDIR;
	err = tasd_version_check(d->version, d->node);
	if (err)
		return err;
	if (tasd_content_window(
		    d->version->ctr, d->node, view, &source, &offset)) {
		open->kind = TASD_OPEN_WINDOW;
		open->window.source = tasd_source_get(source);
		open->window.offset = offset;
		open->size = tasd_content_size(d->node, view);
		return 0;
	}
	err = tasd_content_open(d->version->ctr, d->node, view, &open->content);
	if (err)
		return err;
	open->kind = TASD_OPEN_CONTENT;
	open->size = open->content.size;
	return 0;
}

/* The folders on the way were in use for its sake. */
static void dict_closed(struct tasd_inode *inode)
{
	const struct dict_inode *d = dict_of(inode);
	const struct tasd_node *node = d->node;
	char name[TASD_NAME_MAX + 8];

	if (!tasd_version_is_stale(d->version))
		return;
	for (; d->view != TASD_DICT_FLAT && node->parent; node = node->parent) {
		struct dict_inode probe;

		if (view_name(node, d->view, name, sizeof(name)) != 0)
			return;
		dict_init(&probe, inode->fs, d->version, node->parent, d->view);
		tasd_version_drop_name(d->version, &probe.base, name);
	}
	if (d->view != TASD_DICT_TREE)
		tasd_meta_drop_view(d->version, d->view, d->node);
}

static tasd_err dict_readlink(struct tasd_inode *inode, char *out, size_t size)
{
	const struct tasd_node *node = dict_of(inode)->node;
	struct tasd_buf path = TASD_BUF_EMPTY;
	tasd_err err;

	if (node->form != TASD_FORM_LINK)
		return -EINVAL;
	/* Up to the root and down again: relative, so it holds in any view
	 * and wherever the state dict is mounted. */
	for (const struct tasd_node *up = node->parent; up->parent;
		up = up->parent)
		tasd_buf_str(&path, "../");
	if (node->link->parent)
		tasd_node_path(&path, node->link);
	else
		tasd_buf_char(&path, '.');
	tasd_buf_char(&path, '\0');
	err = tasd_buf_err(&path);
	if (!err && path.len > size)
		err = -ENAMETOOLONG;
	if (!err)
		memcpy(out, path.bytes, path.len);
	tasd_buf_free(&path);
	return err;
}

/* ---- attributes --------------------------------------------------------- */

#define PREFIX "user.tasd."

/* May the caller read the file that the container is? */
static bool may_read(
	const struct tasd_version *version, const struct tasd_caller *caller)
{
	const struct stat *st = &version->ctr->st;

	if (caller->uid == 0)
		return true;
	if (caller->uid == st->st_uid)
		return st->st_mode & S_IRUSR;
	if (caller->gid == st->st_gid)
		return st->st_mode & S_IRGRP;
	return st->st_mode & S_IROTH;
}

tasd_err tasd_dict_getxattr(const struct tasd_version *version,
	const struct tasd_node *node, const struct tasd_caller *caller,
	const char *name, struct tasd_buf *ret)
{
	bool found = false;
	tasd_err err;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return -ENODATA;
	err = tasd_attr_get(version->ctr, node, name + strlen(PREFIX),
		may_read(version, caller), ret, &found);
	if (!err && !found)
		err = -ENODATA;
	return err;
}

static void add_name(void *ctx, const char *name)
{
	tasd_buf_str(ctx, PREFIX);
	tasd_buf_add(ctx, name, strlen(name) + 1);
}

tasd_err tasd_dict_listxattr(const struct tasd_version *version,
	const struct tasd_node *node, const struct tasd_caller *caller,
	struct tasd_buf *ret)
{
	tasd_attr_list(
		version->ctr, node, may_read(version, caller), add_name, ret);
	return tasd_buf_err(ret);
}

static tasd_err dict_getxattr(struct tasd_inode *inode,
	const struct tasd_caller *caller, const char *name,
	struct tasd_buf *ret)
{
	const struct dict_inode *d = dict_of(inode);

	return tasd_dict_getxattr(d->version, d->node, caller, name, ret);
}

static tasd_err dict_listxattr(struct tasd_inode *inode,
	const struct tasd_caller *caller, struct tasd_buf *ret)
{
	const struct dict_inode *d = dict_of(inode);

	return tasd_dict_listxattr(d->version, d->node, caller, ret);
}

static const struct tasd_inode_ops dict_ops = {
	.what = "dict",
	.same = dict_same,
	.free = dict_free,
	.attr = dict_attr,
	.lookup = dict_lookup,
	.opendir = dict_opendir,
	.entry = dict_entry,
	.entry_node = dict_entry_node,
	.open = dict_open,
	.closed = dict_closed,
	.readlink = dict_readlink,
	.getxattr = dict_getxattr,
	.listxattr = dict_listxattr,
};
