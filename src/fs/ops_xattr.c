/*
 * Handlers about extended attributes.  Other namespaces are refused before
 * anything is looked up: `ls -l` asks two of them for every file.
 */
#include "fs.h"
#include <linux/limits.h>
#include <string.h>

static struct tasd_caller caller_of(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct tasd_caller){.uid = ctx->uid, .gid = ctx->gid};
}

/* size 0 asks how long it is. */
static void reply_value(
	fuse_req_t req, const struct tasd_buf *value, size_t size, size_t max)
{
	if (tasd_buf_err(value))
		fuse_reply_err(req, -tasd_buf_err(value));
	else if (value->len > max)
		fuse_reply_err(req, E2BIG);
	else if (size == 0)
		fuse_reply_xattr(req, value->len);
	else if (value->len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, value->bytes, value->len);
}

void tasd_ops_getxattr(
	fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct tasd_inode *inode = tasd_inode_of(fuse_req_userdata(req), ino);
	struct tasd_caller caller = caller_of(req);
	struct tasd_buf value = TASD_BUF_EMPTY;
	tasd_err err;

	if (strncmp(name, "user.", 5) != 0 || !inode->ops->getxattr) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	err = inode->ops->getxattr(inode, &caller, name, &value);
	if (err)
		fuse_reply_err(req, -err);
	else
		reply_value(req, &value, size, XATTR_SIZE_MAX);
	tasd_buf_free(&value);
}

void tasd_ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct tasd_inode *inode = tasd_inode_of(fuse_req_userdata(req), ino);
	struct tasd_caller caller = caller_of(req);
	struct tasd_buf names = TASD_BUF_EMPTY;
	tasd_err err = inode->ops->listxattr
			       ? inode->ops->listxattr(inode, &caller, &names)
			       : 0;

	if (err)
		fuse_reply_err(req, -err);
	else
		reply_value(req, &names, size, XATTR_LIST_MAX);
	tasd_buf_free(&names);
}
