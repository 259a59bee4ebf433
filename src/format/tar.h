/*
 * The members of a tar file, as Python's tarfile takes them: of several of one
 * name the last one counts, pax records and GNU's long names are followed, old
 * headers without a magic are headers too.  Where tarfile goes on with less
 * than it was given, this refuses.
 *
 * One thread at a time; nothing is kept.
 */
#ifndef TASD_FORMAT_TAR_H
#define TASD_FORMAT_TAR_H

#include <base/err.h>
#include <source/source.h>
#include <stdbool.h>

#define TASD_TAR_BLOCK 512u

struct tasd_tar_member {
	const char *name; /* in: shorter than TASD_TAR_NAME_MAX */
	uint64_t offset;  /* of its bytes in the source */
	uint64_t size;
	bool found;
	bool is_file; /* no link, folder or device */
};

#define TASD_TAR_NAME_MAX 64u

/* Is the block (TASD_TAR_BLOCK bytes) a header? */
bool tasd_tar_is_header(const unsigned char *block);

/*
 * Find these n members.  Reads the headers only; a file of more than a few
 * dozen of them is refused.
 * -EINVAL: no tar, or a broken one; diag (may be NULL) says why.
 */
tasd_err tasd_tar_find(struct tasd_source *source,
	struct tasd_tar_member *members, size_t n, struct tasd_diag *diag);

#endif
