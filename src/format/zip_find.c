/*
 * Names fold: 'A' to 'Z' are as 'a' to 'z', other bytes as they are.
 *
 * The heap sort and the search by halves are the steps that miniz takes; only
 * when a folded name comes twice do they give more than the hash index does.
 */
#include "zip_inner.h"
#include <string.h>

#define FOLD 256 /* bytes of a name that are folded at a time */

struct wanted {
	const char *name;
	size_t len;
};

static unsigned char fold(char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a')
				    : (unsigned char)c;
}

/* As miniz orders them: by folded bytes, then the shorter one first. */
static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t n = a_len < b_len ? a_len : b_len;

	for (size_t i = 0; i < n; i++) {
		unsigned char x = fold(a[i]), y = fold(b[i]);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return a_len < b_len ? -1 : a_len > b_len;
}

static bool record_eq(const void *value, const void *key)
{
	const struct tasd_zip_record *r = value;
	const struct wanted *want = key;

	return r->name_len == want->len &&
	       compare(r->name, r->name_len, want->name, want->len) == 0;
}

static uint64_t name_hash(
	const struct tasd_map *map, const char *name, size_t len)
{
	char folded[FOLD];
	uint64_t hash = len;

	while (len > 0) {
		size_t n = len < FOLD ? len : FOLD;

		for (size_t i = 0; i < n; i++)
			folded[i] = (char)fold(name[i]);
		hash = tasd_map_hash(map, folded, n, hash);
		name += n;
		len -= n;
	}
	return hash;
}

static bool less(const struct tasd_zip *zip, uint32_t a, uint32_t b)
{
	const struct tasd_zip_record *x = &zip->records[a];
	const struct tasd_zip_record *y = &zip->records[b];

	return compare(x->name, x->name_len, y->name, y->name_len) < 0;
}

/* Let the entry at root sink to where no child of it is greater. */
static void sink(const struct tasd_zip *zip, uint64_t root, uint64_t end)
{
	uint32_t *heap = zip->sorted;

	for (;;) {
		uint64_t child = 2 * root + 1;
		uint32_t entry = heap[root];

		if (child >= end)
			return;
		if (child + 1 < end && less(zip, heap[child], heap[child + 1]))
			child++;
		if (!less(zip, entry, heap[child]))
			return;
		heap[root] = heap[child];
		heap[child] = entry;
		root = child;
	}
}

static tasd_err sort_names(struct tasd_zip *zip)
{
	uint32_t n = zip->nrecords;

	zip->sorted = tasd_arena_alloc(zip->arena, n * sizeof(uint32_t));
	if (!zip->sorted)
		return -E2BIG;
	for (uint32_t i = 0; i < n; i++)
		zip->sorted[i] = i;
	for (uint32_t root = n / 2; root-- > 0;)
		sink(zip, root, n);
	for (uint32_t end = n - 1; end > 0; end--) {
		uint32_t greatest = zip->sorted[0];

		zip->sorted[0] = zip->sorted[end];
		zip->sorted[end] = greatest;
		sink(zip, 0, end);
	}
	return 0;
}

tasd_err tasd_zip_index(struct tasd_zip *zip)
{
	bool twice = false;

	for (uint32_t i = 0; i < zip->nrecords; i++) {
		struct tasd_zip_record *r = &zip->records[i];
		const struct wanted want = {r->name, r->name_len};
		uint64_t hash = name_hash(&zip->map, r->name, r->name_len);
		size_t left = zip->arena->limit - zip->arena->used;
		tasd_err err;

		if (tasd_map_find(&zip->map, hash, record_eq, &want)) {
			twice = true;
			continue;
		}
		err = tasd_map_put(&zip->map, hash, r);
		if (err)
			return err;
		if (zip->map.room > left / 16)
			return -E2BIG;
	}
	return twice ? sort_names(zip) : 0;
}

struct tasd_zip_record *tasd_zip_find(
	const struct tasd_zip *zip, const char *name, size_t len)
{
	const struct wanted want = {name, len};
	int64_t low = 0, high = (int64_t)zip->nrecords - 1;

	if (!zip->sorted)
		return tasd_map_find(&zip->map, name_hash(&zip->map, name, len),
			record_eq, &want);
	while (low <= high) {
		int64_t middle = low + (high - low) / 2;
		struct tasd_zip_record *r = &zip->records[zip->sorted[middle]];
		int order = compare(r->name, r->name_len, name, len);

		if (order == 0)
			return r;
		if (order < 0)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return NULL;
}
