/*
 * A storage that is bytes: what torch makes of one when the pickler is not its
 * own.  The bytes are a stream as torch wrote it before 1.6: pickles of a magic
 * number, a version, the machine's properties, the storage and the list of its
 * key, then an element count and the elements.
 */
#include "torch_inner.h"
#include <base/checked.h>
#include <base/cursor.h>
#include <string.h>

#define MEMORY_MAX ((size_t)1 << 20)

/* 0x1950a86a20f9469cfc6c */
static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

struct stream {
	const char *bytes;
	uint64_t len, at;
	bool big_endian;
};

/* The next pickle; the caller frees it. */
static tasd_err next(struct stream *s, struct tasd_pickle **ret)
{
	uint64_t used = 0;
	tasd_err err = tasd_pickle_read(
		s->bytes + s->at, s->len - s->at, MEMORY_MAX, ret, &used, NULL);

	s->at += used;
	return err;
}

/* What a pickle has to be; the last one is kept for the caller. */
enum piece { MAGIC, VERSION, MACHINE, STORAGE, KEYS };

static bool fits(
	struct stream *s, enum piece piece, const struct tasd_pkl *root)
{
	const struct tasd_pkl *little;

	switch (piece) {
	case MAGIC:
		return root->type == TASD_PKL_LONG &&
		       root->text.len == sizeof(magic) - 1 &&
		       memcmp(root->text.bytes, magic, sizeof(magic) - 1) == 0;
	case VERSION:
		return root->type == TASD_PKL_INT && root->i == 1001;
	case MACHINE:
		if (root->type != TASD_PKL_DICT)
			return false;
		little = tasd_pkl_get(&root->map, "little_endian");
		s->big_endian = little && little->type == TASD_PKL_FALSE;
		return true;
	case STORAGE:
		return root->type == TASD_PKL_PERSID;
	case KEYS:
		return root->type == TASD_PKL_LIST && root->seq.n == 1;
	default:
		return false;
	}
}

/* Where the elements are, and what the storage is. */
static bool read_stream(struct tasd_torch_map *map, struct stream *s,
	struct tasd_torch_storage *storage, tasd_err *ret_err)
{
	struct tasd_cursor count;
	uint64_t numel = 0;
	bool ok = true, is = false;

	*ret_err = 0;
	for (int piece = MAGIC; piece <= KEYS && ok; piece++) {
		struct tasd_pickle *pickle = NULL;

		ok = next(s, &pickle) == 0 && fits(s, piece, pickle->root);
		if (ok && piece == STORAGE) {
			ok = tasd_torch_persid(pickle->root, &is,
				     &storage->persid, NULL) == 0 &&
			     is && !storage->persid.is_view;
			if (ok)
				*ret_err = tasd_torch_device(map,
					storage->persid.location,
					storage->persid.location_len,
					&storage->device);
		}
		tasd_pickle_free(pickle);
	}
	if (!ok || *ret_err)
		return false;
	count = tasd_cursor_over(s->bytes + s->at, s->len - s->at);
	if (tasd_cursor_u64le(&count, &numel))
		return false;
	s->at += count.at;
	return numel == storage->persid.numel &&
	       tasd_range_fits(s->at, storage->persid.nbytes, s->len);
}

static bool same_object(const void *value, const void *key)
{
	const struct tasd_torch_storage *s = value;

	return s->persid.key == key;
}

static tasd_err put_place(struct tasd_torch_map *map, const struct stream *s,
	struct tasd_torch_storage *storage)
{
	const char *elements = s->bytes + s->at;
	struct tasd_torch_place *place = &storage->place;
	tasd_err err = 0;

	place->big_endian = s->big_endian;
	place->length = storage->persid.nbytes;
	place->source = map->torch->stream_source;
	if (tasd_torch_in_stream(map, elements, place->length, &place->offset))
		return 0;
	storage->in_blob = true;
	err = tasd_torch_blob(map, elements, place->length, &place->offset);
	if (err == -EFBIG) {
		storage->error = "its bytes are written as text, and too many "
				 "to be kept in memory";
		err = 0;
	}
	return err;
}

tasd_err tasd_torch_nested(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_storage **ret,
	struct tasd_torch_shape *shape)
{
	uint64_t hash =
		tasd_map_hash(&map->storages, &value->id, sizeof(value->id), 1);
	struct tasd_torch_storage *storage =
		tasd_map_find(&map->storages, hash, same_object, value);
	const struct tasd_pkl *arg =
		tasd_torch_arg(&value->object->args->seq, 0);
	struct tasd_buf decoded = TASD_BUF_EMPTY;
	struct stream s = {.at = 0};
	tasd_err err = 0;

	*ret = storage;
	if (storage)
		return 0;
	storage = tasd_arena_alloc(&map->scratch, sizeof(*storage));
	if (!storage)
		return -E2BIG;
	if (!arg || !tasd_torch_bytes(map, arg, &decoded, &s.bytes, &s.len) ||
		!read_stream(map, &s, storage, &err)) {
		tasd_buf_free(&decoded);
		return err ? err
			   : tasd_torch_broken(map, shape,
				     "a storage in bytes that are no stream "
				     "of torch");
	}
	err = put_place(map, &s, storage);
	tasd_buf_free(&decoded);
	/* It is told apart by the object that it is, not by a name; the texts
	 * were in the bytes. */
	storage->persid.location = "";
	storage->persid.location_len = 0;
	storage->persid.key = (const char *)value;
	storage->persid.key_len = 0;
	storage->id = ++map->nstorages;
	*ret = storage;
	return err ? err : tasd_map_put(&map->storages, hash, storage);
}
