/*
 * tasdfs diff: what is not the same in two checkpoints.
 *
 * What headers tell comes first: keys, then kinds, dtypes and shapes.  Only
 * what is left is read, one pair of leaves after the other.  A result is
 * printed as soon as it is known, or kept for the one JSON object at the end.
 */
#include "diff.h"
#include "cli.h"
#include "compare.h"
#include "print.h"
#include <base/cleanup.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_STRIP     's'
#define OPTION_KEYS      'k'
#define OPTION_NO_VALUES 'n'
#define OPTION_JSON      'j'

#define NO_MATE UINT32_MAX

static const char help[] =
	"Usage: tasdfs diff [OPTION]... A B\n"
	"\n"
	"Compare two checkpoints of any format by their dotted keys: which "
	"keys are only\n"
	"in one, then element types and shapes, then values. Of a tensor that "
	"differs:\n"
	"how many elements, and the largest absolute difference.\n"
	"\n"
	"A, B  a checkpoint (file or folder), or a part: "
	"DIR/model.pt.tasd/encoder\n"
	"\n"
	"      --strip PREFIX  without that at the beginning of a key, however "
	"often;\n"
	"                      .PREFIX: between components too; can be "
	"repeated\n"
	"      --keys-only     compare the keys and nothing else\n"
	"      --no-values     keys, element types and shapes; no data is "
	"read\n"
	"      --json          one JSON object\n"
	"  -h, --help          show this text\n"
	"\n"
	"NaN equals NaN, and 0 equals -0. Exit status: 0 equal, 1 different, 2 "
	"trouble.\n"
	"\n"
	"  tasdfs diff step-10.safetensors step-20.safetensors\n"
	"  tasdfs diff --strip module. ddp.safetensors model.safetensors\n";

struct diff {
	struct tasd_diff_out out;
	struct tasd_strips strips;
	bool keys_only, no_values;
	struct tasd_target targets[2];
	struct tasd_leaves leaves[2];
	uint32_t *mates[2]; /* positions in the other's leaves; owned */
	struct tasd_progress progress;
};

/* What could not be compared. */
static void trouble(struct diff *diff, const struct tasd_leaf *leaf, int side,
	const char *reason)
{
	tasd_progress_clear(&diff->progress);
	tasd_diff_trouble(&diff->out, leaf, diff->targets[side].where, reason);
}

static tasd_err read_side(struct diff *diff, int side)
{
	struct tasd_target *target = &diff->targets[side];
	struct tasd_leaves *leaves = &diff->leaves[side];
	tasd_err err = tasd_leaves_read(
		target, &diff->strips, TASD_LEAVES_COMPOUND, leaves);

	if (!err)
		err = tasd_leaves_sort(leaves);
	if (!err)
		err = tasd_leaves_untwin(leaves);
	if (err)
		tasd_cli_diag(target->where, NULL, err);
	return err;
}

/* Is target one leaf, and not a state dict that happens to have only one? */
static bool is_one_leaf(const struct tasd_target *target)
{
	return target->node->form != TASD_FORM_DIR ||
	       (!target->node->parent && tasd_statedict_whole(target->ctr->sd));
}

/* Find what stands under the same key on the other side. */
static tasd_err pair(struct diff *diff)
{
	struct tasd_leaves *a = &diff->leaves[0], *b = &diff->leaves[1];
	size_t i = 0, j = 0;

	for (int side = 0; side < 2; side++) {
		size_t size = (diff->leaves[side].n + 1) * sizeof(uint32_t);

		diff->mates[side] = malloc(size);
		if (!diff->mates[side])
			return -ENOMEM;
		memset(diff->mates[side], 0xff, size);
	}
	/* Two bare tensors, whatever they are called. */
	if (a->n == 1 && b->n == 1 && is_one_leaf(&diff->targets[0]) &&
		is_one_leaf(&diff->targets[1])) {
		diff->mates[0][0] = diff->mates[1][0] = 0;
		return 0;
	}
	while (i < a->n && j < b->n) {
		uint32_t at = a->by_key[i], bt = b->by_key[j];
		int order = tasd_leaf_order(&a->all[at], &b->all[bt]);

		if (order == 0) {
			diff->mates[0][at] = bt;
			diff->mates[1][bt] = at;
		}
		i += order <= 0;
		j += order >= 0;
	}
	return 0;
}

/* A tensor that no side can show is told even where it has no other. */
static void only_in(struct diff *diff, int side)
{
	const struct tasd_leaves *leaves = &diff->leaves[side];

	for (size_t i = 0; i < leaves->n; i++) {
		const struct tasd_leaf *leaf = &leaves->all[i];

		if (diff->mates[side][i] != NO_MATE)
			continue;
		tasd_diff_only(&diff->out, leaf, side);
		if (!diff->keys_only && leaf->node->form == TASD_FORM_TENSOR &&
			leaf->node->tensor->data == TASD_DATA_BROKEN)
			trouble(diff, leaf, side, leaf->node->error);
	}
}

static bool same_shape(const struct tasd_tensor *a, const struct tasd_tensor *b)
{
	if (a->ndim != b->ndim)
		return false;
	return a->ndim == 0 ||
	       memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) == 0;
}

static const struct tasd_node_fact *fact_of(
	const struct tasd_node *node, const char *name)
{
	const struct tasd_node_extra *extra = node->extra;

	for (uint32_t i = 0; extra && i < extra->nfacts; i++)
		if (strcmp(extra->facts[i].name, name) == 0)
			return &extra->facts[i];
	return NULL;
}

/* What turns the codes of a quantised tensor into numbers, and the parts of a
 * sparse one into a tensor. */
static const char *other_fact(
	const struct tasd_node *a, const struct tasd_node *b)
{
	static const char *const names[] = {"qscheme", "scale", "zero_point",
		"axis", "layout", "dtype", "shape"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct tasd_node_fact *x = fact_of(a, names[i]);
		const struct tasd_node_fact *y = fact_of(b, names[i]);

		if (!x && !y)
			continue;
		if (!x || !y || x->len != y->len ||
			memcmp(x->value, y->value, x->len) != 0)
			return names[i];
	}
	return NULL;
}

/* What the headers of two tensors say.  true: there is nothing more to tell. */
static bool other_tensor(
	struct diff *diff, const struct tasd_leaf *a, const struct tasd_leaf *b)
{
	const struct tasd_tensor *x = a->node->tensor, *y = b->node->tensor;
	const char *what = NULL;
	bool broken = false;

	for (int side = 0; side < 2; side++) {
		const struct tasd_leaf *leaf = side ? b : a;

		if (leaf->node->tensor->data != TASD_DATA_BROKEN)
			continue;
		trouble(diff, leaf, side, leaf->node->error);
		broken = true;
	}
	if (broken)
		return true;
	if (strcmp(tasd_tensor_dtype(x), tasd_tensor_dtype(y)) != 0)
		what = "dtype";
	else if (!same_shape(x, y))
		what = "shape";
	else if ((x->data == TASD_DATA_PLACEHOLDER) !=
		 (y->data == TASD_DATA_PLACEHOLDER))
		what = "state";
	else
		what = other_fact(a->node, b->node);
	if (what)
		tasd_diff_headers(&diff->out, a, b, what);
	return what;
}

/* Where a link leads is compared as a key. */
static bool same_link(const struct diff *diff, const struct tasd_leaf *a,
	const struct tasd_leaf *b)
{
	struct tasd_buf keys[2] = {TASD_BUF_EMPTY, TASD_BUF_EMPTY};
	const struct tasd_leaf *leaves[2] = {a, b};
	bool same = true;

	for (int side = 0; side < 2; side++)
		same &= !tasd_leaf_key(&keys[side], leaves[side]->node->link,
			diff->targets[side].node, &diff->strips);
	same = same && keys[0].len == keys[1].len &&
	       (keys[0].len == 0 ||
		       memcmp(keys[0].bytes, keys[1].bytes, keys[0].len) == 0);
	tasd_buf_free(&keys[0]);
	tasd_buf_free(&keys[1]);
	return same;
}

static bool same_value(const struct tasd_node *a, const struct tasd_node *b)
{
	return a->value.len == b->value.len &&
	       (a->value.len == 0 || memcmp(a->value.bytes, b->value.bytes,
					     a->value.len) == 0);
}

/*
 * All that is known without reading tensors.  true: the bytes of two tensors
 * are to be compared.
 */
static bool compare_headers(
	struct diff *diff, const struct tasd_leaf *a, const struct tasd_leaf *b)
{
	const struct tasd_node *x = a->node, *y = b->node;

	if (x->form == TASD_FORM_TENSOR && y->form == TASD_FORM_TENSOR) {
		if (other_tensor(diff, a, b))
			return false;
		if (!diff->no_values &&
			x->tensor->data != TASD_DATA_PLACEHOLDER)
			return true;
		diff->out.equal_tensors++;
		return false;
	}
	if (x->form != y->form || x->kind != y->kind)
		tasd_diff_headers(&diff->out, a, b, "kind");
	else if (tasd_leaf_is_compound(x) && other_fact(x, y))
		tasd_diff_headers(&diff->out, a, b, other_fact(x, y));
	else if (!diff->no_values && x->form == TASD_FORM_VALUE &&
		 !same_value(x, y))
		tasd_diff_headers(&diff->out, a, b, "value");
	else if (x->form == TASD_FORM_LINK && !same_link(diff, a, b))
		tasd_diff_headers(&diff->out, a, b, "link");
	else
		diff->out.equal_values++;
	return false;
}

static const char *read_reason(const struct tasd_node *node, tasd_err err)
{
	if (node->error)
		return node->error;
	return err == -EIO || err == -ESTALE
		       ? "the file has changed or is cut short"
		       : strerror(-err);
}

static void compare_data(
	struct diff *diff, const struct tasd_leaf *a, const struct tasd_leaf *b)
{
	struct tasd_content contents[2];
	struct tasd_comparison c;
	int side = 0;
	tasd_err err = tasd_content_open(
		diff->targets[0].ctr, a->node, TASD_VIEW_RAW, &contents[0]);

	if (err) {
		trouble(diff, a, 0, read_reason(a->node, err));
		return;
	}
	err = tasd_content_open(
		diff->targets[1].ctr, b->node, TASD_VIEW_RAW, &contents[1]);
	if (err) {
		trouble(diff, b, 1, read_reason(b->node, err));
		tasd_content_close(&contents[0]);
		return;
	}
	err = tasd_compare(
		&contents[0], &contents[1], &diff->progress, &c, &side);
	tasd_content_close(&contents[0]);
	tasd_content_close(&contents[1]);
	if (err) {
		trouble(diff, side ? b : a, side,
			read_reason(side ? b->node : a->node, err));
	} else if (c.different) {
		tasd_progress_clear(&diff->progress);
		tasd_diff_values(&diff->out, a, b, &c);
	} else {
		diff->out.equal_tensors++;
	}
}

static void compare_pairs(struct diff *diff)
{
	const struct tasd_leaves *a = &diff->leaves[0];
	uint32_t *mates = diff->mates[0];
	uint64_t total = 0;

	for (size_t i = 0; i < a->n; i++) {
		const struct tasd_leaf *leaf = &a->all[i], *other;

		if (mates[i] == NO_MATE)
			continue;
		other = &diff->leaves[1].all[mates[i]];
		if (diff->keys_only) {
			diff->out.equal_keys++;
			mates[i] = NO_MATE;
		} else if (compare_headers(diff, leaf, other)) {
			total += leaf->node->tensor->nbytes;
		} else {
			mates[i] = NO_MATE;
		}
	}
	tasd_progress_begin(&diff->progress, "compared", total);
	for (size_t i = 0; i < a->n && !diff->out.rc; i++)
		if (mates[i] != NO_MATE)
			compare_data(diff, &a->all[i],
				&diff->leaves[1].all[mates[i]]);
	tasd_progress_clear(&diff->progress);
}

static int compare(struct diff *diff)
{
	size_t clashes = 0;

	for (int side = 0; side < 2; side++)
		if (read_side(diff, side))
			return TASD_DIFF_TROUBLE;
	for (int side = 0; side < 2; side++)
		clashes += tasd_leaves_clashes(
			&diff->leaves[side], diff->targets[side].where);
	if (clashes)
		return TASD_DIFF_TROUBLE;
	if (pair(diff)) {
		tasd_cli_fail("%s", strerror(ENOMEM));
		return TASD_DIFF_TROUBLE;
	}
	only_in(diff, 0);
	only_in(diff, 1);
	compare_pairs(diff);
	return tasd_diff_end(&diff->out);
}

static int open_side(struct diff *diff, int side, const char *source)
{
	struct tasd_target *target = &diff->targets[side];

	if (tasd_target_open(source, NULL, TASD_TARGET_OPEN, target))
		return TASD_DIFF_TROUBLE;
	if (target->kind == TASD_TARGET_NODE)
		return 0;
	tasd_cli_fail("%s: a folder of checkpoints; name one of them, as "
		      "tasdfs ls shows them",
		target->where);
	return TASD_DIFF_TROUBLE;
}

static int options(const struct tasd_command *cmd, int argc, char **argv,
	struct diff *diff, int *ret_rc)
{
	static const struct option longs[] = {
		{"strip", required_argument, NULL, OPTION_STRIP},
		{"keys-only", no_argument, NULL, OPTION_KEYS},
		{"no-values", no_argument, NULL, OPTION_NO_VALUES},
		{"json", no_argument, NULL, OPTION_JSON},
		{NULL, 0, NULL, 0},
	};
	tasd_err err;
	int c;

	while ((c = tasd_cli_getopt(cmd, argc, argv, "", longs, ret_rc)) !=
		TASD_GETOPT_END) {
		if (c == TASD_GETOPT_EXIT)
			return -1;
		diff->keys_only |= c == OPTION_KEYS;
		diff->no_values |= c == OPTION_NO_VALUES;
		diff->out.json |= c == OPTION_JSON;
		err = c == OPTION_STRIP ? tasd_strips_add(&diff->strips, optarg)
					: 0;
		if (err) {
			*ret_rc = tasd_cli_usage(cmd,
				"--strip=%s: a component is expected, as in "
				"module.",
				optarg);
			return -1;
		}
	}
	*ret_rc = tasd_cli_operands(cmd, argc, argv, 2, 2, "A B");
	return *ret_rc ? -1 : 0;
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	struct diff diff = {
		.targets = {{.place = {.dirfd = -1}}, {.place = {.dirfd = -1}}},
	};
	int rc;

	if (!options(cmd, argc, argv, &diff, &rc)) {
		rc = open_side(&diff, 0, argv[optind]);
		if (!rc)
			rc = open_side(&diff, 1, argv[optind + 1]);
		if (!rc)
			rc = compare(&diff);
	}
	for (int side = 0; side < 2; side++) {
		tasd_leaves_free(&diff.leaves[side]);
		tasd_target_close(&diff.targets[side]);
		free(diff.mates[side]);
	}
	tasd_diff_free(&diff.out);
	tasd_strips_free(&diff.strips);
	return rc;
}

const struct tasd_command tasd_command_diff = {
	.name = "diff",
	.summary = "compare two checkpoints: keys, dtypes, shapes, values",
	.help = help,
	.run = run,
};
