/*
 * numpy's arrays, scalars and dtypes.
 *
 * A pickled dtype is a short name and a state.  From these the text is made
 * that a .npy header has for the same dtype, and its parser says what it means,
 * so that one place knows numpy's types.  The bytes of an array are used where
 * they stand in the file when they stand there as they are; protocol 2 wrote
 * them as text, and they must be decoded.
 */
#include "latin1.h"
#include "npy_header.h"
#include "npy_literal.h"
#include "torch_inner.h"
#include <stdlib.h>
#include <string.h>

/* Structured types within structured types, and fields of one. */
#define DEPTH_MAX  8u
#define FIELDS_MAX 4096u
/* So many may stand in another order than their names. */
#define SHUFFLED_MAX 128u
/* Bytes written as text: more are decoded where they stand, when read. */
#define DECODE_MAX ((uint64_t)64 << 10)

/* The state of a dtype: (version, order, subarray, names, fields, itemsize,
 * alignment, ..., metadata); the first version had no version. */
struct state {
	const struct tasd_pkl *order, *subarray, *names, *fields, *itemsize;
	const struct tasd_pkl *metadata;
};

static bool text_of(
	const struct tasd_pkl *value, const char **ret, size_t *ret_len)
{
	if (!value ||
		(value->type != TASD_PKL_STR && value->type != TASD_PKL_BYTES))
		return false;
	*ret = value->text.bytes;
	*ret_len = (size_t)value->text.len;
	return true;
}

static bool is_dtype(struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	return value && value->type == TASD_PKL_OBJECT &&
	       tasd_torch_tag(map, value->object->callable) ==
		       TASD_TORCH_ND_DTYPE;
}

static void get_state(const struct tasd_pkl *dtype, struct state *ret)
{
	const struct tasd_pkl_more *more = dtype->object->more;
	const struct tasd_pkl *state =
		more && more->states.n ? more->states.at[more->states.n - 1]
				       : NULL;
	uint32_t at;

	*ret = (struct state){.order = NULL};
	if (!state || state->type != TASD_PKL_TUPLE || state->seq.n < 6)
		return;
	at = state->seq.at[0]->type == TASD_PKL_INT;
	ret->order = state->seq.at[at];
	ret->subarray = state->seq.at[at + 1];
	ret->names = state->seq.at[at + 2];
	ret->fields = state->seq.at[at + 3];
	ret->itemsize = state->seq.at[at + 4];
	ret->metadata = tasd_torch_arg(&state->seq, 8);
}

static char order_of(const struct state *state)
{
	const char *text = NULL;
	size_t len = 0;

	if (!text_of(state->order, &text, &len) || len != 1 ||
		!strchr("<>|=", *text))
		return '|';
	return *text == '=' ? '<' : *text;
}

/* "[25s]" of a time: ({}, (b"s", 25, 1[, 1])); nothing when it has no unit. */
static bool add_unit(struct tasd_torch_map *map, struct tasd_buf *out,
	const struct tasd_pkl *metadata)
{
	const struct tasd_pkl *unit, *count;
	const char *text = NULL;
	uint64_t len = 0;

	if (!metadata || metadata->type != TASD_PKL_TUPLE ||
		metadata->seq.n != 2)
		return true;
	unit = metadata->seq.at[1];
	if (unit->type != TASD_PKL_TUPLE || unit->seq.n < 3 ||
		!tasd_torch_bytes(
			map, unit->seq.at[0], &map->text, &text, &len) ||
		len > 8)
		return false;
	if (len == 7 && memcmp(text, "generic", 7) == 0)
		return true;
	count = unit->seq.at[1];
	if (count->type != TASD_PKL_INT || count->i < 1)
		return false;
	tasd_buf_char(out, '[');
	if (count->i != 1)
		tasd_buf_u64(out, (uint64_t)count->i);
	tasd_buf_add(out, text, len);
	tasd_buf_char(out, ']');
	return true;
}

/* '<f4', '|S5', '<M8[D]': the name with its byte order. */
static bool add_simple(struct tasd_torch_map *map, struct tasd_buf *out,
	const struct tasd_pkl *dtype, const struct state *state)
{
	const char *name = NULL;
	size_t len = 0;

	if (!text_of(tasd_torch_arg(&dtype->object->args->seq, 0), &name,
		    &len) ||
		!len || len > 24)
		return false;
	if (strchr("<>|=", *name)) {
		name++;
		len--;
	}
	for (size_t i = 0; i < len; i++)
		if (name[i] < '0' || name[i] > 'z' || name[i] == '\\')
			return false;
	tasd_buf_char(out, '\'');
	tasd_buf_char(out, order_of(state));
	tasd_buf_add(out, name, len);
	if (len && (*name == 'M' || *name == 'm') &&
		!add_unit(map, out, state->metadata))
		return false;
	tasd_buf_char(out, '\'');
	return true;
}

static bool add_shape(struct tasd_buf *out, const struct tasd_pkl *shape)
{
	if (!shape ||
		(shape->type != TASD_PKL_TUPLE && shape->type != TASD_PKL_LIST))
		return false;
	tasd_buf_char(out, '(');
	for (uint32_t i = 0; i < shape->seq.n; i++) {
		const struct tasd_pkl *dim = shape->seq.at[i];

		if (dim->type != TASD_PKL_INT || dim->i < 0 || i > 64)
			return false;
		tasd_buf_u64(out, (uint64_t)dim->i);
		tasd_buf_str(out, ", ");
	}
	tasd_buf_char(out, ')');
	return true;
}

static bool add_descr(struct tasd_torch_map *map, struct tasd_buf *out,
	const struct tasd_pkl *dtype, unsigned int depth, uint64_t *ret_item);

/* ('a', '<i4'), ('b', '<f8', (3,)), with ('', '|V4') for what lies between. */
static bool add_field(struct tasd_torch_map *map, struct tasd_buf *out,
	const struct tasd_pkl *name, const struct tasd_pkl *field,
	unsigned int depth, uint64_t *at)
{
	const struct tasd_pkl *dtype, *offset, *base;
	struct state state;
	uint64_t item = 0;

	/* A field costs about as much as decoding so many bytes. */
	if (!tasd_torch_work(map, 256) || !field ||
		field->type != TASD_PKL_TUPLE || field->seq.n < 2 ||
		!is_dtype(map, field->seq.at[0]) || name->type != TASD_PKL_STR)
		return false;
	dtype = field->seq.at[0];
	offset = field->seq.at[1];
	if (offset->type != TASD_PKL_INT || offset->i < 0 ||
		(uint64_t)offset->i < *at)
		return false;
	if ((uint64_t)offset->i > *at)
		tasd_buf_printf(out, "('', '|V%llu'), ",
			(unsigned long long)offset->i - *at);
	tasd_buf_char(out, '(');
	tasd_literal_print(out, name->text.bytes, (size_t)name->text.len);
	tasd_buf_str(out, ", ");
	get_state(dtype, &state);
	base = state.subarray;
	if (base && base->type == TASD_PKL_TUPLE) {
		if (base->seq.n != 2 || !is_dtype(map, base->seq.at[0]) ||
			!state.itemsize ||
			state.itemsize->type != TASD_PKL_INT ||
			state.itemsize->i < 0 ||
			!add_descr(map, out, base->seq.at[0], depth, &item))
			return false;
		item = (uint64_t)state.itemsize->i;
		tasd_buf_str(out, ", ");
		if (!add_shape(out, base->seq.at[1]))
			return false;
	} else if (!add_descr(map, out, dtype, depth, &item)) {
		return false;
	}
	tasd_buf_str(out, "), ");
	*at = (uint64_t)offset->i + item;
	return true;
}

static bool add_fields(struct tasd_torch_map *map, struct tasd_buf *out,
	const struct state *state, unsigned int depth, uint64_t *ret_item)
{
	const struct tasd_pkl_seq *names = &state->names->seq;
	uint64_t at = 0;

	if (!state->fields || state->fields->type != TASD_PKL_DICT ||
		names->n > FIELDS_MAX || !state->itemsize ||
		state->itemsize->type != TASD_PKL_INT || state->itemsize->i < 0)
		return false;
	tasd_buf_char(out, '[');
	for (uint32_t i = 0; i < names->n; i++) {
		const struct tasd_pkl *name = names->at[i], *field = NULL;
		const struct tasd_pkl_map *fields = &state->fields->map;

		/* As many, and mostly in the same order. */
		if (i < fields->n && fields->at[i].key == name)
			field = fields->at[i].value;
		for (uint32_t j = 0;
			!field && j < fields->n && j < SHUFFLED_MAX; j++)
			if (fields->at[j].key == name ||
				(name->type == TASD_PKL_STR &&
					fields->at[j].key->type ==
						TASD_PKL_STR &&
					fields->at[j].key->text.len ==
						name->text.len &&
					memcmp(fields->at[j].key->text.bytes,
						name->text.bytes,
						name->text.len) == 0))
				field = fields->at[j].value;
		if (!add_field(map, out, name, field, depth + 1, &at))
			return false;
	}
	*ret_item = (uint64_t)state->itemsize->i;
	if (*ret_item < at)
		return false;
	if (*ret_item > at)
		tasd_buf_printf(out, "('', '|V%llu'), ",
			(unsigned long long)(*ret_item - at));
	tasd_buf_char(out, ']');
	return true;
}

/* Bytes of a simple type, by its name: enough to know where a field ends. */
static bool simple_item(
	const struct tasd_pkl *dtype, const struct state *state, uint64_t *ret)
{
	const char *name = NULL;
	size_t len = 0;

	*ret = 0;
	if (state->itemsize && state->itemsize->type == TASD_PKL_INT &&
		state->itemsize->i >= 0) {
		*ret = (uint64_t)state->itemsize->i;
		return true;
	}
	if (!text_of(tasd_torch_arg(&dtype->object->args->seq, 0), &name, &len))
		return false;
	for (size_t i = 1; i < len; i++) {
		if (name[i] < '0' || name[i] > '9' || *ret > INT32_MAX)
			return i == 1;
		*ret = 10 * *ret + (uint64_t)(name[i] - '0');
	}
	return true;
}

/* A dtype as a .npy header has it.  Bounded: a level of fields is one call. */
static bool add_descr(struct tasd_torch_map *map, struct tasd_buf *out,
	const struct tasd_pkl *dtype, unsigned int depth, uint64_t *ret_item)
{
	struct state state;

	get_state(dtype, &state);
	if (depth > DEPTH_MAX || out->len > TASD_NPY_HEADER_MAX)
		return false;
	if (state.names && state.names->type == TASD_PKL_TUPLE)
		return add_fields(map, out, &state, depth, ret_item);
	return add_simple(map, out, dtype, &state) &&
	       simple_item(dtype, &state, ret_item);
}

/* Is it numpy's type of Python objects, or has it such a field? */
static bool has_objects(
	struct tasd_torch_map *map, const struct tasd_pkl *dtype)
{
	const char *name = NULL;
	size_t len = 0;

	return is_dtype(map, dtype) &&
	       text_of(tasd_torch_arg(&dtype->object->args->seq, 0), &name,
		       &len) &&
	       len && (*name == 'O' || (len > 1 && name[1] == 'O'));
}

/* What a dtype and a shape mean; false when there is no telling. */
static bool parse(struct tasd_torch_map *map, const struct tasd_pkl *dtype,
	const struct tasd_pkl *shape, bool fortran, struct tasd_npy *ret)
{
	static const struct tasd_pkl scalar = {.type = TASD_PKL_TUPLE};
	struct tasd_buf out = TASD_BUF_EMPTY;
	uint64_t item = 0;
	bool ok;

	tasd_buf_str(&out, "{'descr': ");
	ok = is_dtype(map, dtype) && add_descr(map, &out, dtype, 0, &item);
	tasd_buf_printf(&out,
		", 'fortran_order': %s, 'shape': ", fortran ? "True" : "False");
	ok = ok && add_shape(&out, shape ? shape : &scalar);
	tasd_buf_str(&out, ", }\n");
	ok = ok && !tasd_buf_err(&out) &&
	     tasd_npy_parse(out.bytes, out.len, false, map->arena, ret, NULL) ==
		     0;
	tasd_buf_free(&out);
	return ok;
}

static tasd_err broken(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const char *what)
{
	shape->form = TASD_FORM_TENSOR;
	shape->tensor = tasd_arena_alloc(map->arena, sizeof(*shape->tensor));
	if (!shape->tensor)
		return -E2BIG;
	shape->tensor->data = TASD_DATA_BROKEN;
	return tasd_torch_broken(map, shape, "%s", what);
}

/* An array of Python objects: there are no bytes of it.  Its items are kept
 * beside it. */
static tasd_err object_array(struct tasd_torch_map *map,
	const struct tasd_pkl *dims, const struct tasd_pkl *items,
	struct tasd_torch_shape *shape)
{
	struct tasd_torch_shape ignored = {.form = TASD_FORM_VALUE};
	struct tasd_tensor_extra *extra;
	struct tasd_torch_part part = {.value = items,
		.name = "items",
		.is_attr = true,
		.beside = true};
	uint64_t *sizes = NULL;
	uint32_t ndim = 0;
	tasd_err err = broken(map, shape,
		"an array of Python objects, which are in .tasd/attrs");

	if (!err && items)
		err = tasd_torch_add_part(map, &part);
	if (!err && dims)
		err = tasd_torch_sizes(
			map, dims, "shape", &sizes, &ndim, &ignored);
	if (err)
		return err;
	extra = tasd_arena_alloc(map->arena, sizeof(*extra));
	if (!extra)
		return -E2BIG;
	extra->descr = "|O";
	shape->tensor->extra = extra;
	shape->tensor->shape = sizes;
	shape->tensor->ndim = ndim;
	return 0;
}

static tasd_err wrong_size(
	struct tasd_torch_map *map, struct tasd_torch_shape *shape)
{
	return broken(
		map, shape, "it has more or fewer bytes than its shape needs");
}

/* A large array that is written as text, if it is one. */
static tasd_err text_array(struct tasd_torch_map *map,
	const struct tasd_npy *npy, const struct tasd_pkl *data,
	struct tasd_torch_shape *shape, bool *ret_is)
{
	const struct tasd_torch *torch = map->torch;
	struct tasd_source *source = NULL;
	const struct tasd_pkl *text = NULL;
	uint64_t offset = 0;
	uint32_t index = 0;
	tasd_err err;

	*ret_is = false;
	if (!data || !tasd_torch_encoded(map, data, &text) ||
		text->text.len <= DECODE_MAX ||
		!tasd_torch_in_stream(
			map, text->text.bytes, text->text.len, &offset) ||
		!tasd_torch_work(map, text->text.len) ||
		torch->stream_source >= torch->ctr->nsources)
		return 0;
	err = tasd_source_latin1(torch->ctr->sources[torch->stream_source],
		offset, text->text.bytes, text->text.len, &source);
	if (err)
		return err == -EINVAL ? 0 : err;
	*ret_is = true;
	if (source->size != npy->nbytes) {
		tasd_source_put(source);
		return wrong_size(map, shape);
	}
	err = tasd_container_add_source(torch->ctr, source, &index);
	if (err)
		return err;
	shape->form = TASD_FORM_TENSOR;
	shape->tensor = tasd_npy_tensor(npy, index, 0, map->arena);
	return shape->tensor ? 0 : -E2BIG;
}

static tasd_err array(struct tasd_torch_map *map, const struct tasd_npy *npy,
	const struct tasd_pkl *data, struct tasd_torch_shape *shape)
{
	struct tasd_buf decoded = TASD_BUF_EMPTY;
	const char *bytes = NULL;
	uint64_t len = 0, offset = 0;
	bool in_file, ok, is = false;
	tasd_err err = text_array(map, npy, data, shape, &is);

	if (err || is)
		return err;
	ok = data && tasd_torch_bytes(map, data, &decoded, &bytes, &len);
	if (!ok || len != npy->nbytes) {
		tasd_buf_free(&decoded);
		return ok ? wrong_size(map, shape)
			  : broken(map, shape, "its data are no bytes");
	}
	in_file = tasd_torch_in_stream(map, bytes, len, &offset);
	if (!in_file)
		err = tasd_torch_blob(map, bytes, len, &offset);
	tasd_buf_free(&decoded);
	if (err == -EFBIG)
		return broken(map, shape,
			"its data are written as text, and too many to be "
			"kept in memory");
	if (err)
		return err;
	shape->tensor = tasd_npy_tensor(
		npy, map->torch->stream_source, offset, map->arena);
	if (!shape->tensor)
		return -E2BIG;
	shape->form = TASD_FORM_TENSOR;
	return in_file ? 0 : tasd_torch_fix(map, shape->tensor);
}

/* _reconstruct(class, ..), and in its state (version, shape, dtype, Fortran
 * order, data). */
static tasd_err reconstructed(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	const struct tasd_pkl_more *more = value->object->more;
	const struct tasd_pkl *state =
		more && more->states.n ? more->states.at[more->states.n - 1]
				       : NULL;
	const struct tasd_pkl *class =
		tasd_torch_arg(&value->object->args->seq, 0);
	const struct tasd_pkl_seq *seq;
	struct tasd_npy npy;
	uint32_t at;

	*ret_is = false;
	if (!state || state->type != TASD_PKL_TUPLE || state->seq.n < 4)
		return 0;
	seq = &state->seq;
	/* The first version had no version. */
	at = seq->n > 4;
	*ret_is = true;
	shape->kind = TASD_KIND_NDARRAY;
	if (class && !tasd_pkl_is_global(class, "numpy", "ndarray"))
		shape->class = tasd_torch_class(map, class);
	if (has_objects(map, seq->at[at + 1]))
		return object_array(map, seq->at[at], seq->at[at + 3], shape);
	if (!parse(map, seq->at[at + 1], seq->at[at],
		    seq->at[at + 2]->type == TASD_PKL_TRUE ||
			    (seq->at[at + 2]->type == TASD_PKL_INT &&
				    seq->at[at + 2]->i),
		    &npy))
		return broken(map, shape, "its element type is not known");
	return array(map, &npy, seq->at[at + 3], shape);
}

/* _frombuffer(bytes, dtype, shape, order) */
static tasd_err from_buffer(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	struct tasd_npy npy;

	*ret_is = args->n == 4;
	if (!*ret_is)
		return 0;
	shape->kind = TASD_KIND_NDARRAY;
	if (!parse(map, args->at[1], args->at[2],
		    tasd_pkl_is_str(args->at[3], "F"), &npy))
		return broken(map, shape, "its element type is not known");
	return array(map, &npy, args->at[0], shape);
}

/* scalar(dtype, bytes) */
static tasd_err scalar(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	struct tasd_npy npy;

	*ret_is = args->n == 2 && is_dtype(map, args->at[0]) &&
		  !has_objects(map, args->at[0]);
	if (!*ret_is)
		return 0;
	shape->kind = TASD_KIND_NPSCALAR;
	if (!parse(map, args->at[0], NULL, false, &npy))
		return broken(map, shape, "its element type is not known");
	return array(map, &npy, args->at[1], shape);
}

/* float32, or as a .npy header has it. */
static tasd_err dtype_text(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	struct tasd_npy npy;
	const char *text;

	*ret_is = true;
	shape->kind = TASD_KIND_OBJECT;
	shape->class = "numpy.dtype";
	shape->form = TASD_FORM_VALUE;
	text = "object";
	if (!has_objects(map, value)) {
		if (!parse(map, value, NULL, false, &npy)) {
			*ret_is = false;
			return 0;
		}
		text = npy.dtype ? tasd_dtype_info(npy.dtype)->name : npy.descr;
	}
	map->text.len = 0;
	tasd_buf_str(&map->text, text);
	tasd_buf_char(&map->text, '\n');
	if (tasd_buf_err(&map->text))
		return tasd_buf_err(&map->text);
	shape->len = map->text.len;
	shape->bytes =
		tasd_arena_copy(map->arena, map->text.bytes, map->text.len);
	return shape->bytes ? 0 : -E2BIG;
}

tasd_err tasd_torch_numpy(struct tasd_torch_map *map, enum tasd_torch_tag tag,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	const struct tasd_pkl_seq *args = &value->object->args->seq;

	switch ((int)tag) {
	case TASD_TORCH_ND_RECONSTRUCT:
		return reconstructed(map, value, shape, ret_is);
	case TASD_TORCH_ND_FROMBUFFER:
		return from_buffer(map, args, shape, ret_is);
	case TASD_TORCH_ND_SCALAR:
		return scalar(map, args, shape, ret_is);
	default:
		return dtype_text(map, value, shape, ret_is);
	}
}
