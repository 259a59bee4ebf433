/*
 * Objects of Python's own classes and of unknown ones.
 *
 * Known are those whose contents are told by how they were made: the subclasses
 * of dict that torch uses, sets, bytes, torch.Size and the like.  Of any other
 * class there is its state, which is what a class gets when it is made anew,
 * and its arguments.  An object to which items were added is a list or a dict
 * of them.
 */
#include "torch_inner.h"
#include <string.h>

/* How an object came to be, whatever helper of copyreg it took. */
struct made {
	const struct tasd_pkl *class;
	const struct tasd_pkl *args;   /* a tuple, or NULL */
	const struct tasd_pkl *kwargs; /* a dict, or NULL */
	const struct tasd_pkl *base;   /* what its base class holds, or NULL */
};

/* The items of a dict, by whatever way it was made; NULL: no dict. */
static const struct tasd_pkl_map *as_map(
	struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	static const struct tasd_pkl_map none;

	if (value->type == TASD_PKL_DICT)
		return &value->map;
	if (value->type != TASD_PKL_OBJECT ||
		tasd_torch_tag(map, value->object->callable) !=
			TASD_TORCH_DICT_TYPE)
		return NULL;
	return value->object->more ? &value->object->more->pairs : &none;
}

static bool only_names(const struct tasd_pkl_map *pairs)
{
	for (uint32_t i = 0; i < pairs->n; i++)
		if (pairs->at[i].key->type != TASD_PKL_STR)
			return false;
	return true;
}

static tasd_err add_pairs(struct tasd_torch_map *map,
	const struct tasd_pkl_map *pairs, bool is_attr, bool beside)
{
	tasd_err err = 0;

	for (uint32_t i = 0; i < pairs->n && !err; i++) {
		struct tasd_torch_part part = {
			.value = pairs->at[i].value,
			.key = pairs->at[i].key,
			.is_attr = is_attr,
			.beside = beside,
		};

		err = tasd_torch_add_part(map, &part);
	}
	return err;
}

static tasd_err add_items(
	struct tasd_torch_map *map, const struct tasd_pkl_seq *items)
{
	tasd_err err = 0;

	for (uint32_t i = 0; i < items->n && !err; i++) {
		struct tasd_torch_part part = {.value = items->at[i]};

		err = tasd_torch_add_part(map, &part);
	}
	return err;
}

static tasd_err add_named(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const char *name, bool beside)
{
	struct tasd_torch_part part = {.value = value,
		.name = name,
		.is_attr = true,
		.beside = beside};

	return tasd_torch_add_part(map, &part);
}

tasd_err tasd_torch_state(
	struct tasd_torch_map *map, const struct tasd_pkl *state, bool beside)
{
	const struct tasd_pkl_map *dict = as_map(map, state), *slots;
	tasd_err err = 0;

	if (state->type == TASD_PKL_NONE)
		return 0;
	if (dict && only_names(dict))
		return add_pairs(map, dict, true, beside);
	/* Attributes, and those in slots. */
	if (state->type == TASD_PKL_TUPLE && state->seq.n == 2) {
		bool no_dict = state->seq.at[0]->type == TASD_PKL_NONE;

		dict = as_map(map, state->seq.at[0]);
		slots = as_map(map, state->seq.at[1]);
		if ((no_dict || (dict && only_names(dict))) && slots &&
			only_names(slots)) {
			if (dict)
				err = add_pairs(map, dict, true, beside);
			return err ? err : add_pairs(map, slots, true, beside);
		}
	}
	return add_named(map, state, "__state__", beside);
}

tasd_err tasd_torch_states(
	struct tasd_torch_map *map, const struct tasd_pkl *value, bool beside)
{
	const struct tasd_pkl_more *more = value->object->more;
	uint32_t n = more ? more->states.n : 0, first = 0;
	tasd_err err = 0;

	if (n > TASD_TORCH_STATES_MAX) {
		first = n - TASD_TORCH_STATES_MAX;
		tasd_container_problem(map->ctr,
			"of the %u states of an object the last %u are shown",
			(unsigned int)n, TASD_TORCH_STATES_MAX);
	}
	/* Of attributes set again the last counts, and of parts the first. */
	for (uint32_t i = n; i > first && !err; i--)
		err = tasd_torch_state(map, more->states.at[i - 1], beside);
	return err;
}

/* A text that people would see, and a newline. */
static tasd_err text_value(
	struct tasd_torch_map *map, struct tasd_torch_shape *shape)
{
	tasd_buf_char(&map->text, '\n');
	if (tasd_buf_err(&map->text))
		return tasd_buf_err(&map->text);
	shape->form = TASD_FORM_VALUE;
	shape->len = map->text.len;
	shape->bytes =
		tasd_arena_copy(map->arena, map->text.bytes, map->text.len);
	return shape->bytes ? 0 : -E2BIG;
}

/* torch.Size([2, 3]); false when the arguments are not as they should be. */
static bool size_text(
	struct tasd_torch_map *map, const struct tasd_pkl_seq *args)
{
	const struct tasd_pkl *dims = tasd_torch_arg(args, 0);

	if (args->n > 1 || (dims && dims->type != TASD_PKL_TUPLE &&
				   dims->type != TASD_PKL_LIST))
		return false;
	tasd_buf_str(&map->text, "torch.Size([");
	for (uint32_t i = 0; dims && i < dims->seq.n; i++) {
		const struct tasd_pkl *dim = dims->seq.at[i];

		if (dim->type != TASD_PKL_INT)
			return false;
		if (i)
			tasd_buf_str(&map->text, ", ");
		(void)tasd_pkl_int_text(&map->text, dim);
	}
	tasd_buf_str(&map->text, "])");
	return true;
}

/* cuda:1 */
static bool device_text(
	struct tasd_torch_map *map, const struct tasd_pkl_seq *args)
{
	if (!args->n || args->n > 2 || args->at[0]->type != TASD_PKL_STR)
		return false;
	tasd_buf_add(&map->text, args->at[0]->text.bytes,
		(size_t)args->at[0]->text.len);
	if (args->n == 1)
		return true;
	tasd_buf_char(&map->text, ':');
	return args->at[1]->type == TASD_PKL_INT &&
	       tasd_pkl_int_text(&map->text, args->at[1]) == 0;
}

/* torch.strided */
static bool layout_text(
	struct tasd_torch_map *map, const struct tasd_pkl_seq *args)
{
	if (args->n != 1 || args->at[0]->type != TASD_PKL_STR)
		return false;
	tasd_buf_add(&map->text, args->at[0]->text.bytes,
		(size_t)args->at[0]->text.len);
	return true;
}

/* Objects of torch that are one text.  *ret_is: is it one? */
static tasd_err as_text(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	static const struct {
		enum tasd_torch_tag tag;
		const char *class;
		bool (*text)(struct tasd_torch_map *map,
			const struct tasd_pkl_seq *args);
	} texts[] = {
		{TASD_TORCH_SIZE, "torch.Size", size_text},
		{TASD_TORCH_DEVICE, "torch.device", device_text},
		{TASD_TORCH_LAYOUT, "torch.layout", layout_text},
	};
	int tag = (int)tasd_torch_tag(map, value->object->callable);

	*ret_is = false;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if ((int)texts[i].tag != tag)
			continue;
		map->text.len = 0;
		if (!texts[i].text(map, &value->object->args->seq))
			return 0;
		*ret_is = true;
		shape->kind = TASD_KIND_OBJECT;
		shape->class = texts[i].class;
		return text_value(map, shape);
	}
	return 0;
}

static bool is_bytearray(const struct tasd_pkl *class)
{
	return tasd_pkl_is_global(class, "builtins", "bytearray") ||
	       tasd_pkl_is_global(class, "__builtin__", "bytearray");
}

/* Python's bytes and numbers that take a call to be made. */
static tasd_err as_value(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	const char *bytes;
	uint64_t len;
	double re, im;
	tasd_err err;

	*ret_is = true;
	if (tasd_torch_complex(map, value, &re, &im)) {
		shape->kind = TASD_KIND_COMPLEX;
		map->text.len = 0;
		tasd_torch_complex_text(&map->text, re, im);
		return text_value(map, shape);
	}
	*ret_is = tasd_torch_bytes(map, value, &buf, &bytes, &len);
	err = tasd_buf_err(&buf);
	if (*ret_is && !err) {
		shape->kind = TASD_KIND_BYTES;
		shape->form = TASD_FORM_VALUE;
		if (is_bytearray(value->object->callable))
			shape->class = "builtins.bytearray";
		shape->len = len;
		shape->bytes = tasd_arena_copy(map->arena, bytes, (size_t)len);
		err = shape->bytes ? 0 : -E2BIG;
	}
	tasd_buf_free(&buf);
	return err;
}

/* Python 2 made an OrderedDict from a list of pairs. */
static tasd_err listed_pairs(
	struct tasd_torch_map *map, const struct tasd_pkl *list)
{
	tasd_err err = 0;

	if (list->type != TASD_PKL_LIST && list->type != TASD_PKL_TUPLE)
		return 0;
	for (uint32_t i = 0; i < list->seq.n && !err; i++) {
		const struct tasd_pkl *pair = list->seq.at[i];
		struct tasd_torch_part part;

		if ((pair->type != TASD_PKL_LIST &&
			    pair->type != TASD_PKL_TUPLE) ||
			pair->seq.n != 2)
			continue;
		part = (struct tasd_torch_part){
			.value = pair->seq.at[1], .key = pair->seq.at[0]};
		err = tasd_torch_add_part(map, &part);
	}
	return err;
}

/* OrderedDict, Counter, defaultdict. */
static tasd_err known_dict(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	const struct tasd_pkl_object *o = value->object;
	const struct tasd_pkl *arg = tasd_torch_arg(&o->args->seq, 0);
	tasd_err err = 0;

	shape->kind = TASD_KIND_DICT;
	shape->form = TASD_FORM_DIR;
	shape->class = tasd_torch_class(map, o->callable);
	if (arg && arg->type == TASD_PKL_DICT)
		err = add_pairs(map, &arg->map, false, false);
	else if (arg)
		err = listed_pairs(map, arg);
	if (!err && o->more)
		err = add_pairs(map, &o->more->pairs, false, false);
	if (!err && arg && arg->type == TASD_PKL_GLOBAL)
		err = add_named(map, arg, "default_factory", true);
	return err ? err : tasd_torch_states(map, value, true);
}

/* What the helpers of copyreg say. */
static struct made look(
	struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	const struct tasd_pkl_object *o = value->object;
	const struct tasd_pkl_seq *args = &o->args->seq;
	struct made made = {.class = o->callable,
		.args = o->args,
		.kwargs = o->more ? o->more->kwargs : NULL};
	const struct tasd_pkl *base = tasd_torch_arg(args, 2);

	switch ((int)tasd_torch_tag(map, o->callable)) {
	case TASD_TORCH_RECONSTRUCTOR:
		if (args->n != 3)
			break;
		made = (struct made){.class = args->at[0]};
		if (base->type != TASD_PKL_NONE)
			made.base = base;
		break;
	case TASD_TORCH_NEWOBJ:
		if (!args->n)
			break;
		made.class = args->at[0];
		if (args->n == 1)
			made.args = NULL;
		break;
	case TASD_TORCH_NEWOBJ_EX:
		if (args->n != 3 || args->at[1]->type != TASD_PKL_TUPLE ||
			args->at[2]->type != TASD_PKL_DICT)
			break;
		made = (struct made){.class = args->at[0],
			.args = args->at[1],
			.kwargs = args->at[2]};
		break;
	default:
		break;
	}
	return made;
}

/* The class of a nested one, which older protocols look up by a call. */
static const char *class_text(
	struct tasd_torch_map *map, const struct tasd_pkl *class)
{
	const struct tasd_pkl_seq *args;
	const char *outer;
	char *text;
	int len;

	if (class->type == TASD_PKL_PERSID)
		class = tasd_torch_source_class(class);
	if (!class)
		return NULL;
	if (class->type != TASD_PKL_OBJECT)
		return tasd_torch_class(map, class);
	args = &class->object->args->seq;
	if ((!tasd_pkl_is_global(
		     class->object->callable, "builtins", "getattr") &&
		    !tasd_pkl_is_global(class->object->callable, "__builtin__",
			    "getattr")) ||
		args->n != 2 || args->at[1]->type != TASD_PKL_STR)
		return NULL;
	outer = tasd_torch_class(map, args->at[0]);
	if (!outer || args->at[1]->text.len > 256)
		return NULL;
	map->text.len = 0;
	tasd_buf_printf(&map->text, "%s.%.*s", outer,
		(int)args->at[1]->text.len, args->at[1]->text.bytes);
	if (tasd_buf_err(&map->text))
		return NULL;
	len = (int)map->text.len;
	text = tasd_arena_copy(map->arena, map->text.bytes, (size_t)len);
	return text;
}

/* What the object holds, as a container: its base's items and those added. */
static tasd_err contents(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const struct made *made,
	struct tasd_torch_shape *shape)
{
	static const struct tasd_pkl_more nothing;
	const struct tasd_pkl_more *more =
		value->object->more ? value->object->more : &nothing;
	const struct tasd_pkl *base = made->base;
	const struct tasd_pkl_seq *seq = NULL;
	enum tasd_kind kind = TASD_KIND_LIST;
	tasd_err err = 0;

	shape->form = TASD_FORM_DIR;
	shape->kind = TASD_KIND_OBJECT;
	if (base && base->type == TASD_PKL_DICT) {
		shape->kind = TASD_KIND_DICT;
		err = add_pairs(map, &base->map, false, false);
	} else if (base && tasd_torch_seq(map, base, &seq, &kind)) {
		shape->kind = (uint8_t)kind;
		err = add_items(map, seq);
	} else if (base) {
		err = add_named(map, base, "__state__", false);
	}
	/* Items that were added have the positions they were added at; what has
	 * both kinds is some class's own idea of a container. */
	if (!err && more->items.n)
		err = add_items(map, &more->items);
	if (!err && more->pairs.n)
		err = add_pairs(map, &more->pairs, false, false);
	if (shape->kind == TASD_KIND_OBJECT && !more->items.n != !more->pairs.n)
		shape->kind = more->pairs.n ? TASD_KIND_DICT : TASD_KIND_LIST;
	return err;
}

static tasd_err unknown(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	struct made made = look(map, value);
	bool beside;
	tasd_err err = contents(map, value, &made, shape);

	shape->class = class_text(map, made.class);
	beside = shape->kind != TASD_KIND_OBJECT;
	if (!err && !shape->class)
		err = add_named(map, made.class, "__class__", beside);
	if (!err && made.args && made.args->seq.n)
		err = add_named(map, made.args, "__args__", beside);
	if (!err && made.kwargs && made.kwargs->map.n)
		err = add_named(map, made.kwargs, "__kwargs__", beside);
	return err ? err : tasd_torch_states(map, value, beside);
}

tasd_err tasd_torch_object(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	enum tasd_torch_tag tag = tasd_torch_tag(map, value->object->callable);
	size_t parts = map->nparts;
	bool is = false;
	tasd_err err = tasd_torch_tensor(map, value, shape, &is);

	if (err || is)
		return err;
	map->nparts = parts;
	*shape = (struct tasd_torch_shape){.kind = TASD_KIND_OBJECT};
	if (tag >= TASD_TORCH_ND_RECONSTRUCT) {
		err = tasd_torch_numpy(map, tag, value, shape, &is);
		if (err || is)
			return err;
		map->nparts = parts;
		*shape = (struct tasd_torch_shape){.kind = TASD_KIND_OBJECT};
	}
	err = as_text(map, value, shape, &is);
	if (!err && !is)
		err = as_value(map, value, shape, &is);
	if (err || is)
		return err;
	return tag == TASD_TORCH_DICT_TYPE ? known_dict(map, value, shape)
					   : unknown(map, value, shape);
}
