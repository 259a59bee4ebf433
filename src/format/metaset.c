/*
 * The map holds positions in the container's array, counted from 1 and dressed
 * as pointers, since the array moves while it grows.
 */
#include "metaset.h"
#include <string.h>

/* Bytes of one slot of the map (base/map.h says so). */
#define MAP_SLOT 16

struct wanted {
	const struct tasd_container *ctr;
	const char *name;
	uint32_t len;
};

static bool same_name(const void *value, const void *key)
{
	const struct wanted *want = key;
	const struct tasd_meta *meta = &want->ctr->meta[(uintptr_t)value - 1];

	return meta->name_len == want->len &&
	       memcmp(meta->name, want->name, want->len) == 0;
}

void tasd_metaset_init(struct tasd_metaset *set, struct tasd_container *ctr)
{
	set->ctr = ctr;
	tasd_map_init(&set->names);
}

void tasd_metaset_free(struct tasd_metaset *set)
{
	tasd_map_free(&set->names);
}

tasd_err tasd_metaset_put(struct tasd_metaset *set,
	enum tasd_metaset_twice twice, const char *name, uint32_t name_len,
	const char *value, uint32_t value_len)
{
	struct tasd_container *ctr = set->ctr;
	struct tasd_arena *arena = tasd_statedict_arena(ctr->sd);
	struct wanted want = {.ctr = ctr, .name = name, .len = name_len};
	uint64_t hash = tasd_map_hash(&set->names, name, name_len, 0);
	void *found = tasd_map_find(&set->names, hash, same_name, &want);
	tasd_err err;

	if (found && twice == TASD_META_KEEP)
		return 0;
	if (found) {
		struct tasd_meta *meta = &ctr->meta[(uintptr_t)found - 1];

		meta->value = tasd_arena_copy(arena, value, value_len);
		meta->value_len = value_len;
		return meta->value ? 0 : -E2BIG;
	}
	err = tasd_container_add_meta(ctr, name, name_len, value, value_len);
	if (err)
		return err;
	if (set->names.room > (arena->limit - arena->used) / MAP_SLOT)
		return -E2BIG;
	return tasd_map_put(&set->names, hash, (void *)(uintptr_t)ctr->nmeta);
}
