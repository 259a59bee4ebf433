/*
 * Looking at a graph that was read.  Nothing recurses: a graph is as deep as
 * its file is long, and may have cycles.
 */
#include "pickle.h"
#include <base/cleanup.h>
#include <stdlib.h>
#include <string.h>

const char *tasd_pkl_type_name(const struct tasd_pkl *value)
{
	static const char *const names[] = {
		[TASD_PKL_NONE] = "None",
		[TASD_PKL_FALSE] = "a bool",
		[TASD_PKL_TRUE] = "a bool",
		[TASD_PKL_INT] = "an int",
		[TASD_PKL_LONG] = "an int",
		[TASD_PKL_FLOAT] = "a float",
		[TASD_PKL_STR] = "a str",
		[TASD_PKL_BYTES] = "bytes",
		[TASD_PKL_BYTEARRAY] = "a bytearray",
		[TASD_PKL_TUPLE] = "a tuple",
		[TASD_PKL_LIST] = "a list",
		[TASD_PKL_SET] = "a set",
		[TASD_PKL_FROZENSET] = "a frozenset",
		[TASD_PKL_DICT] = "a dict",
		[TASD_PKL_GLOBAL] = "a global",
		[TASD_PKL_OBJECT] = "an object",
		[TASD_PKL_PERSID] = "a persistent id",
	};

	/* A tuple that holds a list is what Python complains about, too. */
	return names[value->type];
}

static bool text_is(const char *bytes, uint64_t len, const char *text)
{
	return len == strlen(text) && memcmp(bytes, text, len) == 0;
}

bool tasd_pkl_is_global(
	const struct tasd_pkl *value, const char *module, const char *name)
{
	return value->type == TASD_PKL_GLOBAL && !value->global->ext &&
	       text_is(value->global->module, value->global->module_len,
		       module) &&
	       text_is(value->global->name, value->global->name_len, name);
}

bool tasd_pkl_is_str(const struct tasd_pkl *value, const char *text)
{
	return value->type == TASD_PKL_STR &&
	       text_is(value->text.bytes, value->text.len, text);
}

const struct tasd_pkl *tasd_pkl_get(
	const struct tasd_pkl_map *map, const char *text)
{
	for (uint32_t i = 0; i < map->n; i++)
		if (tasd_pkl_is_str(map->at[i].key, text))
			return map->at[i].value;
	return NULL;
}

static const struct tasd_pkl *map_part(
	const struct tasd_pkl_map *map, uint64_t n, enum tasd_pkl_role *role)
{
	if (n / 2 >= map->n)
		return NULL;
	*role = n % 2 ? TASD_PKL_VALUE : TASD_PKL_KEY;
	return n % 2 ? map->at[n / 2].value : map->at[n / 2].key;
}

static const struct tasd_pkl *object_part(const struct tasd_pkl_object *object,
	uint64_t n, enum tasd_pkl_role *role)
{
	const struct tasd_pkl_more *more = object->more;

	if (n < 2) {
		*role = n ? TASD_PKL_ARGS : TASD_PKL_CALLABLE;
		return n ? object->args : object->callable;
	}
	n -= 2;
	if (!more)
		return NULL;
	if (more->kwargs && n-- == 0) {
		*role = TASD_PKL_KWARGS;
		return more->kwargs;
	}
	if (n < more->states.n) {
		*role = TASD_PKL_STATE;
		return more->states.at[n];
	}
	n -= more->states.n;
	if (n < more->items.n)
		return more->items.at[n];
	return map_part(&more->pairs, n - more->items.n, role);
}

const struct tasd_pkl *tasd_pkl_part(
	const struct tasd_pkl *value, uint64_t n, enum tasd_pkl_role *ret_role)
{
	enum tasd_pkl_role role = TASD_PKL_ITEM;
	const struct tasd_pkl *part = NULL;

	switch ((enum tasd_pkl_type)value->type) {
	case TASD_PKL_TUPLE:
	case TASD_PKL_LIST:
	case TASD_PKL_SET:
	case TASD_PKL_FROZENSET:
		part = n < value->seq.n ? value->seq.at[n] : NULL;
		break;
	case TASD_PKL_DICT:
		part = map_part(&value->map, n, &role);
		break;
	case TASD_PKL_OBJECT:
		part = object_part(value->object, n, &role);
		break;
	case TASD_PKL_PERSID:
		role = TASD_PKL_PID;
		part = n == 0 ? value->pid : NULL;
		break;
	case TASD_PKL_NONE:
	case TASD_PKL_FALSE:
	case TASD_PKL_TRUE:
	case TASD_PKL_INT:
	case TASD_PKL_LONG:
	case TASD_PKL_FLOAT:
	case TASD_PKL_STR:
	case TASD_PKL_BYTES:
	case TASD_PKL_BYTEARRAY:
	case TASD_PKL_GLOBAL:
		break;
	}
	if (ret_role)
		*ret_role = role;
	return part;
}

struct place {
	const struct tasd_pkl *value;
	uint64_t next; /* part to go to */
};

static bool push(
	struct place **stack, size_t *depth, size_t *room, struct place place)
{
	if (*depth == *room) {
		size_t want = *room ? 2 * *room : 64;
		struct place *grown =
			reallocarray(*stack, want, sizeof(**stack));

		if (!grown)
			return false;
		*stack = grown;
		*room = want;
	}
	(*stack)[(*depth)++] = place;
	return true;
}

tasd_err tasd_pkl_walk(const struct tasd_pickle *pickle,
	const struct tasd_pkl *value, tasd_pkl_fn fn, void *ctx)
{
	cleanup_free unsigned char *seen = calloc(pickle->nvalues / 8 + 1, 1);
	cleanup_free struct place *stack = NULL;
	size_t depth = 0, room = 0;
	tasd_err err = seen ? 0 : -ENOMEM;

	while (!err && value) {
		if (!(seen[value->id / 8] >> value->id % 8 & 1)) {
			seen[value->id / 8] |=
				(unsigned char)(1u << value->id % 8);
			err = fn(ctx, value);
			if (!err && !push(&stack, &depth, &room,
					    (struct place){.value = value}))
				err = -ENOMEM;
		}
		value = NULL;
		while (!err && depth && !value) {
			struct place *top = &stack[depth - 1];

			value = tasd_pkl_part(top->value, top->next++, NULL);
			if (!value)
				depth--;
		}
	}
	return err;
}
