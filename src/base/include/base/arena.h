/*
 * A bump allocator with a limit.  A parser puts everything it keeps into one
 * arena, so freeing is one call and a hostile file cannot ask for more than
 * the limit however it is made.  One thread at a time.
 */
#ifndef TASD_BASE_ARENA_H
#define TASD_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct tasd_arena_chunk;

struct tasd_arena {
	struct tasd_arena_chunk *chunks;
	size_t used;  /* bytes handed out, chunk rests included */
	size_t limit; /* in bytes */
};

void tasd_arena_init(struct tasd_arena *arena, size_t limit);
void tasd_arena_free(struct tasd_arena *arena);

/* Zeroed, aligned for any object; NULL at the limit or out of memory. */
void *tasd_arena_alloc(struct tasd_arena *arena, size_t size);

/* The same with no alignment, for text; the bytes are not zeroed. */
char *tasd_arena_bytes(struct tasd_arena *arena, size_t size);

/* A terminated copy of len bytes. */
char *tasd_arena_copy(struct tasd_arena *arena, const char *text, size_t len);

#endif
