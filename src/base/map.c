/*
 * Linear probing over slots of {hash, value}.  A removed entry leaves a
 * tombstone so that probes go on past it; tombstones are swept when the table
 * is rebuilt, which happens when live and dead together pass 5/8.
 */
#include <base/map.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct tasd_map_slot {
	uint64_t hash;
	void *value; /* NULL: never used; TOMBSTONE: removed */
};

/* An address no caller's value can have. */
static const char tombstone;
#define TOMBSTONE ((void *)&tombstone)

void tasd_map_init(struct tasd_map *map)
{
	*map = (struct tasd_map){.slots = NULL};
	if (getrandom(&map->seed, sizeof(map->seed), GRND_NONBLOCK) !=
		sizeof(map->seed)) {
		struct timespec now;

		/* Early boot: weaker, still not in the file's hands. */
		clock_gettime(CLOCK_MONOTONIC, &now);
		map->seed = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^
			    (uintptr_t)map;
	}
}

void tasd_map_free(struct tasd_map *map)
{
	free(map->slots);
	map->slots = NULL;
	map->room = map->used = map->dead = 0;
}

uint64_t tasd_map_hash(const struct tasd_map *map, const void *bytes,
	size_t len, uint64_t salt)
{
	return XXH3_64bits_withSeed(
		bytes, len, map->seed ^ salt * 0x9e3779b97f4a7c15u);
}

void *tasd_map_find(const struct tasd_map *map, uint64_t hash, tasd_map_eq eq,
	const void *key)
{
	size_t mask = map->room - 1;

	if (!map->room)
		return NULL;
	for (size_t i = hash & mask; map->slots[i].value; i = (i + 1) & mask) {
		const struct tasd_map_slot *slot = &map->slots[i];

		if (slot->hash == hash && slot->value != TOMBSTONE &&
			eq(slot->value, key))
			return slot->value;
	}
	return NULL;
}

static void put_new(
	struct tasd_map_slot *slots, size_t mask, uint64_t hash, void *value)
{
	size_t i = hash & mask;

	while (slots[i].value)
		i = (i + 1) & mask;
	slots[i] = (struct tasd_map_slot){.hash = hash, .value = value};
}

static tasd_err rebuild(struct tasd_map *map)
{
	size_t room = 16;
	struct tasd_map_slot *slots;

	while (room / 2 < map->used + 1)
		room *= 2;
	slots = calloc(room, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->room; i++) {
		struct tasd_map_slot *slot = &map->slots[i];

		if (slot->value && slot->value != TOMBSTONE)
			put_new(slots, room - 1, slot->hash, slot->value);
	}
	free(map->slots);
	map->slots = slots;
	map->room = room;
	map->dead = 0;
	return 0;
}

tasd_err tasd_map_put(struct tasd_map *map, uint64_t hash, void *value)
{
	if (map->used + map->dead + 1 > map->room / 8 * 5) {
		tasd_err err = rebuild(map);

		if (err)
			return err;
	}
	put_new(map->slots, map->room - 1, hash, value);
	map->used++;
	return 0;
}

bool tasd_map_remove(struct tasd_map *map, uint64_t hash, const void *value)
{
	size_t mask = map->room - 1;

	if (!map->room)
		return false;
	for (size_t i = hash & mask; map->slots[i].value; i = (i + 1) & mask) {
		if (map->slots[i].value != value)
			continue;
		map->slots[i].value = TOMBSTONE;
		map->used--;
		map->dead++;
		/* Give memory back once most of a large table is gone. */
		if (map->room > 1024 && map->used < map->room / 16)
			(void)rebuild(map);
		return true;
	}
	return false;
}

void *tasd_map_next(const struct tasd_map *map, size_t *at)
{
	while (*at < map->room) {
		void *value = map->slots[(*at)++].value;

		if (value && value != TOMBSTONE)
			return value;
	}
	return NULL;
}
