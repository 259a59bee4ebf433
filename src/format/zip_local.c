/*
 * To where the records lie: each has a local header in front of it, whose
 * length is not known from the directory.  Headers that are close together are
 * read in one piece, up to a buffer full at a time.
 */
#include "zip_inner.h"
#include <base/buf.h>
#include <stdlib.h>
#include <string.h>

#define ROOM  ((size_t)256 << 10) /* more than the longest header */
#define SPANS 256u
#define BATCH 4096u
#define GAP   4096u /* read along what is no longer than this */

/* Headers that are read together. */
struct batch {
	unsigned char bytes[ROOM];
	struct tasd_zip_record *records[BATCH];
	uint32_t at[BATCH]; /* of each one's header in bytes */
	struct tasd_span spans[SPANS];
	size_t nrecords, nspans, used;
};

static int by_header(const void *left, const void *right)
{
	const struct tasd_zip_record *a =
		*(struct tasd_zip_record *const *)left;
	const struct tasd_zip_record *b =
		*(struct tasd_zip_record *const *)right;

	if (a->header != b->header)
		return a->header < b->header ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* Where the next record in the file begins, or the directory. */
static uint64_t next_header(
	const struct tasd_zip *zip, const struct tasd_zip_record *r)
{
	uint32_t low = 0, high = zip->nplaced;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (zip->records[zip->by_offset[middle]].header <= r->header)
			low = middle + 1;
		else
			high = middle;
	}
	return low < zip->nplaced ? zip->records[zip->by_offset[low]].header
				  : zip->directory;
}

static void take_header(const struct tasd_zip *zip, struct tasd_zip_record *r,
	const unsigned char *p)
{
	uint32_t data;

	if (tasd_le32(p) != TASD_ZIP_LOCAL_SIG) {
		r->trouble = TASD_ZIP_NO_HEADER;
		return;
	}
	if (tasd_le16(p + 26) != r->name_len ||
		memcmp(p + TASD_ZIP_LOCAL_LEN, r->name, r->name_len) != 0) {
		r->trouble = TASD_ZIP_NAME;
		return;
	}
	if (tasd_le16(p + 8) != r->method ||
		tasd_le16(p + 6) & TASD_ZIP_FLAG_ENCRYPTED) {
		r->trouble = TASD_ZIP_DISAGREES;
		return;
	}
	data = TASD_ZIP_LOCAL_LEN + r->name_len + tasd_le16(p + 28);
	if (r->header + data + r->csize > zip->directory)
		r->trouble = TASD_ZIP_OUTSIDE;
	else if (r->header + data + r->csize > next_header(zip, r))
		r->trouble = TASD_ZIP_OVERLAPS;
	else
		r->data = data;
}

static tasd_err read_batch(struct tasd_zip *zip, struct batch *b)
{
	tasd_err err = tasd_source_preadv(zip->source, b->spans, b->nspans);

	zip->nreads += b->nspans;
	for (size_t i = 0; i < b->nrecords && !err; i++)
		take_header(zip, b->records[i], b->bytes + b->at[i]);
	b->nrecords = b->nspans = b->used = 0;
	return err;
}

/* Add one header, which begins at or behind the one before it. */
static tasd_err add_header(
	struct tasd_zip *zip, struct batch *b, struct tasd_zip_record *r)
{
	size_t len = TASD_ZIP_LOCAL_LEN + r->name_len;
	struct tasd_span *last = b->nspans ? &b->spans[b->nspans - 1] : NULL;
	uint64_t end = last ? last->offset + last->len : 0;
	tasd_err err = 0;

	if (last && r->header + len > end && r->header <= end + GAP) {
		size_t more = (size_t)(r->header + len - end);

		if (b->used + more <= ROOM && b->nrecords < BATCH) {
			last->len += more;
			b->used += more;
			end += more;
		}
	}
	if (!last || r->header + len > end || b->nrecords == BATCH) {
		if (b->used + len > ROOM || b->nspans == SPANS ||
			b->nrecords == BATCH)
			err = read_batch(zip, b);
		if (err)
			return err;
		last = &b->spans[b->nspans++];
		*last = (struct tasd_span){
			.offset = r->header,
			.len = len,
			.out = b->bytes + b->used,
		};
		b->used += len;
	}
	b->at[b->nrecords] = (uint32_t)((unsigned char *)last->out - b->bytes) +
			     (uint32_t)(r->header - last->offset);
	b->records[b->nrecords++] = r;
	return 0;
}

tasd_err tasd_zip_locate(
	struct tasd_zip *zip, struct tasd_zip_record **records, size_t n)
{
	struct batch *b;
	size_t wanted = 0;
	tasd_err err = 0;

	for (size_t i = 0; i < n; i++) {
		struct tasd_zip_record *r = records[i];

		if (!r || r->trouble || r->data)
			continue;
		records[i] = records[wanted];
		records[wanted++] = r;
	}
	if (wanted == 0)
		return 0;
	qsort(records, wanted, sizeof(struct tasd_zip_record *), by_header);
	b = malloc(sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->nrecords = b->nspans = b->used = 0;
	for (size_t i = 0; i < wanted && !err; i++)
		err = add_header(zip, b, records[i]);
	if (!err)
		err = read_batch(zip, b);
	free(b);
	return err;
}

tasd_err tasd_zip_usable(
	const struct tasd_zip_record *record, struct tasd_diag *diag)
{
	static const char *const troubles[] = {
		[TASD_ZIP_OUTSIDE] = "lies outside the file, or reaches into "
				     "the zip's directory",
		[TASD_ZIP_OVERLAPS] = "lies on another record",
		[TASD_ZIP_ENCRYPTED] = "is encrypted, or a patch",
		[TASD_ZIP_METHOD] = "has a compression that is not read",
		[TASD_ZIP_SIZES] = "has sizes that contradict each other",
		[TASD_ZIP_FOLDER] = "is marked as a folder, and has bytes",
		[TASD_ZIP_DISK] = "is on another volume",
		[TASD_ZIP_EXTRA] = "has ZIP64 sizes that are cut",
		[TASD_ZIP_NO_HEADER] = "has no local header where the zip's "
				       "directory says it is",
		[TASD_ZIP_NAME] = "is, where the zip's directory says it is, "
				  "a record of another name",
		[TASD_ZIP_DISAGREES] = "is described in two ways that "
				       "contradict each other",
	};
	char name[100];

	if (!record->trouble)
		return 0;
	tasd_print_bytes(name, sizeof(name), record->name, record->name_len);
	if (record->trouble == TASD_ZIP_METHOD)
		return tasd_diag_set(diag, -EINVAL,
			"record \"%s\" %s (method %u)", name,
			troubles[record->trouble], record->method);
	return tasd_diag_set(diag, -EINVAL, "record \"%s\" %s", name,
		troubles[record->trouble]);
}

tasd_err tasd_zip_inflate(const struct tasd_zip *zip,
	const struct tasd_zip_record *record, struct tasd_source **ret)
{
	struct tasd_buf name = TASD_BUF_EMPTY;
	char shown[256], *text;
	tasd_err err;

	tasd_buf_str(&name, zip->source->name);
	tasd_buf_char(&name, '/');
	tasd_buf_str(&name, tasd_print_bytes(shown, sizeof(shown), record->name,
				    record->name_len));
	text = tasd_buf_steal(&name, NULL);
	tasd_buf_free(&name);
	if (!text)
		return -ENOMEM;
	err = tasd_source_inflate(zip->source, tasd_zip_data(record),
		record->csize, record->usize, text, ret);
	free(text);
	return err;
}

tasd_err tasd_zip_read(const struct tasd_zip *zip,
	const struct tasd_zip_record *record, uint64_t max, char **ret_bytes,
	size_t *ret_len)
{
	struct tasd_source *inflated = NULL;
	size_t len = (size_t)record->usize;
	char *bytes;
	tasd_err err;

	if (record->usize > max || record->usize >= SIZE_MAX)
		return -E2BIG;
	bytes = malloc(len + 1);
	if (!bytes)
		return -ENOMEM;
	if (record->method == TASD_ZIP_STORED) {
		err = tasd_source_pread(
			zip->source, bytes, len, tasd_zip_data(record));
	} else {
		err = tasd_zip_inflate(zip, record, &inflated);
		if (!err)
			err = tasd_source_pread(inflated, bytes, len, 0);
		tasd_source_put(inflated);
	}
	if (err) {
		free(bytes);
		return err;
	}
	bytes[len] = '\0';
	*ret_bytes = bytes;
	*ret_len = len;
	return 0;
}

bool tasd_zip_plausible(const unsigned char *head, size_t len)
{
	return len >= 4 && (tasd_le32(head) == TASD_ZIP_LOCAL_SIG ||
				   tasd_le32(head) == TASD_ZIP_END_SIG);
}

bool tasd_zip_first_name(const unsigned char *head, size_t len,
	const char **ret_name, size_t *ret_len)
{
	size_t name_len;

	if (len < TASD_ZIP_LOCAL_LEN || tasd_le32(head) != TASD_ZIP_LOCAL_SIG)
		return false;
	name_len = tasd_le16(head + 26);
	if (name_len > len - TASD_ZIP_LOCAL_LEN)
		return false;
	*ret_name = (const char *)head + TASD_ZIP_LOCAL_LEN;
	*ret_len = name_len;
	return true;
}
