/*
 * A zip of any bytes: whatever its directory says, a record that can be used
 * has a header of its own, and shares no byte with another or the directory.
 */
#include "fuzz.h"
#include "zip.h"
#include <stdlib.h>
#include <string.h>

#define LIMIT    ((size_t)16 << 20)
#define READ_MAX ((uint64_t)64 << 10)

static int by_header(const void *left, const void *right)
{
	const struct tasd_zip_record *a =
		*(struct tasd_zip_record *const *)left;
	const struct tasd_zip_record *b =
		*(struct tasd_zip_record *const *)right;

	return a->header < b->header ? -1 : a->header > b->header;
}

static bool same_name(
	const struct tasd_zip_record *a, const struct tasd_zip_record *b)
{
	if (a->name_len != b->name_len)
		return false;
	for (size_t i = 0; i < a->name_len; i++) {
		char x = a->name[i], y = b->name[i];

		x = x >= 'A' && x <= 'Z' ? (char)(x + 32) : x;
		y = y >= 'A' && y <= 'Z' ? (char)(y + 32) : y;
		if (x != y)
			return false;
	}
	return true;
}

static void check_record(const struct tasd_zip *zip,
	const struct tasd_zip_record *r, const uint8_t *data)
{
	struct tasd_zip_record *found =
		tasd_zip_find(zip, r->name, r->name_len);
	struct tasd_diag diag = {""};
	char *bytes;
	size_t len;
	tasd_err err;

	fuzz_check(found && same_name(found, r));
	fuzz_check((tasd_zip_usable(r, &diag) == 0) == (r->trouble == 0));
	if (r->trouble) {
		fuzz_check_refusal(-EINVAL, &diag);
		return;
	}
	fuzz_check(r->data >= 30u + r->name_len);
	fuzz_check(memcmp(data + r->header, "PK\3\4", 4) == 0);
	fuzz_check(memcmp(data + r->header + 30, r->name, r->name_len) == 0);
	err = tasd_zip_read(zip, r, READ_MAX, &bytes, &len);
	if (err == 0) {
		fuzz_check(len == r->usize);
		if (r->method == TASD_ZIP_STORED)
			fuzz_check(memcmp(bytes, data + tasd_zip_data(r),
					   len) == 0);
		free(bytes);
	} else if (err == -E2BIG) {
		fuzz_check(r->usize > READ_MAX);
	} else {
		fuzz_check(err == -EIO && r->method == TASD_ZIP_DEFLATED);
	}
}

static void check_apart(
	const struct tasd_zip *zip, struct tasd_zip_record **all, size_t n)
{
	uint64_t end = 0;

	qsort(all, n, sizeof(struct tasd_zip_record *), by_header);
	for (size_t i = 0; i < n; i++) {
		if (all[i]->trouble)
			continue;
		fuzz_check(all[i]->header >= end);
		end = tasd_zip_data(all[i]) + all[i]->csize;
	}
	fuzz_check(end <= zip->directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tasd_zip_record **all;
	struct tasd_source *source = NULL;
	struct tasd_arena arena;
	struct tasd_zip zip;
	struct tasd_diag diag = {""};
	char *copy = malloc(size + 1);
	uint32_t budget = 1000;
	tasd_err err;

	fuzz_check(copy);
	if (size)
		memcpy(copy, data, size);
	fuzz_check(tasd_source_memory(copy, size, "f.zip", &source) == 0);
	tasd_arena_init(&arena, LIMIT);
	err = tasd_zip_open(source, &arena, &zip, &diag);
	tasd_source_put(source);
	if (err) {
		if (err != -E2BIG)
			fuzz_check_refusal(err, &diag);
		tasd_arena_free(&arena);
		return 0;
	}
	fuzz_check(arena.used <= LIMIT);
	all = calloc(zip.nrecords + 1, sizeof(struct tasd_zip_record *));
	fuzz_check(all);
	for (uint32_t i = 0; i < zip.nrecords; i++)
		all[i] = &zip.records[zip.nrecords - 1 - i];
	fuzz_check(tasd_zip_locate(&zip, all, zip.nrecords) == 0);
	for (uint32_t i = 0; i < zip.nrecords && budget; i++, budget--)
		check_record(&zip, &zip.records[i], data);
	for (uint32_t i = 0; i < zip.nrecords; i++)
		all[i] = &zip.records[i];
	check_apart(&zip, all, zip.nrecords);
	free(all);
	tasd_zip_close(&zip);
	tasd_arena_free(&arena);
	return 0;
}
