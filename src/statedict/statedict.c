/*
 * Items are kept in the order they were added, each under its dict; one map
 * refuses a key that its dict has already.  Sealing (seal.c) frees that map,
 * puts every node below its directory and fills the map again, by name.
 *
 * Nothing here recurses: the depth of a tree is the file's choice.
 */
#include "inner.h"
#include <statedict/name.h>
#include <stdlib.h>
#include <string.h>

/* The longest key: what a 32-bit length and a JSON document can hold. */
#define KEY_MAX ((uint32_t)1 << 31)

/* Bytes of one slot of the map (base/map.h says so). */
#define MAP_SLOT 16

static const char *const kind_names[TASD_KIND_COUNT] = {
	[TASD_KIND_TENSOR] = "tensor",
	[TASD_KIND_NDARRAY] = "ndarray",
	[TASD_KIND_NPSCALAR] = "npscalar",
	[TASD_KIND_STORAGE] = "storage",
	[TASD_KIND_INT] = "int",
	[TASD_KIND_FLOAT] = "float",
	[TASD_KIND_BOOL] = "bool",
	[TASD_KIND_COMPLEX] = "complex",
	[TASD_KIND_NONE] = "none",
	[TASD_KIND_STR] = "str",
	[TASD_KIND_BYTES] = "bytes",
	[TASD_KIND_LIST] = "list",
	[TASD_KIND_TUPLE] = "tuple",
	[TASD_KIND_SET] = "set",
	[TASD_KIND_DICT] = "dict",
	[TASD_KIND_GROUP] = "group",
	[TASD_KIND_OBJECT] = "object",
	[TASD_KIND_GLOBAL] = "global",
	[TASD_KIND_PICKLE] = "pickle",
};

const char *tasd_kind_name(enum tasd_kind kind)
{
	return (unsigned int)kind < TASD_KIND_COUNT ? kind_names[kind] : "";
}

tasd_err tasd_statedict_new(
	unsigned int flags, size_t limit, struct tasd_statedict **ret)
{
	struct tasd_statedict *sd;

	if (flags & ~(unsigned int)TASD_STATEDICT_NOSPLIT)
		return -EINVAL;
	sd = calloc(1, sizeof(*sd));
	if (!sd)
		return -ENOMEM;
	sd->flags = flags;
	tasd_arena_init(&sd->arena, limit);
	tasd_map_init(&sd->map);
	sd->root.kind = TASD_KIND_DICT;
	sd->root.form = TASD_FORM_DIR;
	sd->root.name = "";
	sd->root.key.text = "";
	sd->attrs = sd->root;
	sd->attrs.kind = TASD_KIND_GROUP;
	sd->attrs.flags = TASD_NODE_WAY;
	*ret = sd;
	return 0;
}

void tasd_statedict_free(struct tasd_statedict *sd)
{
	if (!sd)
		return;
	tasd_map_free(&sd->map);
	tasd_arena_free(&sd->arena);
	free(sd);
}

struct tasd_node *tasd_statedict_root(const struct tasd_statedict *sd)
{
	return (struct tasd_node *)&sd->root;
}

const struct tasd_node *tasd_statedict_attrs(const struct tasd_statedict *sd)
{
	return &sd->attrs;
}

const struct tasd_node *tasd_statedict_whole(const struct tasd_statedict *sd)
{
	const struct tasd_node *node =
		sd->items.count ? &sd->items.first->nodes[0] : NULL;

	return node && node->key.type == TASD_KEY_WHOLE ? node : NULL;
}

struct tasd_arena *tasd_statedict_arena(struct tasd_statedict *sd)
{
	return &sd->arena;
}

tasd_err tasd_statedict_room(const struct tasd_statedict *sd)
{
	size_t left = sd->arena.limit - sd->arena.used;

	return sd->map.room > left / MAP_SLOT ? -E2BIG : 0;
}

struct tasd_node *tasd_slabs_add(
	struct tasd_slabs *slabs, struct tasd_arena *arena)
{
	uint32_t at = slabs->count % TASD_SLAB_NODES;

	if (slabs->count == UINT32_MAX)
		return NULL;
	if (at == 0) {
		struct tasd_slab *slab = tasd_arena_alloc(arena, sizeof(*slab));

		if (!slab)
			return NULL;
		if (slabs->last)
			slabs->last->next = slab;
		else
			slabs->first = slab;
		slabs->last = slab;
	}
	slabs->count++;
	return &slabs->last->nodes[at];
}

struct item_key {
	const struct tasd_node *dict;
	const struct tasd_key *key;
};

static bool item_eq(const void *value, const void *wanted)
{
	const struct tasd_node *node = value;
	const struct item_key *want = wanted;

	return node->parent == want->dict &&
	       node->key.type == want->key->type &&
	       node->key.len == want->key->len &&
	       memcmp(node->key.text, want->key->text, want->key->len) == 0;
}

static uint64_t item_hash(
	const struct tasd_map *map, const struct item_key *item)
{
	/* Dicts are more than 16 bytes apart, so the types have room. */
	return tasd_map_hash(map, item->key->text, item->key->len,
		(uintptr_t)item->dict + item->key->type);
}

/* Copy key's text into the arena, with the JSON behind that of a tuple. */
static tasd_err copy_key(
	struct tasd_arena *arena, struct tasd_key key, struct tasd_key *ret)
{
	size_t size = key.len;
	char *text;

	*ret = key;
	if (key.type == TASD_KEY_TUPLE)
		size += 1 + strlen(key.text + key.len + 1) + 1;
	if (size == 0) {
		ret->text = "";
		return 0;
	}
	text = tasd_arena_bytes(arena, size);
	if (!text)
		return -E2BIG;
	memcpy(text, key.text, size);
	ret->text = text;
	return 0;
}

static bool is_named_constant(uint8_t type)
{
	return type == TASD_KEY_NONE || type == TASD_KEY_TRUE ||
	       type == TASD_KEY_FALSE;
}

/* A whole is the only item of the root. */
static bool may_add(const struct tasd_statedict *sd,
	const struct tasd_node *parent, uint8_t type)
{
	if (type == TASD_KEY_WHOLE)
		return parent == &sd->root && sd->items.count == 0;
	return type < TASD_KEY_WHOLE &&
	       (parent != &sd->root || !tasd_statedict_whole(sd));
}

/* An item or an attribute of owner; what else it needs to be is checked. */
static tasd_err add(struct tasd_statedict *sd, struct tasd_node *owner,
	struct tasd_key key, struct tasd_node **ret)
{
	struct item_key item = {.dict = owner, .key = &key};
	struct tasd_node *node;
	uint64_t hash;
	tasd_err err;

	if (sd->sealed || key.len > KEY_MAX ||
		(key.type == TASD_KEY_TUPLE && !key.text))
		return -EINVAL;
	if (is_named_constant(key.type) || !key.text) {
		key.text = "";
		key.len = 0;
	}
	hash = item_hash(&sd->map, &item);
	if (tasd_map_find(&sd->map, hash, item_eq, &item))
		return -EEXIST;
	if (sd->err)
		return sd->err;
	err = copy_key(&sd->arena, key, &key);
	node = err ? NULL : tasd_slabs_add(&sd->items, &sd->arena);
	if (!err && !node)
		err = -E2BIG;
	if (!err)
		err = tasd_map_put(&sd->map, hash, node);
	if (!err)
		err = tasd_statedict_room(sd);
	if (err) {
		sd->err = err;
		return err;
	}
	node->key = key;
	node->parent = owner;
	node->form = TASD_FORM_DIR;
	node->kind = TASD_KIND_DICT;
	node->name = "";
	*ret = node;
	return 0;
}

tasd_err tasd_statedict_add(struct tasd_statedict *sd, struct tasd_node *parent,
	struct tasd_key key, struct tasd_node **ret)
{
	tasd_err err;

	if (parent->form != TASD_FORM_DIR || !may_add(sd, parent, key.type))
		return -EINVAL;
	err = add(sd, parent, key, ret);
	if (!err)
		(*ret)->order = parent->dir.nchildren++;
	return err;
}

tasd_err tasd_statedict_attr(struct tasd_statedict *sd, struct tasd_node *node,
	struct tasd_key key, struct tasd_node **ret)
{
	tasd_err err;

	if (key.type >= TASD_KEY_WHOLE)
		return -EINVAL;
	err = add(sd, node, key, ret);
	if (err)
		return err;
	(*ret)->flags = TASD_NODE_BESIDE;
	(*ret)->order = sd->nattrs++;
	return 0;
}

uint64_t tasd_child_hash(
	const struct tasd_map *map, const struct tasd_child_key *key)
{
	return tasd_map_hash(map, key->name, key->len, (uintptr_t)key->dir);
}

bool tasd_child_eq(const void *node, const void *key)
{
	const struct tasd_node *child = node;
	const struct tasd_child_key *want = key;

	return child->parent == want->dir && child->name_len == want->len &&
	       memcmp(child->name, want->name, want->len) == 0;
}

const struct tasd_node *tasd_statedict_child(const struct tasd_statedict *sd,
	const struct tasd_node *dir, const char *name, size_t len)
{
	struct tasd_child_key key = {.dir = dir, .name = name, .len = len};

	if (!sd->sealed || len == 0 || len > TASD_NAME_MAX)
		return NULL;
	return tasd_map_find(
		&sd->map, tasd_child_hash(&sd->map, &key), tasd_child_eq, &key);
}

const struct tasd_node *tasd_statedict_lookup(
	const struct tasd_statedict *sd, const char *path)
{
	const struct tasd_node *node = &sd->root;

	while (node && *path) {
		size_t len = strcspn(path, "/");

		node = tasd_statedict_child(sd, node, path, len);
		path += len;
		if (*path == '/' && *++path == '\0')
			return NULL;
	}
	return node;
}

const struct tasd_node *tasd_node_next(const struct tasd_node *node)
{
	if (node->form == TASD_FORM_DIR && node->dir.nchildren > 0)
		return node->dir.children[0];
	while (node->parent) {
		const struct tasd_node *parent = node->parent;

		if (node->index + 1 < parent->dir.nchildren)
			return parent->dir.children[node->index + 1];
		node = parent;
	}
	return NULL;
}

/* The nodes from below the root down to one, of which writers print a line. */
struct lineage {
	const struct tasd_node *few[32];
	const struct tasd_node **nodes;
	size_t count;
};

/* A group stands for no key, but for the one of an item that has attributes. */
static bool has_component(const struct tasd_node *node)
{
	return node->kind != TASD_KIND_GROUP || node->flags & TASD_NODE_ITEM;
}

/* keys_only leaves out the groups above node, which have no component. */
static void lineage_of(struct tasd_buf *buf, const struct tasd_node *node,
	bool keys_only, struct lineage *line)
{
	size_t count = 0, at;

	for (const struct tasd_node *n = node; n->parent; n = n->parent)
		count += !keys_only || n == node || has_component(n);
	line->count = count;
	line->nodes = line->few;
	if (count > sizeof(line->few) / sizeof(line->few[0])) {
		line->nodes = calloc(count, sizeof(*line->nodes));
		if (!line->nodes) {
			buf->err = buf->err ? buf->err : -ENOMEM;
			line->count = 0;
			return;
		}
	}
	at = count;
	for (const struct tasd_node *n = node; n->parent; n = n->parent) {
		if (!keys_only || n == node || has_component(n))
			line->nodes[--at] = n;
	}
}

static void lineage_free(struct lineage *line)
{
	if (line->nodes != line->few)
		free(line->nodes);
}

void tasd_node_key_json(struct tasd_buf *buf, const struct tasd_node *node)
{
	struct lineage line;
	bool any = false;

	lineage_of(buf, node, true, &line);
	tasd_buf_char(buf, '[');
	for (size_t i = 0; i < line.count; i++) {
		if (line.nodes[i]->key.type == TASD_KEY_WHOLE)
			continue;
		if (any)
			tasd_buf_char(buf, ',');
		any = true;
		tasd_key_json(buf, &line.nodes[i]->key);
	}
	tasd_buf_char(buf, ']');
	lineage_free(&line);
}

void tasd_node_path(struct tasd_buf *buf, const struct tasd_node *node)
{
	struct lineage line;

	lineage_of(buf, node, false, &line);
	for (size_t i = 0; i < line.count; i++) {
		if (i > 0)
			tasd_buf_char(buf, '/');
		tasd_buf_add(buf, line.nodes[i]->name, line.nodes[i]->name_len);
	}
	lineage_free(&line);
}

void tasd_node_dotted(struct tasd_buf *buf, const struct tasd_node *node)
{
	struct lineage line;

	lineage_of(buf, node, true, &line);
	for (size_t i = 0; i < line.count; i++) {
		if (i > 0)
			tasd_buf_char(buf, '.');
		tasd_key_print(buf, &line.nodes[i]->key);
	}
	lineage_free(&line);
}

struct tasd_statedict_totals tasd_statedict_totals(
	const struct tasd_statedict *sd)
{
	return sd->totals;
}
