/*
 * SOURCE [PATH] of the commands that read, resolved: to a node of a state
 * dict, or to a folder or file of a library.  The same places a mount shows,
 * found without one.
 */
#ifndef TASD_CLI_TARGET_H
#define TASD_CLI_TARGET_H

#include <format/container.h>
#include <format/place.h>
#include <stdbool.h>

enum tasd_target_kind {
	TASD_TARGET_NODE,   /* ctr and node are set */
	TASD_TARGET_FOLDER, /* a folder of a library: place.dirfd, inside */
	TASD_TARGET_FILE,   /* a file of a library that was named itself */
};

enum tasd_target_flag {
	/* A container in a library that is named as the file or folder it is
	 * is taken for its state dict. */
	TASD_TARGET_OPEN = 1 << 0,
};

struct tasd_target {
	enum tasd_target_kind kind;
	struct tasd_place place;
	struct tasd_container *ctr; /* owned reference, or NULL */
	const struct tasd_node *node;
	char *inside; /* FOLDER, FILE: the path beneath place.dirfd, "." for
			 the folder itself; owned */
	char *where;  /* what messages call it; owned */
};

/*
 * source may also be a face that only a mount shows (DIR/NAME.tasd/a/b).
 * path may be NULL; in a state dict it is a path of names or a full dotted
 * key.  Says what is wrong.  Returns an enum tasd_exit.
 */
int tasd_target_open(const char *source, const char *path, unsigned int flags,
	struct tasd_target *ret);
void tasd_target_close(struct tasd_target *target);

/* One entry of a library folder. */
struct tasd_entry {
	char *name;                       /* owned */
	const struct tasd_format *format; /* NULL: no container */
	uint64_t size;                    /* of a file */
	char type; /* 'd', 'f', 'l' (a link), '?' (else) */
};

struct tasd_folder {
	struct tasd_entry *entries; /* sorted by name; owned */
	size_t n;
};

/*
 * Read the folder `inside` beneath rootfd and probe what is in it.
 */
tasd_err tasd_folder_read(int rootfd, const char *inside,
	struct tasd_folder *ret, struct tasd_diag *diag);
void tasd_folder_free(struct tasd_folder *folder);

/* "a" and "b" -> "a/b"; "." and "b" -> "b".  malloc'd, NULL without memory. */
char *tasd_path_join(const char *dir, const char *name);

/* Is there a real entry NAME.tasd, which hides NAME's face? */
bool tasd_folder_has_face(
	const struct tasd_folder *folder, const struct tasd_entry *entry);

#endif
