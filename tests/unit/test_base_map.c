#include "unit.h"
#include <base/map.h>
#include <stdio.h>
#include <string.h>

struct word {
	char text[24];
	uint64_t scope;
	bool in;
};

static bool word_eq(const void *value, const void *key)
{
	const struct word *a = value, *b = key;

	return a->scope == b->scope && strcmp(a->text, b->text) == 0;
}

static uint64_t hash_of(const struct tasd_map *map, const struct word *word)
{
	return tasd_map_hash(map, word->text, strlen(word->text), word->scope);
}

static struct word *find(const struct tasd_map *map, const struct word *word)
{
	return tasd_map_find(map, hash_of(map, word), word_eq, word);
}

START_TEST(put_find_remove)
{
	struct word a = {.text = "a"}, b = {.text = "b"}, a2 = {.text = "a"};
	struct tasd_map map;

	tasd_map_init(&map);
	ck_assert_ptr_null(find(&map, &a));
	ck_assert(!tasd_map_remove(&map, hash_of(&map, &a), &a));
	ck_assert_int_eq(tasd_map_put(&map, hash_of(&map, &a), &a), 0);
	ck_assert_ptr_eq(find(&map, &a2), &a);
	ck_assert_ptr_null(find(&map, &b));
	/* Exactly this pointer, not one that is equal. */
	ck_assert(!tasd_map_remove(&map, hash_of(&map, &a2), &a2));
	ck_assert(tasd_map_remove(&map, hash_of(&map, &a), &a));
	ck_assert(!tasd_map_remove(&map, hash_of(&map, &a), &a));
	ck_assert_ptr_null(find(&map, &a));
	ck_assert_uint_eq(map.used, 0);
	tasd_map_free(&map);
	ck_assert_ptr_null(find(&map, &a));
}
END_TEST

START_TEST(scopes_and_seeds)
{
	struct word one = {.text = "w", .scope = 1};
	struct word two = {.text = "w", .scope = 2};
	struct tasd_map map, other;

	tasd_map_init(&map);
	tasd_map_init(&other);
	ck_assert_uint_ne(map.seed, other.seed);
	ck_assert_uint_ne(hash_of(&map, &one), hash_of(&map, &two));
	ck_assert_uint_ne(hash_of(&map, &one), hash_of(&other, &one));
	ck_assert_int_eq(tasd_map_put(&map, hash_of(&map, &one), &one), 0);
	ck_assert_ptr_null(find(&map, &two));
	ck_assert_int_eq(tasd_map_put(&map, hash_of(&map, &two), &two), 0);
	ck_assert_ptr_eq(find(&map, &one), &one);
	ck_assert_ptr_eq(find(&map, &two), &two);
	tasd_map_free(&map);
}
END_TEST

/* One hash for all: every answer is eq()'s. */
START_TEST(collisions)
{
	static struct word words[100];
	struct tasd_map map;

	tasd_map_init(&map);
	for (size_t i = 0; i < 100; i++) {
		sprintf(words[i].text, "%zu", i);
		ck_assert_int_eq(tasd_map_put(&map, 42, &words[i]), 0);
	}
	for (size_t i = 0; i < 100; i += 2)
		ck_assert(tasd_map_remove(&map, 42, &words[i]));
	for (size_t i = 0; i < 100; i++)
		ck_assert_ptr_eq(tasd_map_find(&map, 42, word_eq, &words[i]),
			i % 2 ? &words[i] : NULL);
	tasd_map_free(&map);
}
END_TEST

/* A random life against a plain flag for each word. */
START_TEST(growth_and_tombstones)
{
	enum { n = 20000 };
	static struct word words[n];
	struct tasd_map map;
	size_t in = 0, most = 0;
	unsigned int seed = 9;

	tasd_map_init(&map);
	for (size_t i = 0; i < n; i++)
		sprintf(words[i].text, "word %zu", i);
	for (int step = 0; step < 600000; step++) {
		/* Grow, shrink, grow: phases of 200000 steps. */
		bool growing = step / 200000 % 2 == 0;
		struct word *word = &words[(size_t)rand_r(&seed) % n];

		require_eq(find(&map, word), word->in ? word : NULL);
		if (word->in && (!growing || rand_r(&seed) % 4 == 0)) {
			require(tasd_map_remove(
				&map, hash_of(&map, word), word));
			word->in = false;
			in--;
		} else if (!word->in && (growing || rand_r(&seed) % 64 == 0)) {
			require_eq(
				tasd_map_put(&map, hash_of(&map, word), word),
				0);
			word->in = true;
			in++;
		}
		most = in > most ? in : most;
		require_eq(map.used, in);
		require_op(map.used + map.dead, <, map.room);
		/* Tombstones do not make it grow for ever. */
		require_op(map.room, <=, 8 * most + 16);
	}
	for (size_t i = 0; i < n; i++)
		require_eq(
			find(&map, &words[i]), words[i].in ? &words[i] : NULL);
	tasd_map_free(&map);
}
END_TEST

/* Emptied, a large table gives its memory back. */
START_TEST(shrinks)
{
	enum { n = 100000 };
	static struct word words[n];
	struct tasd_map map;

	tasd_map_init(&map);
	for (size_t i = 0; i < n; i++) {
		sprintf(words[i].text, "%zu", i);
		require_eq(
			tasd_map_put(&map, hash_of(&map, &words[i]), &words[i]),
			0);
	}
	require_op(map.room, >, n);
	for (size_t i = 0; i < n; i++)
		require(tasd_map_remove(
			&map, hash_of(&map, &words[i]), &words[i]));
	ck_assert_uint_eq(map.used, 0);
	ck_assert_uint_le(map.room, 2048);
	tasd_map_free(&map);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {put_find_remove, scopes_and_seeds,
		collisions, growth_and_tombstones, shrinks, NULL};

	return unit_run("base map", tests);
}
