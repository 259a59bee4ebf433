/*
 * DESIGN section 2.1, row by row: which path a key has, in every order of the
 * keys, and that the way back from a node to its key is exact.
 */
#include "unit.h"
#include <errno.h>
#include <statedict/name.h>
#include <statedict/statedict.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define LIMIT    ((size_t)192 << 20)
#define MAX_KEYS 16

struct item {
	const char *text;
	const char *path;
	uint8_t type; /* enum tasd_key_type */
};

#define S(text_, path_)                                                        \
	{                                                                      \
		.text = (text_), .path = (path_), .type = TASD_KEY_STR         \
	}
#define T(type_, text_, path_)                                                 \
	{                                                                      \
		.text = (text_), .path = (path_), .type = TASD_KEY_##type_     \
	}

static struct tasd_key key_of(const struct item *item)
{
	return (struct tasd_key){.text = item->text,
		.len = (uint32_t)strlen(item->text),
		.type = item->type};
}

static struct tasd_node *add(struct tasd_statedict *sd,
	struct tasd_node *parent, struct tasd_key key)
{
	static const struct tasd_tensor tensor = {
		.nbytes = 4, .dtype = TASD_DTYPE_F32};
	struct tasd_node *node;

	ck_assert_int_eq(tasd_statedict_add(sd, parent, key, &node), 0);
	node->kind = TASD_KIND_TENSOR;
	node->form = TASD_FORM_TENSOR;
	node->tensor = &tensor;
	return node;
}

static struct tasd_statedict *make(unsigned int flags)
{
	struct tasd_statedict *sd;

	ck_assert_int_eq(tasd_statedict_new(flags, LIMIT, &sd), 0);
	return sd;
}

static void seal(struct tasd_statedict *sd)
{
	struct tasd_diag diag = {""};

	ck_assert_msg(tasd_statedict_seal(sd, &diag) == 0, "%s", diag.text);
}

typedef void writer(struct tasd_buf *buf, const struct tasd_node *node);

static void check_text(
	writer *write, const struct tasd_node *node, const char *want)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	char *text;

	write(&buf, node);
	text = tasd_buf_steal(&buf, NULL);
	ck_assert_pstr_eq(text, want);
	free(text);
}

/* One order of the keys: each leaf is at its path and nowhere else. */
static void check_order(unsigned int flags, const struct item *items,
	const unsigned int *order, size_t n)
{
	struct tasd_statedict *sd = make(flags);
	struct tasd_node *nodes[MAX_KEYS];
	size_t leaves = 0;

	for (size_t i = 0; i < n; i++)
		nodes[order[i]] = add(
			sd, tasd_statedict_root(sd), key_of(&items[order[i]]));
	seal(sd);
	for (size_t i = 0; i < n; i++) {
		check_text(tasd_node_path, nodes[i], items[i].path);
		ck_assert_ptr_eq(
			tasd_statedict_lookup(sd, items[i].path), nodes[i]);
		ck_assert_int_eq(nodes[i]->key.type, items[i].type);
	}
	for (const struct tasd_node *node = tasd_statedict_root(sd); node;
		node = tasd_node_next(node))
		leaves += node->form == TASD_FORM_TENSOR;
	ck_assert_uint_eq(leaves, n);
	tasd_statedict_free(sd);
}

static void check_rows(unsigned int flags, const struct item *items, size_t n)
{
	unsigned int order[MAX_KEYS], seed = 1;

	ck_assert_uint_le(n, MAX_KEYS);
	for (unsigned int i = 0; i < n; i++)
		order[i] = i;
	check_order(flags, items, order, n);
	for (unsigned int i = 0; i < n; i++)
		order[i] = (unsigned int)n - 1 - i;
	check_order(flags, items, order, n);
	for (int round = 0; round < 50; round++) {
		for (size_t i = n; i > 1; i--) {
			size_t j = (size_t)rand_r(&seed) % i;
			unsigned int swap = order[i - 1];

			order[i - 1] = order[j];
			order[j] = swap;
		}
		check_order(flags, items, order, n);
	}
}

#define CHECK_ROWS(...)                                                        \
	do {                                                                   \
		static const struct item rows_[] = {__VA_ARGS__};              \
		check_rows(0, rows_, sizeof(rows_) / sizeof(rows_[0]));        \
	} while (0)

START_TEST(table_of_the_design)
{
	CHECK_ROWS(S("layers.0.weight", "layers/0/weight"));
	CHECK_ROWS(S("w", "w"), S("w.absmax", "w.absmax"),
		S("w.quant.x", "w.quant.x"));
	CHECK_ROWS(S("a.b", "a/b"), S("a.b.c.d", "a/b.c.d"));
	CHECK_ROWS(S(".sharded", ".sharded"), S("end.", "end."),
		S("a..b", "a..b"), S("x.a..b.c", "x/a..b/c"));
	CHECK_ROWS(S("..", "%2E%2E"), S(".", "%2E"), S("", "%"),
		S("a/b", "a%2Fb"), S("50%", "50%25"));
	CHECK_ROWS(S(".tasd", "%2Etasd"));
	CHECK_ROWS(T(INT, "7", "7"), S("7", "7%:str"));
	CHECK_ROWS(T(TUPLE, "(1, 'a')\0[1,\"a\"]", "(1, 'a')"),
		T(FLOAT, "1.5", "1.5"), T(NONE, "", "None"),
		T(TRUE, "", "True"), T(BYTES, "\1/", "b'\\x01%2F'"));
}
END_TEST

START_TEST(prefixes_that_are_keys)
{
	CHECK_ROWS(S("l.0.weight", "l/0/weight"),
		S("l.0.weight.absmax", "l/0/weight.absmax"),
		S("l.0.weight.quant_state.bitsandbytes__nf4",
			"l/0/weight.quant_state.bitsandbytes__nf4"),
		S("l.0.bias", "l/0/bias"));
	CHECK_ROWS(S("my_key", "my_key"), S("my_key.0.key_1", "my_key.0.key_1"),
		S("a", "a"), S("a.b", "a.b"), S("a.b.c", "a.b.c"));
	/* The first prefix that is a key decides, not the longest. */
	CHECK_ROWS(S("a.b", "a/b"), S("a.b.c", "a/b.c"),
		S("a.b.c.d", "a/b.c.d"), S("a.x.c.d", "a/x/c/d"));
	/* A dot that is no place to split is no prefix either. */
	CHECK_ROWS(S("a", "a"), S("a..b", "a..b"), S("a.", "a."));
	CHECK_ROWS(S("a.", "a."), S("a..b.c", "a..b/c"), S("a..b.d", "a..b/d"));
	CHECK_ROWS(S(".a", ".a"), S(".a.b", ".a.b"), S(".b.c", ".b/c"));
}
END_TEST

START_TEST(keys_that_print_alike)
{
	/* An int stops the str keys that would need its name as a group. */
	CHECK_ROWS(T(INT, "7", "7"), S("7.a", "7.a"), S("7.a.b", "7.a.b"),
		S("8.a", "8/a"));
	CHECK_ROWS(T(INT, "7", "7"), S("7", "7%:str"), S("7.a", "7.a"));
	CHECK_ROWS(T(INT, "1", "1"), T(FLOAT, "1.5", "1.5"),
		S("1.5", "1.5%:str"), S("1.5.x", "1.5.x"), S("2.5.x", "2/5/x"));
	CHECK_ROWS(
		T(FLOAT, "1.5", "1.5"), S("1.5", "1/5"), S("1.5.x", "1/5.x"));
	CHECK_ROWS(T(INT, "7", "7"), T(ATTR, "7", "7%:attr"), S("7", "7%:str"));
	CHECK_ROWS(T(ATTR, "1.0", "1.0"), T(FLOAT, "1.0", "1.0%:float"));
	CHECK_ROWS(T(ATTR, "True", "True"), T(TRUE, "", "True%:bool"),
		S("True", "True%:str"), S("False", "False%:str"),
		T(FALSE, "", "False"));
	CHECK_ROWS(S("None", "None%:str"), T(NONE, "", "None"),
		S("None.x", "None.x"));
	CHECK_ROWS(T(ATTR, "", "%"), S("", "%%:str"));
	CHECK_ROWS(S("b'x'", "b'x'%:str"), T(BYTES, "x", "b'x'"));
	/* Looks like a suffix, but is text and escaped. */
	CHECK_ROWS(T(INT, "7", "7"), S("7", "7%:str"), S("7%:str", "7%25:str"));
	CHECK_ROWS(T(ATTR, "a/b", "a%2Fb"), S("a/b", "a%2Fb%:str"),
		S("a%2Fb", "a%252Fb"), S("a/b.c", "a%2Fb.c"));
}
END_TEST

START_TEST(nosplit)
{
	static const struct item rows[] = {S("a.b", "a.b"), S("a", "a"),
		S("x.y.z", "x.y.z"), S(".", "%2E"), T(INT, "7", "7"),
		S("7", "7%:str")};

	check_rows(TASD_STATEDICT_NOSPLIT, rows, 6);
}
END_TEST

/* {"a": {"b": t, "c.d": t}, "a.b": t, "q.r": {"s": t}, "q.r.s": t} */
START_TEST(nested_dicts)
{
	for (int reverse = 0; reverse < 2; reverse++) {
		struct tasd_statedict *sd = make(0);
		struct tasd_node *root = tasd_statedict_root(sd);
		struct tasd_node *a, *qr, *flat, *flat2, *b, *cd, *s;

		if (reverse)
			flat = add(sd, root, tasd_key_str("a.b", 3));
		ck_assert_int_eq(
			tasd_statedict_add(sd, root, tasd_key_str("a", 1), &a),
			0);
		b = add(sd, a, tasd_key_str("b", 1));
		cd = add(sd, a, tasd_key_str("c.d", 3));
		if (!reverse)
			flat = add(sd, root, tasd_key_str("a.b", 3));
		ck_assert_int_eq(tasd_statedict_add(
					 sd, root, tasd_key_str("q.r", 3), &qr),
			0);
		flat2 = add(sd, root, tasd_key_str("q.r.s", 5));
		s = add(sd, qr, tasd_key_str("s", 1));
		seal(sd);
		check_text(tasd_node_path, b, "a/b");
		check_text(tasd_node_key_json, b, "[\"a\",\"b\"]");
		check_text(tasd_node_dotted, b, "a.b");
		check_text(tasd_node_path, flat, "a.b");
		check_text(tasd_node_key_json, flat, "[\"a.b\"]");
		check_text(tasd_node_dotted, flat, "a.b");
		check_text(tasd_node_path, cd, "a/c/d");
		check_text(tasd_node_key_json, cd, "[\"a\",\"c.d\"]");
		check_text(tasd_node_path, qr, "q/r");
		check_text(tasd_node_path, s, "q/r/s");
		check_text(tasd_node_key_json, s, "[\"q.r\",\"s\"]");
		check_text(tasd_node_path, flat2, "q/r.s");
		check_text(tasd_node_key_json, flat2, "[\"q.r.s\"]");
		check_text(tasd_node_key_json, cd->parent, "[\"a\",\"c\"]");
		ck_assert_int_eq(cd->parent->kind, TASD_KIND_GROUP);
		ck_assert_ptr_eq(tasd_statedict_lookup(sd, "q/r"), qr);
		ck_assert_int_eq(qr->kind, TASD_KIND_DICT);
		ck_assert_uint_eq(flat->order, reverse ? 0 : 1);
		ck_assert_uint_eq(s->order, 0);
		tasd_statedict_free(sd);
	}
}
END_TEST

START_TEST(groups_and_saved_order)
{
	static const char *const keys[] = {
		"z.1.w", "b", "a.x", "z.0.w", "a.w", "z.1.b", "c"};
	static const struct {
		const char *path;
		const char *key;
		uint32_t order, index;
		bool group;
	} want[] = {
		{"z", "[\"z\"]", 0, 0, true},
		{"z/1", "[\"z.1\"]", 0, 0, true},
		{"z/1/w", "[\"z.1.w\"]", 0, 0, false},
		{"z/1/b", "[\"z.1.b\"]", 5, 1, false},
		{"z/0", "[\"z.0\"]", 3, 1, true},
		{"z/0/w", "[\"z.0.w\"]", 3, 0, false},
		{"b", "[\"b\"]", 1, 1, false},
		{"a", "[\"a\"]", 2, 2, true},
		{"a/x", "[\"a.x\"]", 2, 0, false},
		{"a/w", "[\"a.w\"]", 4, 1, false},
		{"c", "[\"c\"]", 6, 3, false},
	};
	struct tasd_statedict *sd = make(0);
	struct tasd_statedict_totals totals;
	const struct tasd_node *node;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
		add(sd, tasd_statedict_root(sd),
			tasd_key_str(keys[k], (uint32_t)strlen(keys[k])));
	seal(sd);
	for (node = tasd_node_next(tasd_statedict_root(sd)); node;
		node = tasd_node_next(node), i++) {
		ck_assert_uint_lt(i, sizeof(want) / sizeof(want[0]));
		check_text(tasd_node_path, node, want[i].path);
		check_text(tasd_node_key_json, node, want[i].key);
		ck_assert_uint_eq(node->order, want[i].order);
		ck_assert_uint_eq(node->index, want[i].index);
		ck_assert_int_eq(node->kind == TASD_KIND_GROUP, want[i].group);
		ck_assert_int_eq(node->form == TASD_FORM_DIR, want[i].group);
	}
	ck_assert_uint_eq(i, sizeof(want) / sizeof(want[0]));
	totals = tasd_statedict_totals(sd);
	ck_assert_uint_eq(totals.tensors, 7);
	ck_assert_uint_eq(totals.bytes, 28);
	ck_assert_uint_eq(totals.nodes, 11);
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(empty)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *root = tasd_statedict_root(sd);

	ck_assert_ptr_null(tasd_statedict_lookup(sd, "a"));
	seal(sd);
	ck_assert_ptr_null(tasd_node_next(root));
	ck_assert_ptr_eq(tasd_statedict_lookup(sd, ""), root);
	check_text(tasd_node_path, root, "");
	check_text(tasd_node_key_json, root, "[]");
	check_text(tasd_node_dotted, root, "");
	ck_assert_uint_eq(tasd_statedict_totals(sd).nodes, 0);
	tasd_statedict_free(sd);
	tasd_statedict_free(NULL);
}
END_TEST

START_TEST(lookups)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *root = tasd_statedict_root(sd);
	const struct tasd_node *leaf = add(sd, root, tasd_key_str("a.b.c", 5));
	static const char *const none[] = {"/", "/a", "a/", "a//b", "a/b/c/",
		"a/b/c/d", "a.b.c", "a/b/C", "b", "a/b/c\n", "..", ".",
		"a/./b"};
	char longer[400];

	seal(sd);
	ck_assert_ptr_eq(tasd_statedict_lookup(sd, "a/b/c"), leaf);
	ck_assert_ptr_eq(tasd_statedict_lookup(sd, "a/b"), leaf->parent);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		ck_assert_msg(
			!tasd_statedict_lookup(sd, none[i]), "%s", none[i]);
	memset(longer, 'a', sizeof(longer));
	ck_assert_ptr_null(
		tasd_statedict_child(sd, root, longer, sizeof(longer)));
	ck_assert_ptr_null(tasd_statedict_child(sd, root, "", 0));
	ck_assert_ptr_nonnull(tasd_statedict_child(sd, root, "axx", 1));
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(refusals)
{
	struct tasd_statedict *sd;
	struct tasd_node *root, *node, *leaf;
	struct tasd_key key = tasd_key_str("k", 1);

	ck_assert_int_eq(tasd_statedict_new(1u << 31, LIMIT, &sd), -EINVAL);
	sd = make(0);
	root = tasd_statedict_root(sd);
	leaf = add(sd, root, key);
	ck_assert_int_eq(tasd_statedict_add(sd, root, key, &node), -EEXIST);
	ck_assert_int_eq(tasd_statedict_add(sd, leaf, key, &node), -EINVAL);
	key.type = TASD_KEY_ATTR;
	add(sd, root, key);
	ck_assert_int_eq(tasd_statedict_add(sd, root, key, &node), -EEXIST);
	add(sd, root, (struct tasd_key){.type = TASD_KEY_NONE});
	/* The constants have no text of their own. */
	ck_assert_int_eq(
		tasd_statedict_add(sd, root,
			(struct tasd_key){
				.text = "x", .len = 1, .type = TASD_KEY_NONE},
			&node),
		-EEXIST);
	key.type = TASD_KEY_WHOLE + 1;
	ck_assert_int_eq(tasd_statedict_add(sd, root, key, &node), -EINVAL);
	key = tasd_key_str("k", UINT32_MAX);
	ck_assert_int_eq(tasd_statedict_add(sd, root, key, &node), -EINVAL);
	seal(sd);
	ck_assert_int_eq(tasd_statedict_seal(sd, NULL), -EINVAL);
	ck_assert_int_eq(
		tasd_statedict_add(sd, root, tasd_key_str("n", 1), &node),
		-EINVAL);
	ck_assert_uint_eq(tasd_statedict_totals(sd).nodes, 3);
	tasd_statedict_free(sd);
}
END_TEST

/* A container that is one bare leaf: a file with the key [], and no more. */
START_TEST(whole)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *root = tasd_statedict_root(sd), *node;
	struct tasd_key key = {
		.text = "array", .len = 5, .type = TASD_KEY_WHOLE};

	ck_assert_ptr_null(tasd_statedict_whole(sd));
	node = add(sd, root, key);
	ck_assert_ptr_eq(tasd_statedict_whole(sd), node);
	ck_assert_int_eq(tasd_statedict_add(sd, root, key, &node), -EINVAL);
	ck_assert_int_eq(
		tasd_statedict_add(sd, root, tasd_key_str("k", 1), &node),
		-EINVAL);
	seal(sd);
	ck_assert_uint_eq(root->dir.nchildren, 1);
	check_text(tasd_node_path, root->dir.children[0], "array");
	check_text(tasd_node_key_json, root->dir.children[0], "[]");
	check_text(tasd_node_dotted, root->dir.children[0], "array");
	ck_assert_ptr_eq(
		tasd_statedict_lookup(sd, "array"), root->dir.children[0]);
	tasd_statedict_free(sd);

	/* It cannot come behind an item, or below the root. */
	sd = make(0);
	add(sd, tasd_statedict_root(sd), tasd_key_str("k", 1));
	ck_assert_int_eq(
		tasd_statedict_add(sd, tasd_statedict_root(sd), key, &node),
		-EINVAL);
	ck_assert_ptr_null(tasd_statedict_whole(sd));
	seal(sd);
	tasd_statedict_free(sd);
}
END_TEST

/* A dict that holds items cannot have become a leaf. */
START_TEST(leaf_with_items)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *dict;

	ck_assert_int_eq(tasd_statedict_add(sd, tasd_statedict_root(sd),
				 tasd_key_str("d", 1), &dict),
		0);
	add(sd, dict, tasd_key_str("x", 1));
	dict->form = TASD_FORM_VALUE;
	dict->value.bytes = "x";
	dict->value.len = 1;
	ck_assert_int_eq(tasd_statedict_seal(sd, NULL), -EINVAL);
	ck_assert_int_eq(tasd_statedict_seal(sd, NULL), -EINVAL);
	ck_assert_ptr_null(tasd_statedict_lookup(sd, "d"));
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(limit_while_adding)
{
	struct tasd_statedict *sd;
	struct tasd_node *node;
	struct tasd_diag diag = {""};
	tasd_err err = 0;
	static const char zeros[70000];
	uint32_t n;

	ck_assert_int_eq(tasd_statedict_new(0, 64 << 10, &sd), 0);
	for (n = 0; n < 10000 && !err; n++)
		err = tasd_statedict_add(sd, tasd_statedict_root(sd),
			tasd_key_str((const char *)&n, sizeof(n)), &node);
	ck_assert_int_eq(err, -E2BIG);
	ck_assert_uint_gt(n, 64);
	ck_assert_uint_lt(n, 800);
	ck_assert_int_eq(tasd_statedict_seal(sd, &diag), -E2BIG);
	ck_assert_ptr_nonnull(strstr(diag.text, "65536 bytes"));
	tasd_statedict_free(sd);

	/* One key over the limit. */
	ck_assert_int_eq(tasd_statedict_new(0, 64 << 10, &sd), 0);
	ck_assert_int_eq(tasd_statedict_add(sd, tasd_statedict_root(sd),
				 tasd_key_str(zeros, sizeof(zeros)), &node),
		-E2BIG);
	tasd_statedict_free(sd);
}
END_TEST

/* Few bytes of keys, very many groups. */
START_TEST(limit_while_sealing)
{
	struct tasd_statedict *sd;
	char key[256];

	ck_assert_int_eq(tasd_statedict_new(0, 1 << 20, &sd), 0);
	for (int i = 0; i < 300; i++) {
		for (size_t j = 0; j < 255; j++)
			key[j] = j % 2 ? '.' : 'a';
		sprintf(key, "%03d", i);
		key[3] = '.';
		add(sd, tasd_statedict_root(sd), tasd_key_str(key, 255));
	}
	ck_assert_int_eq(tasd_statedict_seal(sd, NULL), -E2BIG);
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(long_keys)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *root = tasd_statedict_root(sd), *nodes[8], *stuck;
	static char text[8][5001];
	size_t n = 0;

	for (size_t i = 0; i < 8; i++) {
		memset(text[i], 'y', 5000);
		for (size_t j = 4; j < 5000; j += 5)
			text[i][j] = '.';
	}
	/* Prefixes of each other, on both sides of the limits. */
	for (size_t len = 200; len < 5000; len = len * 8 / 5, n++)
		nodes[n] = add(sd, root, tasd_key_str(text[0], (uint32_t)len));
	/* Same text as a non-str key: both names are cut. */
	stuck = add(sd, root,
		(struct tasd_key){
			.text = text[1], .len = 2000, .type = TASD_KEY_ATTR});
	nodes[n++] = add(sd, root, tasd_key_str(text[1], 2000));
	seal(sd);
	for (size_t i = 0; i < n; i++) {
		struct tasd_buf path = TASD_BUF_EMPTY;
		char *name;

		tasd_node_path(&path, nodes[i]);
		name = tasd_buf_steal(&path, NULL);
		ck_assert_ptr_nonnull(name);
		ck_assert_ptr_eq(tasd_statedict_lookup(sd, name), nodes[i]);
		ck_assert_uint_le(nodes[i]->name_len, TASD_NAME_MAX);
		if (nodes[i]->key.len > TASD_SPLIT_KEY_MAX)
			ck_assert_ptr_eq(nodes[i]->parent, root);
		free(name);
	}
	ck_assert_uint_eq(stuck->name_len, 255);
	ck_assert_mem_eq(nodes[n - 1]->name + 250, "%:str", 5);
	ck_assert_mem_eq(nodes[n - 1]->name + 216, stuck->name + 221, 34);
	tasd_statedict_free(sd);
}
END_TEST

/*
 * Variants of 512 bytes with one XXH3-128: XXH3 sums products of the halves of
 * input ^ secret and, beside them, the input itself.  Where one half is 0 the
 * product is, and what one lane has more the same lane of the next stripe can
 * have less.
 */
static void collide(char out[512], unsigned int variant)
{
	memset(out, 'a', 512);
	for (unsigned int stripe = 4; stripe < 6; stripe++) {
		uint64_t high = 0x41414141, lane;

		high += stripe == 4 ? variant : -(uint64_t)variant;
		memcpy(&lane, (const char *)XXH3_kSecret + 8 * stripe, 8);
		lane = (lane & 0xffffffff) | high << 32;
		memcpy(out + 64 * stripe, &lane, 8);
	}
}

#define COLLIDING 4

/* As leaves, then as groups: every key stays, each at its own path. */
START_TEST(colliding_hashes)
{
	static char keys[COLLIDING][514];

	for (unsigned int i = 0; i < COLLIDING; i++) {
		collide(keys[i], i);
		memcpy(keys[i] + 512, ".x", 2);
		ck_assert_ptr_null(memchr(keys[i], '.', 512));
		ck_assert(XXH128_isEqual(XXH3_128bits(keys[0], 512),
			XXH3_128bits(keys[i], 512)));
		ck_assert(i == 0 || memcmp(keys[0], keys[i], 512) != 0);
	}
	for (uint32_t len = 512; len <= 514; len += 2) {
		struct tasd_statedict *sd = make(0);
		struct tasd_node *root = tasd_statedict_root(sd);
		struct tasd_node *nodes[COLLIDING];

		for (unsigned int i = 0; i < COLLIDING; i++)
			nodes[i] = add(sd, root, tasd_key_str(keys[i], len));
		seal(sd);
		/* What finds its group taken stays in one piece. */
		for (unsigned int i = 0; i < COLLIDING; i++)
			ck_assert_int_eq(
				nodes[i]->parent != root, len == 514 && i == 0);
		for (unsigned int i = 0; i < COLLIDING; i++) {
			struct tasd_buf buf = TASD_BUF_EMPTY;
			char *path;

			tasd_node_path(&buf, nodes[i]);
			path = tasd_buf_steal(&buf, NULL);
			ck_assert_ptr_eq(
				tasd_statedict_lookup(sd, path), nodes[i]);
			ck_assert_uint_le(nodes[i]->name_len, TASD_NAME_MAX);
			ck_assert_mem_eq(nodes[i]->key.text, keys[i], len);
			free(path);
		}
		tasd_statedict_free(sd);
	}
}
END_TEST

/* The same on every machine, for ever: st_ino is made of it. */
START_TEST(path_hash_is_stable)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *leaf = add(
		sd, tasd_statedict_root(sd), tasd_key_str("layers.0.w", 10));
	uint64_t hash = XXH3_64bits("", 0);

	seal(sd);
	ck_assert_uint_eq(tasd_statedict_root(sd)->path_hash, hash);
	hash = XXH3_64bits_withSeed("layers", 6, hash);
	hash = XXH3_64bits_withSeed("0", 1, hash);
	hash = XXH3_64bits_withSeed("w", 1, hash);
	ck_assert_uint_eq(leaf->path_hash, hash);
	ck_assert_uint_eq(leaf->path_hash, 0xbda7c819c6dde211u);
	tasd_statedict_free(sd);
}
END_TEST

/* Depth is the file's choice and must not be the stack's limit. */
START_TEST(deep_nesting)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *node = tasd_statedict_root(sd);
	struct tasd_buf buf = tasd_buf_counting();
	const uint32_t depth = 300000;
	uint32_t seen = 0;

	for (uint32_t i = 0; i < depth; i++)
		ck_assert_int_eq(tasd_statedict_add(
					 sd, node, tasd_key_str("d", 1), &node),
			0);
	seal(sd);
	for (const struct tasd_node *n = tasd_statedict_root(sd); n;
		n = tasd_node_next(n))
		seen++;
	ck_assert_uint_eq(seen, depth + 1);
	tasd_node_path(&buf, node);
	ck_assert_uint_eq(buf.len, 2 * depth - 1);
	buf = tasd_buf_counting();
	tasd_node_key_json(&buf, node);
	ck_assert_uint_eq(buf.len, 4 * depth + 1);
	buf = tasd_buf_counting();
	tasd_node_dotted(&buf, node);
	ck_assert_uint_eq(buf.len, 2 * depth - 1);
	ck_assert_int_eq(tasd_buf_err(&buf), 0);
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(lists_and_links)
{
	struct tasd_statedict *sd = make(0);
	struct tasd_node *root = tasd_statedict_root(sd), *list, *link;
	char digits[8];

	ck_assert_int_eq(
		tasd_statedict_add(sd, root, tasd_key_str("list", 4), &list),
		0);
	list->kind = TASD_KIND_LIST;
	for (int i = 0; i < 12; i++) {
		int len = sprintf(digits, "%d", i);

		add(sd, list,
			(struct tasd_key){.text = digits,
				.len = (uint32_t)len,
				.type = TASD_KEY_INT});
	}
	ck_assert_int_eq(
		tasd_statedict_add(sd, root, tasd_key_str("again", 5), &link),
		0);
	link->kind = TASD_KIND_LIST;
	link->form = TASD_FORM_LINK;
	link->link = list;
	seal(sd);
	ck_assert_uint_eq(list->dir.nchildren, 12);
	for (uint32_t i = 0; i < 12; i++) {
		sprintf(digits, "%u", i);
		ck_assert_ptr_eq(
			tasd_statedict_child(sd, list, digits, strlen(digits)),
			list->dir.children[i]);
	}
	check_text(tasd_node_key_json, list->dir.children[11], "[\"list\",11]");
	ck_assert_ptr_eq(tasd_node_next(list->dir.children[11]), link);
	ck_assert_ptr_null(tasd_node_next(link));
	ck_assert_ptr_null(tasd_statedict_lookup(sd, "again/0"));
	ck_assert_uint_eq(tasd_statedict_totals(sd).tensors, 12);
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(kinds_have_names)
{
	for (int kind = 0; kind < TASD_KIND_COUNT; kind++)
		ck_assert_uint_gt(strlen(tasd_kind_name(kind)), 0);
	ck_assert_str_eq(tasd_kind_name(TASD_KIND_TENSOR), "tensor");
	ck_assert_str_eq(tasd_kind_name(TASD_KIND_PICKLE), "pickle");
	ck_assert_str_eq(tasd_kind_name(TASD_KIND_GROUP), "group");
	ck_assert_str_eq(tasd_kind_name(TASD_KIND_COUNT), "");
}
END_TEST

START_TEST(bytes_saturate)
{
	static const struct tasd_tensor huge = {.nbytes = UINT64_MAX - 1};
	struct tasd_statedict *sd = make(0);
	struct tasd_node *root = tasd_statedict_root(sd);

	add(sd, root, tasd_key_str("a", 1))->tensor = &huge;
	add(sd, root, tasd_key_str("b", 1))->tensor = &huge;
	seal(sd);
	ck_assert_uint_eq(tasd_statedict_totals(sd).bytes, UINT64_MAX);
	tasd_statedict_free(sd);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {table_of_the_design,
		prefixes_that_are_keys, keys_that_print_alike, nosplit,
		nested_dicts, groups_and_saved_order, empty, lookups, refusals,
		whole,
		leaf_with_items, limit_while_adding, limit_while_sealing,
		long_keys, colliding_hashes, path_hash_is_stable, deep_nesting,
		lists_and_links, kinds_have_names, bytes_saturate, NULL};

	return unit_run("statedict tree", tests);
}
