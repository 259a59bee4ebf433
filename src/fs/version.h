/*
 * Versions of a container, and the place whose current version changes.
 *
 * A face is a place (a path in a library, or the source itself) seen as a state
 * dict.  A version is one reading of it and never changes; nodes of the tree
 * hold the version they were found in.  When the place holds other bytes, the
 * face reads a new version; the old one lives on for those who hold it, marked
 * stale, so that opening one of its nodes answers ESTALE and the kernel looks
 * the name up again.
 */
#ifndef TASD_FS_VERSION_H
#define TASD_FS_VERSION_H

#include <format/container.h>
#include <pthread.h>

struct tasd_fs;
struct tasd_library;
struct tasd_flat;
struct tasd_inode;

struct tasd_version {
	struct tasd_fs *fs;
	struct tasd_container *ctr; /* owned reference */
	struct tasd_library *files; /* the container's folder; owned ref */
	uint64_t place_hash;        /* of the place's path: st_ino's base */
	bool is_root;               /* of the mount: .tasd has stats too */
	uint32_t refs;              /* atomic */
	bool stale;                 /* atomic */
	pthread_mutex_t lock;       /* the fields below, made on demand */
	struct tasd_flat *flat;     /* owned */
	uint64_t text_size[3];      /* of the indexes + 1; 0: not known yet */
};

struct tasd_version *tasd_version_get(struct tasd_version *version);
void tasd_version_put(struct tasd_version *version);

/*
 * Does its place still hold what was read, as tasd_container_check() sees it?
 * -ESTALE: no, and the version is stale from now on.
 */
tasd_err tasd_version_check(
	struct tasd_version *version, const struct tasd_node *node);

/* No longer what its place holds, as far as is known. */
bool tasd_version_is_stale(const struct tasd_version *version);

/*
 * An open of something of an old version ends.  The kernel dropped the names
 * above, but what was in use then it keeps, and with it the version and the
 * files it was read from, until memory is short; so `name` in the directory
 * that is the same as `probe` is dropped now.
 */
void tasd_version_drop_name(struct tasd_version *version,
	const struct tasd_inode *probe, const char *name);

struct tasd_face {
	struct tasd_fs *fs;
	struct tasd_library *library; /* owned reference */
	char *path;                   /* in the library; "." is its folder */
	bool is_root;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool reading;                 /* one thread reads, the others wait */
	struct tasd_version *current; /* owned reference; NULL: broken */
	struct tasd_version *listed;  /* compared, never followed: the version
					 whose listing the kernel may have */
	struct tasd_diag diag;        /* why there is no current version */
};

tasd_err tasd_face_new(struct tasd_fs *fs, struct tasd_library *library,
	const char *path, bool is_root, struct tasd_face **ret);
void tasd_face_free(struct tasd_face *face);

/*
 * The version that the place holds now, with a reference.  Looks whether the
 * files changed and reads them anew if so; then the nodes of the version before
 * are queued for invalidation below `node`, the face's own directory (NULL
 * while it has none).
 */
tasd_err tasd_face_current(struct tasd_face *face, struct tasd_inode *node,
	struct tasd_version **ret);

/* The last version read, without looking; NULL when it is broken. */
struct tasd_version *tasd_face_last(struct tasd_face *face);

#endif
