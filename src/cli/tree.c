/*
 * tasdfs tree: the same table and index that a mount has as .tasd/tree and
 * .tasd/index.json, or the lines of it that belong to a subtree.
 *
 * Both texts have a line a leaf or a node, in preorder, so a subtree is a run
 * of lines that is found by counting.
 */
#include "cli.h"
#include "print.h"
#include "sums.h"
#include "target.h"
#include <base/cleanup.h>
#include <format/format.h>
#include <format/index.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"Usage: tasdfs tree [OPTION]... SOURCE [PATH]\n"
	"\n"
	"Show every tensor and value, a line each: path, dtype, shape, bytes. "
	"It is the\n"
	"file .tasd/tree of a mount. For a folder, the table of each "
	"checkpoint in it.\n"
	"\n"
	"SOURCE  a checkpoint (file or folder), or a folder of checkpoints\n"
	"PATH    only what is below: names with / between them, or a dotted "
	"key\n"
	"\n"
	"      --json  the file .tasd/index.json of a mount: every node with "
	"its exact\n"
	"              key, kind, dtype, shape and the place of its bytes\n"
	"  -h, --help  show this text\n"
	"\n"
	"  tasdfs tree model.safetensors\n"
	"  tasdfs tree model.safetensors encoder/layer/0\n";

struct lines {
	const char *at;
	const char *end;
};

/* The next line with its newline; 0 at the end. */
static size_t next_line(struct lines *lines, const char **ret)
{
	const char *stop;
	size_t len;

	if (lines->at >= lines->end)
		return 0;
	stop = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
	len = (size_t)((stop ? stop + 1 : lines->end) - lines->at);
	*ret = lines->at;
	lines->at += len;
	return len;
}

static size_t count_lines(const struct tasd_buf *text)
{
	struct lines lines = {text->bytes, text->bytes + text->len};
	const char *line;
	size_t n = 0;

	while (text->len && next_line(&lines, &line))
		n++;
	return n;
}

/* Where the subtree of top begins: leaves and nodes before it, root apart. */
static void count_before(const struct tasd_container *ctr,
	const struct tasd_node *top, size_t *ret_leaves, size_t *ret_nodes)
{
	const struct tasd_node *n = tasd_statedict_root(ctr->sd);

	*ret_leaves = 0;
	*ret_nodes = 0;
	while ((n = tasd_node_next(n)) && n != top) {
		++*ret_nodes;
		*ret_leaves += n->form != TASD_FORM_DIR;
	}
}

static void table(struct tasd_buf *out, const struct tasd_container *ctr,
	const struct tasd_node *top)
{
	struct tasd_buf whole = TASD_BUF_EMPTY;
	struct tasd_sums sums, all;
	size_t before, nodes, heading, i = 0, len;
	struct lines lines;
	const char *line;

	if (!top->parent) {
		tasd_index_table(out, ctr);
		return;
	}
	tasd_index_table(&whole, ctr);
	if (tasd_buf_err(&whole)) {
		out->err = tasd_buf_err(&whole);
		return;
	}
	tasd_sums_of(tasd_statedict_root(ctr->sd), &all);
	tasd_sums_of(top, &sums);
	count_before(ctr, top, &before, &nodes);
	heading = count_lines(&whole) - all.leaves;
	lines = (struct lines){whole.bytes, whole.bytes + whole.len};
	for (; (len = next_line(&lines, &line)); i++)
		if (i < heading || (i >= heading + before &&
					   i < heading + before + sums.leaves))
			tasd_buf_add(out, line, len);
	tasd_buf_free(&whole);
}

/* Node lines of the whole index that belong to top and what is below it. */
static void json_nodes(struct tasd_buf *out, const struct tasd_buf *whole,
	size_t first, size_t count)
{
	static const char mark[] = "\"nodes\": [\n";
	const char *at =
		memmem(whole->bytes, whole->len, mark, sizeof(mark) - 1);
	struct lines lines;
	const char *line;
	size_t len;

	if (!at) {
		out->err = -EINVAL;
		return;
	}
	lines = (struct lines){
		at + sizeof(mark) - 1, whole->bytes + whole->len};
	for (size_t i = 0; i < first + count; i++) {
		len = next_line(&lines, &line);
		if (i < first || len == 0)
			continue;
		/* The last line of all closes the array and the object. */
		if (lines.at == lines.end)
			len -= strlen("]}\n");
		while (len && (line[len - 1] == '\n' || line[len - 1] == ','))
			len--;
		tasd_buf_str(out, i == first ? "\n" : ",\n");
		tasd_buf_add(out, line, len);
	}
}

static void json(struct tasd_buf *out, const struct tasd_container *ctr,
	const struct tasd_node *top)
{
	struct tasd_buf whole = TASD_BUF_EMPTY, path = TASD_BUF_EMPTY;
	struct tasd_sums sums;
	size_t leaves, nodes;

	if (!top->parent) {
		tasd_index_json(out, ctr);
		return;
	}
	tasd_index_json(&whole, ctr);
	tasd_node_path(&path, top);
	if (tasd_buf_err(&whole) || tasd_buf_err(&path)) {
		out->err = -ENOMEM;
	} else {
		tasd_sums_of(top, &sums);
		count_before(ctr, top, &leaves, &nodes);
		tasd_buf_printf(
			out, "{\"tasdfs_index\": %d, ", TASD_INDEX_VERSION);
		tasd_json_pair(out, "format", ctr->format->name);
		tasd_buf_str(out, ", \"below\": ");
		tasd_buf_json_str(out, path.bytes, path.len);
		tasd_buf_str(out, ", \"tensors\": ");
		tasd_buf_u64(out, sums.all.tensors);
		tasd_buf_str(out, ", \"bytes\": ");
		tasd_buf_u64(out, sums.all.bytes);
		tasd_buf_str(out, ",\n\"nodes\": [");
		json_nodes(out, &whole, nodes, sums.nodes + 1);
		tasd_buf_str(out, "\n]}\n");
	}
	tasd_buf_free(&whole);
	tasd_buf_free(&path);
}

/* One checkpoint of a folder.  false: it cannot be read, and that is said. */
static bool one_of_folder(struct tasd_buf *out, int rootfd, const char *path,
	bool as_json, bool first)
{
	struct tasd_container *ctr = NULL;
	struct tasd_diag diag = {.text = ""};
	tasd_err err = tasd_container_open(rootfd, path, 0, &ctr, &diag);

	if (as_json) {
		tasd_buf_str(out, first ? "\n{" : ",\n{");
		tasd_json_pair(out, "name", path);
		tasd_buf_str(out, ", ");
		if (err) {
			tasd_json_pair(out, "error",
				tasd_cli_reason(path, &diag, err));
		} else {
			tasd_buf_str(out, "\"index\":\n");
			tasd_index_json(out, ctr);
		}
		tasd_buf_char(out, '}');
	} else if (!err) {
		tasd_buf_str(out, first ? "" : "\n");
		tasd_print_name(out, path, strlen(path));
		tasd_buf_str(out, ".tasd:\n");
		tasd_index_table(out, ctr);
	}
	if (err) {
		tasd_cli_diag(path, &diag, err);
		return false;
	}
	tasd_container_put(ctr);
	return true;
}

static int folder_tree(
	struct tasd_buf *out, const struct tasd_target *target, bool as_json)
{
	struct tasd_folder folder;
	struct tasd_diag diag = {.text = ""};
	size_t found = 0;
	bool first = true, failed = false;
	tasd_err err = tasd_folder_read(
		target->place.dirfd, target->inside, &folder, &diag);

	if (err)
		return tasd_cli_diag(target->where, &diag, err);
	if (as_json)
		tasd_buf_str(out, "{\"checkpoints\": [");
	for (size_t i = 0; i < folder.n; i++) {
		cleanup_free char *path = NULL;
		bool done;

		if (!folder.entries[i].format)
			continue;
		found++;
		path = tasd_path_join(target->inside, folder.entries[i].name);
		done = path && one_of_folder(out, target->place.dirfd, path,
				       as_json, first);
		if (done || as_json)
			first = false;
		failed |= !done;
	}
	if (as_json)
		tasd_buf_str(out, "]}\n");
	tasd_folder_free(&folder);
	if (!found && !as_json)
		return tasd_cli_fail("%s: no checkpoint in this folder; "
				     "tasdfs ls shows what there is",
			target->where);
	return failed ? TASD_EXIT_FAIL : TASD_EXIT_OK;
}

static int tree(const char *source, const char *path, bool as_json)
{
	struct tasd_buf out = TASD_BUF_EMPTY;
	struct tasd_target target;
	int rc = tasd_target_open(source, path, TASD_TARGET_OPEN, &target);
	int printed;

	if (rc)
		return rc;
	if (target.kind == TASD_TARGET_FOLDER)
		rc = folder_tree(&out, &target, as_json);
	else if (as_json)
		json(&out, target.ctr, target.node);
	else
		table(&out, target.ctr, target.node);
	tasd_target_close(&target);
	printed = as_json ? tasd_print_json(&out) : tasd_print_lines(&out);
	return rc ? rc : printed;
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	bool as_json = false;
	int rc;

	if (!tasd_cli_only_json(cmd, argc, argv, &as_json, &rc))
		return rc;
	rc = tasd_cli_operands(cmd, argc, argv, 1, 2, "SOURCE [PATH]");
	if (rc)
		return rc;
	return tree(argv[optind], optind + 1 < argc ? argv[optind + 1] : NULL,
		as_json);
}

const struct tasd_command tasd_command_tree = {
	.name = "tree",
	.summary = "show every tensor: path, dtype, shape, bytes",
	.help = help,
	.run = run,
};
