/*
 * A .npz file: a zip whose members are .npy files, shown as a dict.
 *
 * As numpy has it: the key is the member's name without ".npy", unless a member
 * of just that name is there too; what a member is, its first bytes say, and
 * one that is no array is bytes; of members of one name the last counts.
 *
 * A member that cannot be used is one broken array, the rest is readable.
 */
#include "cp437.h"
#include "formats.h"
#include "npy_header.h"
#include "zip.h"
#include <base/text.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX     ".npy"
#define SUFFIX_LEN 4u

/* Names in the directory are UTF-8. */
#define FLAG_UTF8 0x800u

/* Bytes of a member that is no array are kept when they are no more. */
#define KEPT_MAX ((uint64_t)64 << 10)

/* What reading needs for itself; what lasts is in the state dict's arena. */
#define SCRATCH ((size_t)64 << 20)

struct reading {
	struct tasd_container *ctr;
	struct tasd_arena *arena; /* the state dict's */
	struct tasd_zip zip;
	struct tasd_map last; /* exact name to the last record of it */
	struct tasd_buf name; /* of the member at hand, UTF-8 */
};

struct wanted {
	const char *name;
	size_t len;
};

static enum tasd_verdict probe_npz(const struct tasd_probe *probe)
{
	const char *name;
	size_t len;

	if (!probe->head || !tasd_zip_plausible(probe->head, probe->head_len))
		return TASD_VERDICT_NO;
	if (tasd_zip_first_name(probe->head, probe->head_len, &name, &len) &&
		tasd_text_ends_with(name, len, SUFFIX))
		return TASD_VERDICT_YES;
	/* The first member may be anything; of other zips only the name of
	 * the file tells. */
	return tasd_text_has_suffix(probe->name, ".npz") ? TASD_VERDICT_YES
							 : TASD_VERDICT_NO;
}

static bool record_eq(const void *value, const void *key)
{
	const struct tasd_zip_record *r = value;
	const struct wanted *want = key;

	return r->name_len == want->len &&
	       memcmp(r->name, want->name, want->len) == 0;
}

static struct tasd_zip_record *find_last(
	const struct reading *reading, const char *name, size_t len)
{
	const struct wanted want = {name, len};

	return tasd_map_find(&reading->last,
		tasd_map_hash(&reading->last, name, len, 0), record_eq, &want);
}

/* By name, the last of each. */
static tasd_err index_names(struct reading *reading)
{
	tasd_err err = 0;

	for (uint32_t i = reading->zip.nrecords; i-- > 0 && !err;) {
		struct tasd_zip_record *r = &reading->zip.records[i];

		if (!find_last(reading, r->name, r->name_len))
			err = tasd_map_put(&reading->last,
				tasd_map_hash(&reading->last, r->name,
					r->name_len, 0),
				r);
	}
	return err;
}

/* Where the headers of all members are. */
static tasd_err locate_all(struct reading *reading)
{
	struct tasd_zip *zip = &reading->zip;
	struct tasd_zip_record **all = tasd_arena_alloc(
		zip->arena, zip->nrecords * sizeof(struct tasd_zip_record *));

	if (!all)
		return -E2BIG;
	for (uint32_t i = 0; i < zip->nrecords; i++)
		all[i] = &zip->records[i];
	return tasd_zip_locate(zip, all, zip->nrecords);
}

/* The key of a member, in reading->name. */
static tasd_err make_key(struct reading *reading,
	const struct tasd_zip_record *r, struct tasd_key *ret)
{
	size_t len = r->name_len;

	if (tasd_text_ends_with(r->name, len, SUFFIX) &&
		!find_last(reading, r->name, len - SUFFIX_LEN))
		len -= SUFFIX_LEN;
	reading->name.len = 0;
	if (r->flags & FLAG_UTF8)
		tasd_buf_add(&reading->name, r->name, len);
	else
		tasd_cp437_add(&reading->name, r->name, len);
	if (tasd_buf_err(&reading->name))
		return tasd_buf_err(&reading->name);
	*ret = tasd_key_str(reading->name.bytes, (uint32_t)reading->name.len);
	return 0;
}

/* The node of a member that cannot be shown: listed, with the reason. */
static tasd_err set_broken(struct reading *reading, struct tasd_node *node,
	const struct tasd_diag *diag)
{
	static const struct tasd_tensor broken = {
		.dtype = TASD_DTYPE_NONE,
		.data = TASD_DATA_BROKEN,
	};
	char name[100];

	node->kind = TASD_KIND_NDARRAY;
	node->form = TASD_FORM_TENSOR;
	node->tensor = &broken;
	node->error =
		tasd_arena_copy(reading->arena, diag->text, strlen(diag->text));
	tasd_print_bytes(name, sizeof(name), node->key.text, node->key.len);
	tasd_container_problem(
		reading->ctr, "array \"%s\": %s", name, diag->text);
	return node->error ? 0 : -E2BIG;
}

/* Bytes that are no array: kept, or shown where they are. */
static tasd_err set_bytes(struct reading *reading, struct tasd_node *node,
	const struct tasd_zip_record *r, uint32_t source, uint64_t offset)
{
	struct tasd_tensor *tensor;
	uint64_t *shape;
	char *bytes, *kept;
	size_t len;
	tasd_err err;

	node->kind = TASD_KIND_BYTES;
	if (r->usize <= KEPT_MAX) {
		err = tasd_zip_read(&reading->zip, r, KEPT_MAX, &bytes, &len);
		if (err)
			return err;
		kept = tasd_arena_copy(reading->arena, bytes, len);
		free(bytes);
		node->form = TASD_FORM_VALUE;
		node->value.bytes = kept;
		node->value.len = len;
		return kept ? 0 : -E2BIG;
	}
	tensor = tasd_arena_alloc(reading->arena, sizeof(*tensor));
	shape = tasd_arena_alloc(reading->arena, sizeof(*shape));
	if (!tensor || !shape)
		return -E2BIG;
	*shape = r->usize;
	*tensor = (struct tasd_tensor){
		.shape = shape,
		.ndim = 1,
		.nbytes = r->usize,
		.dtype = TASD_DTYPE_U8,
		.data = TASD_DATA_PLAIN,
		.nextents = 1,
		.extent = {.offset = offset,
			.length = r->usize,
			.source = source},
	};
	node->form = TASD_FORM_TENSOR;
	node->tensor = tensor;
	return 0;
}

/*
 * Look into a member through `source`, where it is at offset.  The node is made
 * to lead to extents of the container's source `index`.
 */
static tasd_err look_into(struct reading *reading, struct tasd_node *node,
	const struct tasd_zip_record *r, struct tasd_source *source,
	uint64_t offset, uint32_t index, struct tasd_diag *diag)
{
	char magic[TASD_NPY_MAGIC_LEN];
	struct tasd_npy npy;
	tasd_err err = 0;

	if (r->usize >= sizeof(magic))
		err = tasd_source_pread(source, magic, sizeof(magic), offset);
	if (err)
		return tasd_diag_set(diag, -EINVAL, "its bytes cannot be read");
	if (r->usize < sizeof(magic) ||
		memcmp(magic, TASD_NPY_MAGIC, sizeof(magic)) != 0) {
		err = set_bytes(reading, node, r, index, offset);
		return err == -EIO ? tasd_diag_set(diag, -EINVAL,
					     "its bytes cannot be read")
				   : err;
	}
	err = tasd_npy_read(
		source, offset, r->usize, reading->arena, &npy, diag);
	if (err == -EIO)
		return tasd_diag_set(diag, -EINVAL, "its bytes cannot be read");
	if (err)
		return err;
	node->kind = TASD_KIND_NDARRAY;
	node->form = TASD_FORM_TENSOR;
	node->tensor = tasd_npy_tensor(
		&npy, index, offset + npy.header_len, reading->arena);
	return node->tensor ? 0 : -E2BIG;
}

/* What inflating leaves behind is dropped with the first source: a file of
 * thousands of members that nobody reads shall cost nothing. */
static tasd_err look_into_deflated(struct reading *reading,
	struct tasd_node *node, const struct tasd_zip_record *r,
	struct tasd_diag *diag)
{
	struct tasd_container *ctr = reading->ctr;
	struct tasd_source *source = NULL;
	tasd_err err = tasd_zip_inflate(&reading->zip, r, &source);

	if (err)
		return err;
	err = look_into(reading, node, r, source, 0, ctr->nsources, diag);
	tasd_source_put(source);
	if (err || node->form != TASD_FORM_TENSOR)
		return err;
	err = tasd_zip_inflate(&reading->zip, r, &source);
	return err ? err : tasd_container_add_source(ctr, source, NULL);
}

static tasd_err add_member(
	struct reading *reading, const struct tasd_zip_record *r)
{
	struct tasd_container *ctr = reading->ctr;
	struct tasd_diag diag = {""};
	struct tasd_node *node;
	struct tasd_key key;
	tasd_err err = make_key(reading, r, &key);

	if (!err)
		err = tasd_statedict_add(
			ctr->sd, tasd_statedict_root(ctr->sd), key, &node);
	/* Two names that are written in two ways and mean one. */
	if (err == -EEXIST) {
		tasd_container_problem(ctr,
			"two members of the zip have one name; the second is "
			"left out");
		return 0;
	}
	if (err)
		return err;
	err = tasd_zip_usable(r, &diag);
	if (!err && memchr(r->name, '\0', r->name_len))
		err = tasd_diag_set(
			&diag, -EINVAL, "its name in the zip holds a NUL");
	if (!err && r->method == TASD_ZIP_STORED)
		err = look_into(reading, node, r, ctr->sources[0],
			tasd_zip_data(r), 0, &diag);
	else if (!err)
		err = look_into_deflated(reading, node, r, &diag);
	if (err == -EINVAL || err == -ENOTSUP)
		return set_broken(reading, node, &diag);
	return err;
}

static tasd_err add_members(struct reading *reading)
{
	uint32_t twice = 0;

	for (uint32_t i = 0; i < reading->zip.nrecords; i++) {
		const struct tasd_zip_record *r = &reading->zip.records[i];
		tasd_err err;

		/* A folder is no member. */
		if (r->name_len > 0 && r->name[r->name_len - 1] == '/' &&
			r->usize == 0)
			continue;
		if (find_last(reading, r->name, r->name_len) != r) {
			twice++;
			continue;
		}
		err = add_member(reading, r);
		if (err)
			return err;
	}
	if (twice)
		tasd_container_problem(reading->ctr,
			"%u members of the zip have the name of a later one, "
			"which counts",
			twice);
	return 0;
}

static tasd_err read_npz(struct tasd_container *ctr, struct tasd_diag *diag)
{
	struct reading reading = {
		.ctr = ctr,
		.arena = tasd_statedict_arena(ctr->sd),
		.name = TASD_BUF_EMPTY,
	};
	struct tasd_arena scratch;
	tasd_err err;

	tasd_arena_init(&scratch, SCRATCH);
	tasd_map_init(&reading.last);
	err = tasd_zip_open(ctr->sources[0], &scratch, &reading.zip, diag);
	if (!err) {
		err = index_names(&reading);
		if (!err)
			err = locate_all(&reading);
		if (!err)
			err = add_members(&reading);
		tasd_zip_close(&reading.zip);
	}
	tasd_map_free(&reading.last);
	tasd_buf_free(&reading.name);
	tasd_arena_free(&scratch);
	return err;
}

const struct tasd_format tasd_format_npz = {
	.name = "npz",
	.probe = probe_npz,
	.read = read_npz,
};
