/*
 * What a user named on the command line: a container file, a container folder,
 * or a folder that is a library of containers.
 */
#ifndef TASD_FORMAT_PLACE_H
#define TASD_FORMAT_PLACE_H

#include "container.h"

struct tasd_place {
	int dirfd;  /* the folder itself, or the one the file is in; owned */
	char *name; /* file name in dirfd, or "." for a folder; owned */
	char *path; /* absolute, for messages and for opening it again; owned */
	const struct tasd_format *format; /* NULL: a library folder */
};

/*
 * Find out what path is.  The path itself is the user's own choice and may be
 * or pass through any symlink; what lies below is held to the policy of
 * source/beneath.h.
 * -ENOTSUP: a file that is no container; diag says what it is instead.
 * -ENOENT, -EACCES, ...: as open(2).
 */
tasd_err tasd_place_open(
	const char *path, struct tasd_place *ret, struct tasd_diag *diag);
void tasd_place_close(struct tasd_place *place);

/*
 * "model.safetensors.tasd" -> true and the length of "model.safetensors": the
 * name is a face of what stands before the suffix.
 */
bool tasd_place_is_face(const char *name, size_t len, size_t *ret_base_len);

#endif
