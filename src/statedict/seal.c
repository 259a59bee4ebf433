/*
 * From items to the tree that is shown: splitting, naming, ordering.
 *
 * The rule: a str key is split at a dot unless what stands before the dot is
 * itself a key of the same dict; from there on it stays in one piece.  Joining
 * the pieces of a path with dots gives back the key or, for a group, the
 * prefix.  So two keys never share a path, and no leaf is where a group is: a
 * group's prefix is no key.
 *
 * The rule asks about prefixes, and answering it by hashing every prefix of
 * every key would cost the square of a key's length.  Instead keys are placed
 * from short to long: all keys that are prefixes of one are placed before it,
 * and since up to there both are split alike, each sits exactly where the
 * longer one looks for its next group.  Each step then hashes one component.
 * The outcome does not depend on the order in which the items were added,
 * because keys of one length are no prefixes of each other.
 *
 * Keys that are not str are placed before all that are, so that they have the
 * plain name, and no str key is split where one of them is in the way.
 *
 * The steps: place() gives every node its parent and name; lay_out() makes the
 * lists of children in saved order; finish() hashes the paths and counts.
 * Attributes come last, in a tree of their own: the way to one has the names
 * that its owner has by then.
 */
#include "inner.h"
#include <statedict/name.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Until lay_out(): a group made here, whatever kind the items have. */
#define MADE_GROUP UINT32_MAX
/* Until lay_out(): not yet in its parent's list. */
#define NO_INDEX UINT32_MAX

#define RANK_STR TASD_KEY_WHOLE /* ranks below are the other types */
#define RANKS    (RANK_STR + TASD_SPLIT_KEY_MAX + 2)

/* The groups on the way to the key placed last: the next one mostly begins
 * alike, and need not look them up again. */
struct last_way {
	const struct tasd_node *dict;
	const char *text;
	uint32_t count;
	uint32_t dots[TASD_SPLIT_COMPONENT_MAX - 1];
	struct tasd_node *groups[TASD_SPLIT_COMPONENT_MAX - 1];
};

struct sealing {
	struct tasd_statedict *sd;
	struct tasd_buf name;  /* the one being made */
	struct tasd_buf print; /* of a key that is not its own text */
	struct last_way last;
};

struct item_walk {
	struct tasd_slab *slab;
	uint32_t at, left;
};

static struct item_walk walk_items(const struct tasd_statedict *sd)
{
	return (struct item_walk){
		.slab = sd->items.first, .left = sd->items.count};
}

static struct tasd_node *next_item(struct item_walk *walk)
{
	if (walk->left == 0)
		return NULL;
	if (walk->at == TASD_SLAB_NODES) {
		walk->slab = walk->slab->next;
		walk->at = 0;
	}
	walk->left--;
	return &walk->slab->nodes[walk->at++];
}

static uint32_t rank_of(const struct tasd_node *node)
{
	const struct tasd_key *key = &node->key;

	if (key->type != TASD_KEY_STR)
		return (uint32_t)key->type - 1;
	return RANK_STR + (key->len > TASD_SPLIT_KEY_MAX
					  ? TASD_SPLIT_KEY_MAX + 1
					  : key->len);
}

/* All items by rank, within a rank as they were added; free() it. */
static tasd_err rank_items(
	const struct tasd_statedict *sd, struct tasd_node ***ret)
{
	uint32_t starts[RANKS + 1] = {0};
	struct item_walk walk = walk_items(sd);
	struct tasd_node *node, **ranked;

	ranked = malloc(
		((size_t)sd->items.count + 1) * sizeof(struct tasd_node *));
	if (!ranked)
		return -ENOMEM;
	while ((node = next_item(&walk)))
		starts[rank_of(node) + 1]++;
	for (uint32_t rank = 0; rank < RANKS; rank++)
		starts[rank + 1] += starts[rank];
	walk = walk_items(sd);
	while ((node = next_item(&walk)))
		ranked[starts[rank_of(node)]++] = node;
	*ret = ranked;
	return 0;
}

/* Put node into dir under that name, which no child has. */
static tasd_err link_child(struct sealing *s, const struct tasd_child_key *name,
	uint64_t hash, struct tasd_node *node, struct tasd_node *dir)
{
	struct tasd_statedict *sd = s->sd;
	const char *text = node->key.text;
	tasd_err err;

	node->name = name->name;
	/* What is no part of the key's own text is in a buffer of ours. */
	if (name->name < text || name->name > text + node->key.len) {
		char *copy = tasd_arena_bytes(&sd->arena, name->len);

		if (!copy)
			return -E2BIG;
		memcpy(copy, name->name, name->len);
		node->name = copy;
	}
	node->name_len = (uint16_t)name->len;
	node->parent = dir;
	node->index = NO_INDEX;
	err = tasd_map_put(&sd->map, hash, node);
	if (err)
		return err;
	dir->dir.nchildren++;
	return tasd_statedict_room(sd);
}

/* The name of a piece, escaped if need be, with a suffix behind it. */
static tasd_err make_name(struct sealing *s, const char *piece, size_t len,
	const char *suffix, struct tasd_child_key *name)
{
	if (!*suffix && tasd_name_is_plain(piece, len)) {
		name->name = piece;
		name->len = len;
		return 0;
	}
	s->name.len = 0;
	tasd_name_escape(&s->name, piece, len, TASD_NAME_MAX - strlen(suffix));
	tasd_buf_str(&s->name, suffix);
	name->name = s->name.bytes;
	name->len = s->name.len;
	return tasd_buf_err(&s->name);
}

static const char *type_name(uint8_t type)
{
	switch ((enum tasd_key_type)type) {
	case TASD_KEY_STR:
		return "str";
	case TASD_KEY_INT:
		return "int";
	case TASD_KEY_ATTR:
		return "attr";
	case TASD_KEY_FLOAT:
		return "float";
	case TASD_KEY_BYTES:
		return "bytes";
	case TASD_KEY_TUPLE:
		return "tuple";
	case TASD_KEY_NONE:
		return "none";
	case TASD_KEY_WHOLE:
		return "whole";
	case TASD_KEY_TRUE:
	case TASD_KEY_FALSE:
		break;
	}
	return "bool";
}

/*
 * Place an item in dir as one piece.  When the name is taken by a key that
 * prints alike, its type tells it apart.  Two cut names can be alike as well,
 * since a file may be made so that hashes collide: a number, used once in that
 * directory, ends every such case.
 */
static tasd_err place_piece(struct sealing *s, struct tasd_node *item,
	struct tasd_node *dir, const char *piece, size_t len)
{
	const char *type = type_name(item->key.type);
	char suffix[32] = "";

	for (int attempt = 0; attempt < 3; attempt++) {
		struct tasd_child_key name = {.dir = dir};
		uint64_t hash;
		tasd_err err;

		if (attempt == 1)
			snprintf(suffix, sizeof(suffix), "%%:%s", type);
		if (attempt == 2)
			snprintf(suffix, sizeof(suffix), "%%:%s.%u", type,
				dir->dir.nchildren);
		err = make_name(s, piece, len, suffix, &name);
		if (err)
			return err;
		hash = tasd_child_hash(&s->sd->map, &name);
		if (!tasd_map_find(&s->sd->map, hash, tasd_child_eq, &name))
			return link_child(s, &name, hash, item, dir);
	}
	return -EEXIST;
}

/*
 * The group below dir for item's key up to dot, whose last component begins at
 * start; made when there is none.  NULL when something else is in its place,
 * so that the key is not split there.
 */
static tasd_err group_for(struct sealing *s, const struct tasd_node *item,
	struct tasd_node *dir, size_t start, size_t dot, struct tasd_node **ret)
{
	const char *text = item->key.text;
	struct tasd_child_key name = {.dir = dir};
	struct tasd_node *group;
	uint64_t hash;
	tasd_err err;

	err = make_name(s, text + start, dot - start, "", &name);
	if (err)
		return err;
	hash = tasd_child_hash(&s->sd->map, &name);
	group = tasd_map_find(&s->sd->map, hash, tasd_child_eq, &name);
	if (group) {
		/* A cut name may be that of another group. */
		bool same = group->order == MADE_GROUP &&
			    group->key.len == dot &&
			    memcmp(group->key.text + start, text + start,
				    dot - start) == 0;

		*ret = same ? group : NULL;
		return 0;
	}
	group = tasd_slabs_add(&s->sd->groups, &s->sd->arena);
	if (!group)
		return -E2BIG;
	group->key = tasd_key_str(text, (uint32_t)dot);
	group->kind = TASD_KIND_GROUP;
	group->form = TASD_FORM_DIR;
	group->order = MADE_GROUP;
	*ret = group;
	return link_child(s, &name, hash, group, dir);
}

/*
 * Keep of the last way what item's key has in common with it.  A group that is
 * there was made because its prefix is no key, so nothing else need be asked.
 * Returns where the rest of the key begins.
 */
static size_t follow_last(struct last_way *last, const struct tasd_node *item)
{
	const char *text = item->key.text;
	size_t len = item->key.len, start = 0;
	uint32_t common = 0;

	while (last->dict == item->parent && common < last->count) {
		size_t dot = last->dots[common];

		if (dot + 1 >= len || text[dot + 1] == '.' ||
			memcmp(text + start, last->text + start,
				dot + 1 - start) != 0)
			break;
		start = dot + 1;
		common++;
	}
	last->dict = item->parent;
	last->text = text;
	last->count = common;
	return start;
}

static tasd_err place_str(struct sealing *s, struct tasd_node *item)
{
	struct last_way *last = &s->last;
	struct tasd_node *dir = item->parent;
	const char *text = item->key.text;
	size_t len = item->key.len, start = 0, dot = len;

	if (!(s->sd->flags & TASD_STATEDICT_NOSPLIT))
		dot = tasd_name_split_at(text, len, 0);
	if (dot < len) {
		start = follow_last(last, item);
		if (start > 0) {
			dir = last->groups[last->count - 1];
			dot = tasd_name_split_at(text, len, start);
		}
	}
	while (dot < len) {
		struct tasd_node *group;
		tasd_err err = group_for(s, item, dir, start, dot, &group);

		if (err)
			return err;
		if (!group)
			break;
		last->dots[last->count] = (uint32_t)dot;
		last->groups[last->count++] = group;
		dir = group;
		start = dot + 1;
		dot = tasd_name_split_at(text, len, start);
	}
	return place_piece(s, item, dir, text + start, len - start);
}

/* A key whose print is its own text lends that to the name. */
static bool prints_own_text(uint8_t type)
{
	return type == TASD_KEY_INT || type == TASD_KEY_ATTR ||
	       type == TASD_KEY_FLOAT || type == TASD_KEY_TUPLE ||
	       type == TASD_KEY_WHOLE;
}

static tasd_err place(struct sealing *s, struct tasd_node *item)
{
	const struct tasd_key *key = &item->key;

	if (item->parent->form != TASD_FORM_DIR)
		return -EINVAL;
	if (key->type == TASD_KEY_STR)
		return place_str(s, item);
	if (prints_own_text(key->type))
		return place_piece(s, item, item->parent, key->text, key->len);
	s->print.len = 0;
	tasd_key_print(&s->print, key);
	if (tasd_buf_err(&s->print))
		return tasd_buf_err(&s->print);
	return place_piece(s, item, item->parent, s->print.bytes, s->print.len);
}

/* The directory below attrs for the attributes of what node is in dir. */
static tasd_err way_step(struct sealing *s, const struct tasd_node *node,
	struct tasd_node *dir, struct tasd_node **ret)
{
	struct tasd_child_key name = {
		.dir = dir, .name = node->name, .len = node->name_len};
	uint64_t hash = tasd_child_hash(&s->sd->map, &name);
	struct tasd_node *way =
		tasd_map_find(&s->sd->map, hash, tasd_child_eq, &name);

	*ret = way;
	if (way)
		return 0;
	*ret = way = tasd_slabs_add(&s->sd->groups, &s->sd->arena);
	if (!way)
		return -E2BIG;
	way->key = node->key;
	way->kind = TASD_KIND_GROUP;
	way->form = TASD_FORM_DIR;
	way->order = MADE_GROUP;
	way->flags = TASD_NODE_WAY;
	if (node->kind != TASD_KIND_GROUP)
		way->flags |= TASD_NODE_ITEM;
	return link_child(s, &name, hash, way, dir);
}

/* The same for all nodes from the root to item's owner; item is then in the
 * last of them. */
static tasd_err make_way(struct sealing *s, struct tasd_node *item)
{
	struct tasd_node *way = &s->sd->attrs;
	const struct tasd_node **line;
	size_t depth = 0, at;
	tasd_err err = 0;

	for (const struct tasd_node *n = item->parent; n->parent; n = n->parent)
		depth++;
	line = calloc(depth + 1, sizeof(*line));
	if (!line)
		return -ENOMEM;
	at = depth;
	for (const struct tasd_node *n = item->parent; n->parent; n = n->parent)
		line[--at] = n;
	for (at = 0; at < depth && !err; at++)
		err = way_step(s, line[at], way, &way);
	free(line);
	item->parent = way;
	return err;
}

/*
 * Attributes, once all that is in the tree has its name.  First the ways to
 * them all, so that a way has the name of what it stands for.
 */
static tasd_err place_attrs(struct sealing *s)
{
	struct item_walk walk = walk_items(s->sd);
	struct tasd_node *item;
	tasd_err err = 0;

	while (!err && (item = next_item(&walk)))
		if (item->flags & TASD_NODE_BESIDE)
			err = make_way(s, item);
	walk = walk_items(s->sd);
	while (!err && (item = next_item(&walk)))
		if (item->flags & TASD_NODE_BESIDE)
			err = place(s, item);
	return err;
}

static tasd_err place_all(struct sealing *s)
{
	struct tasd_statedict *sd = s->sd;
	struct item_walk walk = walk_items(sd);
	struct tasd_node *item, **ranked;
	tasd_err err;

	/* nchildren counted the items; now it counts what is shown. */
	sd->root.dir.nchildren = 0;
	while ((item = next_item(&walk))) {
		if (item->form == TASD_FORM_DIR)
			item->dir.nchildren = 0;
	}
	err = rank_items(sd, &ranked);
	if (err)
		return err;
	for (uint32_t i = 0; i < sd->items.count && !err; i++)
		if (!(ranked[i]->flags & TASD_NODE_BESIDE))
			err = place(s, ranked[i]);
	free(ranked);
	return err || !sd->nattrs ? err : place_attrs(s);
}

/*
 * Fill the lists of children in the order the items were added; a group comes
 * where its first member does.  All lists are cut from one array, each when
 * its first child comes, and nchildren counts up again as they fill.
 */
static tasd_err lay_out(struct tasd_statedict *sd)
{
	size_t count = (size_t)sd->items.count + sd->groups.count;
	struct item_walk walk = walk_items(sd);
	struct tasd_node *item, **pool;

	if (count == 0)
		return 0;
	pool = tasd_arena_alloc(&sd->arena, count * sizeof(struct tasd_node *));
	if (!pool)
		return -E2BIG;
	while ((item = next_item(&walk))) {
		struct tasd_node *node = item;

		while (node->parent && node->index == NO_INDEX) {
			struct tasd_node *dir = node->parent;

			if (!dir->dir.children) {
				dir->dir.children = pool;
				pool += dir->dir.nchildren;
				dir->dir.nchildren = 0;
			}
			node->index = dir->dir.nchildren++;
			dir->dir.children[node->index] = node;
			if (node->order == MADE_GROUP)
				node->order = item->order;
			node = dir;
		}
	}
	return 0;
}

static void hash_paths(struct tasd_node *root, uint64_t seed)
{
	root->path_hash = XXH3_64bits_withSeed("", 0, seed);
	for (const struct tasd_node *next = tasd_node_next(root); next;
		next = tasd_node_next(next)) {
		struct tasd_node *node = (struct tasd_node *)next;

		node->path_hash = XXH3_64bits_withSeed(
			node->name, node->name_len, node->parent->path_hash);
	}
}

static void finish(struct tasd_statedict *sd)
{
	struct tasd_statedict_totals *totals = &sd->totals;
	const struct tasd_node *node;

	hash_paths(&sd->root, 0);
	hash_paths(&sd->attrs, 1);
	for (node = tasd_node_next(&sd->root); node;
		node = tasd_node_next(node)) {
		totals->nodes++;
		if (node->form != TASD_FORM_TENSOR)
			continue;
		totals->tensors++;
		if (node->extra && node->extra->tie)
			continue;
		if (__builtin_add_overflow(totals->bytes, node->tensor->nbytes,
			    &totals->bytes))
			totals->bytes = UINT64_MAX;
	}
}

tasd_err tasd_statedict_seal(struct tasd_statedict *sd, struct tasd_diag *diag)
{
	struct sealing s = {.sd = sd};
	tasd_err err = sd->err;

	if (sd->sealed)
		return tasd_diag_set(diag, -EINVAL, "sealed already");
	/* A failure leaves nodes half placed: it is final as well. */
	sd->err = -EINVAL;
	tasd_map_free(&sd->map);
	if (!err)
		err = place_all(&s);
	tasd_buf_free(&s.name);
	tasd_buf_free(&s.print);
	if (!err)
		err = lay_out(sd);
	if (err == -E2BIG)
		return tasd_diag_set(diag, err,
			"the names and shapes of its %u items need more than "
			"%zu bytes of memory",
			sd->items.count, sd->arena.limit);
	if (err)
		return tasd_diag_set(diag, err, "no tree of its keys: %s",
			tasd_diag_text(NULL, err));
	finish(sd);
	sd->sealed = true;
	sd->err = 0;
	return 0;
}
