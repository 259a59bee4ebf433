/*
 * Handlers about directories being read.  Cookies count entries, so a listing
 * can be resumed anywhere; "." and ".." are the first two.
 */
#include "fs.h"
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>

static struct tasd_dir *dir_of(const struct fuse_file_info *fi)
{
	return (struct tasd_dir *)(uintptr_t)fi->fh;
}

void tasd_dir_free(struct tasd_dir *dir)
{
	tasd_version_put(dir->version);
	tasd_names_free(dir->names);
	tasd_inode_put(dir->inode);
	free(dir);
}

static void dir_close(struct tasd_dir *dir)
{
	tasd_handle_drop(dir->inode->fs, &dir->handle);
	tasd_dir_free(dir);
}

void tasd_ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tasd_inode *inode = tasd_inode_of(fuse_req_userdata(req), ino);
	struct tasd_dir *dir = calloc(1, sizeof(*dir));
	tasd_err err;

	if (!dir) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	dir->inode = tasd_inode_get(inode);
	err = inode->ops->opendir ? inode->ops->opendir(inode, dir) : -ENOTDIR;
	if (err) {
		tasd_dir_free(dir);
		fuse_reply_err(req, -err);
		return;
	}
	fi->fh = (uintptr_t)dir;
	fi->cache_readdir = dir->cache;
	fi->keep_cache = dir->cache && dir->keep;
	tasd_handle_add(inode->fs, &dir->handle, true);
	if (fuse_reply_open(req, fi) == -ENOENT)
		dir_close(dir);
}

struct filling {
	fuse_req_t req;
	char *buf;
	size_t size, used;
	bool plus;
};

/* Append one entry; false when it does not fit. */
static bool fill(struct filling *f, const char *name,
	const struct fuse_entry_param *entry, off_t next)
{
	size_t left = f->size - f->used;
	size_t need = f->plus ? fuse_add_direntry_plus(f->req, f->buf + f->used,
					left, name, entry, next)
			      : fuse_add_direntry(f->req, f->buf + f->used,
					left, name, &entry->attr, next);

	if (need > left)
		return false;
	f->used += need;
	return true;
}

static bool fill_dots(struct filling *f, off_t offset)
{
	struct fuse_entry_param entry;

	memset(&entry, 0, sizeof(entry));
	entry.attr.st_mode = S_IFDIR;
	entry.attr.st_ino = 1;
	if (offset < 1 && !fill(f, ".", &entry, 1))
		return false;
	return offset >= 2 || fill(f, "..", &entry, 2);
}

/*
 * The node and attributes of an entry, for readdirplus.  Without them (its file
 * vanished, say) the kernel gets the name alone and looks it up itself.
 */
static struct tasd_inode *look(struct tasd_dir *dir, uint64_t at,
	const struct tasd_dirent *ent, struct fuse_entry_param *entry)
{
	struct tasd_inode *child = NULL;

	memset(entry, 0, sizeof(*entry));
	if (dir->inode->ops->entry_node(dir, at, ent->name, &child) == 0) {
		if (tasd_ops_entry(child, entry) == 0)
			return child;
		tasd_inode_forget(child, 1);
		memset(entry, 0, sizeof(*entry));
	}
	entry->attr.st_ino = ent->st_ino;
	entry->attr.st_mode = ent->type;
	return NULL;
}

static tasd_err fill_entries(
	struct filling *f, struct tasd_dir *dir, uint64_t at)
{
	struct fuse_entry_param entry;
	struct tasd_dirent ent;

	for (;;) {
		struct tasd_inode *child = NULL;
		uint64_t next = at;
		tasd_err err = dir->inode->ops->entry(dir, &next, &ent);

		if (err == -ENOENT)
			return 0;
		if (err)
			return err;
		if (f->plus) {
			child = look(dir, next - 1, &ent, &entry);
		} else {
			memset(&entry, 0, sizeof(entry));
			entry.attr.st_ino = ent.st_ino;
			entry.attr.st_mode = ent.type;
		}
		if (!fill(f, ent.name, &entry, (off_t)next + 2)) {
			if (child)
				tasd_inode_forget(child, 1);
			return 0;
		}
		at = next;
	}
}

static void readdir(fuse_req_t req, size_t size, off_t offset,
	struct fuse_file_info *fi, bool plus)
{
	struct tasd_dir *dir = dir_of(fi);
	struct filling f = {.req = req, .size = size, .plus = plus};
	tasd_err err = 0;

	if (offset < 0 || !(f.buf = malloc(size))) {
		fuse_reply_err(req, offset < 0 ? EINVAL : ENOMEM);
		return;
	}
	if (fill_dots(&f, offset))
		err = fill_entries(
			&f, dir, offset > 2 ? (uint64_t)offset - 2 : 0);
	if (err && f.used == 0)
		fuse_reply_err(req, -err);
	else
		fuse_reply_buf(req, f.buf, f.used);
	free(f.buf);
}

void tasd_ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	struct fuse_file_info *fi)
{
	(void)ino;
	readdir(req, size, offset, fi, false);
}

void tasd_ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size,
	off_t offset, struct fuse_file_info *fi)
{
	(void)ino;
	readdir(req, size, offset, fi, true);
}

void tasd_ops_releasedir(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tasd_dir *dir = dir_of(fi);

	(void)ino;
	if (dir->inode->ops->closed)
		dir->inode->ops->closed(dir->inode);
	dir_close(dir);
	fuse_reply_err(req, 0);
}
