/*
 * A PyTorch checkpoint as torch.save wrote it before 1.6, and writes it still
 * when asked: one stream,
 *
 *	pickle	the magic number 0x1950a86a20f9469cfc6c
 *	pickle	the version of the layout, 1001
 *	pickle	{"protocol_version", "little_endian", "type_sizes"}
 *	pickle	the object
 *	pickle	the keys of its storages, in the order in which they follow
 *	then for each of them its number of elements, an int64, and its bytes
 *
 * How wide an element is only the object's own mention of the storage tells, so
 * where one begins follows from all those before it: what is wrong with one
 * makes those behind it unreadable too.
 *
 * Source of the layout: torch/serialization.py of PyTorch, _legacy_save.
 */
#include "formats.h"
#include "pickle.h"
#include "torch_unsafe.h"
#include "torch_value.h"
#include <base/checked.h>
#include <base/cleanup.h>
#include <base/cursor.h>
#include <stdlib.h>
#include <string.h>

/* The pickles are at the front; they are read whole. */
#define FRONT_MAX ((uint64_t)64 << 20)
#define GRAPH_MAX TASD_CONTAINER_MEMORY
#define VERSION   1001

/* PROTO 2, and LONG1 of the magic number's ten bytes. */
static const unsigned char magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
	0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* A storage that the object names. */
struct storage {
	struct tasd_torch_persid persid;
	struct tasd_torch_place place;
	bool placed;
};

struct reading {
	struct tasd_container *ctr;
	struct tasd_arena scratch;
	struct tasd_map storages; /* by key */
	bool big_endian;
};

static enum tasd_verdict probe_legacy(const struct tasd_probe *probe)
{
	return probe->head && probe->head_len > sizeof(magic) &&
			       memcmp(probe->head, magic, sizeof(magic)) == 0
		       ? TASD_VERDICT_YES
		       : TASD_VERDICT_NO;
}

/* ---- storages ----------------------------------------------------------- */

static bool key_eq(const void *value, const void *key)
{
	const struct storage *s = value;
	const struct tasd_torch_persid *want = key;

	return s->persid.key_len == want->key_len &&
	       memcmp(s->persid.key, want->key, want->key_len) == 0;
}

static struct storage *find_storage(
	const struct reading *r, const struct tasd_torch_persid *want)
{
	return tasd_map_find(&r->storages,
		tasd_map_hash(&r->storages, want->key, want->key_len, 0),
		key_eq, want);
}

static tasd_err note_storage(void *ctx, const struct tasd_pkl *value)
{
	struct reading *r = ctx;
	struct tasd_torch_persid persid;
	struct storage *s;
	bool is = false;

	if (value->type != TASD_PKL_PERSID ||
		tasd_torch_persid(value, &is, &persid, NULL) || !is ||
		find_storage(r, &persid))
		return 0;
	s = tasd_arena_alloc(&r->scratch, sizeof(*s));
	if (!s)
		return -E2BIG;
	s->persid = persid;
	return tasd_map_put(&r->storages,
		tasd_map_hash(&r->storages, persid.key, persid.key_len, 0), s);
}

static uint64_t element_bytes(const struct tasd_torch_persid *persid)
{
	uint16_t bits = tasd_dtype_info(persid->dtype)->bits;

	return persid->untyped || bits < 8 ? 1 : bits / 8;
}

/*
 * The storage that is next in the file at *at; moves *at behind it.  -EINVAL:
 * its end is not known, so neither is where the next one begins.
 */
static tasd_err place_storage(
	struct reading *r, struct storage *s, uint64_t *at, const char **why)
{
	struct tasd_source *file = r->ctr->sources[0];
	unsigned char raw[8];
	struct tasd_cursor c = tasd_cursor_over(raw, sizeof(raw));
	uint64_t numel = 0, length;
	tasd_err err;

	*why = "truncated: the file ends before its storage";
	if (!tasd_range_fits(*at, sizeof(raw), file->size))
		return -EINVAL;
	err = tasd_source_pread(file, raw, sizeof(raw), *at);
	if (err)
		return err;
	tasd_cursor_u64le(&c, &numel);
	*at += sizeof(raw);
	if (!tasd_mul_u64(numel, element_bytes(&s->persid), &length) ||
		numel > INT64_MAX) {
		*why = "its storage's number of elements is absurd";
		return -EINVAL;
	}
	if (!tasd_range_fits(*at, length, file->size)) {
		*why = "truncated: the file ends within its storage";
		return -EINVAL;
	}
	s->place = (struct tasd_torch_place){
		.offset = *at, .length = length, .big_endian = r->big_endian};
	s->placed = true;
	*at += length;
	return 0;
}

/* All storages, in the order of their keys. */
static tasd_err place_all(struct reading *r, const struct tasd_pkl *keys,
	uint64_t at, struct tasd_diag *diag)
{
	const char *why = NULL;

	if (keys->type != TASD_PKL_LIST)
		return tasd_diag_set(diag, -EINVAL,
			"the keys of the storages are %s, expected a list",
			tasd_pkl_type_name(keys));
	for (uint32_t i = 0; i < keys->seq.n; i++) {
		const struct tasd_pkl *key = keys->seq.at[i];
		struct tasd_torch_persid want = {.key = NULL};
		struct storage *s;
		tasd_err err = 0;

		if (key->type != TASD_PKL_STR)
			return tasd_diag_set(diag, -EINVAL,
				"a storage's key is %s, expected a str",
				tasd_pkl_type_name(key));
		want.key = key->text.bytes;
		want.key_len = key->text.len;
		s = find_storage(r, &want);
		if (!s)
			return tasd_diag_set(diag, -EINVAL,
				"storage %u is not one that the object names",
				i);
		if (!why)
			err = place_storage(r, s, &at, &why);
		if (err && err != -EINVAL)
			return err;
		if (!err && s->placed)
			why = NULL;
		if (!s->placed)
			s->place.error = why;
	}
	return 0;
}

static tasd_err find_place(void *ctx, const struct tasd_torch_persid *persid,
	struct tasd_torch_place *ret)
{
	const struct storage *s = find_storage(ctx, persid);

	*ret = s ? s->place : (struct tasd_torch_place){.error = NULL};
	if (!s || (!s->placed && !ret->error))
		ret->error = "its storage is not in the file";
	return 0;
}

/* ---- the pickles -------------------------------------------------------- */

/* The front of the file, as far as pickles may reach. */
static tasd_err read_front(
	struct tasd_source *file, char **ret, uint64_t *ret_len)
{
	uint64_t len = file->size < FRONT_MAX ? file->size : FRONT_MAX;
	char *bytes = malloc(len + 1);
	tasd_err err;

	if (!bytes)
		return -ENOMEM;
	err = tasd_source_pread(file, bytes, len, 0);
	if (err) {
		free(bytes);
		return err;
	}
	*ret = bytes;
	*ret_len = len;
	return 0;
}

static tasd_err next_pickle(struct tasd_cursor *c, const char *what,
	struct tasd_pickle **ret, struct tasd_diag *diag)
{
	uint64_t used = 0;
	tasd_err err = tasd_pickle_read(c->base + c->at, tasd_cursor_left(c),
		GRAPH_MAX, ret, &used, diag);

	if (err) {
		tasd_pickle_free(*ret);
		*ret = NULL;
		return tasd_diag_prefix(diag, err, "%s", what);
	}
	return tasd_cursor_skip(c, used);
}

/* Version and byte order; the magic number was seen by the probe. */
static tasd_err read_head(
	struct reading *r, struct tasd_cursor *c, struct tasd_diag *diag)
{
	struct tasd_pickle *pickle = NULL;
	const struct tasd_pkl *little;
	tasd_err err = next_pickle(c, "the magic number", &pickle, diag);

	tasd_pickle_free(pickle);
	pickle = NULL;
	if (!err)
		err = next_pickle(c, "the version", &pickle, diag);
	if (!err && (pickle->root->type != TASD_PKL_INT ||
			    pickle->root->i != VERSION))
		err = tasd_diag_set(diag, -EINVAL,
			"the version of its layout is not %d", VERSION);
	tasd_pickle_free(pickle);
	pickle = NULL;
	if (!err)
		err = next_pickle(c, "the system's description", &pickle, diag);
	if (!err && pickle->root->type == TASD_PKL_DICT) {
		little = tasd_pkl_get(&pickle->root->map, "little_endian");
		r->big_endian = little && little->type == TASD_PKL_FALSE;
	}
	tasd_pickle_free(pickle);
	return err;
}

static tasd_err map_object(struct reading *r, struct tasd_cursor *c,
	const struct tasd_pickle *object, uint64_t began,
	struct tasd_diag *diag)
{
	struct tasd_torch torch = {.ctr = r->ctr,
		.pickle = object,
		.root = object->root,
		.stream = (const char *)c->base + began,
		.stream_len = c->at - began,
		.stream_offset = began,
		.stream_in_source = true,
		.find = find_place,
		.ctx = r};
	struct tasd_pickle *keys = NULL;
	tasd_err err = tasd_pkl_walk(object, object->root, note_storage, r);

	if (!err)
		err = next_pickle(c, "the keys of the storages", &keys, diag);
	if (!err)
		err = place_all(r, keys->root, c->at, diag);
	if (!err)
		err = tasd_torch_note_unsafe(r->ctr, object);
	if (!err)
		err = tasd_torch_map(&torch, diag);
	tasd_pickle_free(keys);
	return err;
}

static tasd_err read_stream(
	struct reading *r, struct tasd_cursor *c, struct tasd_diag *diag)
{
	struct tasd_pickle *object = NULL;
	uint64_t began;
	tasd_err err = read_head(r, c, diag);

	if (err)
		return err;
	began = c->at;
	err = next_pickle(c, "the object", &object, diag);
	if (!err)
		err = map_object(r, c, object, began, diag);
	tasd_pickle_free(object);
	return err;
}

static tasd_err read_legacy(struct tasd_container *ctr, struct tasd_diag *diag)
{
	struct reading r = {.ctr = ctr};
	cleanup_free char *front = NULL;
	struct tasd_cursor c;
	uint64_t len = 0;
	tasd_err err = read_front(ctr->sources[0], &front, &len);

	if (err)
		return err;
	c = tasd_cursor_over(front, len);
	tasd_arena_init(&r.scratch, (size_t)FRONT_MAX);
	tasd_map_init(&r.storages);
	err = read_stream(&r, &c, diag);
	tasd_map_free(&r.storages);
	tasd_arena_free(&r.scratch);
	return err;
}

const struct tasd_format tasd_format_torch_legacy = {
	.name = "torch-legacy",
	.probe = probe_legacy,
	.read = read_legacy,
};
