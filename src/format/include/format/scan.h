/*
 * Which classes and functions the pickles in a file would have a careless
 * loader import.  Looks at the pickles alone, wherever a format keeps them:
 * nothing is made of them, so it also works on files that are no checkpoint or
 * are broken.  One thread at a time per scan.
 */
#ifndef TASD_FORMAT_SCAN_H
#define TASD_FORMAT_SCAN_H

#include <base/err.h>
#include <stdbool.h>
#include <stdint.h>

/* A global that a pickle names; borrowed until the callback returns. */
struct tasd_scan_global {
	const char *pickle; /* the member of the archive; "" when the file is
			       the pickle */
	const char *module; /* not terminated, as is name */
	const char *name;
	uint32_t module_len;
	uint32_t name_len;
	uint64_t count; /* how often the pickle names it */
	bool safe;      /* torch's own safe loader allows it */
};

struct tasd_scan {
	/* May be NULL.  Each global once a pickle.  Anything but 0 ends the
	 * scan, which returns it; the same with trouble(). */
	tasd_err (*global)(void *ctx, const struct tasd_scan_global *global);
	/* A pickle (or the file: "") could not be looked into, or not to its
	 * end; the rest of the file is looked into all the same. */
	tasd_err (*trouble)(void *ctx, const char *pickle, const char *why);
	void *ctx;
	uint64_t npickles; /* found in the file, also those with trouble */
};

/*
 * Scan the regular file fd (not taken; its position does not matter) called
 * name.  The name decides nothing but whether a file that does not begin as a
 * pickle of protocol 2 or later must be one.
 *
 * Memory: 64 MiB for a pickle's bytes and TASD_CONTAINER_MEMORY for what it
 * builds, at most.
 *
 * 0 also with trouble.  -EIO and the like: fd cannot be read; diag says so.
 */
tasd_err tasd_scan_file(int fd, const char *name, struct tasd_scan *scan,
	struct tasd_diag *diag);

#endif
