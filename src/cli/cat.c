/*
 * tasdfs cat: the bytes of one leaf, the same bytes a mount serves.
 */
#include "cli.h"
#include "print.h"
#include "target.h"
#include "values.h"
#include <base/cleanup.h>
#include <ctype.h>
#include <format/content.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES    ((size_t)1 << 20)
#define VALUES_SHOWN  10
#define OPTION_VALUES 'v'

static const char help[] =
	"Usage: tasdfs cat [OPTION]... SOURCE PATH\n"
	"\n"
	"Write the bytes of one tensor or value to standard output.\n"
	"\n"
	"SOURCE  a checkpoint (file or folder), or a folder of checkpoints\n"
	"PATH    in SOURCE: names with / between them, or a whole dotted key\n"
	"\n"
	"      --npy         as a .npy file\n"
	"      --f32         as a .npy file of float32; exact, for bfloat16, "
	"float16\n"
	"                    and the smaller types\n"
	"      --values [N]  the first N numbers as text, one a line (default "
	"10)\n"
	"  -h, --help        show this text\n"
	"\n"
	"Without an option: the elements in row-major order, little-endian, "
	"nothing\n"
	"added. Tensor bytes are not written to a terminal.\n"
	"\n"
	"  tasdfs cat --values model.safetensors "
	"encoder.layer.0.output.dense.bias\n"
	"  tasdfs cat --npy model.safetensors lm_head.weight > lm_head.npy\n";

struct cat {
	enum tasd_view view;
	bool values;
	uint64_t count;
};

/* tensor bytes, or a text that would steer the terminal? */
static bool needs_pipe(const struct tasd_node *node, enum tasd_view view)
{
	return view != TASD_VIEW_RAW || node->form != TASD_FORM_VALUE ||
	       tasd_print_has_control(node->value.bytes, node->value.len);
}

static int copy_out(struct tasd_content *content, const char *where)
{
	cleanup_free char *buf = malloc(COPY_BYTES);
	uint64_t at = 0;

	if (!buf)
		return tasd_cli_fail("%s", strerror(ENOMEM));
	while (at < content->size) {
		size_t n;
		tasd_err err =
			tasd_content_pread(content, buf, COPY_BYTES, at, &n);

		if (!err && n == 0)
			err = -EIO;
		if (err)
			return tasd_read_failed(where, err);
		err = tasd_write_out(buf, n);
		if (err)
			return tasd_write_failed(err);
		at += n;
	}
	return TASD_EXIT_OK;
}

/* Why there is nothing to show, when that can be told without the data. */
static int refuse(
	const struct cat *cat, const struct tasd_node *node, const char *where)
{
	if (node->form == TASD_FORM_DIR)
		return tasd_cli_fail("%s: a directory (%s), not a tensor; "
				     "tasdfs ls shows what is in it",
			where, tasd_kind_name(node->kind));
	if (cat->values && node->form != TASD_FORM_TENSOR)
		return tasd_cli_fail(
			"%s: a value, not a tensor: --values does not apply",
			where);
	if (!tasd_content_exists(node, cat->view)) {
		const char *dtype = node->form == TASD_FORM_TENSOR
					    ? tasd_tensor_dtype(node->tensor)
					    : tasd_kind_name(node->kind);

		if (node->error)
			return tasd_cli_fail("%s: %s", where, node->error);
		return tasd_cli_fail(cat->view == TASD_VIEW_NPY
					     ? "%s: %s has no .npy form"
					     : "%s: %s has no float32 form",
			where, dtype);
	}
	if (!cat->values && isatty(STDOUT_FILENO) &&
		needs_pipe(node, cat->view))
		return tasd_cli_fail("%s: not written to a terminal; use "
				     "--values, a pipe or a file",
			where);
	return TASD_EXIT_OK;
}

static int cat_node(
	const struct cat *cat, struct tasd_target *target, const char *where)
{
	const struct tasd_node *node = target->node;
	struct tasd_content content;
	tasd_err err;
	int rc = refuse(cat, node, where);

	if (rc)
		return rc;
	err = tasd_content_open(target->ctr, node, cat->view, &content);
	if (err && node->error)
		return tasd_cli_fail("%s: %s", where, node->error);
	if (err == -ENODATA)
		return tasd_cli_fail(
			"%s: a placeholder: its data is nowhere", where);
	if (err)
		return tasd_cli_diag(where, NULL, err);
	rc = cat->values ? tasd_values_print(
				   &content, node->tensor, cat->count, where)
			 : copy_out(&content, where);
	tasd_content_close(&content);
	return rc;
}

static int cat_path(const struct cat *cat, const char *source, const char *path)
{
	cleanup_free char *where = tasd_path_join(source, path);
	struct tasd_target target;
	int rc = tasd_target_open(source, path, TASD_TARGET_OPEN, &target);

	if (rc)
		return rc;
	if (!where)
		rc = tasd_cli_fail("%s", strerror(ENOMEM));
	else if (target.kind == TASD_TARGET_NODE)
		rc = cat_node(cat, &target, where);
	else
		rc = tasd_cli_fail("%s: a folder of checkpoints, not a tensor; "
				   "tasdfs ls shows what is in it",
			where);
	tasd_target_close(&target);
	return rc;
}

static bool parse_count(const char *text, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !errno && !*end;
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	static const struct option longs[] = {
		{"npy", no_argument, NULL, 'n'},
		{"f32", no_argument, NULL, 'f'},
		{"values", optional_argument, NULL, OPTION_VALUES},
		{NULL, 0, NULL, 0},
	};
	struct cat cat = {.view = TASD_VIEW_RAW, .count = VALUES_SHOWN};
	int c, rc, views = 0;

	while ((c = tasd_cli_getopt(cmd, argc, argv, "", longs, &rc)) !=
		TASD_GETOPT_END) {
		if (c == TASD_GETOPT_EXIT)
			return rc;
		views++;
		if (c == 'n') {
			cat.view = TASD_VIEW_NPY;
		} else if (c == 'f') {
			cat.view = TASD_VIEW_F32;
		} else {
			cat.values = true;
			/* --values 5 is --values=5: a number right after it
			 * is no operand. */
			if (!optarg && argv[optind] &&
				parse_count(argv[optind], &cat.count))
				optind++;
			if (optarg && !parse_count(optarg, &cat.count))
				return tasd_cli_usage(cmd,
					"--values=%s: a number is expected",
					optarg);
		}
	}
	if (views > 1)
		return tasd_cli_usage(cmd,
			"only one of --npy, --f32 and --values can be given");
	rc = tasd_cli_operands(cmd, argc, argv, 2, 2, "SOURCE PATH");
	if (rc)
		return rc;
	return cat_path(&cat, argv[optind], argv[optind + 1]);
}

const struct tasd_command tasd_command_cat = {
	.name = "cat",
	.summary = "write one tensor's bytes, or its first numbers",
	.help = help,
	.run = run,
};
