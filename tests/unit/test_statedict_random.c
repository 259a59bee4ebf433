/*
 * Random sets of keys over an alphabet in which everything collides, held
 * against the rule as DESIGN section 2.1 says it, worked out the slow way:
 * prefixes compared with all keys.  The seed is printed; TASD_TEST_SEED sets
 * it.
 */
#include "unit.h"
#include <statedict/statedict.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_ITEMS 64
#define MAX_DICTS 4

struct item {
	char text[12];
	uint32_t len;
	uint8_t type;
	uint8_t dict; /* 0: the root, else 1 + the item that is the dict */
	bool is_dict;
	char path[400]; /* expected */
	char json[400];
	uint64_t path_hash; /* of the first order; 0: not seen yet */
	struct tasd_node *node;
};

struct set {
	struct item items[MAX_ITEMS];
	size_t n;
};

static bool same_key(const struct item *a, const struct item *b)
{
	return a->dict == b->dict && a->type == b->type && a->len == b->len &&
	       memcmp(a->text, b->text, a->len) == 0;
}

static void random_set(struct set *set, unsigned int *seed)
{
	static const char *const alphabets[] = {
		"ab./%", "a.", "ab.", "a1.", ".", "ab.\x01/"};
	const char *alphabet = alphabets[(unsigned int)rand_r(seed) % 6];
	size_t want = 1 + (size_t)rand_r(seed) % MAX_ITEMS;
	bool typed = rand_r(seed) % 3 == 0, nested = rand_r(seed) % 2;
	size_t ndicts = 0;

	set->n = 0;
	for (size_t tries = 0; tries < 4 * want && set->n < want; tries++) {
		struct item *item = &set->items[set->n];
		bool taken = false;

		memset(item, 0, sizeof(*item));
		item->len = (uint32_t)rand_r(seed) % 9;
		for (uint32_t i = 0; i < item->len; i++)
			item->text[i] = alphabet[(size_t)rand_r(seed) %
						 strlen(alphabet)];
		if (typed && rand_r(seed) % 3 == 0) {
			/* Short, so that they meet the first components. */
			item->type = (uint8_t)(TASD_KEY_INT + rand_r(seed) % 3);
			item->len %= 4;
			/* No int prints as nothing. */
			if (item->len == 0)
				item->text[item->len++] = '1';
		}
		if (ndicts && rand_r(seed) % 3 == 0) {
			size_t of = (size_t)rand_r(seed) % set->n;

			item->dict =
				set->items[of].is_dict ? (uint8_t)(of + 1) : 0;
		}
		for (size_t i = 0; i < set->n; i++)
			taken |= same_key(item, &set->items[i]);
		if (taken)
			continue;
		if (nested && ndicts < MAX_DICTS && rand_r(seed) % 8 == 0) {
			item->is_dict = true;
			ndicts++;
		}
		set->n++;
	}
}

/* Is text[0..len) a str key of the dict, or how another of its keys prints? */
static bool blocks(const struct set *set, uint8_t dict, const char *text,
	size_t len, bool whole)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct item *other = &set->items[i];

		if (other->dict == dict && other->len == len &&
			(whole || other->type == TASD_KEY_STR) &&
			memcmp(other->text, text, len) == 0)
			return true;
	}
	return false;
}

/* Another key of the dict that prints alike and comes first. */
static bool stands_behind(const struct set *set, const struct item *item)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct item *o = &set->items[i];

		if (o->dict != item->dict || o->len != item->len ||
			o->type == TASD_KEY_STR ||
			memcmp(o->text, item->text, item->len) != 0)
			continue;
		if (item->type == TASD_KEY_STR || o->type < item->type)
			return true;
	}
	return false;
}

static void add_piece(char *path, const char *piece, size_t len)
{
	static const char *const specials[][2] = {
		{"", "%"}, {".", "%2E"}, {"..", "%2E%2E"}};
	char *at = path + strlen(path);

	if (*path)
		*at++ = '/';
	*at = '\0';
	for (size_t i = 0; i < 3; i++) {
		if (strlen(specials[i][0]) == len &&
			memcmp(specials[i][0], piece, len) == 0) {
			strcpy(at, specials[i][1]);
			return;
		}
	}
	for (size_t i = 0; i < len; i++) {
		if (piece[i] == '%' || piece[i] == '/' || piece[i] < 0x20)
			at += sprintf(at, "%%%02X", piece[i]);
		else
			*at++ = piece[i];
	}
	*at = '\0';
}

static void add_json(char *json, const struct item *item)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct tasd_key key = {
		.text = item->text, .len = item->len, .type = item->type};
	char *text;

	tasd_key_json(&buf, &key);
	text = tasd_buf_steal(&buf, NULL);
	require(text);
	strcat(json, json[1] ? "," : "");
	strcat(json, text);
	free(text);
}

/* Fill in what the item's path and key must be; its dict comes before it. */
static void expect(struct set *set, struct item *item)
{
	static const char *const suffixes[] = {
		"%:str", "%:int", "%:attr", "%:float"};
	const char *t = item->text;
	size_t len = item->len, start = 0;

	strcpy(item->json, "[");
	if (item->dict) {
		const struct item *dict = &set->items[item->dict - 1];

		strcpy(item->path, dict->path);
		strcpy(item->json, dict->json);
		item->json[strlen(item->json) - 1] = '\0';
	}
	add_json(item->json, item);
	strcat(item->json, "]");
	for (size_t i = 1; item->type == TASD_KEY_STR && i + 1 < len; i++) {
		if (t[i] != '.' || t[i - 1] == '.' || t[i + 1] == '.')
			continue;
		if (blocks(set, item->dict, t, i, start == 0))
			break;
		add_piece(item->path, t + start, i - start);
		start = i + 1;
	}
	add_piece(item->path, t + start, len - start);
	if (start == 0 && stands_behind(set, item))
		strcat(item->path, suffixes[item->type]);
}

static void check_text(
	void (*write)(struct tasd_buf *, const struct tasd_node *),
	const struct tasd_node *node, const char *want)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	char *text;

	write(&buf, node);
	text = tasd_buf_steal(&buf, NULL);
	require(text != NULL);
	if (strcmp(text, want) != 0)
		ck_assert_str_eq(text, want);
	free(text);
}

/* Undo the escaping of path below its dict and join with dots. */
static void check_way_back(const struct set *set, const struct item *item)
{
	const char *path = item->path;
	char text[64];
	size_t len = 0;

	if (item->dict)
		path += strlen(set->items[item->dict - 1].path) + 1;
	for (; *path; path++) {
		unsigned int c;

		if (*path == '/') {
			text[len++] = '.';
		} else if (*path != '%') {
			text[len++] = *path;
		} else if (path[1] == ':') {
			break;
		} else if (sscanf(path + 1, "%2X", &c) == 1) {
			text[len++] = (char)c;
			path += 2;
		}
	}
	require_eq(len, item->len);
	require(memcmp(text, item->text, len) == 0);
}

static void check_items(struct set *set, const struct tasd_statedict *sd)
{
	for (size_t i = 0; i < set->n; i++) {
		struct item *item = &set->items[i];

		check_text(tasd_node_path, item->node, item->path);
		check_text(tasd_node_key_json, item->node, item->json);
		require_eq(tasd_statedict_lookup(sd, item->path), item->node);
		check_way_back(set, item);
		if (item->path_hash == 0)
			item->path_hash = item->node->path_hash;
		require_eq(item->path_hash, item->node->path_hash);
		for (size_t j = 0; j < i; j++)
			require_op(
				set->items[j].path_hash, !=, item->path_hash);
	}
}

/* The smallest order among the items below a node, of the node's own dict. */
static uint32_t first_order(const struct tasd_node *node)
{
	while (node->kind == TASD_KIND_GROUP)
		node = node->dir.children[0];
	return node->order;
}

static void check_walk(const struct set *set, const struct tasd_statedict *sd)
{
	const struct tasd_node *node = tasd_statedict_root(sd);
	size_t items = 0, nodes = 0;

	while ((node = tasd_node_next(node))) {
		const struct tasd_node *dir = node->parent;

		nodes++;
		items += node->kind != TASD_KIND_GROUP;
		require_eq(dir->dir.children[node->index], node);
		/* Finds itself by name: so no sibling has that name. */
		require_eq(tasd_statedict_child(
				   sd, dir, node->name, node->name_len),
			node);
		require(!memchr(node->name, '/', node->name_len));
		require_op(node->name_len, >, 0);
		if (node->kind == TASD_KIND_GROUP) {
			require_op(node->dir.nchildren, >, 0);
			require_eq(node->order, first_order(node));
		}
		if (node->index > 0)
			require_op(
				first_order(dir->dir.children[node->index - 1]),
				<, first_order(node));
	}
	require_eq(items, set->n);
	require_eq(nodes, tasd_statedict_totals(sd).nodes);
}

static void check_order(struct set *set, const size_t *order)
{
	struct tasd_statedict *sd;
	struct tasd_diag diag = {""};

	require_eq(tasd_statedict_new(0, (size_t)1 << 24, &sd), 0);
	for (size_t i = 0; i < set->n; i++) {
		struct item *item = &set->items[order[i]];
		struct tasd_node *dict =
			item->dict ? set->items[item->dict - 1].node
				   : tasd_statedict_root(sd);
		struct tasd_key key = {.text = item->text,
			.len = item->len,
			.type = item->type};

		require_eq(tasd_statedict_add(sd, dict, key, &item->node), 0);
		if (item->is_dict)
			continue;
		item->node->kind = TASD_KIND_NONE;
		item->node->form = TASD_FORM_VALUE;
	}
	if (tasd_statedict_seal(sd, &diag))
		ck_abort_msg("%s", diag.text);
	check_items(set, sd);
	check_walk(set, sd);
	tasd_statedict_free(sd);
}

/* Any order in which a dict still comes before what is in it. */
static void shuffle(const struct set *set, size_t *order, unsigned int *seed)
{
	bool done[MAX_ITEMS] = {false};

	for (size_t n = 0; n < set->n;) {
		size_t i = (size_t)rand_r(seed) % set->n;
		uint8_t dict = set->items[i].dict;

		if (done[i] || (dict && !done[dict - 1]))
			continue;
		done[i] = true;
		order[n++] = i;
	}
}

START_TEST(random_sets)
{
	const char *given = getenv("TASD_TEST_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0)
				  : (unsigned int)time(NULL);
	static struct set set;
	size_t order[MAX_ITEMS];

	printf("TASD_TEST_SEED=%u\n", seed);
	fflush(stdout);
	for (int round = 0; round < 2000; round++) {
		unsigned int round_seed = seed + (unsigned int)round;

		random_set(&set, &round_seed);
		for (size_t i = 0; i < set.n; i++)
			expect(&set, &set.items[i]);
		for (size_t i = 0; i < set.n; i++)
			order[i] = i;
		check_order(&set, order);
		for (int again = 0; again < 4; again++) {
			shuffle(&set, order, &round_seed);
			check_order(&set, order);
		}
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {random_sets, NULL};

	return unit_run("statedict random", tests);
}
