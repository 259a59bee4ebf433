/*
 * Opening reads the file's tail, finds the end record (and that of ZIP64, when
 * it has one), and reads the directory in large pieces.  Then all records are
 * ordered by where they lie: a record that begins before one in front of it has
 * ended overlaps it, by what the directory alone says; locating repeats that
 * with the true length of the local header.
 *
 * Names are looked up as miniz does.  It sorts the directory by folded names
 * with a heap sort and searches it by halves, so which of several equal names
 * it finds follows from that alone; when names come twice we do the same
 * steps, and otherwise a hash index gives the same answer.
 */
#include "zip.h"
#include "zip_inner.h"
#include <base/checked.h>
#include <stdlib.h>
#include <string.h>

#define END_LEN     22u
#define LOCATOR_LEN 20u
#define END64_LEN   56u

/*
 * miniz looks for the end record in blocks of 4096 bytes, of which neighbours
 * share 3, from the end of the file: a comment of 64 KiB makes 17 of them.  It
 * gives up when the next one would begin before the file does.
 */
#define BLOCK  ((size_t)4096)
#define STEP   (BLOCK - 3)
#define BLOCKS ((size_t)17)

/* Of the directory at a time; more than the largest record. */
#define CHUNK ((size_t)1 << 20)

/* What the end records say. */
struct end {
	uint64_t entries, entries_here;
	uint64_t disk, directory_disk;
	uint64_t size, offset; /* of the directory */
};

static tasd_err read_piece(
	struct tasd_zip *zip, void *out, size_t len, uint64_t offset)
{
	zip->nreads++;
	return tasd_source_pread(zip->source, out, len, offset);
}

/* Find the last end record: its place in the file, and its bytes. */
static tasd_err find_end(struct tasd_zip *zip, uint64_t *ret_at,
	unsigned char end[END_LEN], struct tasd_diag *diag)
{
	uint64_t size = zip->source->size;
	size_t len = size < BLOCK ? (size_t)size : BLOCK;
	unsigned char *tail;
	tasd_err err;

	for (size_t i = 1; i < BLOCKS && size - len >= STEP; i++)
		len += STEP;
	tail = malloc(len);
	if (!tail)
		return -ENOMEM;
	err = read_piece(zip, tail, len, size - len);
	for (size_t i = len; !err && i-- > 0;) {
		if (len - i >= END_LEN &&
			tasd_le32(tail + i) == TASD_ZIP_END_SIG) {
			memcpy(end, tail + i, END_LEN);
			*ret_at = size - len + i;
			free(tail);
			return 0;
		}
	}
	free(tail);
	return err ? err
		   : tasd_diag_set(diag, -EINVAL,
			     "truncated: the zip's central directory, which "
			     "stands at the end, is missing");
}

/* The ZIP64 end record, when there is one; it then counts alone. */
static tasd_err read_end64(struct tasd_zip *zip, uint64_t at, struct end *end,
	struct tasd_diag *diag)
{
	unsigned char bytes[END64_LEN];
	uint64_t offset;
	uint32_t disks;
	tasd_err err;

	if (at < LOCATOR_LEN + END64_LEN)
		return 0;
	err = read_piece(zip, bytes, LOCATOR_LEN, at - LOCATOR_LEN);
	if (err || tasd_le32(bytes) != TASD_ZIP_LOCATOR_SIG)
		return err;
	offset = tasd_le64(bytes + 8);
	disks = tasd_le32(bytes + 16);
	if (!tasd_range_fits(offset, END64_LEN, zip->source->size))
		return tasd_diag_set(diag, -EINVAL,
			"the zip's ZIP64 end record is outside the file");
	err = read_piece(zip, bytes, END64_LEN, offset);
	if (err || tasd_le32(bytes) != TASD_ZIP_END64_SIG)
		return err;
	if (tasd_le64(bytes + 4) < END64_LEN - 12)
		return tasd_diag_set(diag, -EINVAL,
			"the zip's ZIP64 end record is too short");
	if (disks != 1)
		return tasd_diag_set(diag, -EINVAL,
			"the zip has %u volumes, 1 was expected", disks);
	*end = (struct end){
		.disk = tasd_le32(bytes + 16),
		.directory_disk = tasd_le32(bytes + 20),
		.entries_here = tasd_le64(bytes + 24),
		.entries = tasd_le64(bytes + 32),
		.size = tasd_le64(bytes + 40),
		.offset = tasd_le64(bytes + 48),
	};
	return 0;
}

static tasd_err read_end(
	struct tasd_zip *zip, struct end *end, struct tasd_diag *diag)
{
	unsigned char bytes[END_LEN] = {0};
	uint64_t at = 0;
	tasd_err err = find_end(zip, &at, bytes, diag);

	if (err)
		return err;
	*end = (struct end){
		.disk = tasd_le16(bytes + 4),
		.directory_disk = tasd_le16(bytes + 6),
		.entries_here = tasd_le16(bytes + 8),
		.entries = tasd_le16(bytes + 10),
		.size = tasd_le32(bytes + 12),
		.offset = tasd_le32(bytes + 16),
	};
	err = read_end64(zip, at, end, diag);
	if (err)
		return err;
	if (end->entries > UINT32_MAX)
		return tasd_diag_set(diag, -EINVAL,
			"the zip says it has %llu records",
			(unsigned long long)end->entries);
	if (end->entries != end->entries_here ||
		end->disk != end->directory_disk || end->disk > 1)
		return tasd_diag_set(diag, -EINVAL,
			"the zip is one of several volumes, or its end record "
			"is broken");
	if (end->size > UINT32_MAX ||
		end->size < end->entries * TASD_ZIP_CENTRAL_LEN)
		return tasd_diag_set(diag, -EINVAL,
			"the zip's directory has %llu bytes, which is not "
			"what %llu records need",
			(unsigned long long)end->size,
			(unsigned long long)end->entries);
	if (!tasd_range_fits(end->offset, end->size, zip->source->size))
		return tasd_diag_set(diag, -EINVAL,
			"truncated: the zip's directory ends at byte %llu, the "
			"file has %llu",
			(unsigned long long)(end->offset + end->size),
			(unsigned long long)zip->source->size);
	return 0;
}

/* Sizes and places that 32 bits cannot say are in a field of their own. */
static tasd_err take_zip64(struct tasd_zip_record *r,
	const unsigned char *extra, size_t len, struct tasd_diag *diag)
{
	uint64_t *const wide[] = {&r->usize, &r->csize, &r->header};
	const unsigned char *at = NULL;
	size_t left = 0;

	while (len > 0 && !at) {
		if (len < 4 || tasd_le16(extra + 2) > len - 4)
			return tasd_diag_set(diag, -EINVAL,
				"an extra field in the zip's directory is cut");
		left = tasd_le16(extra + 2);
		if (tasd_le16(extra) == 1)
			at = extra + 4;
		extra += 4 + left;
		len -= 4 + left;
	}
	for (size_t i = 0; i < 3 && at; i++) {
		if (*wide[i] != UINT32_MAX)
			continue;
		if (left < 8) {
			r->trouble = TASD_ZIP_EXTRA;
			break;
		}
		*wide[i] = tasd_le64(at);
		at += 8;
		left -= 8;
	}
	return 0;
}

/* What the directory alone says against a record. */
static enum tasd_zip_trouble judge(const struct tasd_zip *zip,
	const struct tasd_zip_record *r, uint16_t disk, uint32_t attributes,
	const struct end *end)
{
	uint64_t need = TASD_ZIP_LOCAL_LEN + r->name_len;

	if (r->trouble)
		return r->trouble;
	if (disk == UINT16_MAX || (disk != end->disk && disk != 1))
		return TASD_ZIP_DISK;
	if (!tasd_add_u64(need, r->csize, &need) ||
		!tasd_range_fits(r->header, need, zip->directory))
		return TASD_ZIP_OUTSIDE;
	if (r->flags & TASD_ZIP_FLAGS_REFUSED)
		return TASD_ZIP_ENCRYPTED;
	if (r->method != TASD_ZIP_STORED && r->method != TASD_ZIP_DEFLATED)
		return TASD_ZIP_METHOD;
	/* Deflate makes at most 1032 bytes of one. */
	if (r->method == TASD_ZIP_STORED
			? r->usize != r->csize
			: (r->usize && !r->csize) || r->usize / 1032 > r->csize)
		return TASD_ZIP_SIZES;
	if ((attributes & TASD_ZIP_FOLDER_BIT ||
		    (r->name_len && r->name[r->name_len - 1] == '/')) &&
		r->csize > 0)
		return TASD_ZIP_FOLDER;
	return TASD_ZIP_FINE;
}

/* One record of the directory; left bytes are at p.  *ret_len: of the record.
 */
static tasd_err take_record(struct tasd_zip *zip, struct tasd_zip_record *r,
	const unsigned char *p, size_t left, const struct end *end,
	size_t *ret_len, struct tasd_diag *diag)
{
	size_t extra_len;
	tasd_err err = 0;

	if (left < TASD_ZIP_CENTRAL_LEN || tasd_le32(p) != TASD_ZIP_CENTRAL_SIG)
		return tasd_diag_set(diag, -EINVAL,
			"record %u of the zip's directory is not one",
			(unsigned int)(r - zip->records));
	extra_len = tasd_le16(p + 30);
	*r = (struct tasd_zip_record){
		.flags = tasd_le16(p + 8),
		.method = tasd_le16(p + 10),
		.crc = tasd_le32(p + 16),
		.csize = tasd_le32(p + 20),
		.usize = tasd_le32(p + 24),
		.name_len = tasd_le16(p + 28),
		.header = tasd_le32(p + 42),
	};
	*ret_len = TASD_ZIP_CENTRAL_LEN + r->name_len + extra_len +
		   tasd_le16(p + 32);
	if (*ret_len > left)
		return tasd_diag_set(diag, -EINVAL,
			"record %u of the zip's directory is cut",
			(unsigned int)(r - zip->records));
	r->name = tasd_arena_copy(zip->arena,
		(const char *)p + TASD_ZIP_CENTRAL_LEN, r->name_len);
	if (!r->name)
		return -E2BIG;
	if (r->usize == UINT32_MAX || r->csize == UINT32_MAX ||
		r->header == UINT32_MAX)
		err = take_zip64(r, p + TASD_ZIP_CENTRAL_LEN + r->name_len,
			extra_len, diag);
	r->trouble = judge(zip, r, tasd_le16(p + 34), tasd_le32(p + 38), end);
	return err;
}

static tasd_err read_records(struct tasd_zip *zip, const struct end *end,
	unsigned char *chunk, struct tasd_diag *diag)
{
	uint64_t offset = end->offset, left = end->size;
	size_t have = 0, at = 0;

	for (uint32_t i = 0; i < zip->nrecords; i++) {
		size_t len = 0;
		tasd_err err;

		if (have - at < TASD_ZIP_CENTRAL_MAX && left > 0) {
			size_t n = CHUNK - (have - at);

			memmove(chunk, chunk + at, have - at);
			have -= at;
			at = 0;
			n = left < n ? (size_t)left : n;
			err = read_piece(zip, chunk + have, n, offset);
			if (err)
				return err;
			have += n;
			offset += n;
			left -= n;
		}
		err = take_record(zip, &zip->records[i], chunk + at, have - at,
			end, &len, diag);
		if (err)
			return err;
		at += len;
	}
	return 0;
}

static int by_header(const void *left, const void *right, void *ctx)
{
	const struct tasd_zip *zip = ctx;
	const uint32_t a = *(const uint32_t *)left;
	const uint32_t b = *(const uint32_t *)right;
	const uint64_t ha = zip->records[a].header, hb = zip->records[b].header;

	if (ha != hb)
		return ha < hb ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* Order the records that lie in the file, and mark those that overlap. */
static tasd_err place_records(struct tasd_zip *zip)
{
	struct tasd_zip_record *last = NULL;
	uint64_t last_end = 0;
	bool ordered = true;

	zip->by_offset = tasd_arena_alloc(
		zip->arena, zip->nrecords * sizeof(zip->by_offset[0]));
	if (!zip->by_offset)
		return -E2BIG;
	for (uint32_t i = 0; i < zip->nrecords; i++) {
		const struct tasd_zip_record *r = &zip->records[i];

		if (r->trouble == TASD_ZIP_OUTSIDE ||
			r->trouble == TASD_ZIP_EXTRA ||
			r->trouble == TASD_ZIP_DISK)
			continue;
		if (zip->nplaced > 0 &&
			r->header <
				zip->records[zip->by_offset[zip->nplaced - 1]]
					.header)
			ordered = false;
		zip->by_offset[zip->nplaced++] = i;
	}
	if (!ordered)
		qsort_r(zip->by_offset, zip->nplaced, sizeof(uint32_t),
			by_header, zip);
	for (uint32_t i = 0; i < zip->nplaced; i++) {
		struct tasd_zip_record *r = &zip->records[zip->by_offset[i]];
		uint64_t end =
			r->header + TASD_ZIP_LOCAL_LEN + r->name_len + r->csize;

		if (last && r->header < last_end) {
			r->trouble = TASD_ZIP_OVERLAPS;
			last->trouble = TASD_ZIP_OVERLAPS;
		}
		if (!last || end > last_end) {
			last = r;
			last_end = end;
		}
	}
	return 0;
}

tasd_err tasd_zip_open(struct tasd_source *source, struct tasd_arena *arena,
	struct tasd_zip *ret, struct tasd_diag *diag)
{
	struct tasd_zip *zip = ret;
	unsigned char *chunk = NULL;
	struct end end = {0};
	tasd_err err;

	*zip = (struct tasd_zip){
		.source = tasd_source_get(source), .arena = arena};
	tasd_map_init(&zip->map);
	if (source->size < END_LEN)
		err = tasd_diag_set(diag, -EINVAL,
			"%llu bytes are too few for a zip",
			(unsigned long long)source->size);
	else
		err = read_end(zip, &end, diag);
	if (!err) {
		zip->directory = end.offset;
		zip->nrecords = (uint32_t)end.entries;
		zip->records = tasd_arena_alloc(
			arena, end.entries * sizeof(zip->records[0]));
		chunk = malloc(CHUNK);
		if (!zip->records)
			err = -E2BIG;
		else if (!chunk)
			err = -ENOMEM;
	}
	if (!err)
		err = read_records(zip, &end, chunk, diag);
	free(chunk);
	if (!err)
		err = place_records(zip);
	if (!err)
		err = tasd_zip_index(zip);
	if (err)
		tasd_zip_close(zip);
	return err;
}

void tasd_zip_close(struct tasd_zip *zip)
{
	tasd_map_free(&zip->map);
	tasd_source_put(zip->source);
	zip->source = NULL;
	zip->records = NULL;
	zip->nrecords = 0;
}
