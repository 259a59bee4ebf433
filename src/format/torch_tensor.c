/*
 * Tensors: from the arguments of a rebuild function to an element type, a shape
 * and a place in a storage, with every check that torch makes when it builds
 * the same view.  A tensor that torch would not build is there, and broken.
 *
 * Parameters, subclasses and tensors of other devices are a tensor within
 * calls: those are taken off one by one, and what they say is kept.
 */
#include "torch_inner.h"
#include <base/checked.h>
#include <string.h>
#include <tensor/gather.h>

/* Calls around a tensor. */
#define WRAPS_MAX 8

/* What the calls around a tensor have said. */
struct wrapped {
	const struct tasd_pkl *value; /* the call; NULL: of another's words */
	const struct tasd_pkl_seq *args;
	enum tasd_torch_tag tag;
	const char *class;
	int requires_grad;             /* -1: not said */
	const struct tasd_pkl *device; /* NULL: not said */
	const struct tasd_pkl *dtype;
	const struct tasd_pkl *data; /* of a Variable, when it is no argument */
};

static tasd_err new_tensor(
	struct tasd_torch_map *map, struct tasd_torch_shape *shape)
{
	shape->kind = TASD_KIND_TENSOR;
	shape->form = TASD_FORM_TENSOR;
	shape->tensor = tasd_arena_alloc(map->arena, sizeof(*shape->tensor));
	if (!shape->tensor)
		return -E2BIG;
	shape->tensor->data = TASD_DATA_BROKEN;
	return 0;
}

static tasd_err extra_of(struct tasd_torch_map *map, struct tasd_tensor *tensor,
	struct tasd_tensor_extra **ret)
{
	if (!tensor->extra)
		tensor->extra =
			tasd_arena_alloc(map->arena, sizeof(*tensor->extra));
	*ret = (struct tasd_tensor_extra *)tensor->extra;
	return *ret ? 0 : -E2BIG;
}

/* Row-major, whatever the strides of dimensions with one index are. */
static bool is_contiguous(const struct tasd_torch_view *view)
{
	uint64_t want = 1;

	for (uint32_t i = 0; i < view->ndim; i++)
		if (view->shape[i] == 0)
			return true;
	for (uint32_t i = view->ndim; i > 0; i--) {
		if (view->shape[i - 1] == 1)
			continue;
		if (view->stride[i - 1] != want)
			return false;
		/* The whole was found to fit. */
		want *= view->shape[i - 1];
	}
	return true;
}

/* As torch would have made them itself. */
static bool is_canonical(const struct tasd_torch_view *view)
{
	uint64_t want = 1;

	for (uint32_t i = view->ndim; i > 0; i--) {
		if (view->stride[i - 1] != want ||
			!tasd_mul_u64(want,
				view->shape[i - 1] ? view->shape[i - 1] : 1,
				&want))
			return false;
	}
	return true;
}

/* Some 4-bit and 2-bit types begin every row on a byte. */
static bool packed_nbytes(
	const struct tasd_torch_view *view, unsigned int bits, uint64_t *ret)
{
	uint64_t rows = 1, cols = 1;

	for (uint32_t i = 0; i + 1 < view->ndim; i++)
		if (!tasd_mul_u64(rows, view->shape[i], &rows))
			return false;
	if (view->ndim)
		cols = view->shape[view->ndim - 1];
	return tasd_mul_u64(
		rows, cols / (8 / bits) + (cols % (8 / bits) != 0), ret);
}

static bool view_nbytes(const struct tasd_torch_view *view, uint64_t *ret)
{
	unsigned int bits = tasd_dtype_info(view->dtype)->bits;

	if (bits < 8)
		return packed_nbytes(view, bits, ret) && *ret <= INT64_MAX;
	return tasd_dtype_nbytes(view->dtype, view->shape, view->ndim, ret) ==
		       0 &&
	       *ret <= INT64_MAX;
}

/* How a big-endian element is turned round: complex ones have two halves. */
static tasd_err set_swaps(struct tasd_torch_map *map,
	struct tasd_tensor_extra *extra, enum tasd_dtype dtype)
{
	uint32_t item = tasd_dtype_info(dtype)->bits / 8;
	bool is_complex = dtype == TASD_DTYPE_C32 || dtype == TASD_DTYPE_C64 ||
			  dtype == TASD_DTYPE_C128 || dtype == TASD_DTYPE_BC32;
	struct tasd_swap *swap = tasd_arena_alloc(map->arena, sizeof(*swap));

	if (!swap)
		return -E2BIG;
	swap->count = is_complex ? 2 : 1;
	swap->unit = item / (uint32_t)swap->count;
	extra->swaps = swap;
	extra->nswaps = 1;
	return 0;
}

/* Tensors that look at one storage have its number. */
static tasd_err number_storage(struct tasd_torch_map *map,
	struct tasd_torch_storage *s, struct tasd_tensor *tensor)
{
	struct tasd_tensor_extra *extra = NULL;
	tasd_err err = 0;

	s->uses++;
	if (s->uses == 1) {
		s->first = tensor;
		return 0;
	}
	if (s->uses == 2) {
		err = extra_of(map, s->first, &extra);
		if (!err)
			extra->storage = s->id;
	}
	if (!err)
		err = extra_of(map, tensor, &extra);
	if (!err)
		extra->storage = s->id;
	return err;
}

/* A view whose elements are not one run of bytes as users see them. */
static tasd_err set_strided(struct tasd_torch_map *map,
	const struct tasd_torch_view *view, struct tasd_torch_shape *shape,
	bool swapped)
{
	const struct tasd_torch_storage *s = view->storage;
	struct tasd_tensor *tensor = shape->tensor;
	struct tasd_tensor_extra *extra = NULL;
	struct tasd_gather gather;
	uint64_t need = 0;
	tasd_err err = extra_of(map, tensor, &extra);

	if (err)
		return err;
	extra->stride = view->stride;
	extra->start = view->start;
	err = swapped ? set_swaps(map, extra, view->dtype) : 0;
	if (err)
		return err;
	gather = tasd_gather_of(tensor);
	if (tasd_gather_need(&gather, &need) || need > s->place.length)
		return tasd_torch_broken(map, shape,
			"it goes past the end of its storage of %llu bytes",
			(unsigned long long)s->place.length);
	tensor->data = TASD_DATA_STRIDED;
	tensor->nextents = 1;
	tensor->extent = (struct tasd_extent){.offset = s->place.offset,
		.length = s->place.length,
		.source = s->place.source};
	return s->in_blob ? tasd_torch_fix(map, tensor) : 0;
}

static tasd_err set_plain(struct tasd_torch_map *map,
	const struct tasd_torch_view *view, struct tasd_torch_shape *shape)
{
	const struct tasd_torch_storage *s = view->storage;
	struct tasd_tensor *tensor = shape->tensor;
	uint64_t bits = tasd_dtype_info(view->dtype)->bits, at = 0;

	/* A view of nothing may begin anywhere. */
	if (tensor->nbytes &&
		(!tasd_mul_u64(view->start, bits, &at) || at % 8 ||
			!tasd_range_fits(
				at / 8, tensor->nbytes, s->place.length)))
		return tasd_torch_broken(map, shape,
			"it goes past the end of its storage of %llu bytes",
			(unsigned long long)s->place.length);
	tensor->data = TASD_DATA_PLAIN;
	tensor->nextents = 1;
	tensor->extent =
		(struct tasd_extent){.offset = s->place.offset + at / 8,
			.length = tensor->nbytes,
			.source = s->place.source};
	return s->in_blob ? tasd_torch_fix(map, tensor) : 0;
}

static tasd_err set_data(struct tasd_torch_map *map,
	const struct tasd_torch_view *view, struct tasd_torch_shape *shape)
{
	struct tasd_torch_storage *s = view->storage;
	unsigned int bits = tasd_dtype_info(view->dtype)->bits;
	bool contiguous = is_contiguous(view), swapped;
	tasd_err err;

	if (!s || s->meta) {
		shape->tensor->data = TASD_DATA_PLACEHOLDER;
		return 0;
	}
	if (s->error)
		return tasd_torch_broken(map, shape, "%s", s->error);
	swapped = s->place.big_endian && bits > 8 && shape->tensor->nbytes;
	/* torch turns round the elements of the storage's own type, so the
	 * bytes of an untyped one stay as they are and come out wrong. */
	if (swapped && (s->persid.untyped || s->persid.dtype != view->dtype))
		return tasd_torch_broken(map, shape,
			"big-endian numbers in a storage of another type, "
			"which torch does not read right");
	if (!contiguous && bits < 8)
		return tasd_torch_broken(map, shape,
			"elements of %u bits that are not in a row", bits);
	err = contiguous && !swapped ? set_plain(map, view, shape)
				     : set_strided(map, view, shape, swapped);
	if (err || shape->error)
		return err;
	shape->storage = s;
	return number_storage(map, s, shape->tensor);
}

tasd_err tasd_torch_view_tensor(struct tasd_torch_map *map,
	const struct tasd_torch_view *view, struct tasd_torch_shape *shape)
{
	struct tasd_tensor_extra *extra = NULL;
	struct tasd_tensor *tensor;
	uint64_t nbytes = 0;
	tasd_err err = new_tensor(map, shape);

	if (err || shape->error)
		return err;
	tensor = shape->tensor;
	if (!view->dtype)
		return tasd_torch_broken(
			map, shape, "its element type is not known");
	if (!view_nbytes(view, &nbytes))
		return tasd_torch_broken(
			map, shape, "its size does not fit 63 bits");
	tensor->dtype = view->dtype;
	tensor->shape = view->shape;
	tensor->ndim = view->ndim;
	tensor->nbytes = nbytes;
	shape->requires_grad = view->requires_grad;
	if (!is_canonical(view)) {
		err = extra_of(map, tensor, &extra);
		if (err)
			return err;
		extra->stride = view->stride;
	}
	if (!err && (!view->storage || view->storage->device)) {
		err = extra_of(map, tensor, &extra);
		if (err)
			return err;
		extra->device = view->storage ? view->storage->device : "meta";
	}
	err = set_data(map, view, shape);
	if (!err && shape->error)
		tensor->data = TASD_DATA_BROKEN;
	return err;
}

/* A storage that is a value of its own. */
static tasd_err bare_storage(struct tasd_torch_map *map,
	struct tasd_torch_storage *storage, struct tasd_torch_shape *shape)
{
	struct tasd_torch_view view = {.storage = storage, .ndim = 1};
	uint64_t one = 1;
	tasd_err err;

	view.stride = &one;
	view.shape = tasd_arena_alloc(map->arena, sizeof(*view.shape));
	if (!view.shape)
		return -E2BIG;
	if (storage) {
		view.shape[0] = storage->persid.numel;
		view.dtype = storage->persid.dtype;
	}
	err = tasd_torch_view_tensor(map, &view, shape);
	if (shape->tensor && shape->tensor->extra) {
		struct tasd_tensor_extra *extra =
			(struct tasd_tensor_extra *)shape->tensor->extra;

		extra->stride = NULL;
	}
	shape->kind = TASD_KIND_STORAGE;
	shape->storage = NULL;
	return err;
}

static tasd_err saved_storage(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	struct tasd_torch_storage *storage = NULL;
	tasd_err err = tasd_torch_storage(map, value, &storage, shape);

	return err ? err : bare_storage(map, storage, shape);
}

/* What the reader has from elsewhere. */
static tasd_err listed(struct tasd_torch_map *map,
	const struct tasd_torch_listed *l, struct tasd_torch_shape *shape)
{
	struct tasd_torch_view view = {.start = l->start,
		.ndim = l->ndim,
		.shape = (uint64_t *)l->shape,
		.stride = (uint64_t *)l->stride};
	tasd_err err = tasd_torch_storage_of(map, &l->storage, &view.storage);

	if (err)
		return err;
	if (l->whole)
		return bare_storage(map, view.storage, shape);
	view.dtype = l->storage.dtype;
	return tasd_torch_view_tensor(map, &view, shape);
}

static tasd_err persistent(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	const struct tasd_torch *torch = map->torch;
	struct tasd_torch_persid persid;
	struct tasd_torch_listed l;
	tasd_err err = 0;

	if (torch->list)
		err = torch->list(torch->ctx, value->pid, ret_is, &l);
	if (err || *ret_is)
		return err ? err : listed(map, &l, shape);
	(void)tasd_torch_persid(value, ret_is, &persid, NULL);
	return *ret_is ? saved_storage(map, value, shape) : 0;
}

/* {"conj": True}: the bytes mean their opposite. */
static bool has_mark(const struct tasd_pkl *metadata)
{
	if (!metadata || metadata->type != TASD_PKL_DICT)
		return false;
	for (uint32_t i = 0; i < metadata->map.n; i++)
		if (metadata->map.at[i].value->type == TASD_PKL_TRUE)
			return true;
	return false;
}

static tasd_err strided(struct tasd_torch_map *map, const struct wrapped *w,
	struct tasd_torch_shape *shape)
{
	bool v3 = w->tag == TASD_TORCH_TENSOR_V3;
	const struct tasd_pkl *flag = tasd_torch_arg(w->args, 4);
	const struct tasd_pkl *dtype = tasd_torch_arg(w->args, 6);
	const struct tasd_pkl *marks = tasd_torch_arg(w->args, v3 ? 7 : 6);
	struct tasd_torch_view view = {.storage = NULL};
	tasd_err err = tasd_torch_view_args(map, w->args, &view, shape);

	if (err)
		return err;
	if (w->tag != TASD_TORCH_TENSOR)
		view.requires_grad = flag && flag->type == TASD_PKL_TRUE;
	if (v3)
		view.dtype = dtype && dtype->type == TASD_PKL_GLOBAL
				     ? tasd_torch_dtype(dtype->global->name,
					       dtype->global->name_len)
				     : TASD_DTYPE_NONE;
	err = tasd_torch_view_tensor(map, &view, shape);
	if (err || shape->error || w->tag == TASD_TORCH_TENSOR ||
		!has_mark(marks))
		return err;
	shape->tensor->data = TASD_DATA_BROKEN;
	shape->storage = NULL;
	return tasd_torch_broken(
		map, shape, "a view that is conjugated or negated");
}

/* One call around a tensor.  *ret_more: w is now about what is within. */
static tasd_err unwrap(
	struct tasd_torch_map *map, struct wrapped *w, bool *ret_more)
{
	const struct tasd_pkl *first = tasd_torch_arg(w->args, 0),
			      *state = NULL;
	const struct tasd_pkl *grad = tasd_torch_arg(w->args, 1), *type;
	tasd_err err = 0;

	*ret_more = false;
	switch ((int)w->tag) {
	case TASD_TORCH_FROM_TYPE:
		type = tasd_torch_arg(w->args, 1);
		state = tasd_torch_arg(w->args, 3);
		if (w->args->n != 4 || w->args->at[2]->type != TASD_PKL_TUPLE)
			return 0;
		if (!w->class && !tasd_pkl_is_global(type, "torch", "Tensor"))
			w->class = tasd_torch_class(map, type);
		w->tag = tasd_torch_tag(map, first);
		w->args = &w->args->at[2]->seq;
		*ret_more = true;
		return tasd_torch_state(
			map, state, w->tag != TASD_TORCH_WRAPPER);
	case TASD_TORCH_PARAMETER_STATE:
		state = tasd_torch_arg(w->args, 3);
		break;
	case TASD_TORCH_PARAMETER:
	case TASD_TORCH_VARIABLE:
		break;
	case TASD_TORCH_COPIED:
		grad = tasd_torch_arg(w->args, 3);
		w->dtype = tasd_torch_arg(w->args, 1);
		w->device = tasd_torch_arg(w->args, 2);
		break;
	default:
		return 0;
	}
	first = w->data ? w->data : first;
	w->data = NULL;
	if (!first || (first->type != TASD_PKL_OBJECT &&
			      first->type != TASD_PKL_PERSID))
		return 0;
	if (w->tag != TASD_TORCH_COPIED && w->tag != TASD_TORCH_VARIABLE &&
		!w->class)
		w->class = "torch.nn.parameter.Parameter";
	if (w->requires_grad < 0 && grad)
		w->requires_grad = grad->type == TASD_PKL_TRUE;
	if (state)
		err = tasd_torch_state(map, state, true);
	w->value = first;
	if (first->type == TASD_PKL_PERSID) {
		w->tag = TASD_TORCH_UNKNOWN;
		return err;
	}
	w->tag = tasd_torch_tag(map, first->object->callable);
	w->args = &first->object->args->seq;
	*ret_more = true;
	return err ? err : tasd_torch_states(map, first, true);
}

/* The last state of an object, when it is a tuple of n. */
static const struct tasd_pkl_seq *state_tuple(
	const struct tasd_pkl *value, uint32_t n)
{
	const struct tasd_pkl_more *more = value->object->more;
	const struct tasd_pkl *state =
		more && more->states.n ? more->states.at[more->states.n - 1]
				       : NULL;

	return state && state->type == TASD_PKL_TUPLE && state->seq.n == n
		       ? &state->seq
		       : NULL;
}

/* torch.FloatTensor() with a state: how torch 0.1 pickled. */
static bool old_state(struct wrapped *w)
{
	const struct tasd_pkl_seq *state =
		w->value ? state_tuple(w->value, 4) : NULL;

	if (!state || w->args->n)
		return false;
	w->args = state;
	w->tag = TASD_TORCH_TENSOR;
	return true;
}

/*
 * The state of a Variable or a Parameter up to 0.3: (requires_grad, volatile,
 * hooks), or in the first files (data, gradient, hooks, requires_grad,
 * volatile).
 */
static bool old_flags(struct wrapped *w)
{
	const struct tasd_pkl_seq *flags = state_tuple(w->value, 3);
	const struct tasd_pkl *grad = flags ? flags->at[0] : NULL;

	if (w->tag != TASD_TORCH_PARAMETER && w->tag != TASD_TORCH_VARIABLE)
		return false;
	if (!flags) {
		flags = state_tuple(w->value, 5);
		if (!flags)
			return false;
		w->data = flags->at[0];
		grad = flags->at[3];
	}
	w->requires_grad = grad->type == TASD_PKL_TRUE;
	return true;
}

/* Which device a copy was on; and the copy must be of the same type, since
 * nothing is converted here. */
static tasd_err say_copied(struct tasd_torch_map *map, const struct wrapped *w,
	struct tasd_torch_shape *shape)
{
	struct tasd_tensor_extra *extra = NULL;
	enum tasd_dtype dtype = TASD_DTYPE_NONE;
	tasd_err err = 0;

	if (!w->device || !shape->tensor)
		return 0;
	if (w->dtype && w->dtype->type == TASD_PKL_GLOBAL)
		dtype = tasd_torch_dtype(
			w->dtype->global->name, w->dtype->global->name_len);
	if (!shape->error && dtype != shape->tensor->dtype) {
		shape->tensor->data = TASD_DATA_BROKEN;
		shape->storage = NULL;
		return tasd_torch_broken(map, shape,
			"saved as another type than it has when loaded");
	}
	if (w->device->type != TASD_PKL_STR)
		return 0;
	err = extra_of(map, shape->tensor, &extra);
	if (err)
		return err;
	return tasd_torch_device(map, w->device->text.bytes,
		w->device->text.len, &extra->device);
}

static tasd_err make(struct tasd_torch_map *map, struct wrapped *w,
	struct tasd_torch_shape *shape, bool *ret_is)
{
	tasd_err err;

	*ret_is = true;
	if (w->value && w->value->type == TASD_PKL_PERSID) {
		*ret_is = false;
		err = persistent(map, w->value, shape, ret_is);
		*ret_is = *ret_is && shape->kind == TASD_KIND_TENSOR;
		return err;
	}
	switch ((int)w->tag) {
	case TASD_TORCH_TENSOR:
	case TASD_TORCH_TENSOR_V2:
	case TASD_TORCH_TENSOR_V3:
		err = strided(map, w, shape);
		break;
	case TASD_TORCH_ND_RECONSTRUCT:
	case TASD_TORCH_ND_FROMBUFFER:
		*ret_is = false;
		if (!w->value || !w->device)
			return 0;
		err = tasd_torch_numpy(map, w->tag, w->value, shape, ret_is);
		shape->kind = TASD_KIND_TENSOR;
		break;
	case TASD_TORCH_QTENSOR:
	case TASD_TORCH_SPARSE:
	case TASD_TORCH_NESTED:
	case TASD_TORCH_JAGGED:
	case TASD_TORCH_META:
	case TASD_TORCH_WRAPPER:
		err = tasd_torch_special(map, w->tag, w->args, shape);
		break;
	default:
		*ret_is = false;
		return 0;
	}
	return err;
}

/* w is about value, or what value is a call around. */
static tasd_err look_into(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct wrapped *w)
{
	bool more = true;
	tasd_err err = 0;

	*w = (struct wrapped){.value = value,
		.args = &value->object->args->seq,
		.tag = tasd_torch_tag(map, value->object->callable),
		.requires_grad = -1};
	if (w->tag == TASD_TORCH_TENSOR_CLASS) {
		(void)old_state(w);
		return 0;
	}
	if (!old_flags(w) && w->tag >= TASD_TORCH_TENSOR &&
		w->tag <= TASD_TORCH_WRAPPER)
		err = tasd_torch_states(map, value, true);
	for (int i = 0; i < WRAPS_MAX && more && !err; i++)
		err = unwrap(map, w, &more);
	if (!err && w->tag == TASD_TORCH_TENSOR_CLASS)
		(void)old_state(w);
	return err;
}

tasd_err tasd_torch_tensor(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	struct wrapped w;
	tasd_err err;

	*ret_is = false;
	if (value->type == TASD_PKL_PERSID)
		return persistent(map, value, shape, ret_is);
	if (value->type != TASD_PKL_OBJECT)
		return 0;
	if (tasd_torch_tag(map, value->object->callable) ==
		TASD_TORCH_LOAD_BYTES) {
		*ret_is = true;
		return saved_storage(map, value, shape);
	}
	err = look_into(map, value, &w);
	if (!err)
		err = make(map, &w, shape, ret_is);
	if (err || !*ret_is)
		return err;
	if (w.class)
		shape->class = w.class;
	if (w.requires_grad >= 0)
		shape->requires_grad = w.requires_grad;
	return say_copied(map, &w, shape);
}
