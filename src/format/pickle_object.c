/*
 * Globals and objects: names that are kept as names, and records of calls that
 * are not made.
 */
#include "pickle_inner.h"
#include "pickle_safe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest name of a module, and in one. */
#define NAME_LEN_MAX 4096u

static tasd_err reserve(struct tasd_pkl_machine *m, void *array, uint32_t n,
	uint32_t *room, uint64_t more, size_t width)
{
	uint64_t need = n + more, want = 2 * (uint64_t)*room;
	void *grown, *old;

	if (need <= *room)
		return 0;
	/* What is filled at once, as nearly all is, takes no more than it. */
	if (want < need)
		want = need;
	if (want > UINT32_MAX)
		want = UINT32_MAX;
	if (want < need)
		return tasd_pkl_fail_room(m);
	grown = tasd_pkl_alloc(m, want * width);
	if (!grown)
		return tasd_pkl_fail_room(m);
	memcpy(&old, array, sizeof(old));
	if (n)
		memcpy(grown, old, n * width);
	memcpy(array, &grown, sizeof(grown));
	*room = (uint32_t)want;
	return 0;
}

tasd_err tasd_pkl_seq_reserve(
	struct tasd_pkl_machine *m, struct tasd_pkl_seq *seq, uint64_t more)
{
	return reserve(m, &seq->at, seq->n, &seq->room, more, sizeof(*seq->at));
}

tasd_err tasd_pkl_map_reserve(
	struct tasd_pkl_machine *m, struct tasd_pkl_map *map, uint64_t more)
{
	return reserve(m, &map->at, map->n, &map->room, more, sizeof(*map->at));
}

static bool global_eq(const void *value, const void *key)
{
	const struct tasd_pkl_global *a =
		((const struct tasd_pkl *)value)->global;
	const struct tasd_pkl_global *b = key;

	return a->ext == b->ext && a->module_len == b->module_len &&
	       a->name_len == b->name_len &&
	       (!a->module_len ||
		       memcmp(a->module, b->module, a->module_len) == 0) &&
	       (!a->name_len || memcmp(a->name, b->name, a->name_len) == 0);
}

static tasd_err list_global(
	struct tasd_pkl_machine *m, struct tasd_pkl_global *global)
{
	struct tasd_pickle *out = m->out;
	tasd_err err = tasd_pkl_grow(m, &out->globals, &m->globals_room,
		(size_t)out->nglobals + 1, sizeof(struct tasd_pkl_global *));

	if (err)
		return err;
	global->index = out->nglobals;
	out->globals[out->nglobals++] = global;
	out->nunsafe += !global->safe;
	return 0;
}

/* Push what stands for the global; listed when it is a new one. */
static tasd_err push_named(
	struct tasd_pkl_machine *m, const struct tasd_pkl_global *named)
{
	uint64_t hash = tasd_map_hash(&m->globals, named->name, named->name_len,
		tasd_map_hash(&m->globals, named->module, named->module_len,
			named->ext));
	struct tasd_pkl *value =
		tasd_map_find(&m->globals, hash, global_eq, named);
	tasd_err err;

	if (value) {
		value->global->count++;
		return tasd_pkl_push(m, value);
	}
	err = tasd_pkl_new(m, TASD_PKL_GLOBAL, &value);
	if (!err)
		err = tasd_pkl_charge_map(m);
	if (err)
		return err;
	value->global = tasd_pkl_alloc(m, sizeof(*value->global));
	if (!value->global)
		return tasd_pkl_fail_room(m);
	*value->global = *named;
	value->global->count = 1;
	err = tasd_map_put(&m->globals, hash, value);
	if (!err)
		err = list_global(m, value->global);
	return err ? err : tasd_pkl_push(m, value);
}

tasd_err tasd_pkl_push_global(struct tasd_pkl_machine *m, const char *module,
	uint64_t module_len, const char *name, uint64_t name_len)
{
	struct tasd_pkl_global global = {
		.module = module,
		.name = name,
		.module_len = (uint32_t)module_len,
		.name_len = (uint32_t)name_len,
	};

	/* No module has such a one, and it may be given again for a few bytes.
	 */
	if (module_len > NAME_LEN_MAX || name_len > NAME_LEN_MAX)
		return tasd_pkl_fail(
			m, "a name of over %u bytes", NAME_LEN_MAX);
	global.safe = tasd_pickle_safe(
		module, global.module_len, name, global.name_len);
	return push_named(m, &global);
}

tasd_err tasd_pkl_op_stack_global(struct tasd_pkl_machine *m, unsigned int arg)
{
	const struct tasd_pkl *module, *name;
	tasd_err err = tasd_pkl_need(m, 2);

	(void)arg;
	if (err)
		return err;
	name = m->stack[--m->depth];
	module = m->stack[--m->depth];
	if (name->type != TASD_PKL_STR || module->type != TASD_PKL_STR)
		return tasd_pkl_fail(m, "its name is %s in %s",
			tasd_pkl_type_name(name), tasd_pkl_type_name(module));
	return tasd_pkl_push_global(m, module->text.bytes, module->text.len,
		name->text.bytes, name->text.len);
}

/* What the code stands for is in the registry of the process that wrote it. */
tasd_err tasd_pkl_op_ext(struct tasd_pkl_machine *m, unsigned int width)
{
	struct tasd_pkl_global global = {.module = ""};
	char text[32], *name;
	uint64_t code = 0;
	tasd_err err = tasd_pkl_number(m, width, &code);

	if (err)
		return err;
	if (code == 0 || code > INT32_MAX)
		return tasd_pkl_fail(m, "an extension code below 1");
	(void)snprintf(text, sizeof(text), "extension %u", (unsigned int)code);
	name = tasd_arena_copy(&m->out->arena, text, strlen(text));
	if (!name)
		return tasd_pkl_fail_room(m);
	global.name = name;
	global.name_len = (uint32_t)strlen(name);
	global.ext = (uint32_t)code;
	return push_named(m, &global);
}

static bool callable(const struct tasd_pkl *value)
{
	return value->type == TASD_PKL_GLOBAL ||
	       value->type == TASD_PKL_OBJECT || value->type == TASD_PKL_PERSID;
}

tasd_err tasd_pkl_make_object(struct tasd_pkl_machine *m, enum tasd_pkl_how how,
	struct tasd_pkl *what, struct tasd_pkl *args)
{
	struct tasd_pkl *value = NULL;
	tasd_err err;

	if (!callable(what))
		return tasd_pkl_fail(
			m, "%s is no class", tasd_pkl_type_name(what));
	if (args->type != TASD_PKL_TUPLE)
		return tasd_pkl_fail(m, "its arguments are %s, not a tuple",
			tasd_pkl_type_name(args));
	err = tasd_pkl_new(m, TASD_PKL_OBJECT, &value);
	if (err)
		return err;
	value->how = (uint8_t)how;
	value->object = tasd_pkl_alloc(m, sizeof(*value->object));
	if (!value->object)
		return tasd_pkl_fail_room(m);
	value->object->callable = what;
	value->object->args = args;
	return tasd_pkl_push(m, value);
}

tasd_err tasd_pkl_more(struct tasd_pkl_machine *m, struct tasd_pkl *object,
	struct tasd_pkl_more **ret)
{
	struct tasd_pkl_more **more = &object->object->more;

	if (!*more)
		*more = tasd_pkl_alloc(m, sizeof(**more));
	*ret = *more;
	return *more ? 0 : tasd_pkl_fail_room(m);
}

tasd_err tasd_pkl_op_reduce(struct tasd_pkl_machine *m, unsigned int how)
{
	tasd_err err = tasd_pkl_need(m, 2);

	if (err)
		return err;
	m->depth -= 2;
	return tasd_pkl_make_object(
		m, how, m->stack[m->depth], m->stack[m->depth + 1]);
}

static bool only_str_keys(const struct tasd_pkl_map *map)
{
	for (uint32_t i = 0; i < map->n; i++)
		if (map->at[i].key->type != TASD_PKL_STR)
			return false;
	return true;
}

tasd_err tasd_pkl_op_newobj_ex(struct tasd_pkl_machine *m, unsigned int arg)
{
	struct tasd_pkl_more *more = NULL;
	struct tasd_pkl *kwargs;
	tasd_err err = tasd_pkl_need(m, 3);

	(void)arg;
	if (err)
		return err;
	m->depth -= 3;
	kwargs = m->stack[m->depth + 2];
	if (kwargs->type != TASD_PKL_DICT || !only_str_keys(&kwargs->map))
		return tasd_pkl_fail(
			m, "its keyword arguments are no dict of str");
	err = tasd_pkl_make_object(m, TASD_PKL_NEWOBJ_EX, m->stack[m->depth],
		m->stack[m->depth + 1]);
	if (!err)
		err = tasd_pkl_more(m, m->stack[m->depth - 1], &more);
	if (!err)
		more->kwargs = kwargs;
	return err;
}

tasd_err tasd_pkl_op_obj(struct tasd_pkl_machine *m, unsigned int arg)
{
	struct tasd_pkl *class, *args = NULL;
	size_t at = 0;
	tasd_err err = tasd_pkl_mark(m, &at);

	(void)arg;
	if (err)
		return err;
	if (at == m->depth)
		return tasd_pkl_fail(m, "no class above its MARK");
	class = m->stack[at];
	err = tasd_pkl_tuple_from(m, at + 1, &args);
	if (err)
		return err;
	m->depth = at;
	return tasd_pkl_make_object(m, TASD_PKL_OBJ, class, args);
}

tasd_err tasd_pkl_op_build(struct tasd_pkl_machine *m, unsigned int arg)
{
	struct tasd_pkl_more *more = NULL;
	struct tasd_pkl *to, *state;
	tasd_err err = tasd_pkl_need(m, 2);

	(void)arg;
	if (err)
		return err;
	state = m->stack[--m->depth];
	to = m->stack[m->depth - 1];
	if (to->type != TASD_PKL_OBJECT)
		return tasd_pkl_fail(
			m, "%s takes no state", tasd_pkl_type_name(to));
	err = tasd_pkl_more(m, to, &more);
	if (!err)
		err = tasd_pkl_seq_reserve(m, &more->states, 1);
	if (!err)
		more->states.at[more->states.n++] = state;
	return err;
}

tasd_err tasd_pkl_op_persid(struct tasd_pkl_machine *m, unsigned int arg)
{
	struct tasd_pkl *value = NULL;
	tasd_err err = tasd_pkl_need(m, 1);

	(void)arg;
	if (!err)
		err = tasd_pkl_new(m, TASD_PKL_PERSID, &value);
	if (err)
		return err;
	value->pid = m->stack[m->depth - 1];
	m->stack[m->depth - 1] = value;
	return 0;
}
