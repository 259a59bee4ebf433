/*
 * Storages: what a persistent id says, and which storage each tensor means.
 * The reader of the file is asked for each of them once.
 */
#include "torch_inner.h"
#include <base/checked.h>
#include <string.h>

/* Dimensions of a tensor. */
#define NDIM_MAX 64u
/* The longest name of a storage's record. */
#define KEY_LEN_MAX 4096u

static bool get_u64(const struct tasd_pkl *value, uint64_t *ret)
{
	if (!value || value->type != TASD_PKL_INT || value->i < 0)
		return false;
	*ret = (uint64_t)value->i;
	return true;
}

static bool get_text(
	const struct tasd_pkl *value, const char **ret, uint64_t *ret_len)
{
	if (!value ||
		(value->type != TASD_PKL_STR && value->type != TASD_PKL_BYTES))
		return false;
	*ret = value->text.bytes;
	*ret_len = value->text.len;
	return true;
}

/* The part of a storage that a legacy stream means: (key, offset, numel). */
static bool get_part(
	const struct tasd_pkl *value, struct tasd_torch_persid *ret)
{
	if (!value || value->type == TASD_PKL_NONE)
		return true;
	ret->is_view = true;
	return value->type == TASD_PKL_TUPLE && value->seq.n == 3 &&
	       get_u64(value->seq.at[1], &ret->view_offset) &&
	       get_u64(value->seq.at[2], &ret->view_numel);
}

tasd_err tasd_torch_persid(const struct tasd_pkl *value, bool *ret_is,
	struct tasd_torch_persid *ret, struct tasd_diag *diag)
{
	const struct tasd_pkl *pid = value->pid, *class;
	uint64_t item;

	*ret_is = false;
	*ret = (struct tasd_torch_persid){.key = NULL};
	if (value->type != TASD_PKL_PERSID || pid->type != TASD_PKL_TUPLE ||
		pid->seq.n < 1 || !tasd_pkl_is_str(pid->seq.at[0], "storage"))
		return 0;
	*ret_is = true;
	class = tasd_torch_arg(&pid->seq, 1);
	if (!class || class->type != TASD_PKL_GLOBAL || pid->seq.n > 6)
		return tasd_diag_set(
			diag, -EINVAL, "a storage whose class is no class");
	ret->dtype = (uint8_t)tasd_torch_storage_dtype(
		class->global->name, class->global->name_len, &ret->untyped);
	if (!ret->dtype)
		return tasd_diag_set(diag, -EINVAL,
			"a storage of the unknown class %.*s",
			class->global->name_len < 64
				? (int)class->global->name_len
				: 64,
			class->global->name);
	if (!get_text(tasd_torch_arg(&pid->seq, 2), &ret->key, &ret->key_len) ||
		!get_text(tasd_torch_arg(&pid->seq, 3), &ret->location,
			&ret->location_len) ||
		!get_u64(tasd_torch_arg(&pid->seq, 4), &ret->numel) ||
		!get_part(tasd_torch_arg(&pid->seq, 5), ret) ||
		ret->key_len > KEY_LEN_MAX)
		return tasd_diag_set(diag, -EINVAL,
			"a storage whose key, location or size is not as it "
			"should be");
	item = tasd_dtype_info(ret->dtype)->bits;
	/* Quantised bytes of less than 8 bits count as whole ones. */
	item = item < 8 ? 1 : item / 8;
	if (!tasd_mul_u64(ret->numel, item, &ret->nbytes) ||
		ret->nbytes > INT64_MAX)
		return tasd_diag_set(diag, -EINVAL,
			"a storage of %llu elements",
			(unsigned long long)ret->numel);
	return 0;
}

/* Files of torch refer to a storage with one type and size, except for empty
 * ones; what else a made-up file says of one is judged by itself. */
static bool storage_eq(const void *value, const void *key)
{
	const struct tasd_torch_persid *a =
		&((const struct tasd_torch_storage *)value)->persid;
	const struct tasd_torch_persid *b = key;

	return a->dtype == b->dtype && a->untyped == b->untyped &&
	       a->numel == b->numel && a->key_len == b->key_len &&
	       a->is_view == b->is_view && a->view_offset == b->view_offset &&
	       a->view_numel == b->view_numel &&
	       (!a->key_len || memcmp(a->key, b->key, a->key_len) == 0);
}

/* Cut the place down to the part that is meant. */
static void cut_part(struct tasd_torch_storage *s)
{
	struct tasd_torch_persid *p = &s->persid;
	uint64_t item = p->numel ? p->nbytes / p->numel : 1;

	if (!tasd_range_fits(p->view_offset, p->view_numel, p->numel)) {
		s->error = "its part of a storage is not in it";
		return;
	}
	s->place.offset += p->view_offset * item;
	s->place.length = p->nbytes = p->view_numel * item;
	p->numel = p->view_numel;
}

static tasd_err find_place(
	struct tasd_torch_map *map, struct tasd_torch_storage *s)
{
	const struct tasd_torch *torch = map->torch;
	tasd_err err = torch->find(torch->ctx, &s->persid, &s->place);

	if (err)
		return err;
	s->error = s->place.error;
	if (!s->error && s->place.length != s->persid.nbytes) {
		map->text.len = 0;
		tasd_buf_printf(&map->text,
			"its storage has %llu bytes in the file, and %llu by "
			"the pickle",
			(unsigned long long)s->place.length,
			(unsigned long long)s->persid.nbytes);
		s->error = tasd_arena_copy(
			map->arena, map->text.bytes, map->text.len);
		if (!s->error)
			return -E2BIG;
	}
	if (!s->error && s->persid.is_view)
		cut_part(s);
	return 0;
}

/* The device's text, NULL for cpu. */
tasd_err tasd_torch_device(struct tasd_torch_map *map, const char *text,
	uint64_t len, const char **ret)
{
	char printed[64];

	*ret = NULL;
	if (len == 3 && memcmp(text, "cpu", 3) == 0)
		return 0;
	tasd_print_bytes(printed, sizeof(printed), text, (size_t)len);
	*ret = tasd_arena_copy(map->arena, printed, strlen(printed));
	return *ret ? 0 : -E2BIG;
}

static bool is_meta(const struct tasd_torch_persid *persid)
{
	return persid->location_len == 4 &&
	       memcmp(persid->location, "meta", 4) == 0;
}

tasd_err tasd_torch_storage_of(struct tasd_torch_map *map,
	const struct tasd_torch_persid *persid, struct tasd_torch_storage **ret)
{
	uint64_t hash = tasd_map_hash(
		&map->storages, persid->key, persid->key_len, persid->dtype);
	struct tasd_torch_storage *s =
		tasd_map_find(&map->storages, hash, storage_eq, persid);
	tasd_err err;

	*ret = s;
	if (s)
		return 0;
	*ret = s = tasd_arena_alloc(&map->scratch, sizeof(*s));
	if (!s)
		return -E2BIG;
	s->persid = *persid;
	s->id = ++map->nstorages;
	err = tasd_torch_device(
		map, persid->location, persid->location_len, &s->device);
	s->meta = is_meta(persid);
	if (!err && !s->meta)
		err = find_place(map, s);
	return err ? err : tasd_map_put(&map->storages, hash, s);
}

/* The storage that an argument is.  *ret is NULL when shape got an error. */
tasd_err tasd_torch_storage(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_storage **ret,
	struct tasd_torch_shape *shape)
{
	struct tasd_torch_persid persid;
	struct tasd_diag diag = {""};
	bool is = false;

	*ret = NULL;
	if (!value)
		return tasd_torch_broken(map, shape, "a tensor of no storage");
	if (value->type == TASD_PKL_OBJECT &&
		tasd_torch_tag(map, value->object->callable) ==
			TASD_TORCH_LOAD_BYTES)
		return tasd_torch_nested(map, value, ret, shape);
	if (value->type == TASD_PKL_PERSID &&
		tasd_torch_persid(value, &is, &persid, &diag))
		return tasd_torch_broken(map, shape, "%s", diag.text);
	if (!is)
		return tasd_torch_broken(map, shape,
			"its storage is %s, not a storage",
			tasd_pkl_type_name(value));
	return tasd_torch_storage_of(map, &persid, ret);
}

tasd_err tasd_torch_sizes(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const char *what, uint64_t **ret,
	uint32_t *ret_n, struct tasd_torch_shape *shape)
{
	const struct tasd_pkl_seq *seq = NULL;

	*ret_n = 0;
	*ret = NULL;
	if (value && value->type == TASD_PKL_OBJECT &&
		tasd_torch_tag(map, value->object->callable) == TASD_TORCH_SIZE)
		value = tasd_torch_arg(&value->object->args->seq, 0);
	if (value &&
		(value->type == TASD_PKL_TUPLE || value->type == TASD_PKL_LIST))
		seq = &value->seq;
	if (!seq)
		return tasd_torch_broken(
			map, shape, "its %s is no tuple", what);
	if (seq->n > NDIM_MAX)
		return tasd_torch_broken(map, shape,
			"%u dimensions, more than %u", (unsigned int)seq->n,
			NDIM_MAX);
	if (!seq->n)
		return 0;
	*ret = tasd_arena_alloc(map->arena, seq->n * sizeof(**ret));
	if (!*ret)
		return -E2BIG;
	for (uint32_t i = 0; i < seq->n; i++)
		if (!get_u64(seq->at[i], &(*ret)[i])) {
			*ret = NULL;
			return tasd_torch_broken(map, shape,
				"its %s has a number that is none or negative",
				what);
		}
	*ret_n = seq->n;
	return 0;
}

tasd_err tasd_torch_view_args(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_view *view,
	struct tasd_torch_shape *shape)
{
	uint32_t nstride = 0;
	tasd_err err = tasd_torch_sizes(map, tasd_torch_arg(args, 2), "size",
		&view->shape, &view->ndim, shape);

	if (!err && !shape->error)
		err = tasd_torch_sizes(map, tasd_torch_arg(args, 3), "stride",
			&view->stride, &nstride, shape);
	if (err || shape->error)
		return err;
	if (nstride != view->ndim)
		return tasd_torch_broken(map, shape, "%u sizes and %u strides",
			(unsigned int)view->ndim, (unsigned int)nstride);
	if (!get_u64(tasd_torch_arg(args, 1), &view->start))
		return tasd_torch_broken(
			map, shape, "its offset is no number, or negative");
	err = tasd_torch_storage(
		map, tasd_torch_arg(args, 0), &view->storage, shape);
	if (!err && view->storage)
		view->dtype = view->storage->persid.dtype;
	return err;
}
