/*
 * A hash index: from a 64-bit hash to pointers.  The owner of the pointers
 * keeps the keys; the map asks back through eq() which of the candidates is
 * meant.  Open addressing, 16 bytes a slot, so the names of a state dict with
 * hundreds of thousands of directories need no table each.
 *
 * Hash with tasd_map_hash(): it is seeded once per map from the kernel's random
 * source, so a file cannot be made to collide.  One writer, or many readers.
 */
#ifndef TASD_BASE_MAP_H
#define TASD_BASE_MAP_H

#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tasd_map_slot;

struct tasd_map {
	struct tasd_map_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t used; /* live entries */
	size_t dead; /* removed entries not yet swept */
	uint64_t seed;
};

typedef bool (*tasd_map_eq)(const void *value, const void *key);

void tasd_map_init(struct tasd_map *map);
void tasd_map_free(struct tasd_map *map); /* not the values */

/* salt tells apart equal texts in different scopes (a parent's address). */
uint64_t tasd_map_hash(const struct tasd_map *map, const void *bytes,
	size_t len, uint64_t salt);

void *tasd_map_find(const struct tasd_map *map, uint64_t hash, tasd_map_eq eq,
	const void *key);

/* The caller has made sure that no equal value is in.  value is not NULL. */
tasd_err tasd_map_put(struct tasd_map *map, uint64_t hash, void *value);

/* Remove exactly this pointer; true when it was in. */
bool tasd_map_remove(struct tasd_map *map, uint64_t hash, const void *value);

/*
 * Walk the values in no order: start with *at = 0; NULL at the end.  The map
 * must not change meanwhile.
 */
void *tasd_map_next(const struct tasd_map *map, size_t *at);

#endif
