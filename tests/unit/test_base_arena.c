#include "unit.h"
#include <base/arena.h>
#include <string.h>

START_TEST(objects_are_zeroed_and_aligned)
{
	struct tasd_arena arena;

	tasd_arena_init(&arena, (size_t)64 << 20);
	for (size_t size = 0; size < 300; size++) {
		unsigned char *object = tasd_arena_alloc(&arena, size);

		ck_assert_ptr_nonnull(object);
		ck_assert_uint_eq((uintptr_t)object % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++)
			require_eq(object[i], 0);
		memset(object, 0xee, size);
		/* Text between objects does not move them. */
		memset(tasd_arena_bytes(&arena, size % 7), 0xdd, size % 7);
	}
	tasd_arena_free(&arena);
	ck_assert_uint_eq(arena.used, 0);
}
END_TEST

/* What was handed out stays whole: nothing overlaps. */
START_TEST(nothing_overlaps)
{
	struct piece {
		unsigned char *bytes;
		size_t len;
	};
	static struct piece pieces[4000];
	struct tasd_arena arena;
	unsigned int seed = 5;

	tasd_arena_init(&arena, (size_t)256 << 20);
	for (size_t i = 0; i < 4000; i++) {
		size_t len = (size_t)rand_r(&seed) % 200;

		/* Now and then more than any chunk. */
		if (i % 500 == 499)
			len = ((size_t)1 << 18) + i;
		pieces[i].len = len;
		pieces[i].bytes = i % 2 ? tasd_arena_alloc(&arena, len)
					: (void *)tasd_arena_bytes(&arena, len);
		ck_assert_ptr_nonnull(pieces[i].bytes);
		memset(pieces[i].bytes, (int)(i % 251), len);
	}
	for (size_t i = 0; i < 4000; i++)
		for (size_t j = 0; j < pieces[i].len; j++)
			require_eq(pieces[i].bytes[j], i % 251);
	tasd_arena_free(&arena);
}
END_TEST

START_TEST(copies)
{
	struct tasd_arena arena;
	char *text;

	tasd_arena_init(&arena, 4096);
	text = tasd_arena_copy(&arena, "a\0bc", 4);
	ck_assert_mem_eq(text, "a\0bc", 5);
	text = tasd_arena_copy(&arena, NULL, 0);
	ck_assert_str_eq(text, "");
	tasd_arena_free(&arena);
}
END_TEST

START_TEST(limit)
{
	static const size_t limits[] = {0, 1, 100, 4096, 5000, 100000};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct tasd_arena arena;
		size_t got = 0;

		tasd_arena_init(&arena, limits[i]);
		while (tasd_arena_bytes(&arena, 7)) {
			got += 7;
			require_op(arena.used, <=, limits[i]);
			require_op(got, <=, limits[i]);
		}
		/* Most of the limit can be had. */
		ck_assert_uint_ge(got + 7 * 8, limits[i] * 9 / 10);
		ck_assert_ptr_null(tasd_arena_alloc(&arena, 64));
		ck_assert_ptr_null(tasd_arena_copy(&arena, "1234567", 7));
		tasd_arena_free(&arena);
	}
}
END_TEST

START_TEST(sizes_that_overflow)
{
	struct tasd_arena arena;

	tasd_arena_init(&arena, SIZE_MAX);
	ck_assert_ptr_null(tasd_arena_alloc(&arena, SIZE_MAX));
	ck_assert_ptr_null(tasd_arena_alloc(&arena, SIZE_MAX - 15));
	ck_assert_ptr_null(tasd_arena_bytes(&arena, SIZE_MAX));
	ck_assert_ptr_null(tasd_arena_bytes(&arena, SIZE_MAX - 8));
	ck_assert_ptr_null(tasd_arena_copy(&arena, "", SIZE_MAX));
	ck_assert_ptr_nonnull(tasd_arena_alloc(&arena, 8));
	tasd_arena_free(&arena);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {objects_are_zeroed_and_aligned,
		nothing_overlaps, copies, limit, sizes_that_overflow, NULL};

	return unit_run("base arena", tests);
}
