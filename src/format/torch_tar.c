/*
 * A PyTorch checkpoint as torch.save wrote it up to 0.1.10: a tar with the
 * members
 *
 *	storages	pickle: their number; for each of them a pickle (key,
 *			location, class), its number of elements, an int64, and
 *			its bytes; then a pickle of the storages that are parts
 *			of others: [(key, key of the whole, offset, numel)]
 *	tensors		pickle: their number; for each of them a pickle (key,
 *			key of its storage, class) and, as raw integers, its
 *			rank, sizes, strides and offset
 *	pickle		the object: tensors and storages are the persistent ids
 *			"KEY"
 *	sys_info	which nobody reads
 *
 * All of it is little-endian, whatever machine wrote it.  What one item is
 * tells where the next begins, and torch takes nothing of a file in which one
 * of them is wrong; neither does this.
 *
 * Source of the layout: torch/serialization.py of PyTorch, legacy_load.
 */
#include "formats.h"
#include "pickle.h"
#include "tar.h"
#include "torch_known.h"
#include "torch_unsafe.h"
#include "torch_value.h"
#include <base/checked.h>
#include <base/cleanup.h>
#include <base/cursor.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRATCH    ((size_t)64 << 20)
#define PICKLE_MAX ((uint64_t)64 << 20)
#define GRAPH_MAX  TASD_CONTAINER_MEMORY
/* The pickles between the data: the first try is enough for all but the list
 * of parts. */
#define WINDOW_MIN ((uint64_t)4 << 10)
#define WINDOW_MAX ((uint64_t)16 << 20)
/* The graph of one of them. */
#define ITEM_MAX ((size_t)64 << 20)
#define NDIM_MAX 64u
#define TEXT_MAX 4096u

enum { STORAGES, TENSORS, PICKLE, NMEMBERS };

static const struct tasd_tar_member wanted[NMEMBERS] = {
	[STORAGES] = {.name = "storages"},
	[TENSORS] = {.name = "tensors"},
	[PICKLE] = {.name = "pickle"},
};

/* What a key stands for; storages and tensors share them. */
struct entry {
	int64_t key;
	struct tasd_torch_listed is;
};

struct reading {
	struct tasd_container *ctr;
	struct tasd_source *file;
	struct tasd_arena scratch;
	struct tasd_map entries; /* by key */
	struct tasd_map places;  /* of struct tasd_torch_place, by offset */
	struct tasd_diag *diag;
};

/* A member that is read from its front, a window of it in memory. */
struct stream {
	struct reading *r;
	const char *what;
	const struct tasd_tar_member *member;
	uint64_t at;        /* in the member */
	uint64_t from, len; /* of the window, in the member */
	char *window;
};

/* ---- probing ------------------------------------------------------------ */

static bool has_members(const struct tasd_probe *probe)
{
	struct tasd_tar_member members[NMEMBERS];
	struct tasd_source *source = NULL;
	bool found = true;
	int fd = fcntl(probe->fd, F_DUPFD_CLOEXEC, 3);
	tasd_err err;

	if (fd < 0)
		return false;
	if (tasd_source_file(fd, probe->name, &source)) {
		close(fd);
		return false;
	}
	memcpy(members, wanted, sizeof(members));
	err = tasd_tar_find(source, members, NMEMBERS, NULL);
	/* One that is cut is one all the same. */
	if (err)
		found = members[PICKLE].found || members[TENSORS].found ||
			members[STORAGES].found;
	for (int i = 0; !err && i < NMEMBERS; i++)
		found = found && members[i].found;
	tasd_source_put(source);
	return found;
}

static enum tasd_verdict probe_tar(const struct tasd_probe *probe)
{
	if (!probe->head || probe->head_len < TASD_TAR_BLOCK ||
		!tasd_tar_is_header(probe->head))
		return TASD_VERDICT_NO;
	return has_members(probe) ? TASD_VERDICT_YES : TASD_VERDICT_NO;
}

/* ---- reading a member --------------------------------------------------- */

/* Have the next len bytes of the member, or all there are, in memory. */
static tasd_err fill(struct stream *s, uint64_t len)
{
	uint64_t left = s->member->size - s->at;
	char *window;
	tasd_err err;

	if (len > left)
		len = left;
	if (s->window && s->at >= s->from &&
		tasd_range_fits(s->at - s->from, len, s->len))
		return 0;
	if (len < WINDOW_MIN)
		len = left < WINDOW_MIN ? left : WINDOW_MIN;
	window = realloc(s->window, len + 1);
	if (!window)
		return -ENOMEM;
	s->window = window;
	s->from = s->at;
	s->len = len;
	err = tasd_source_pread(
		s->r->file, window, len, s->member->offset + s->at);
	if (err)
		s->len = 0;
	return err;
}

static struct tasd_cursor in_memory(const struct stream *s)
{
	return tasd_cursor_over(
		s->window + (s->at - s->from), s->len - (s->at - s->from));
}

/* The next pickle, which the caller frees, and its texts are in the window. */
static tasd_err next_pickle(struct stream *s, struct tasd_pickle **ret)
{
	uint64_t want = WINDOW_MIN / 4, used = 0;

	for (;;) {
		struct tasd_cursor c;
		tasd_err err = fill(s, want);

		if (err)
			return err;
		c = in_memory(s);
		err = tasd_pickle_read(
			c.base, c.size, ITEM_MAX, ret, &used, s->r->diag);
		if (!err) {
			s->at += used;
			return 0;
		}
		tasd_pickle_free(*ret);
		*ret = NULL;
		if (err != -EINVAL || c.size == s->member->size - s->at ||
			want == WINDOW_MAX)
			return tasd_diag_prefix(s->r->diag, err,
				"%s, byte %llu", s->what,
				(unsigned long long)s->at);
		want = want < WINDOW_MAX / 16 ? 16 * want : WINDOW_MAX;
	}
}

static tasd_err refuse(const struct stream *s, const char *what)
{
	return tasd_diag_set(s->r->diag, -EINVAL, "%s, byte %llu: %s", s->what,
		(unsigned long long)s->at, what);
}

static tasd_err next_count(struct stream *s, uint64_t *ret)
{
	struct tasd_pickle *pickle = NULL;
	tasd_err err = next_pickle(s, &pickle);

	if (err)
		return err;
	if (pickle->root->type != TASD_PKL_INT || pickle->root->i < 0)
		err = refuse(s, "their number is none");
	else
		*ret = (uint64_t)pickle->root->i;
	tasd_pickle_free(pickle);
	return err;
}

static tasd_err next_u64(struct stream *s, uint64_t *ret)
{
	struct tasd_cursor c;
	tasd_err err = fill(s, sizeof(*ret));

	if (err)
		return err;
	c = in_memory(s);
	if (tasd_cursor_u64le(&c, ret))
		return refuse(s, "truncated: it ends here");
	s->at += sizeof(*ret);
	return 0;
}

/* A raw integer that may not be negative. */
static tasd_err next_i64(struct stream *s, const char *what, uint64_t *ret)
{
	tasd_err err = next_u64(s, ret);

	return !err && *ret > INT64_MAX ? refuse(s, what) : err;
}

/* ---- keys --------------------------------------------------------------- */

static uint64_t hash_of(const struct reading *r, int64_t key)
{
	return tasd_map_hash(&r->entries, &key, sizeof(key), 0);
}

static bool key_eq(const void *value, const void *key)
{
	return ((const struct entry *)value)->key == *(const int64_t *)key;
}

static struct entry *find_entry(const struct reading *r, int64_t key)
{
	return tasd_map_find(&r->entries, hash_of(r, key), key_eq, &key);
}

/* A key that comes again means the later one. */
static tasd_err put_entry(
	struct reading *r, int64_t key, const struct tasd_torch_listed *is)
{
	struct entry *entry = find_entry(r, key);

	if (entry) {
		entry->is = *is;
		return 0;
	}
	entry = tasd_arena_alloc(&r->scratch, sizeof(*entry));
	if (!entry)
		return -E2BIG;
	entry->key = key;
	entry->is = *is;
	return tasd_map_put(&r->entries, hash_of(r, key), entry);
}

static struct entry *find_key(
	const struct reading *r, const struct tasd_pkl *value)
{
	return value->type == TASD_PKL_INT ? find_entry(r, value->i) : NULL;
}

/* The items of a tuple of n. */
static struct tasd_pkl **tuple_of(const struct tasd_pkl *value, uint32_t n)
{
	return value->type == TASD_PKL_TUPLE && value->seq.n == n
		       ? value->seq.at
		       : NULL;
}

/* ---- storages ----------------------------------------------------------- */

/*
 * A storage's pickle.  It has no name of its own: where it lies is what tells
 * it apart, so its place is its key.
 */
static tasd_err storage_of(struct stream *s, const struct tasd_pkl *value,
	int64_t *ret_key, struct tasd_torch_persid *ret)
{
	struct tasd_pkl **items = tuple_of(value, 3);
	const struct tasd_pkl *location, *class;

	if (!items || items[0]->type != TASD_PKL_INT)
		return refuse(s, "expected a storage's (key, location, class)");
	location = items[1];
	class = items[2];
	if (location->type != TASD_PKL_STR || location->text.len > TEXT_MAX)
		return refuse(s, "a storage's location is no text");
	if (class->type == TASD_PKL_GLOBAL)
		ret->dtype =
			(uint8_t)tasd_torch_storage_dtype(class->global->name,
				class->global->name_len, &ret->untyped);
	if (!ret->dtype || ret->untyped)
		return refuse(s, "a storage of an unknown class");
	*ret_key = items[0]->i;
	ret->location_len = location->text.len;
	ret->location = tasd_arena_copy(&s->r->scratch, location->text.bytes,
		(size_t)location->text.len);
	return ret->location ? 0 : -E2BIG;
}

static tasd_err next_storage(struct stream *s)
{
	struct tasd_torch_listed is = {.whole = true};
	struct tasd_torch_persid *storage = &is.storage;
	struct tasd_torch_place *place;
	struct tasd_pickle *pickle = NULL;
	uint16_t bits;
	int64_t key = 0;
	tasd_err err = next_pickle(s, &pickle);

	if (!err)
		err = storage_of(s, pickle->root, &key, storage);
	tasd_pickle_free(pickle);
	if (!err)
		err = next_i64(s, "a storage of absurd size", &storage->numel);
	if (err)
		return err;
	bits = tasd_dtype_info(storage->dtype)->bits;
	if (!tasd_mul_u64(storage->numel, bits < 8 ? 1 : bits / 8,
		    &storage->nbytes) ||
		storage->nbytes > INT64_MAX)
		return refuse(s, "a storage of absurd size");
	if (!tasd_range_fits(s->at, storage->nbytes, s->member->size))
		return refuse(s, "truncated: a storage goes past its end");
	place = tasd_arena_alloc(&s->r->scratch, sizeof(*place));
	if (!place)
		return -E2BIG;
	place->offset = s->member->offset + s->at;
	place->length = storage->nbytes;
	storage->key = (const char *)&place->offset;
	storage->key_len = sizeof(place->offset);
	s->at += storage->nbytes;
	err = tasd_map_put(&s->r->places,
		tasd_map_hash(&s->r->places, storage->key, storage->key_len, 0),
		place);
	return err ? err : put_entry(s->r, key, &is);
}

static bool place_eq(const void *value, const void *key)
{
	const struct tasd_torch_place *place = value;

	return memcmp(&place->offset, key, sizeof(place->offset)) == 0;
}

static tasd_err find_place(void *ctx, const struct tasd_torch_persid *persid,
	struct tasd_torch_place *ret)
{
	const struct reading *r = ctx;
	const struct tasd_torch_place *place = NULL;

	/* The pickle may hold ids of later files, which mean nothing here. */
	if (persid->key_len == sizeof(place->offset))
		place = tasd_map_find(&r->places,
			tasd_map_hash(
				&r->places, persid->key, persid->key_len, 0),
			place_eq, persid->key);
	if (place)
		*ret = *place;
	else
		ret->error = "its storage is not in the file";
	return 0;
}

/* (key, key of the whole, offset, numel) */
static tasd_err take_part(struct stream *s, const struct tasd_pkl *value)
{
	struct tasd_pkl **items = tuple_of(value, 4);
	struct tasd_torch_listed is;
	struct tasd_torch_persid *storage = &is.storage;
	const struct entry *whole;
	uint64_t offset, numel, room;

	for (int i = 0; items && i < 4; i++)
		if (items[i]->type != TASD_PKL_INT)
			items = NULL;
	if (!items || items[2]->i < 0 || items[3]->i < 0)
		return refuse(s, "expected a part of a storage");
	whole = find_entry(s->r, items[1]->i);
	if (!whole || !whole->is.whole)
		return refuse(s, "a part of a storage that is not there");
	is = whole->is;
	offset = (uint64_t)items[2]->i;
	numel = (uint64_t)items[3]->i;
	room = storage->is_view ? storage->view_numel : storage->numel;
	if (!tasd_range_fits(offset, numel, room))
		return refuse(s, "a part of a storage is not in it");
	storage->view_offset += offset;
	storage->view_numel = numel;
	storage->is_view = true;
	return put_entry(s->r, items[0]->i, &is);
}

static tasd_err read_storages(struct stream *s)
{
	struct tasd_pickle *parts = NULL;
	uint64_t count = 0;
	tasd_err err = next_count(s, &count);

	for (uint64_t i = 0; i < count && !err; i++)
		err = next_storage(s);
	if (!err)
		err = next_pickle(s, &parts);
	if (!err && parts->root->type != TASD_PKL_LIST)
		err = refuse(s, "expected the list of parts");
	for (uint32_t i = 0; !err && i < parts->root->seq.n; i++)
		err = take_part(s, parts->root->seq.at[i]);
	tasd_pickle_free(parts);
	return err;
}

/* ---- tensors ------------------------------------------------------------ */

static tasd_err next_sizes(
	struct stream *s, uint32_t n, const char *what, const uint64_t **ret)
{
	uint64_t *sizes = tasd_arena_alloc(
		tasd_statedict_arena(s->r->ctr->sd), (n + 1) * sizeof(*sizes));
	tasd_err err = 0;

	if (!sizes)
		return -E2BIG;
	for (uint32_t i = 0; i < n && !err; i++)
		err = next_i64(s, what, &sizes[i]);
	*ret = sizes;
	return err;
}

static tasd_err next_tensor(struct stream *s)
{
	struct tasd_torch_listed is;
	struct tasd_pickle *pickle = NULL;
	const struct entry *storage = NULL;
	struct tasd_pkl **items;
	uint64_t rank = 0;
	int64_t key = 0;
	tasd_err err = next_pickle(s, &pickle);

	items = err ? NULL : tuple_of(pickle->root, 3);
	if (!err && (!items || items[0]->type != TASD_PKL_INT))
		err = refuse(s, "expected a tensor's (key, storage, class)");
	if (!err) {
		key = items[0]->i;
		storage = find_key(s->r, items[1]);
		if (!storage || !storage->is.whole)
			err = refuse(s, "a tensor on no storage of the file");
	}
	tasd_pickle_free(pickle);
	if (!err)
		err = next_u64(s, &rank);
	/* The upper half was never written on purpose. */
	rank &= UINT32_MAX;
	if (!err && rank > NDIM_MAX)
		err = refuse(s, "a tensor of absurd rank");
	if (err)
		return err;
	is = storage->is;
	is.whole = false;
	is.ndim = (uint32_t)rank;
	err = next_sizes(s, is.ndim, "a size is negative", &is.shape);
	if (!err)
		err = next_sizes(
			s, is.ndim, "a stride is negative", &is.stride);
	if (!err)
		err = next_i64(s, "an offset is negative", &is.start);
	return err ? err : put_entry(s->r, key, &is);
}

static tasd_err read_tensors(struct stream *s)
{
	uint64_t count = 0;
	tasd_err err = next_count(s, &count);

	for (uint64_t i = 0; i < count && !err; i++)
		err = next_tensor(s);
	return err;
}

/* ---- the object --------------------------------------------------------- */

/* "140737353": all digits, as torch wrote it. */
static bool get_id(const struct tasd_pkl *pid, int64_t *ret)
{
	uint64_t value = 0;

	*ret = pid->type == TASD_PKL_INT ? pid->i : 0;
	if (pid->type == TASD_PKL_INT)
		return true;
	if (pid->type != TASD_PKL_STR || !pid->text.len || pid->text.len > 19)
		return false;
	for (uint64_t i = 0; i < pid->text.len; i++) {
		char c = pid->text.bytes[i];

		if (c < '0' || c > '9')
			return false;
		value = 10 * value + (uint64_t)(c - '0');
	}
	*ret = (int64_t)value;
	return value <= INT64_MAX;
}

static tasd_err list(void *ctx, const struct tasd_pkl *pid, bool *ret_is,
	struct tasd_torch_listed *ret)
{
	struct reading *r = ctx;
	const struct entry *entry = NULL;
	char shown[64];
	int64_t key;

	/* A class with its source. */
	if (pid->type == TASD_PKL_TUPLE)
		return 0;
	if (get_id(pid, &key))
		entry = find_entry(r, key);
	if (!entry)
		return tasd_diag_set(r->diag, -EINVAL,
			"pickle: the tensor or storage %s is not in the file",
			pid->type == TASD_PKL_STR
				? tasd_print_bytes(shown, sizeof(shown),
					  pid->text.bytes,
					  (size_t)pid->text.len)
				: tasd_pkl_type_name(pid));
	*ret_is = true;
	*ret = entry->is;
	return 0;
}

static tasd_err map_object(
	struct reading *r, const struct tasd_tar_member *member)
{
	struct tasd_torch torch = {.ctr = r->ctr,
		.stream_len = member->size,
		.stream_offset = member->offset,
		.stream_in_source = true,
		.find = find_place,
		.list = list,
		.ctx = r};
	cleanup_free char *bytes = NULL;
	struct tasd_pickle *pickle = NULL;
	uint64_t used = 0;
	tasd_err err;

	if (member->size > PICKLE_MAX)
		return tasd_diag_set(r->diag, -E2BIG,
			"pickle: %llu bytes, more than the %llu that are read",
			(unsigned long long)member->size,
			(unsigned long long)PICKLE_MAX);
	bytes = malloc(member->size + 1);
	if (!bytes)
		return -ENOMEM;
	err = tasd_source_pread(r->file, bytes, member->size, member->offset);
	if (!err) {
		err = tasd_pickle_read(bytes, member->size, GRAPH_MAX, &pickle,
			&used, r->diag);
		if (err)
			tasd_diag_prefix(r->diag, err, "pickle");
	}
	torch.stream = bytes;
	torch.pickle = pickle;
	if (!err) {
		torch.root = pickle->root;
		err = tasd_torch_note_unsafe(r->ctr, pickle);
	}
	if (!err)
		err = tasd_torch_map(&torch, r->diag);
	tasd_pickle_free(pickle);
	return err;
}

static tasd_err read_members(struct reading *r)
{
	struct tasd_tar_member members[NMEMBERS];
	struct stream storages = {
		.r = r, .what = "storages", .member = &members[STORAGES]};
	struct stream tensors = {
		.r = r, .what = "tensors", .member = &members[TENSORS]};
	tasd_err err;

	memcpy(members, wanted, sizeof(members));
	err = tasd_tar_find(r->file, members, NMEMBERS, r->diag);
	for (int i = 0; i < NMEMBERS && !err; i++) {
		if (!members[i].found)
			err = tasd_diag_set(r->diag, -EINVAL,
				"tar: no member \"%s\"", members[i].name);
		else if (!members[i].is_file)
			err = tasd_diag_set(r->diag, -EINVAL,
				"tar: the member \"%s\" is no file",
				members[i].name);
	}
	if (!err)
		err = read_storages(&storages);
	free(storages.window);
	if (!err)
		err = read_tensors(&tensors);
	free(tensors.window);
	return err ? err : map_object(r, &members[PICKLE]);
}

static tasd_err read_tar(struct tasd_container *ctr, struct tasd_diag *diag)
{
	struct reading r = {.ctr = ctr, .file = ctr->sources[0], .diag = diag};
	tasd_err err;

	tasd_arena_init(&r.scratch, SCRATCH);
	tasd_map_init(&r.entries);
	tasd_map_init(&r.places);
	err = read_members(&r);
	tasd_map_free(&r.entries);
	tasd_map_free(&r.places);
	tasd_arena_free(&r.scratch);
	return err;
}

const struct tasd_format tasd_format_torch_tar = {
	.name = "torch-tar",
	.probe = probe_tar,
	.read = read_tar,
};
