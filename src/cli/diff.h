/*
 * What diff finds, as lines for people or as one JSON object.
 */
#ifndef TASD_CLI_DIFF_H
#define TASD_CLI_DIFF_H

#include "compare.h"
#include "leaves.h"
#include <base/buf.h>

enum tasd_diff_exit {
	TASD_DIFF_EQUAL = 0,
	TASD_DIFF_DIFFERENT = 1,
	TASD_DIFF_TROUBLE = 2,
};

enum tasd_diff_list {
	TASD_DIFF_ONLY_A,
	TASD_DIFF_ONLY_B,
	TASD_DIFF_DIFFERS,
	TASD_DIFF_TROUBLES,
	TASD_DIFF_LISTS,
};

struct tasd_diff_out {
	bool json;
	int rc; /* not 0: standard output failed, nothing more is printed */
	uint64_t counts[TASD_DIFF_LISTS];
	uint64_t equal_tensors, equal_values, equal_keys;
	struct tasd_buf lists[TASD_DIFF_LISTS]; /* JSON objects; owned */
};

/* The leaf of side 0 or 1 has no other. */
void tasd_diff_only(
	struct tasd_diff_out *out, const struct tasd_leaf *leaf, int side);

/* They differ in what: "kind", "dtype", "shape", "value" ... */
void tasd_diff_headers(struct tasd_diff_out *out, const struct tasd_leaf *a,
	const struct tasd_leaf *b, const char *what);

/* Two tensors of one dtype and shape differ. */
void tasd_diff_values(struct tasd_diff_out *out, const struct tasd_leaf *a,
	const struct tasd_leaf *b, const struct tasd_comparison *c);

/* The leaf could not be compared; reason may be NULL. */
void tasd_diff_trouble(struct tasd_diff_out *out, const struct tasd_leaf *leaf,
	const char *where, const char *reason);

/* The summary.  Returns an enum tasd_diff_exit. */
int tasd_diff_end(struct tasd_diff_out *out);

void tasd_diff_free(struct tasd_diff_out *out);

#endif
