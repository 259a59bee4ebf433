/*
 * As many keys as checkpoints have, and sets made to be slow: all must seal in
 * time proportional to their bytes, which the time limit of a test checks (a
 * quadratic pass over any of these takes minutes), and within their memory.
 */
#include "unit.h"
#include <statedict/name.h>
#include <statedict/statedict.h>
#include <stdio.h>
#include <string.h>

#define LIMIT ((size_t)256 << 20)
#define COUNT 200000

typedef uint32_t key_maker(char *out, unsigned int i);

static uint32_t experts(char *out, unsigned int i)
{
	return (uint32_t)sprintf(
		out, "layers.%u.experts.%u.w", i / 1000, i % 1000);
}

static uint32_t flat(char *out, unsigned int i)
{
	return (uint32_t)sprintf(out, "flat_%07u", i);
}

/* 120 groups before they differ. */
static uint32_t long_prefix(char *out, unsigned int i)
{
	for (unsigned int j = 0; j < 240; j++)
		out[j] = j % 2 ? '.' : 'a';
	return 240 + (uint32_t)sprintf(out + 240, "%07u", i);
}

/* The same, but no two neighbours share their way. */
static uint32_t two_prefixes(char *out, unsigned int i)
{
	uint32_t len = long_prefix(out, i);

	out[0] = i % 2 ? 'a' : 'b';
	return len;
}

/* Nothing to split, and every name of the first 255 is a prefix. */
static uint32_t dots(char *out, unsigned int i)
{
	memset(out, '.', 3 + i);
	return 3 + i;
}

/* Each key is a prefix of the next. */
static uint32_t chain(char *out, unsigned int i)
{
	for (unsigned int j = 0; j < 1000; j++)
		out[j] = j % 8 == 7 ? '.' : 'a';
	return i + 1;
}

static uint32_t megabytes(char *out, unsigned int i)
{
	memset(out, 'm', 1 << 20);
	sprintf(out + (1 << 20), "%02u", i);
	return (1 << 20) + 2;
}

static struct tasd_statedict *build(key_maker *make, unsigned int count)
{
	static char key[(1 << 20) + 16];
	struct tasd_statedict *sd;
	struct tasd_diag diag = {""};

	require_eq(tasd_statedict_new(0, LIMIT, &sd), 0);
	for (unsigned int i = 0; i < count; i++) {
		struct tasd_node *node;
		uint32_t len = make(key, i);

		require_eq(tasd_statedict_add(sd, tasd_statedict_root(sd),
				   tasd_key_str(key, len), &node),
			0);
		node->kind = TASD_KIND_NONE;
		node->form = TASD_FORM_VALUE;
	}
	if (tasd_statedict_seal(sd, &diag))
		ck_abort_msg("%s", diag.text);
	return sd;
}

/* Every key once, each found by its path, with the key it was given. */
static struct tasd_statedict *check(key_maker *make, unsigned int count)
{
	static char key[(1 << 20) + 16];
	struct tasd_statedict *sd = build(make, count);
	const struct tasd_node *node = tasd_statedict_root(sd);
	bool *seen = calloc(count, 1);
	unsigned int leaves = 0;

	require(seen);
	while ((node = tasd_node_next(node))) {
		struct tasd_buf path = TASD_BUF_EMPTY;

		if (node->form == TASD_FORM_DIR)
			continue;
		require_op(node->order, <, count);
		require(!seen[node->order]);
		seen[node->order] = true;
		leaves++;
		require_eq(node->key.len, make(key, node->order));
		require(memcmp(node->key.text, key, node->key.len) == 0);
		tasd_node_path(&path, node);
		tasd_buf_char(&path, '\0');
		require_eq(tasd_buf_err(&path), 0);
		require_eq(tasd_statedict_lookup(sd, path.bytes), node);
		tasd_buf_free(&path);
	}
	require_eq(leaves, count);
	free(seen);
	return sd;
}

START_TEST(many_experts)
{
	struct tasd_statedict *sd = check(experts, COUNT);

	require_eq(
		tasd_statedict_totals(sd).nodes, COUNT + 1 + 200 + 200 + COUNT);
	/* 88 bytes a node, 8 in its parent's list, and the text. */
	require_op(tasd_statedict_arena(sd)->used / COUNT, <, 221);
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(many_in_one_directory)
{
	struct tasd_statedict *sd = check(flat, COUNT);

	require_eq(tasd_statedict_root(sd)->dir.nchildren, COUNT);
	require_op(tasd_statedict_arena(sd)->used / COUNT, <, 113);
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(shared_prefixes)
{
	tasd_statedict_free(check(long_prefix, 40000));
	tasd_statedict_free(check(two_prefixes, 40000));
}
END_TEST

START_TEST(only_dots)
{
	tasd_statedict_free(check(dots, 5000));
}
END_TEST

START_TEST(prefixes_of_each_other)
{
	struct tasd_statedict *sd = check(chain, 1000);

	/* "a" is a key, so none of the others is split. */
	require_eq(tasd_statedict_root(sd)->dir.nchildren, 1000);
	tasd_statedict_free(sd);
}
END_TEST

START_TEST(long_keys)
{
	tasd_statedict_free(check(megabytes, 50));
}
END_TEST

/* An optimizer's state: the same few keys in very many dicts. */
START_TEST(many_dicts)
{
	static const char *const names[] = {"step", "exp_avg", "exp_avg_sq"};
	struct tasd_statedict *sd;

	require_eq(tasd_statedict_new(0, LIMIT, &sd), 0);
	for (unsigned int i = 0; i < COUNT / 2; i++) {
		struct tasd_node *dict, *node;
		char digits[16];
		struct tasd_key key = {.text = digits, .type = TASD_KEY_INT};

		key.len = (uint32_t)sprintf(digits, "%u", i);
		require_eq(tasd_statedict_add(
				   sd, tasd_statedict_root(sd), key, &dict),
			0);
		for (unsigned int j = 0; j < 3; j++) {
			key = tasd_key_str(
				names[j], (uint32_t)strlen(names[j]));
			require_eq(tasd_statedict_add(sd, dict, key, &node), 0);
			node->kind = TASD_KIND_NONE;
			node->form = TASD_FORM_VALUE;
		}
	}
	require_eq(tasd_statedict_seal(sd, NULL), 0);
	require_eq(tasd_statedict_totals(sd).nodes, 4 * (COUNT / 2));
	for (unsigned int i = 0; i < COUNT / 2; i++) {
		char path[64];

		sprintf(path, "%u/%s", i, names[i % 3]);
		require(tasd_statedict_lookup(sd, path) != NULL);
	}
	tasd_statedict_free(sd);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {many_experts, many_in_one_directory,
		shared_prefixes, only_dots, prefixes_of_each_other, long_keys,
		many_dicts, NULL};

	return unit_run("statedict large", tests);
}
