/*
 * Attributes beside items: a tree of their own, at the same paths, whatever
 * splitting and escaping made of those; and names that share a tensor.
 */
#include "unit.h"
#include <statedict/statedict.h>
#include <string.h>

#define LIMIT ((size_t)16 << 20)

static struct tasd_node *add(
	struct tasd_statedict *sd, struct tasd_node *dir, const char *key)
{
	struct tasd_node *node = NULL;

	ck_assert_int_eq(
		tasd_statedict_add(sd, dir,
			tasd_key_str(key, (uint32_t)strlen(key)), &node),
		0);
	return node;
}

static struct tasd_node *attr(
	struct tasd_statedict *sd, struct tasd_node *owner, const char *name)
{
	struct tasd_key key = tasd_key_str(name, (uint32_t)strlen(name));
	struct tasd_node *node = NULL;

	key.type = TASD_KEY_ATTR;
	ck_assert_int_eq(tasd_statedict_attr(sd, owner, key, &node), 0);
	return node;
}

static void value(struct tasd_node *node, const char *text)
{
	node->form = TASD_FORM_VALUE;
	node->kind = TASD_KIND_STR;
	node->value.bytes = text;
	node->value.len = strlen(text);
}

/* Paths and keys of the attributes, a line each, in preorder. */
static void check(const struct tasd_statedict *sd, const char *want)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	const struct tasd_node *node = tasd_statedict_attrs(sd);

	for (node = tasd_node_next(node); node; node = tasd_node_next(node)) {
		tasd_node_path(&buf, node);
		tasd_buf_char(&buf, ' ');
		if (node->flags & TASD_NODE_WAY)
			tasd_buf_str(&buf, "-");
		else
			tasd_node_key_json(&buf, node);
		tasd_buf_char(&buf, '\n');
	}
	tasd_buf_char(&buf, '\0');
	ck_assert_int_eq(tasd_buf_err(&buf), 0);
	ck_assert_str_eq(buf.bytes, want);
	tasd_buf_free(&buf);
}

static void seal(struct tasd_statedict *sd)
{
	struct tasd_diag diag = {""};

	ck_assert_msg(tasd_statedict_seal(sd, &diag) == 0, "%s", diag.text);
}

START_TEST(beside_items)
{
	struct tasd_statedict *sd = NULL;
	struct tasd_node *root, *model, *node;

	ck_assert_int_eq(tasd_statedict_new(0, LIMIT, &sd), 0);
	root = tasd_statedict_root(sd);
	/* Before its owner has a place, and on a leaf. */
	value(node = add(sd, root, "a.b.w"), "x");
	value(attr(sd, node, "tag"), "1");
	model = add(sd, root, "model");
	node = attr(sd, model, "_metadata");
	value(add(sd, node, "fc.w"), "2");
	value(add(sd, node, "fc"), "3");
	value(add(sd, model, "a/b"), "x");
	value(add(sd, root, "a.b"), "x");
	value(attr(sd, root, "tag"), "4");
	ck_assert_int_eq(
		tasd_statedict_attr(sd, root,
			(struct tasd_key){
				.text = "tag", .len = 3, .type = TASD_KEY_ATTR},
			&node),
		-EEXIST);
	seal(sd);
	ck_assert_ptr_nonnull(tasd_statedict_lookup(sd, "a/b.w"));
	check(sd, "a -\n"
		  "a/b.w -\n"
		  "a/b.w/tag [\"a.b.w\",{\"attr\":\"tag\"}]\n"
		  "model -\n"
		  "model/_metadata [\"model\",{\"attr\":\"_metadata\"}]\n"
		  "model/_metadata/fc.w "
		  "[\"model\",{\"attr\":\"_metadata\"},\"fc.w\"]\n"
		  "model/_metadata/fc "
		  "[\"model\",{\"attr\":\"_metadata\"},\"fc\"]\n"
		  "tag [{\"attr\":\"tag\"}]\n");
	/* They are not in the tree, and not counted. */
	ck_assert_uint_eq(tasd_statedict_totals(sd).nodes, 5);
	ck_assert_uint_eq(root->dir.nchildren, 2);
	node = (struct tasd_node *)tasd_statedict_child(
		sd, tasd_statedict_attrs(sd), "tag", 3);
	ck_assert_uint_eq(node->order, 2);
	ck_assert_uint_ne(node->path_hash, 0);
	tasd_statedict_free(sd);
}
END_TEST

/* The way to one has the name of what it stands for, and an attribute that is
 * called the same another. */
START_TEST(names_that_meet)
{
	struct tasd_statedict *sd = NULL;
	struct tasd_node *root, *x;

	ck_assert_int_eq(tasd_statedict_new(0, LIMIT, &sd), 0);
	root = tasd_statedict_root(sd);
	value(attr(sd, root, "x"), "1");
	value(x = add(sd, root, "x"), "y");
	value(attr(sd, x, "x"), "2");
	seal(sd);
	check(sd, "x%:attr [{\"attr\":\"x\"}]\n"
		  "x -\n"
		  "x/x [\"x\",{\"attr\":\"x\"}]\n");
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(of_a_whole)
{
	struct tasd_statedict *sd = NULL;
	struct tasd_node *root, *node = NULL;
	struct tasd_key key = {
		.text = "tensor", .len = 6, .type = TASD_KEY_WHOLE};

	ck_assert_int_eq(tasd_statedict_new(0, LIMIT, &sd), 0);
	root = tasd_statedict_root(sd);
	ck_assert_int_eq(tasd_statedict_add(sd, root, key, &node), 0);
	value(node, "x");
	value(attr(sd, node, "tag"), "1");
	ck_assert_int_eq(tasd_statedict_attr(sd, root, key, &node), -EINVAL);
	ck_assert_int_eq(
		tasd_statedict_add(sd, root, tasd_key_str("a", 1), &node),
		-EINVAL);
	seal(sd);
	ck_assert_ptr_nonnull(tasd_statedict_whole(sd));
	check(sd, "tensor -\ntensor/tag [{\"attr\":\"tag\"}]\n");
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(none)
{
	struct tasd_statedict *sd = NULL;

	ck_assert_int_eq(tasd_statedict_new(0, LIMIT, &sd), 0);
	value(add(sd, tasd_statedict_root(sd), "a"), "x");
	seal(sd);
	check(sd, "");
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(ties_count_once)
{
	struct tasd_statedict *sd = NULL;
	const struct tasd_tensor tensor = {
		.nbytes = 8, .dtype = TASD_DTYPE_F64, .data = TASD_DATA_PLAIN};
	struct tasd_node *first, *second;
	struct tasd_node_extra head = {.nties = 2}, tail = {.tie = NULL};

	ck_assert_int_eq(tasd_statedict_new(0, LIMIT, &sd), 0);
	first = add(sd, tasd_statedict_root(sd), "a");
	second = add(sd, tasd_statedict_root(sd), "b");
	first->form = second->form = TASD_FORM_TENSOR;
	first->tensor = second->tensor = &tensor;
	tail.tie = first;
	first->extra = &head;
	second->extra = &tail;
	seal(sd);
	ck_assert_uint_eq(tasd_statedict_totals(sd).bytes, 8);
	ck_assert_uint_eq(tasd_statedict_totals(sd).tensors, 2);
	tasd_statedict_free(sd);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {beside_items, names_that_meet, of_a_whole,
		none, ties_count_once, NULL};

	return unit_run("statedict-attrs", tests);
}
