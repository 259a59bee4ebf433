/*
 * Keys are made once, stripped, and put in order by sorting positions, so that
 * two sources are joined by walking both at once and leaves of one key stand
 * side by side.
 */
#include "leaves.h"
#include "cli.h"
#include "print.h"
#include "sums.h"
#include <base/cleanup.h>
#include <stdlib.h>
#include <string.h>

#define CLASHES_SHOWN 10

tasd_err tasd_strips_add(struct tasd_strips *strips, const char *text)
{
	size_t len = strlen(text);
	struct tasd_strip strip = {.anywhere = text[0] == '.'};
	struct tasd_strip *all;

	text += strip.anywhere;
	len -= strip.anywhere;
	len -= len > 0 && text[len - 1] == '.';
	if (len == 0)
		return -EINVAL;
	strip.words = text;
	strip.len = len;
	all = realloc(strips->all, (strips->n + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	strips->all = all;
	all[strips->n++] = strip;
	return 0;
}

void tasd_strips_free(struct tasd_strips *strips)
{
	free(strips->all);
	*strips = (struct tasd_strips){.n = 0};
}

/* Bytes that go from the beginning of text; something always stays. */
static size_t strip_at(const struct tasd_strips *strips, const char *text,
	size_t len, bool first)
{
	for (size_t i = 0; i < strips->n; i++) {
		const struct tasd_strip *s = &strips->all[i];

		if ((first || s->anywhere) && len > s->len + 1 &&
			text[s->len] == '.' &&
			memcmp(text, s->words, s->len) == 0)
			return s->len + 1;
	}
	return 0;
}

/* Strip key in place; its new length. */
static size_t strip_key(const struct tasd_strips *strips, char *key, size_t len)
{
	size_t from = 0, to = 0;

	while (from < len) {
		const char *dot;
		size_t n = strip_at(strips, key + from, len - from, to == 0);

		if (n) {
			from += n;
			continue;
		}
		dot = memchr(key + from, '.', len - from);
		n = dot ? (size_t)(dot - (key + from)) + 1 : len - from;
		memmove(key + to, key + from, n);
		from += n;
		to += n;
	}
	return to;
}

tasd_err tasd_leaf_key(struct tasd_buf *buf, const struct tasd_node *node,
	const struct tasd_node *top, const struct tasd_strips *strips)
{
	struct tasd_buf above = TASD_BUF_EMPTY;
	tasd_err err;

	buf->len = 0;
	tasd_node_dotted(buf, node);
	if (node != top && top->parent) {
		tasd_node_dotted(&above, top);
		tasd_buf_char(&above, '.');
		if (!tasd_buf_err(buf) && !tasd_buf_err(&above) &&
			buf->len >= above.len &&
			memcmp(buf->bytes, above.bytes, above.len) == 0) {
			buf->len -= above.len;
			memmove(buf->bytes, buf->bytes + above.len, buf->len);
		}
	}
	err = tasd_buf_err(buf) ? tasd_buf_err(buf) : tasd_buf_err(&above);
	tasd_buf_free(&above);
	if (!err)
		buf->len = strip_key(strips, buf->bytes, buf->len);
	return err;
}

static tasd_err set_key(struct tasd_leaves *leaves, struct tasd_leaf *leaf,
	const char *key, size_t len)
{
	if (len > UINT32_MAX)
		return -E2BIG;
	leaf->len = (uint32_t)len;
	leaf->key = tasd_arena_copy(&leaves->texts, key, len);
	return leaf->key ? 0 : -E2BIG;
}

static tasd_err add_leaf(struct tasd_leaves *leaves,
	const struct tasd_node *node, const struct tasd_node *top,
	const struct tasd_strips *strips, struct tasd_buf *key)
{
	static const struct tasd_strips none;
	struct tasd_leaf *leaf;
	size_t before;
	tasd_err err = tasd_leaf_key(key, node, top, &none);

	if (err)
		return err;
	before = key->len;
	key->len = strip_key(strips, key->bytes, key->len);
	if (leaves->n == leaves->room) {
		size_t room = leaves->room ? 2 * leaves->room : 64;
		struct tasd_leaf *all =
			realloc(leaves->all, room * sizeof(*all));

		if (!all)
			return -ENOMEM;
		leaves->all = all;
		leaves->room = room;
	}
	leaf = &leaves->all[leaves->n++];
	*leaf = (struct tasd_leaf){
		.node = node, .stripped = key->len != before};
	return set_key(leaves, leaf, key->bytes, key->len);
}

bool tasd_leaf_is_compound(const struct tasd_node *node)
{
	return node->form == TASD_FORM_DIR && node->kind == TASD_KIND_TENSOR;
}

static bool is_leaf(const struct tasd_node *node, unsigned int flags)
{
	if (flags & TASD_LEAVES_COMPOUND && tasd_leaf_is_compound(node))
		return true;
	return node->form != TASD_FORM_DIR || node->dir.nchildren == 0;
}

static bool is_below(const struct tasd_node *node, const struct tasd_node *top)
{
	while (node && node != top)
		node = node->parent;
	return node;
}

static bool is_quantised(const struct tasd_node *node)
{
	if (node->form != TASD_FORM_TENSOR)
		return false;
	switch ((int)node->tensor->dtype) {
	case TASD_DTYPE_QI8:
	case TASD_DTYPE_QU8:
	case TASD_DTYPE_QI32:
	case TASD_DTYPE_QU4X2:
	case TASD_DTYPE_QU2X4:
		return true;
	default:
		return false;
	}
}

/* The item that an attribute's node belongs to; NULL: none below top. */
static const struct tasd_node *owner_of(const struct tasd_statedict *sd,
	const struct tasd_node *attr, const struct tasd_node *top)
{
	struct tasd_buf path = TASD_BUF_EMPTY;
	const struct tasd_node *owner = NULL;

	while (attr && !(attr->flags & TASD_NODE_BESIDE))
		attr = attr->parent;
	if (!attr || !attr->parent)
		return NULL;
	tasd_node_path(&path, attr->parent);
	tasd_buf_char(&path, '\0');
	if (!tasd_buf_err(&path))
		owner = tasd_statedict_lookup(sd, path.bytes);
	tasd_buf_free(&path);
	return owner && is_below(owner, top) ? owner : NULL;
}

static tasd_err add_quantised(struct tasd_leaves *leaves,
	const struct tasd_target *target, const struct tasd_strips *strips,
	struct tasd_buf *key)
{
	const struct tasd_statedict *sd = target->ctr->sd;
	const struct tasd_node *n = tasd_statedict_attrs(sd);
	tasd_err err = 0;

	while (!err && (n = tasd_node_next(n))) {
		const struct tasd_node *owner;

		if (n->form != TASD_FORM_TENSOR)
			continue;
		owner = owner_of(sd, n, target->node);
		if (owner && is_quantised(owner))
			err = add_leaf(leaves, n, target->node, strips, key);
	}
	return err;
}

tasd_err tasd_leaves_read(const struct tasd_target *target,
	const struct tasd_strips *strips, unsigned int flags,
	struct tasd_leaves *ret)
{
	const struct tasd_node *top = target->node;
	struct tasd_buf key = TASD_BUF_EMPTY;
	tasd_err err = 0;

	*ret = (struct tasd_leaves){.n = 0};
	tasd_arena_init(&ret->texts, TASD_CONTAINER_MEMORY);
	for (const struct tasd_node *n = top; n && !err;
		n = tasd_next_below(n, top))
		if (is_leaf(n, flags) && n->parent)
			err = add_leaf(ret, n, top, strips, &key);
	if (!err && flags & TASD_LEAVES_COMPOUND)
		err = add_quantised(ret, target, strips, &key);
	tasd_buf_free(&key);
	if (err)
		tasd_leaves_free(ret);
	return err;
}

void tasd_leaves_free(struct tasd_leaves *leaves)
{
	free(leaves->all);
	free(leaves->by_key);
	tasd_arena_free(&leaves->texts);
	*leaves = (struct tasd_leaves){.n = 0};
}

int tasd_leaf_order(const struct tasd_leaf *a, const struct tasd_leaf *b)
{
	uint32_t n = a->len < b->len ? a->len : b->len;
	int order = memcmp(a->key, b->key, n);

	return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int order_of(const void *a, const void *b, void *ctx)
{
	const struct tasd_leaf *all = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	int order = tasd_leaf_order(&all[i], &all[j]);

	return order ? order : (i > j) - (i < j);
}

tasd_err tasd_leaves_sort(struct tasd_leaves *leaves)
{
	if (leaves->n >= UINT32_MAX)
		return -E2BIG;
	free(leaves->by_key);
	leaves->by_key = malloc((leaves->n + 1) * sizeof(*leaves->by_key));
	if (!leaves->by_key)
		return -ENOMEM;
	for (size_t i = 0; i < leaves->n; i++)
		leaves->by_key[i] = (uint32_t)i;
	qsort_r(leaves->by_key, leaves->n, sizeof(*leaves->by_key), order_of,
		leaves->all);
	return 0;
}

static struct tasd_leaf *sorted(const struct tasd_leaves *leaves, size_t i)
{
	return &leaves->all[leaves->by_key[i]];
}

/* Where the run of leaves with the key of the from-th ends. */
static size_t run_end(const struct tasd_leaves *leaves, size_t from)
{
	size_t end = from + 1;

	while (end < leaves->n &&
		tasd_leaf_order(sorted(leaves, from), sorted(leaves, end)) == 0)
		end++;
	return end;
}

tasd_err tasd_leaves_untwin(struct tasd_leaves *leaves)
{
	struct tasd_buf key = TASD_BUF_EMPTY;
	bool any = false;
	tasd_err err = 0;

	for (size_t from = 0, end; from < leaves->n && !err; from = end) {
		bool stripped = false;

		end = run_end(leaves, from);
		for (size_t i = from; i < end; i++)
			stripped |= sorted(leaves, i)->stripped;
		if (end - from == 1 || stripped)
			continue;
		any = true;
		/* Keys change only where the walk has been. */
		for (size_t i = from; i < end && !err; i++) {
			struct tasd_leaf *leaf = sorted(leaves, i);

			key.len = 0;
			tasd_node_key_json(&key, leaf->node);
			err = tasd_buf_err(&key);
			if (!err)
				err = set_key(leaves, leaf, key.bytes, key.len);
		}
	}
	tasd_buf_free(&key);
	return err || !any ? err : tasd_leaves_sort(leaves);
}

static void say_clash(const struct tasd_leaves *leaves, size_t from, size_t i,
	const char *where)
{
	struct tasd_buf text = TASD_BUF_EMPTY;

	tasd_print_key(&text, sorted(leaves, i)->key, sorted(leaves, i)->len);
	tasd_buf_str(&text, ": the key of both ");
	tasd_node_key_json(&text, sorted(leaves, from)->node);
	tasd_buf_str(&text, " and ");
	tasd_node_key_json(&text, sorted(leaves, i)->node);
	tasd_buf_char(&text, '\0');
	if (!tasd_buf_err(&text))
		tasd_cli_fail("%s: %s", where, text.bytes);
	tasd_buf_free(&text);
}

size_t tasd_leaves_clashes(const struct tasd_leaves *leaves, const char *where)
{
	size_t clashes = 0;

	for (size_t from = 0, end; from < leaves->n; from = end) {
		end = run_end(leaves, from);
		for (size_t i = from + 1; i < end; i++)
			if (clashes++ < CLASHES_SHOWN)
				say_clash(leaves, from, i, where);
	}
	if (clashes > CLASHES_SHOWN)
		tasd_cli_fail("%s: and %zu keys more that are not one leaf's",
			where, clashes - CLASHES_SHOWN);
	return clashes;
}

void tasd_print_key(struct tasd_buf *buf, const char *key, size_t len)
{
	if (len)
		tasd_print_name(buf, key, len);
	else
		tasd_buf_str(buf, "\"\"");
}
