/*
 * What the two halves of this module share: statedict.c holds the items and
 * answers about them, seal.c turns them into the tree that is shown.
 */
#ifndef TASD_STATEDICT_INNER_H
#define TASD_STATEDICT_INNER_H

#include <statedict/statedict.h>

/* Nodes by the slab: no padding between them, and the slabs are the list of
 * the items in the order in which they were added. */
#define TASD_SLAB_NODES 32

struct tasd_slab {
	struct tasd_slab *next;
	struct tasd_node nodes[TASD_SLAB_NODES];
};

struct tasd_slabs {
	struct tasd_slab *first, *last;
	uint32_t count; /* nodes in use; all slabs but the last are full */
};

struct tasd_statedict {
	struct tasd_arena arena;
	/* While items are added: by dict, type and text of the key.  Sealed:
	 * by parent and name. */
	struct tasd_map map;
	struct tasd_slabs items;
	struct tasd_slabs groups;
	struct tasd_node root;
	struct tasd_node attrs;
	uint32_t nattrs; /* items that are attributes */
	struct tasd_statedict_totals totals;
	unsigned int flags;
	tasd_err err; /* what add() met: a node may be half made, and no more
			 can be done with the state dict */
	bool sealed;
};

/* A zeroed node at the end of slabs; NULL at the limit. */
struct tasd_node *tasd_slabs_add(
	struct tasd_slabs *slabs, struct tasd_arena *arena);

/* -E2BIG once the nodes, their texts and the map pass the limit. */
tasd_err tasd_statedict_room(const struct tasd_statedict *sd);

/* A child of dir by name. */
struct tasd_child_key {
	const struct tasd_node *dir;
	const char *name;
	size_t len;
};
uint64_t tasd_child_hash(
	const struct tasd_map *map, const struct tasd_child_key *key);
bool tasd_child_eq(const void *node, const void *key);

#endif
