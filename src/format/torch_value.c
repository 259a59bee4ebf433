/*
 * The walk over the graph that makes the state dict.
 *
 * A value that is met for the first time is looked at: it becomes a file, or a
 * directory whose entries are put on a stack and come next, in their order, so
 * that what several places refer to stands where a reader of the tree meets it
 * first.  The other places are links to it, or files of the same bytes for
 * what has no identity.
 *
 * Attributes beside items are kept for later: when the tree is done they are
 * mapped in the same way into theirs.  A link may lead from there into the
 * tree, never the other way.
 */
#include "torch_inner.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRATCH_MAX ((size_t)128 << 20)
/* A root that is a list is a directory, even one of plain values, unless it
 * has more of them. */
#define ROOT_ITEMS_MAX 65536u
#define CLASS_MAX      256

/* A directory that is being filled. */
struct frame {
	struct tasd_node *node;
	size_t start, next, end; /* its entries among the parts */
	uint32_t position;
};

/* An attribute that waits for the tree to be done. */
struct later {
	struct tasd_node *owner;
	struct tasd_torch_part part;
};

struct walk {
	struct frame *frames;
	size_t depth, frames_room;
	struct later *laters;
	size_t nlaters, laters_room;
	bool beside; /* the attributes' turn */
};

enum tasd_torch_tag tasd_torch_tag(
	struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	uint8_t *tag;

	if (value->type != TASD_PKL_GLOBAL)
		return TASD_TORCH_UNKNOWN;
	tag = &map->tags[value->global->index];
	if (!*tag)
		*tag = (uint8_t)(tasd_torch_known(value->global) + 1);
	return *tag - 1;
}

const char *tasd_torch_class(
	struct tasd_torch_map *map, const struct tasd_pkl *value)
{
	const struct tasd_pkl_global *g = value->global;
	char module[CLASS_MAX], name[CLASS_MAX], text[2 * CLASS_MAX + 2];

	if (value->type != TASD_PKL_GLOBAL)
		return NULL;
	if (map->classes[g->index])
		return map->classes[g->index];
	tasd_print_bytes(module, sizeof(module), g->module, g->module_len);
	tasd_print_bytes(name, sizeof(name), g->name, g->name_len);
	(void)snprintf(text, sizeof(text), "%s%s%s", module,
		g->module_len ? "." : "", name);
	map->classes[g->index] =
		tasd_arena_copy(map->arena, text, strlen(text));
	return map->classes[g->index];
}

/* An array that grows by doubling. */
static tasd_err grow(void *array, size_t *room, size_t need, size_t width)
{
	size_t want = *room ? 2 * *room : 64;
	void *old, *grown;

	if (need <= *room)
		return 0;
	if (want < need)
		want = need;
	memcpy(&old, array, sizeof(old));
	grown = reallocarray(old, want, width);
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof(grown));
	*room = want;
	return 0;
}

tasd_err tasd_torch_add_part(
	struct tasd_torch_map *map, const struct tasd_torch_part *part)
{
	tasd_err err = map->nparts < TASD_TORCH_PARTS_MAX
			       ? grow(&map->parts, &map->parts_room,
					 map->nparts + 1, sizeof(*map->parts))
			       : -E2BIG;

	if (!err)
		map->parts[map->nparts++] = *part;
	return err;
}

tasd_err tasd_torch_fact(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const char *name, const char *value,
	size_t len)
{
	struct tasd_node_fact *facts;
	char *copy = tasd_arena_copy(map->arena, value, len);

	/* There are few of them: an array for each number is good enough. */
	facts = tasd_arena_alloc(
		map->arena, (shape->nfacts + 1) * sizeof(*facts));
	if (!facts || !copy)
		return -E2BIG;
	if (shape->nfacts)
		memcpy(facts, shape->facts, shape->nfacts * sizeof(*facts));
	facts[shape->nfacts++] = (struct tasd_node_fact){
		.name = name, .value = copy, .len = (uint32_t)len};
	shape->facts = facts;
	return 0;
}

tasd_err tasd_torch_broken(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const char *format, ...)
{
	char raw[TASD_DIAG_MAX], text[TASD_DIAG_MAX];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	tasd_print_bytes(text, sizeof(text), raw, strlen(raw));
	shape->error = tasd_arena_copy(map->arena, text, strlen(text));
	shape->bytes = "";
	shape->len = 0;
	return shape->error ? 0 : -E2BIG;
}

tasd_err tasd_torch_blob(struct tasd_torch_map *map, const char *bytes,
	uint64_t len, uint64_t *ret_offset)
{
	*ret_offset = map->blob.len;
	if (len > TASD_TORCH_BLOB_MAX - map->blob.len)
		return -EFBIG;
	tasd_buf_add(&map->blob, bytes, (size_t)len);
	return tasd_buf_err(&map->blob);
}

tasd_err tasd_torch_fix(struct tasd_torch_map *map, struct tasd_tensor *tensor)
{
	struct tasd_torch_fix *fix =
		tasd_arena_alloc(&map->scratch, sizeof(*fix));

	if (!fix)
		return -E2BIG;
	fix->tensor = tensor;
	fix->next = map->fixes;
	map->fixes = fix;
	return 0;
}

bool tasd_torch_in_stream(const struct tasd_torch_map *map, const char *bytes,
	uint64_t len, uint64_t *ret_offset)
{
	const struct tasd_torch *t = map->torch;
	uintptr_t from = (uintptr_t)t->stream, at = (uintptr_t)bytes;

	if (!t->stream_in_source || at < from || at - from > t->stream_len ||
		len > t->stream_len - (at - from))
		return false;
	*ret_offset = t->stream_offset + (at - from);
	return true;
}

/* One JSON text. */
static tasd_err json_text(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	struct tasd_buf json = TASD_BUF_EMPTY;
	tasd_err err = tasd_torch_json(map, &json, value);

	tasd_buf_char(&json, '\n');
	if (!err)
		err = tasd_buf_err(&json);
	shape->form = TASD_FORM_VALUE;
	shape->len = json.len;
	map->texts += json.len;
	if (!err) {
		shape->bytes =
			tasd_arena_copy(map->arena, json.bytes, json.len);
		err = shape->bytes ? 0 : -E2BIG;
	}
	tasd_buf_free(&json);
	return err;
}

static bool is_frozen(const struct tasd_pkl *value)
{
	const struct tasd_pkl *made_by;

	if (value->type != TASD_PKL_OBJECT)
		return value->type == TASD_PKL_FROZENSET;
	made_by = value->object->callable;
	return tasd_pkl_is_global(made_by, "builtins", "frozenset") ||
	       tasd_pkl_is_global(made_by, "__builtin__", "frozenset");
}

/* A list, tuple or set. */
static tasd_err look_at_seq(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const struct tasd_pkl_seq *seq,
	struct tasd_torch_shape *shape)
{
	bool plain = false;
	tasd_err err = tasd_torch_is_plain(map, value, &plain);

	if (is_frozen(value))
		shape->class = "builtins.frozenset";
	if (!err && plain &&
		(value != map->torch->root || seq->n > ROOT_ITEMS_MAX))
		return json_text(map, value, shape);
	shape->form = TASD_FORM_DIR;
	for (uint32_t i = 0; i < seq->n && !err; i++) {
		struct tasd_torch_part part = {.value = seq->at[i]};

		err = tasd_torch_add_part(map, &part);
	}
	return err;
}

static tasd_err look_at_dict(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	tasd_err err = 0;

	shape->kind = TASD_KIND_DICT;
	shape->form = TASD_FORM_DIR;
	for (uint32_t i = 0; i < value->map.n && !err; i++) {
		struct tasd_torch_part part = {
			.value = value->map.at[i].value,
			.key = value->map.at[i].key,
		};

		err = tasd_torch_add_part(map, &part);
	}
	return err;
}

/* A class, function, dtype.. that is named as a value. */
static tasd_err look_at_global(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	const char *text = tasd_torch_class(map, value);

	if (!text)
		return -E2BIG;
	shape->form = TASD_FORM_VALUE;
	shape->kind = TASD_KIND_GLOBAL;
	if (tasd_torch_is_constant(value->global)) {
		shape->kind = TASD_KIND_OBJECT;
		if (tasd_torch_dtype(
			    value->global->name, value->global->name_len))
			shape->class = "torch.dtype";
	}
	map->text.len = 0;
	tasd_buf_printf(&map->text, "%s\n", text);
	shape->bytes =
		tasd_arena_copy(map->arena, map->text.bytes, map->text.len);
	shape->len = map->text.len;
	return shape->bytes ? 0 : -E2BIG;
}

const struct tasd_pkl *tasd_torch_source_class(const struct tasd_pkl *value)
{
	const struct tasd_pkl_seq *pid = &value->pid->seq;
	uint32_t at;

	if (value->type != TASD_PKL_PERSID ||
		value->pid->type != TASD_PKL_TUPLE || !pid->n)
		return NULL;
	at = tasd_pkl_is_str(pid->at[0], "module");
	return at < pid->n && pid->at[at]->type == TASD_PKL_GLOBAL ? pid->at[at]
								   : NULL;
}

/* A persistent id that is no storage: the class of an old whole-module file,
 * or somebody's own. */
static tasd_err look_at_persid(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	const struct tasd_pkl *pid = value->pid;
	struct tasd_torch_part part = {
		.value = pid, .name = "__args__", .is_attr = true};
	bool is = false;
	tasd_err err = tasd_torch_tensor(map, value, shape, &is);

	if (err || is)
		return err;
	*shape = (struct tasd_torch_shape){.kind = TASD_KIND_OBJECT};
	if (tasd_torch_source_class(value))
		return look_at_global(
			map, tasd_torch_source_class(value), shape);
	shape->form = TASD_FORM_DIR;
	shape->kind = TASD_KIND_OBJECT;
	return tasd_torch_add_part(map, &part);
}

/* What becomes of value; its entries are put on the stack of parts. */
static tasd_err look_at(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape)
{
	const struct tasd_pkl_seq *seq;
	enum tasd_kind kind;

	*shape = (struct tasd_torch_shape){.form = TASD_FORM_VALUE};
	if (tasd_torch_seq(map, value, &seq, &kind)) {
		shape->kind = (uint8_t)kind;
		return look_at_seq(map, value, seq, shape);
	}
	switch ((int)value->type) {
	case TASD_PKL_DICT:
		return look_at_dict(map, value, shape);
	case TASD_PKL_GLOBAL:
		return look_at_global(map, value, shape);
	case TASD_PKL_PERSID:
		return look_at_persid(map, value, shape);
	case TASD_PKL_OBJECT:
		return tasd_torch_object(map, value, shape);
	default:
		return tasd_torch_plain(map, value, shape);
	}
}

/* Nothing but a class: nodes share it, as far as a few recent ones go. */
static tasd_err shared_extra(struct tasd_torch_map *map, const char *class,
	const struct tasd_node_extra **ret)
{
	struct tasd_torch_recent *recent =
		&map->recent[(uintptr_t) class / 8 % TASD_TORCH_RECENT];

	if (recent->class != class) {
		struct tasd_node_extra *extra =
			tasd_arena_alloc(map->arena, sizeof(*extra));

		if (!extra)
			return -E2BIG;
		extra->class = class;
		*recent = (struct tasd_torch_recent){class, extra};
	}
	*ret = recent->extra;
	return 0;
}

static tasd_err give_extra(struct tasd_torch_map *map, struct tasd_node *node,
	const struct tasd_torch_shape *shape)
{
	struct tasd_node_extra *extra;

	if (!shape->class && !shape->nfacts)
		return 0;
	if (!shape->nfacts)
		return shared_extra(map, shape->class, &node->extra);
	extra = tasd_arena_alloc(map->arena, sizeof(*extra));
	if (!extra)
		return -E2BIG;
	extra->class = shape->class;
	extra->facts = shape->facts;
	extra->nfacts = shape->nfacts;
	node->extra = extra;
	return 0;
}

/* The keys on the way to node, the last of them, none of them long: a path may
 * be megabytes. */
static void short_path(struct tasd_buf *text, const struct tasd_node *node)
{
	const struct tasd_node *way[8];
	size_t n = 0;

	for (; node->parent && n < 8; node = node->parent)
		way[n++] = node;
	if (node->parent)
		tasd_buf_str(text, "..");
	for (; n > 0; n--) {
		struct tasd_key key = way[n - 1]->key;
		bool cut = key.type != TASD_KEY_TUPLE && key.len > 64;

		if (cut)
			key.len = 64;
		if (text->len)
			tasd_buf_char(text, '.');
		tasd_key_print(text, &key);
		if (cut)
			tasd_buf_str(text, "..");
	}
}

static void note_error(struct tasd_torch_map *map, const struct tasd_node *node)
{
	struct tasd_buf *text = &map->text;

	text->len = 0;
	short_path(text, node);
	tasd_buf_char(text, '\0');
	tasd_container_problem(map->ctr, "%s%s%s",
		tasd_buf_err(text) ? "" : text->bytes,
		text->len > 1 ? ": " : "", node->error);
}

static tasd_err give(struct tasd_torch_map *map, struct tasd_node *node,
	const struct tasd_torch_shape *shape)
{
	tasd_err err;

	node->kind = shape->kind;
	node->form = shape->form;
	node->requires_grad = shape->requires_grad;
	node->error = shape->error;
	if (node->form == TASD_FORM_TENSOR) {
		node->tensor = shape->tensor;
	} else if (node->form == TASD_FORM_VALUE) {
		node->value.bytes = shape->bytes;
		node->value.len = shape->len;
	}
	err = give_extra(map, node, shape);
	if (!err && shape->storage)
		err = tasd_torch_tie(map, node, shape->storage);
	if (node->error)
		note_error(map, node);
	return err;
}

/* Is it a link when it is met again? */
static bool leads(const struct tasd_node *node)
{
	if (node->form == TASD_FORM_VALUE)
		return node->kind == TASD_KIND_LIST ||
		       (node->kind == TASD_KIND_SET && !node->extra) ||
		       node->error;
	return node->form == TASD_FORM_DIR;
}

/* A value that has a node already. */
static tasd_err again(struct tasd_torch_map *map, struct tasd_node *node,
	const struct tasd_node *first)
{
	node->kind = first->kind;
	node->error = first->error;
	if (leads(first)) {
		node->form = TASD_FORM_LINK;
		node->link = first;
		node->error = NULL;
		return 0;
	}
	node->form = first->form;
	node->requires_grad = first->requires_grad;
	node->extra = first->extra;
	if (node->form == TASD_FORM_TENSOR) {
		node->tensor = first->tensor;
		return tasd_torch_same(map, node, (struct tasd_node *)first);
	}
	node->value = first->value;
	return 0;
}

/* Take the attributes beside node off the parts from start on. */
static tasd_err put_off(struct tasd_torch_map *map, struct walk *w,
	struct tasd_node *node, size_t start)
{
	size_t kept = start;
	tasd_err err = 0;

	for (size_t i = start; i < map->nparts && !err; i++) {
		struct tasd_torch_part part = map->parts[i];

		/* Attributes of an attribute are entries like others; those of
		 * a leaf have no place. */
		if (!part.beside ||
			(w->beside && node->form == TASD_FORM_DIR)) {
			map->parts[kept++] = part;
			continue;
		}
		if (w->beside) {
			tasd_container_problem(map->ctr,
				"the attributes of an attribute are not shown");
			continue;
		}
		err = grow(&w->laters, &w->laters_room, w->nlaters + 1,
			sizeof(*w->laters));
		if (!err)
			w->laters[w->nlaters++] =
				(struct later){.owner = node, .part = part};
	}
	map->nparts = kept;
	return err;
}

/* node is a directory now; its entries are the parts from start on. */
static tasd_err enter(struct tasd_torch_map *map, struct walk *w,
	struct tasd_node *node, size_t start)
{
	tasd_err err = grow(
		&w->frames, &w->frames_room, w->depth + 1, sizeof(*w->frames));

	if (!err)
		w->frames[w->depth++] = (struct frame){.node = node,
			.start = start,
			.next = start,
			.end = map->nparts};
	return err;
}

/* What value is, in a node that is made for it or, with NULL, in the root. */
static tasd_err fill(struct tasd_torch_map *map, struct walk *w,
	struct tasd_node *node, const struct tasd_pkl *value,
	const struct tasd_torch_shape *shape, size_t start)
{
	tasd_err err = give(map, node, shape);

	map->nodes[value->id] = node;
	if (!err)
		err = put_off(map, w, node, start);
	if (!err && node->form == TASD_FORM_DIR)
		err = enter(map, w, node, start);
	return err;
}

static tasd_err place(struct tasd_torch_map *map, struct walk *w,
	struct tasd_node *node, const struct tasd_pkl *value)
{
	struct tasd_torch_shape shape;
	size_t start = map->nparts;
	tasd_err err;

	if (map->nodes[value->id])
		return again(map, node, map->nodes[value->id]);
	err = look_at(map, value, &shape);
	if (err)
		return err;
	if (shape.form == TASD_FORM_DIR && w->depth >= TASD_TORCH_DEPTH_MAX) {
		map->nparts = start;
		shape.form = TASD_FORM_VALUE;
		err = tasd_torch_broken(map, &shape,
			"nested deeper than %d directories",
			TASD_TORCH_DEPTH_MAX);
		if (err)
			return err;
	}
	return fill(map, w, node, value, &shape, start);
}

/* The key of a part that says a text. */
static struct tasd_key text_key(const struct tasd_torch_part *part)
{
	struct tasd_key key = {
		.type = part->is_attr ? TASD_KEY_ATTR : TASD_KEY_STR};

	key.text = part->name ? part->name : part->key->text.bytes;
	key.len = (uint32_t)(part->name ? strlen(part->name)
					: part->key->text.len);
	return key;
}

/* Add an entry to dir under its key, whatever that is. */
static tasd_err add_entry(struct tasd_torch_map *map, struct tasd_node *dir,
	const struct tasd_torch_part *part, uint32_t position,
	struct tasd_node **ret)
{
	char digits[16];
	struct tasd_key key;
	tasd_err err = 0;

	if (part->is_attr || part->name) {
		key = text_key(part);
	} else if (part->key) {
		err = tasd_torch_key(map, part->key, position, &key);
	} else {
		key = (struct tasd_key){.text = digits,
			.len = (uint32_t)snprintf(
				digits, sizeof(digits), "%" PRIu32, position),
			.type = TASD_KEY_INT};
	}
	if (err)
		return err;
	err = tasd_statedict_add(map->sd, dir, key, ret);
	if (err != -EEXIST || part->is_attr || !part->key)
		return err;
	err = tasd_torch_key_again(map, part->key, position, &key);
	return err ? err : tasd_statedict_add(map->sd, dir, key, ret);
}

/* Until all directories are filled that are being so. */
static tasd_err run(struct tasd_torch_map *map, struct walk *w)
{
	tasd_err err = 0;

	while (!err && w->depth) {
		struct frame *top = &w->frames[w->depth - 1];
		struct tasd_torch_part part;
		struct tasd_node *node = NULL;

		if (top->next == top->end) {
			map->nparts = top->start;
			w->depth--;
			continue;
		}
		part = map->parts[top->next++];
		err = add_entry(map, top->node, &part, top->position++, &node);
		/* An attribute that was set again: the last one is there. */
		if (err == -EEXIST) {
			err = 0;
			continue;
		}
		if (!err)
			err = place(map, w, node, part.value);
	}
	return err;
}

static tasd_err run_laters(struct tasd_torch_map *map, struct walk *w)
{
	tasd_err err = 0;

	w->beside = true;
	for (size_t i = 0; i < w->nlaters && !err; i++) {
		const struct later *later = &w->laters[i];
		struct tasd_node *node = NULL;

		err = tasd_statedict_attr(
			map->sd, later->owner, text_key(&later->part), &node);
		if (err == -EEXIST) {
			err = 0;
			continue;
		}
		if (!err)
			err = place(map, w, node, later->part.value);
		if (!err)
			err = run(map, w);
	}
	return err;
}

static const char *whole_name(uint8_t kind)
{
	if (kind == TASD_KIND_TENSOR)
		return "tensor";
	return kind == TASD_KIND_NDARRAY || kind == TASD_KIND_NPSCALAR
		       ? "array"
		       : "value";
}

static tasd_err map_root(struct tasd_torch_map *map, struct walk *w)
{
	const struct tasd_pkl *value = map->torch->root;
	struct tasd_node *node = tasd_statedict_root(map->sd);
	struct tasd_torch_shape shape;
	struct tasd_key key = {.type = TASD_KEY_WHOLE};
	bool is = false;
	tasd_err err = 0;

	if (map->torch->script)
		err = tasd_torch_script(map, value, &shape, &is);
	if (!err && !is)
		err = look_at(map, value, &shape);
	if (!err && shape.form != TASD_FORM_DIR) {
		key.text = whole_name(shape.kind);
		key.len = (uint32_t)strlen(key.text);
		err = tasd_statedict_add(map->sd, node, key, &node);
	}
	return err ? err : fill(map, w, node, value, &shape, 0);
}

/* Lists and sets that more than one place refers to. */
static tasd_err note_met(void *ctx, const struct tasd_pkl *value)
{
	struct tasd_torch_map *map = ctx;
	const struct tasd_pkl *part;

	for (uint64_t n = 0; (part = tasd_pkl_part(value, n, NULL)); n++) {
		unsigned char bit = (unsigned char)(1u << part->id % 8);

		if (part->type < TASD_PKL_LIST)
			continue;
		if (map->seen[part->id / 8] & bit)
			map->met[part->id / 8] |= bit;
		map->seen[part->id / 8] |= bit;
	}
	return 0;
}

static tasd_err prepare(struct tasd_torch_map *map)
{
	const struct tasd_pickle *pickle = map->torch->pickle;
	size_t values = pickle->nvalues, globals = pickle->nglobals;
	uint64_t len = map->torch->stream_len;

	map->work = TASD_TORCH_WORK;
	if (len < UINT64_MAX / TASD_TORCH_WORK_EACH - TASD_TORCH_WORK)
		map->work += len * TASD_TORCH_WORK_EACH;
	map->text_max = TASD_TORCH_TEXT_MAX;
	if (len < TASD_TORCH_TEXT_MAX / TASD_TORCH_TEXT_EACH)
		map->text_max =
			TASD_TORCH_TEXT_MIN + TASD_TORCH_TEXT_EACH * len;
	if (map->text_max > TASD_TORCH_TEXT_MAX)
		map->text_max = TASD_TORCH_TEXT_MAX;
	map->nodes = calloc(values, sizeof(*map->nodes));
	map->costs = calloc(values, sizeof(*map->costs));
	map->met = calloc(values / 8 + 1, 1);
	map->seen = calloc(values / 8 + 1, 1);
	map->tags = calloc(globals + 1, sizeof(*map->tags));
	map->classes = calloc(globals + 1, sizeof(*map->classes));
	if (!map->nodes || !map->costs || !map->met || !map->seen ||
		!map->tags || !map->classes)
		return -ENOMEM;
	return tasd_pkl_walk(pickle, map->torch->root, note_met, map);
}

/* The bytes of arrays that do not stand in the file as they are become a
 * source of their own. */
static tasd_err finish_blob(struct tasd_torch_map *map)
{
	struct tasd_source *source = NULL;
	uint32_t index = 0;
	size_t len = 0;
	char *bytes;
	tasd_err err;

	if (!map->fixes)
		return 0;
	bytes = tasd_buf_steal(&map->blob, &len);
	if (!bytes)
		return -ENOMEM;
	err = tasd_source_memory(bytes, len, "(in the pickle)", &source);
	if (err) {
		free(bytes);
		return err;
	}
	err = tasd_container_add_source(map->ctr, source, &index);
	for (struct tasd_torch_fix *fix = map->fixes; !err && fix;
		fix = fix->next)
		fix->tensor->extent.source = index;
	return err;
}

static void unprepare(struct tasd_torch_map *map)
{
	free(map->nodes);
	free(map->costs);
	free(map->met);
	free(map->seen);
	free(map->tags);
	free(map->classes);
	free(map->parts);
	tasd_map_free(&map->storages);
	tasd_map_free(&map->ties);
	tasd_buf_free(&map->blob);
	tasd_buf_free(&map->text);
	tasd_arena_free(&map->scratch);
}

tasd_err tasd_torch_map(const struct tasd_torch *torch, struct tasd_diag *diag)
{
	struct walk w = {.frames = NULL};
	struct tasd_torch_map map = {
		.torch = torch,
		.ctr = torch->ctr,
		.sd = torch->ctr->sd,
		.arena = tasd_statedict_arena(torch->ctr->sd),
	};
	tasd_err err;

	tasd_arena_init(&map.scratch, SCRATCH_MAX);
	tasd_map_init(&map.storages);
	tasd_map_init(&map.ties);
	err = prepare(&map);
	if (!err)
		err = map_root(&map, &w);
	if (!err)
		err = run(&map, &w);
	if (!err)
		err = run_laters(&map, &w);
	if (!err)
		err = finish_blob(&map);
	free(w.frames);
	free(w.laters);
	unprepare(&map);
	if (err == -E2BIG)
		return tasd_diag_set(diag, err,
			"its values need more than the %zu MiB of memory "
			"allowed",
			map.arena->limit >> 20);
	return err;
}
