/*
 * Chunks grow from 4 KiB to 1 MiB, so a small container costs a page and a
 * large one few mallocs.  Objects are cut from the front of the current chunk
 * and text from its back, so that text needs no padding between objects.
 */
#include <base/arena.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_FIRST ((size_t)4 << 10)
#define CHUNK_MAX   ((size_t)1 << 20)
#define ALIGN       alignof(max_align_t)

struct tasd_arena_chunk {
	struct tasd_arena_chunk *next;
	size_t front, back; /* free is [front, back) */
	size_t size;
	alignas(max_align_t) char bytes[];
};

void tasd_arena_init(struct tasd_arena *arena, size_t limit)
{
	*arena = (struct tasd_arena){.limit = limit};
}

void tasd_arena_free(struct tasd_arena *arena)
{
	struct tasd_arena_chunk *chunk = arena->chunks;

	while (chunk) {
		struct tasd_arena_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
	arena->chunks = NULL;
	arena->used = 0;
}

/* A chunk with room for need bytes at the head of the list, or NULL. */
static struct tasd_arena_chunk *room_for(struct tasd_arena *arena, size_t need)
{
	struct tasd_arena_chunk *chunk = arena->chunks;
	size_t size = chunk ? 2 * chunk->size : CHUNK_FIRST;
	size_t left = arena->limit - arena->used;

	if (chunk && chunk->back - chunk->front >= need)
		return chunk;
	if (size > CHUNK_MAX)
		size = CHUNK_MAX;
	if (size > left)
		size = left;
	if (size < need)
		size = need;
	if (size > left || size > SIZE_MAX - sizeof(*chunk))
		return NULL;
	chunk = malloc(sizeof(*chunk) + size);
	if (!chunk)
		return NULL;
	chunk->front = 0;
	chunk->back = size;
	chunk->size = size;
	/* A piece larger than the usual chunk goes behind the current one,
	 * whose rest stays in use. */
	if (arena->chunks && need > CHUNK_MAX / 4) {
		chunk->next = arena->chunks->next;
		arena->chunks->next = chunk;
	} else {
		chunk->next = arena->chunks;
		arena->chunks = chunk;
	}
	arena->used += size;
	return chunk;
}

void *tasd_arena_alloc(struct tasd_arena *arena, size_t size)
{
	struct tasd_arena_chunk *chunk;
	size_t need = (size + ALIGN - 1) & ~(ALIGN - 1);
	void *out;

	if (need < size)
		return NULL;
	chunk = room_for(arena, need ? need : ALIGN);
	if (!chunk)
		return NULL;
	/* front stays a multiple of ALIGN: only text moves back. */
	out = chunk->bytes + chunk->front;
	chunk->front += need ? need : ALIGN;
	memset(out, 0, size);
	return out;
}

char *tasd_arena_bytes(struct tasd_arena *arena, size_t size)
{
	struct tasd_arena_chunk *chunk = room_for(arena, size ? size : 1);

	if (!chunk)
		return NULL;
	chunk->back -= size ? size : 1;
	return chunk->bytes + chunk->back;
}

char *tasd_arena_copy(struct tasd_arena *arena, const char *text, size_t len)
{
	char *out;

	if (len == SIZE_MAX)
		return NULL;
	out = tasd_arena_bytes(arena, len + 1);
	if (!out)
		return NULL;
	if (len)
		memcpy(out, text, len);
	out[len] = '\0';
	return out;
}
