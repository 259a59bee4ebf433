/*
 * Sums over a subtree of a state dict.
 */
#ifndef TASD_CLI_SUMS_H
#define TASD_CLI_SUMS_H

#include <statedict/statedict.h>

struct tasd_sum {
	uint64_t tensors;
	uint64_t parameters; /* elements */
	uint64_t bytes;
};

struct tasd_sums {
	struct tasd_sum all;
	/* NONE: not known; COUNT: known, but not in the dtype table. */
	struct tasd_sum by_dtype[TASD_DTYPE_COUNT + 1];
	uint64_t nodes;  /* below top */
	uint64_t leaves; /* nodes that are no directories, top included */
	uint64_t broken; /* tensors that cannot be read */
};

/* Every name counts: tied tensors as often as they are there. */
void tasd_sums_of(const struct tasd_node *top, struct tasd_sums *ret);

/* The next node in preorder within the subtree of top; NULL at its end. */
const struct tasd_node *tasd_next_below(
	const struct tasd_node *node, const struct tasd_node *top);

#endif
