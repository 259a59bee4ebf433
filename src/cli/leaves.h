/*
 * The leaves of a source under their dotted keys, for commands that go by
 * keys: what diff compares and export writes.
 *
 * A leaf is a tensor, a value, a directory with nothing in it, or a link to a
 * container met before.
 */
#ifndef TASD_CLI_LEAVES_H
#define TASD_CLI_LEAVES_H

#include "target.h"
#include <base/arena.h>

struct tasd_strip {
	const char *words; /* whole components, no dot at either end */
	size_t len;
	bool anywhere; /* not only at the beginning of a key */
};

/* What --strip says, in the order given; all of them are tried each time. */
struct tasd_strips {
	struct tasd_strip *all; /* owned */
	size_t n;
};

/*
 * "module." or "module": at the beginning of a key, again and again.
 * "._orig_mod.": between any two components too.  text is borrowed.
 * -EINVAL: there is no component in it.
 */
tasd_err tasd_strips_add(struct tasd_strips *strips, const char *text);
void tasd_strips_free(struct tasd_strips *strips);

struct tasd_leaf {
	const struct tasd_node *node;
	const char *key; /* terminated; may hold NUL all the same */
	uint32_t len;
	bool stripped; /* the key was longer */
};

struct tasd_leaves {
	struct tasd_leaf *all; /* saved order; owned */
	size_t n, room;
	uint32_t *by_key; /* positions in all, in the order of their keys;
			     NULL until sorted; owned */
	struct tasd_arena texts;
};

enum tasd_leaves_flag {
	/* What makes one tensor of several: the directory of a sparse one, as
	 * a leaf of its own, and the arrays beside a quantised one's codes. */
	TASD_LEAVES_COMPOUND = 1 << 0,
};

/*
 * All leaves at or below target's node.  Keys begin below it; a leaf that was
 * named itself has its full dotted key.
 */
tasd_err tasd_leaves_read(const struct tasd_target *target,
	const struct tasd_strips *strips, unsigned int flags,
	struct tasd_leaves *ret);
void tasd_leaves_free(struct tasd_leaves *leaves);

tasd_err tasd_leaves_sort(struct tasd_leaves *leaves);

/*
 * Leaves that look alike as dotted keys ({"a": {"b": 1}} and "a.b") and were
 * not made so by stripping get their exact keys instead, as user.tasd.key
 * spells them.  Sorted before and after.
 */
tasd_err tasd_leaves_untwin(struct tasd_leaves *leaves);

/* Say which leaves have one key.  Returns how many are too many. */
size_t tasd_leaves_clashes(const struct tasd_leaves *leaves, const char *where);

/* A sparse or nested tensor, whose parts are below it. */
bool tasd_leaf_is_compound(const struct tasd_node *node);

/* By their bytes, the shorter first. */
int tasd_leaf_order(const struct tasd_leaf *a, const struct tasd_leaf *b);

/* The node's dotted key, below top, stripped. */
tasd_err tasd_leaf_key(struct tasd_buf *buf, const struct tasd_node *node,
	const struct tasd_node *top, const struct tasd_strips *strips);

/* A key as it is printed: with quotes when it is empty. */
void tasd_print_key(struct tasd_buf *buf, const char *key, size_t len);

#endif
