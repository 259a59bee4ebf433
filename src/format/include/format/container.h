/*
 * One checkpoint that has been read: its state dict, where the bytes are, its
 * metadata and what is wrong with it.  Immutable once opened; counted, atomic;
 * any thread.
 */
#ifndef TASD_FORMAT_CONTAINER_H
#define TASD_FORMAT_CONTAINER_H

#include <source/source.h>
#include <statedict/statedict.h>
#include <sys/types.h>

struct tasd_format;
struct tasd_slabs;

/* Upper bound of what one container's metadata may take, in bytes. */
#define TASD_CONTAINER_MEMORY ((size_t)192 << 20)

/* One metadata pair as saved (safetensors' __metadata__); in the arena. */
struct tasd_meta {
	const char *name;
	const char *value;
	uint32_t name_len;
	uint32_t value_len;
};

struct tasd_container {
	const struct tasd_format *format;
	struct tasd_statedict *sd;
	struct tasd_source **sources; /* owned references; the first is the
					 container's own file or its index */
	uint32_t nsources;
	struct tasd_meta *meta; /* saved order */
	uint32_t nmeta;
	struct tasd_stamp stamp; /* of the file opened: the container itself,
				    or the index of a sharded one */
	struct stat st;		 /* owner, mode and times to show; of a
				    folder, what its index allows too */
	int dirfd;		 /* the folder it lies in (or is); owned */
	char *name;		 /* file name in dirfd; NULL for a folder */
	char *problems;		 /* all that is wrong, a line each, newline
				    between; NULL when nothing is */
	size_t problems_len;
	uint32_t nproblems;
	/* What a pickle in it names that torch's own safe loader does not
	 * allow, a line each; in the arena. */
	const char *unsafe;
	uint32_t unsafe_len;
	uint32_t nunsafe;
	unsigned int refs;
	/* Atomic; owned; NULL until something is gathered. */
	struct tasd_slabs *slabs;
	/* Only for tasd_container_check(): where it was opened. */
	int rootfd;	   /* owned */
	struct stat place; /* as found there */
	char *path; /* beneath rootfd; owned */
};

enum tasd_container_flag {
	TASD_CONTAINER_NOSPLIT = 1 << 0,
};

/*
 * What a place is, by content.  dirfd and name as for tasd_container_open();
 * reads at most TASD_PROBE_BYTES.  NULL in *ret_format: no container, and diag
 * says what it is instead ("a git-lfs pointer", "an HTML page", "empty").
 */
tasd_err tasd_container_probe(int dirfd, const char *name,
	const struct tasd_format **ret_format, struct tasd_diag *diag);

/*
 * Open and read the container `name` (a path beneath the folder dirfd, by the
 * policy of source/beneath.h; "." is the folder itself).  dirfd is not taken.
 * -ENOTSUP: not a container (diag says what it is).  -EINVAL: one that is
 * broken as a whole.  -E2BIG: its metadata needs more than
 * TASD_CONTAINER_MEMORY.
 */
tasd_err tasd_container_open(int dirfd, const char *name, unsigned int flags,
	struct tasd_container **ret, struct tasd_diag *diag);

struct tasd_container *tasd_container_get(struct tasd_container *ctr);
void tasd_container_put(struct tasd_container *ctr);

/*
 * Does its place still hold what was read?  Looks at the container's own file
 * and, with node, at the files that node's bytes are in (none for a
 * directory); with NULL, at every file.
 * 0: yes.  -ESTALE: changed, replaced or gone.
 */
tasd_err tasd_container_check(
	const struct tasd_container *ctr, const struct tasd_node *node);

/*
 * Whose the node is and who may read it (st_uid, st_gid and the r bits of
 * st_mode): for a tensor in files of its own, as those files are.
 */
void tasd_container_access(const struct tasd_container *ctr,
	const struct tasd_node *node, struct stat *ret);

/* For formats, while reading. */

/* Add a source; takes the reference.  ret_index may be NULL. */
tasd_err tasd_container_add_source(struct tasd_container *ctr,
	struct tasd_source *source, uint32_t *ret_index);
/* Both texts are copied. */
tasd_err tasd_container_add_meta(struct tasd_container *ctr, const char *name,
	size_t name_len, const char *value, size_t value_len);
/* Note a problem that leaves the rest readable.  Bounded: the first 1000 are
 * kept as text, nproblems counts all. */
__attribute__((format(printf, 2, 3))) void tasd_container_problem(
	struct tasd_container *ctr, const char *format, ...);

#endif
