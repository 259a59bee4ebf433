/*
 * Handlers about nodes: names, attributes, links, forgetting.  Each resolves
 * the node, acts, and replies exactly once.
 */
#include "fs.h"
#include <linux/limits.h>
#include <string.h>
#include <sys/statvfs.h>

/* Attributes that change under us live a second, the rest an hour. */
static double ttl(const struct tasd_inode *inode)
{
	return inode->ttl == TASD_TTL_LONG ? 3600.0 : (double)inode->ttl;
}

tasd_err tasd_ops_entry(struct tasd_inode *inode, struct fuse_entry_param *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ino = tasd_inode_id(inode);
	ret->attr_timeout = ret->entry_timeout = ttl(inode);
	return inode->ops->attr(inode, &ret->attr);
}

void tasd_ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct tasd_fs *fs = fuse_req_userdata(req);
	struct tasd_inode *dir = tasd_inode_of(fs, parent), *child = NULL;
	struct fuse_entry_param entry;
	tasd_err err;

	TASD_STAT_ADD(fs, lookups, 1);
	if (!dir->ops->lookup) {
		fuse_reply_err(req, ENOTDIR);
		return;
	}
	err = dir->ops->lookup(dir, name, &child);
	if (!err) {
		err = tasd_ops_entry(child, &entry);
		if (err)
			tasd_inode_forget(child, 1);
	}
	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	/* A reply that did not arrive gave the kernel no lookup to forget. */
	if (fuse_reply_entry(req, &entry) == -ENOENT)
		tasd_inode_forget(child, 1);
}

static void forget(struct tasd_fs *fs, fuse_ino_t ino, uint64_t nlookup)
{
	TASD_STAT_ADD(fs, forgets, 1);
	if (ino != FUSE_ROOT_ID)
		tasd_inode_forget(tasd_inode_of(fs, ino), nlookup);
}

void tasd_ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	forget(fuse_req_userdata(req), ino, nlookup);
	fuse_reply_none(req);
}

void tasd_ops_forget_multi(
	fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct tasd_fs *fs = fuse_req_userdata(req);

	for (size_t i = 0; i < count; i++)
		forget(fs, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

void tasd_ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tasd_inode *inode = tasd_inode_of(fuse_req_userdata(req), ino);
	struct stat st;
	tasd_err err = inode->ops->attr(inode, &st);

	(void)fi;
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_attr(req, &st, ttl(inode));
}

void tasd_ops_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct tasd_inode *inode = tasd_inode_of(fuse_req_userdata(req), ino);
	char target[PATH_MAX];
	tasd_err err = inode->ops->readlink ? inode->ops->readlink(inode,
						      target, sizeof(target))
					    : -EINVAL;

	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_readlink(req, target);
}

/* The file system below, as df sees it; nothing is free in a read-only one. */
void tasd_ops_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct tasd_fs *fs = fuse_req_userdata(req);
	struct statvfs st;

	(void)ino;
	if (fstatvfs(fs->place.dirfd, &st) != 0) {
		fuse_reply_err(req, errno);
		return;
	}
	st.f_namemax = NAME_MAX;
	fuse_reply_statfs(req, &st);
}
