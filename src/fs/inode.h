/*
 * The node table: what a FUSE node id is.
 *
 * A node id names one immutable version of a file, or a directory.  st_ino
 * names the file or tensor and stays the same over versions.  Every name has a
 * node of its own, ties too, since getxattr carries a node id and no path.
 * Kinds of node (a folder of a library, a state dict's tree, .tasd) plug in
 * through struct tasd_inode_ops; the handlers know only this header.
 *
 * Lifetime: nlookup counts what the kernel knows (under the table's lock),
 * refs counts holders (atomic): one for nlookup > 0, one for each open.
 */
#ifndef TASD_FS_INODE_H
#define TASD_FS_INODE_H

#include "handle.h"
#include <base/buf.h>
#include <base/err.h>
#include <base/map.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct tasd_fs;
struct tasd_inode;
struct tasd_version;
struct tasd_open;

/* Who asks: decides what may be told, never what may be opened (the kernel
 * checks modes: default_permissions). */
struct tasd_caller {
	uid_t uid;
	gid_t gid;
};

/* One directory being read. */
struct tasd_dir {
	struct tasd_handle handle;    /* first */
	struct tasd_inode *inode;     /* referenced */
	struct tasd_version *version; /* referenced; NULL in a library */
	struct tasd_names *names;     /* a library's snapshot; owned */
	bool cache;                   /* the kernel may keep the listing */
	bool keep;                    /* ... and the one it has is this one */
};

void tasd_dir_free(struct tasd_dir *dir);

struct tasd_dirent {
	char name[1024]; /* terminated */
	uint64_t st_ino;
	mode_t type; /* S_IFMT bits */
};

struct tasd_inode_ops {
	const char *what; /* for the trace */

	/* Are these two the same node?  Both are of this kind. */
	bool (*same)(const struct tasd_inode *a, const struct tasd_inode *b);
	/* Release what the node holds, and itself. */
	void (*free)(struct tasd_inode *inode);

	/* Attributes; never waits for a parser. */
	tasd_err (*attr)(struct tasd_inode *inode, struct stat *ret);

	/* Directories: child by name, with one nlookup for the caller. */
	tasd_err (*lookup)(struct tasd_inode *inode, const char *name,
		struct tasd_inode **ret);
	/* Fill *dir (inode is set); -ESTALE when it has a newer version. */
	tasd_err (*opendir)(struct tasd_inode *inode, struct tasd_dir *dir);
	/* Entry at *at, counting from 0; advances *at past it and whatever was
	 * skipped.  -ENOENT at the end. */
	tasd_err (*entry)(
		struct tasd_dir *dir, uint64_t *at, struct tasd_dirent *ret);
	/* The node of the entry that entry() gave for index at. */
	tasd_err (*entry_node)(struct tasd_dir *dir, uint64_t at,
		const char *name, struct tasd_inode **ret);

	/* Files: prepare to serve; fills *open (see serve.h). */
	tasd_err (*open)(struct tasd_inode *inode, struct tasd_open *open);
	tasd_err (*readlink)(struct tasd_inode *inode, char *out, size_t size);
	/* Files and directories: an open of it ends.  NULL: never mind. */
	void (*closed)(struct tasd_inode *inode);

	/* Attributes by name ("user.tasd." and others, whole).  -ENODATA. */
	tasd_err (*getxattr)(struct tasd_inode *inode,
		const struct tasd_caller *caller, const char *name,
		struct tasd_buf *ret);
	/* Names, each with its NUL. */
	tasd_err (*listxattr)(struct tasd_inode *inode,
		const struct tasd_caller *caller, struct tasd_buf *ret);
};

/* How a version's bytes reach the kernel: chosen once, at first open. */
enum tasd_serve_mode {
	TASD_SERVE_UNSET,
	TASD_SERVE_PASSTHROUGH, /* the kernel reads the backing file itself */
	TASD_SERVE_DIRECT,      /* each read comes here; mappings allowed */
	TASD_SERVE_CACHED,      /* through the page cache, kept over opens */
};

struct tasd_inode {
	const struct tasd_inode_ops *ops;
	struct tasd_fs *fs;
	uint64_t hash;      /* of the identity; where it is in the table */
	uint64_t nlookup;   /* under the table's lock */
	uint32_t refs;      /* atomic */
	uint32_t nopen;     /* under fs->serve_lock */
	int32_t backing_id; /* under fs->serve_lock; 0: none */
	uint8_t mode;       /* enum tasd_serve_mode; set under
				fs->serve_lock */
	uint8_t ttl;        /* seconds names and attributes stay true for,
			       TASD_TTL_LONG: an hour */
};

#define TASD_TTL_LONG 255

struct tasd_inode_table {
	pthread_mutex_t lock;
	struct tasd_map map;
	uint64_t count;  /* nodes the kernel knows */
	uint64_t peak;   /* since memory was last given back */
	uint64_t ntotal; /* atomic: all nodes allocated */
};

void tasd_inode_table_init(struct tasd_inode_table *table);
/* At the end, when no request runs any more: drop every node. */
void tasd_inode_table_drain(struct tasd_fs *fs);

/*
 * Enter candidate (just allocated, refs 1, hash set) or find the node that is
 * the same already; the candidate is freed then.  The result has one nlookup
 * more, which the kernel's FORGET takes back.
 */
tasd_err tasd_inode_intern(
	struct tasd_inode *candidate, struct tasd_inode **ret);

/* The node already in the table that is the same as probe, with one nlookup
 * more (tasd_inode_forget() takes it back), or NULL. */
struct tasd_inode *tasd_inode_lookup(
	struct tasd_fs *fs, const struct tasd_inode *probe);

/* The kernel forgets n lookups. */
void tasd_inode_forget(struct tasd_inode *inode, uint64_t n);

struct tasd_inode *tasd_inode_get(struct tasd_inode *inode);
void tasd_inode_put(struct tasd_inode *inode);

/* Node ids are addresses, and 1 is the root. */
uint64_t tasd_inode_id(const struct tasd_inode *inode);
struct tasd_inode *tasd_inode_of(struct tasd_fs *fs, uint64_t id);

#endif
