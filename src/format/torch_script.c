/*
 * TorchScript: a tree of modules, each an object whose state has its tensors,
 * its modules and its other attributes.  The state dict is that of the module
 * it came from: every tensor under the names of the modules on the way to it,
 * joined by dots.  What else a module has is an attribute of the root.
 *
 * A module may be in several places, and is in the state dict as often; a made-
 * up file could make that 2^40 times, so there is a limit.
 */
#include "torch_inner.h"
#include <base/cleanup.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX   256u
#define MODULES_MAX 65536u
#define KEY_ROOM    4096u

struct module {
	const struct tasd_pkl_map *state;
	uint32_t next;
	uint32_t prefix; /* bytes of the name that lead to it */
};

/* The attributes of a module; NULL when value is none. */
static const struct tasd_pkl_map *module_state(const struct tasd_pkl *value)
{
	static const char package[] = "__torch__";
	const struct tasd_pkl_more *more;
	const struct tasd_pkl_global *class;

	if (value->type != TASD_PKL_OBJECT ||
		value->object->callable->type != TASD_PKL_GLOBAL)
		return NULL;
	class = value->object->callable->global;
	more = value->object->more;
	if (class->module_len < strlen(package) ||
		memcmp(class->module, package, strlen(package)) != 0 || !more ||
		more->states.n != 1 ||
		more->states.at[0]->type != TASD_PKL_DICT)
		return NULL;
	return &more->states.at[0]->map;
}

static bool is_tensor(struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	enum tasd_torch_tag tag;

	if (value->type != TASD_PKL_OBJECT)
		return false;
	tag = tasd_torch_tag(map, value->object->callable);
	return tag >= TASD_TORCH_TENSOR && tag <= TASD_TORCH_WRAPPER;
}

/* A tensor, or another attribute, under the name that is in map->text. */
static tasd_err add(struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	bool tensor = is_tensor(map, value);
	struct tasd_torch_part part = {
		.value = value, .is_attr = !tensor, .beside = !tensor};
	char *name =
		tasd_arena_copy(&map->scratch, map->text.bytes, map->text.len);

	if (!name)
		return -E2BIG;
	/* A NUL in a name would end it here; there is none in an identifier. */
	part.name = name;
	return tasd_torch_add_part(map, &part);
}

/* One attribute of the module on top of the stack. */
static tasd_err step(struct tasd_torch_map *map, struct module *stack,
	uint32_t *depth, uint32_t *modules)
{
	struct module *top = &stack[*depth - 1];
	const struct tasd_pkl_pair *pair = &top->state->at[top->next++];
	const struct tasd_pkl_map *state = module_state(pair->value);

	map->text.len = top->prefix;
	if (pair->key->type != TASD_PKL_STR ||
		pair->key->text.len >= KEY_ROOM - top->prefix) {
		tasd_container_problem(map->ctr,
			"an attribute of a module that has no name, or too "
			"long a one, is not shown");
		return 0;
	}
	tasd_buf_add(
		&map->text, pair->key->text.bytes, (size_t)pair->key->text.len);
	if (!state || *depth == DEPTH_MAX)
		return tasd_buf_err(&map->text) ? tasd_buf_err(&map->text)
						: add(map, pair->value);
	if (++*modules > MODULES_MAX)
		return -E2BIG;
	tasd_buf_char(&map->text, '.');
	stack[(*depth)++] = (struct module){
		.state = state, .prefix = (uint32_t)map->text.len};
	return tasd_buf_err(&map->text);
}

tasd_err tasd_torch_script(struct tasd_torch_map *map,
	const struct tasd_pkl *root, struct tasd_torch_shape *shape,
	bool *ret_is)
{
	cleanup_free struct module *stack = calloc(DEPTH_MAX, sizeof(*stack));
	const struct tasd_pkl_map *state = module_state(root);
	uint32_t depth = 1, modules = 1;
	tasd_err err = stack ? 0 : -ENOMEM;

	*ret_is = state != NULL;
	if (err || !state)
		return err;
	*shape = (struct tasd_torch_shape){
		.kind = TASD_KIND_DICT,
		.form = TASD_FORM_DIR,
		.class = tasd_torch_class(map, root->object->callable),
	};
	stack[0] = (struct module){.state = state};
	while (!err && depth) {
		if (stack[depth - 1].next == stack[depth - 1].state->n)
			depth--;
		else
			err = step(map, stack, &depth, &modules);
	}
	return err;
}
