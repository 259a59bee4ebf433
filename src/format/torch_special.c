/*
 * Tensors that are not a strided view: integer codes with their scales, and
 * those made of several tensors, which are directories of these.
 */
#include "torch_inner.h"
#include <string.h>

static tasd_err add_tensor_part(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const char *name, bool beside)
{
	struct tasd_torch_part part = {.value = value,
		.name = name,
		.is_attr = true,
		.beside = beside};

	return value ? tasd_torch_add_part(map, &part) : 0;
}

static tasd_err text_fact(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const char *name, const char *text)
{
	return tasd_torch_fact(map, shape, name, text, strlen(text));
}

/* A number as Python prints it; nothing for what is no number. */
static tasd_err number_fact(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const char *name,
	const struct tasd_pkl *value)
{
	tasd_err err = 0;

	map->text.len = 0;
	if (!value)
		return 0;
	if (value->type == TASD_PKL_FLOAT)
		tasd_pkl_float_text(&map->text, value->f);
	else if (value->type == TASD_PKL_INT)
		err = tasd_pkl_int_text(&map->text, value);
	else
		return 0;
	if (err || tasd_buf_err(&map->text))
		return err ? err : tasd_buf_err(&map->text);
	return tasd_torch_fact(
		map, shape, name, map->text.bytes, map->text.len);
}

/* [2, 3] */
static tasd_err size_fact(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const struct tasd_pkl *size)
{
	struct tasd_torch_shape ignored = {.form = TASD_FORM_VALUE};
	uint64_t *dims = NULL;
	uint32_t ndim = 0;
	tasd_err err =
		tasd_torch_sizes(map, size, "size", &dims, &ndim, &ignored);

	if (err || ignored.error)
		return err;
	map->text.len = 0;
	tasd_buf_char(&map->text, '[');
	for (uint32_t i = 0; i < ndim; i++) {
		if (i)
			tasd_buf_str(&map->text, ", ");
		tasd_buf_u64(&map->text, dims[i]);
	}
	tasd_buf_char(&map->text, ']');
	if (tasd_buf_err(&map->text))
		return tasd_buf_err(&map->text);
	return tasd_torch_fact(
		map, shape, "shape", map->text.bytes, map->text.len);
}

static tasd_err dtype_fact(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, enum tasd_dtype dtype)
{
	return dtype ? text_fact(map, shape, "dtype",
			       tasd_dtype_info(dtype)->name)
		     : 0;
}

static enum tasd_dtype named_dtype(const struct tasd_pkl *value)
{
	if (!value || value->type != TASD_PKL_GLOBAL)
		return TASD_DTYPE_NONE;
	return tasd_torch_dtype(value->global->name, value->global->name_len);
}

/* The dtype of a tensor that is a part, without making it. */
static enum tasd_dtype dtype_of(
	struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	struct tasd_torch_persid persid;
	const struct tasd_pkl_seq *args;
	bool is = false;

	if (!value || value->type != TASD_PKL_OBJECT)
		return TASD_DTYPE_NONE;
	args = &value->object->args->seq;
	switch ((int)tasd_torch_tag(map, value->object->callable)) {
	case TASD_TORCH_TENSOR_V3:
		return named_dtype(tasd_torch_arg(args, 6));
	case TASD_TORCH_TENSOR:
	case TASD_TORCH_TENSOR_V2:
		if (!args->n || args->at[0]->type != TASD_PKL_PERSID ||
			tasd_torch_persid(args->at[0], &is, &persid, NULL) ||
			!is)
			return TASD_DTYPE_NONE;
		return persid.dtype;
	default:
		return TASD_DTYPE_NONE;
	}
}

/* "torch.sparse_coo" -> "sparse_coo"; NULL when it is no layout. */
static const char *layout_name(
	struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	static const char *const names[] = {"strided", "sparse_coo",
		"sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc",
		"jagged"};
	const struct tasd_pkl *text = value;

	if (value && value->type == TASD_PKL_OBJECT &&
		tasd_torch_tag(map, value->object->callable) ==
			TASD_TORCH_LAYOUT)
		text = tasd_torch_arg(&value->object->args->seq, 0);
	if (!text || text->type != TASD_PKL_STR || text->text.len < 6)
		return NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == text->text.len - 6 &&
			memcmp(text->text.bytes + 6, names[i],
				text->text.len - 6) == 0)
			return names[i];
	return NULL;
}

static void be_directory(struct tasd_torch_shape *shape)
{
	shape->kind = TASD_KIND_TENSOR;
	shape->form = TASD_FORM_DIR;
}

/* A tensor that there is no telling of the parts of. */
static tasd_err be_broken(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const char *what)
{
	shape->kind = TASD_KIND_TENSOR;
	shape->form = TASD_FORM_VALUE;
	return tasd_torch_broken(
		map, shape, "%s whose parts are not as they should be", what);
}

static tasd_err sparse(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape)
{
	static const struct {
		const char *layout;
		const char *parts[4];
	} layouts[] = {
		{"sparse_coo", {"indices", "values"}},
		{"sparse_csr", {"crow_indices", "col_indices", "values"}},
		{"sparse_bsr", {"crow_indices", "col_indices", "values"}},
		{"sparse_csc", {"ccol_indices", "row_indices", "values"}},
		{"sparse_bsc", {"ccol_indices", "row_indices", "values"}},
	};
	const char *layout = layout_name(map, tasd_torch_arg(args, 0));
	const struct tasd_pkl *data = tasd_torch_arg(args, 1), *more;
	uint32_t n = 0, which = 0;
	tasd_err err = 0;

	while (which < 5 && (!layout || strcmp(layouts[which].layout, layout)))
		which++;
	while (which < 5 && layouts[which].parts[n])
		n++;
	if (which == 5 || !data || data->type != TASD_PKL_TUPLE ||
		data->seq.n < n + 1)
		return be_broken(map, shape, "a sparse tensor");
	be_directory(shape);
	for (uint32_t i = 0; i < n && !err; i++)
		err = add_tensor_part(
			map, data->seq.at[i], layouts[which].parts[i], false);
	if (!err)
		err = text_fact(map, shape, "layout", layout);
	if (!err)
		err = dtype_fact(
			map, shape, dtype_of(map, data->seq.at[n - 1]));
	if (!err)
		err = size_fact(map, shape, data->seq.at[n]);
	more = tasd_torch_arg(&data->seq, n + 1);
	if (!err && more && more->type != TASD_PKL_NONE)
		err = text_fact(map, shape, "coalesced",
			more->type == TASD_PKL_TRUE ? "true" : "false");
	return err;
}

static tasd_err nested(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape)
{
	static const char *const names[] = {
		"buffer", "sizes", "strides", "storage_offsets"};
	tasd_err err = 0;

	if (args->n < 4)
		return be_broken(map, shape, "a nested tensor");
	be_directory(shape);
	for (uint32_t i = 0; i < 4 && !err; i++)
		err = add_tensor_part(map, args->at[i], names[i], false);
	if (!err)
		err = text_fact(map, shape, "layout", "nested");
	return err ? err : dtype_fact(map, shape, dtype_of(map, args->at[0]));
}

/* Its parts are keyword arguments. */
static tasd_err jagged(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape)
{
	const struct tasd_pkl *kwargs = tasd_torch_arg(args, 0);
	tasd_err err;

	if (!kwargs || kwargs->type != TASD_PKL_DICT)
		return be_broken(map, shape, "a jagged tensor");
	be_directory(shape);
	err = tasd_torch_state(map, kwargs, false);
	if (!err)
		err = text_fact(map, shape, "layout", "jagged");
	if (err)
		return err;
	return dtype_fact(map, shape,
		dtype_of(map, tasd_pkl_get(&kwargs->map, "values")));
}

static tasd_err meta(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape)
{
	const struct tasd_pkl *grad = tasd_torch_arg(args, 3);
	struct tasd_torch_view view = {
		.dtype = (uint8_t)named_dtype(tasd_torch_arg(args, 0)),
		.requires_grad = grad && grad->type == TASD_PKL_TRUE,
	};
	uint32_t nstride = 0;
	tasd_err err = tasd_torch_sizes(map, tasd_torch_arg(args, 1), "size",
		&view.shape, &view.ndim, shape);

	if (!err && !shape->error)
		err = tasd_torch_sizes(map, tasd_torch_arg(args, 2), "stride",
			&view.stride, &nstride, shape);
	if (!err && !shape->error && nstride != view.ndim)
		err = tasd_torch_broken(map, shape, "%u sizes and %u strides",
			(unsigned int)view.ndim, (unsigned int)nstride);
	return err ? err : tasd_torch_view_tensor(map, &view, shape);
}

/* class, dtype, size, stride, offset, layout, device, requires_grad: the parts
 * are in the state that comes with it. */
static tasd_err wrapper(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape)
{
	const struct tasd_pkl *device = tasd_torch_arg(args, 6);
	const struct tasd_pkl *grad = tasd_torch_arg(args, 7);
	const char *layout = layout_name(map, tasd_torch_arg(args, 5));
	tasd_err err = 0;

	be_directory(shape);
	if (args->n)
		shape->class = tasd_torch_class(map, args->at[0]);
	err = dtype_fact(map, shape, named_dtype(tasd_torch_arg(args, 1)));
	if (!err)
		err = size_fact(map, shape, tasd_torch_arg(args, 2));
	if (!err)
		err = text_fact(
			map, shape, "layout", layout ? layout : "wrapper");
	if (!err && device && device->type == TASD_PKL_STR)
		err = tasd_torch_fact(map, shape, "device", device->text.bytes,
			(size_t)device->text.len);
	shape->requires_grad = grad && grad->type == TASD_PKL_TRUE;
	return err;
}

static const char *scheme_name(const struct tasd_pkl *value)
{
	static const char *const names[] = {"per_tensor_affine",
		"per_channel_affine", "per_channel_affine_float_qparams"};

	for (size_t i = 0; value && i < sizeof(names) / sizeof(*names); i++)
		if (tasd_pkl_is_global(value, "torch", names[i]))
			return names[i];
	return NULL;
}

/* (scheme, scale, zero point), or (scheme, scales, zero points, axis). */
static tasd_err quantizer(struct tasd_torch_map *map,
	const struct tasd_pkl *params, const struct tasd_torch_view *view,
	struct tasd_torch_shape *shape)
{
	const struct tasd_pkl_seq *seq = &params->seq;
	const char *name = params->type == TASD_PKL_TUPLE
				   ? scheme_name(tasd_torch_arg(seq, 0))
				   : NULL;
	const struct tasd_pkl *axis;
	tasd_err err;

	if (!name || seq->n < 3)
		return shape->error ? 0
				    : tasd_torch_broken(map, shape,
					      "its quantiser is not known");
	err = text_fact(map, shape, "qscheme", name);
	if (!err && strcmp(name, "per_tensor_affine") == 0) {
		err = number_fact(map, shape, "scale", seq->at[1]);
		return err ? err
			   : number_fact(map, shape, "zero_point", seq->at[2]);
	}
	axis = tasd_torch_arg(seq, 3);
	if (!axis || axis->type != TASD_PKL_INT || axis->i < 0 ||
		axis->i >= view->ndim)
		return shape->error ? 0
				    : tasd_torch_broken(map, shape,
					      "the axis of its quantiser is "
					      "none of it");
	if (!err)
		err = number_fact(map, shape, "axis", axis);
	if (!err)
		err = add_tensor_part(map, seq->at[1], "scales", true);
	return err ? err
		   : add_tensor_part(map, seq->at[2], "zero_points", true);
}

static tasd_err quantised(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape)
{
	static const struct tasd_pkl nothing;
	const struct tasd_pkl *params = tasd_torch_arg(args, 4);
	const struct tasd_pkl *grad = tasd_torch_arg(args, 5);
	struct tasd_torch_view view = {.storage = NULL};
	tasd_err err = tasd_torch_view_args(map, args, &view, shape);

	if (!err)
		err = quantizer(map, params ? params : &nothing, &view, shape);
	if (err)
		return err;
	view.requires_grad = grad && grad->type == TASD_PKL_TRUE;
	return tasd_torch_view_tensor(map, &view, shape);
}

tasd_err tasd_torch_special(struct tasd_torch_map *map, enum tasd_torch_tag tag,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape)
{
	switch ((int)tag) {
	case TASD_TORCH_QTENSOR:
		return quantised(map, args, shape);
	case TASD_TORCH_SPARSE:
		return sparse(map, args, shape);
	case TASD_TORCH_NESTED:
		return nested(map, args, shape);
	case TASD_TORCH_JAGGED:
		return jagged(map, args, shape);
	case TASD_TORCH_META:
		return meta(map, args, shape);
	default:
		return wrapper(map, args, shape);
	}
}
