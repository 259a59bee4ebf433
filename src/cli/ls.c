/*
 * tasdfs ls: one directory, of a state dict or of a library.
 *
 * Both become rows first, so that text, columns and JSON say the same.  A face
 * is always listed beside its container here; the container is not read for
 * that, only for -R, which goes into everything.
 */
#include "cli.h"
#include "print.h"
#include "sums.h"
#include "target.h"
#include <base/cleanup.h>
#include <format/format.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"Usage: tasdfs ls [OPTION]... SOURCE [PATH]\n"
	"\n"
	"List a directory of a state dict, or of a folder of checkpoints.\n"
	"\n"
	"SOURCE  a checkpoint (file or folder), or any folder. A checkpoint "
	"NAME in a\n"
	"        folder is listed twice, as NAME and as its state dict "
	"NAME.tasd/.\n"
	"PATH    in SOURCE: names with / between them, or a whole dotted key.\n"
	"\n"
	"  -l          columns: kind, dtype, shape, bytes, name\n"
	"  -R          directories below too\n"
	"      --json  one JSON array of objects\n"
	"  -h, --help  show this text\n"
	"\n"
	"Directories end in /. Within a state dict the saved order is kept.\n"
	"\n"
	"  tasdfs ls model.safetensors\n"
	"  tasdfs ls -l model.safetensors encoder/layer/0\n"
	"  tasdfs ls ~/checkpoints step-10.safetensors.tasd/encoder\n";

struct ls {
	struct tasd_buf out;
	bool long_form;
	bool recursive;
	bool json;
	bool first; /* nothing was printed yet */
	bool failed;
	int rootfd; /* of the library */
	const char *where;
};

/* One line of the listing, before it is laid out. */
struct row {
	const char *kind;
	const struct tasd_node *node; /* in a state dict */
	const char *name;             /* not terminated */
	size_t len;
	bool is_face; /* name is the container's: ".tasd" belongs to it */
	bool is_dir;
	uint64_t size;
	bool has_size;
};

static const struct tasd_tensor *row_tensor(const struct row *row)
{
	return row->node && row->node->form == TASD_FORM_TENSOR
		       ? row->node->tensor
		       : NULL;
}

static struct row row_of_node(const struct tasd_node *node)
{
	struct row row = {.kind = tasd_kind_name(node->kind),
		.node = node,
		.name = node->name,
		.len = node->name_len};

	switch ((enum tasd_node_form)node->form) {
	case TASD_FORM_DIR:
		row.is_dir = true;
		break;
	case TASD_FORM_TENSOR:
		row.size = node->tensor->nbytes;
		row.has_size = *tasd_tensor_dtype(node->tensor) != '\0';
		break;
	case TASD_FORM_VALUE:
		row.size = node->value.len;
		row.has_size = true;
		break;
	case TASD_FORM_LINK:
		row.kind = "link";
		break;
	}
	return row;
}

static struct row row_of_entry(const struct tasd_entry *entry)
{
	struct row row = {.kind = "other",
		.name = entry->name,
		.len = strlen(entry->name),
		.size = entry->size,
		.has_size = entry->type == 'f'};

	if (entry->type == 'd') {
		row.kind = "folder";
		row.is_dir = true;
	} else if (entry->type == 'l') {
		row.kind = "link";
	} else if (entry->type == 'f') {
		row.kind = "file";
	}
	if (entry->format && entry->type != 'l')
		row.kind = entry->format->name;
	return row;
}

/* Every cell is one text; widths are those of the widest. */
static void row_cell(struct tasd_buf *buf, const struct row *row, int column)
{
	const struct tasd_tensor *t = row_tensor(row);

	switch (column) {
	case 0:
		tasd_buf_str(buf, row->kind);
		break;
	case 1:
		tasd_buf_str(buf, t && *tasd_tensor_dtype(t)
					  ? tasd_tensor_dtype(t)
					  : "-");
		break;
	case 2:
		if (t && *tasd_tensor_dtype(t))
			tasd_print_shape(buf, t);
		else
			tasd_buf_char(buf, '-');
		break;
	default:
		if (row->has_size)
			tasd_buf_u64(buf, row->size);
		else
			tasd_buf_char(buf, '-');
	}
}

#define COLUMNS 4

/* One long shape pushes only its own line out. */
#define WIDTH_MAX 32

static void print_long(struct tasd_buf *out, const struct row *row,
	const size_t width[COLUMNS], struct tasd_buf *cell)
{
	for (int c = 0; c < COLUMNS; c++) {
		size_t from = out->len;

		cell->len = 0;
		row_cell(cell, row, c);
		if (c == COLUMNS - 1 && cell->len < width[c])
			tasd_print_pad(out, out->len, width[c] - cell->len);
		tasd_buf_add(out, cell->bytes, cell->len);
		tasd_print_pad(out, from, width[c]);
		tasd_buf_str(out, "  ");
	}
}

static void print_rows(struct ls *ls, const struct row *rows, size_t n)
{
	size_t width[COLUMNS] = {0};
	struct tasd_buf cell = TASD_BUF_EMPTY;

	for (size_t i = 0; ls->long_form && i < n; i++)
		for (int c = 0; c < COLUMNS; c++) {
			cell.len = 0;
			row_cell(&cell, &rows[i], c);
			if (cell.len > width[c] && cell.len <= WIDTH_MAX)
				width[c] = cell.len;
		}
	for (size_t i = 0; i < n; i++) {
		const struct row *row = &rows[i];

		if (ls->long_form)
			print_long(&ls->out, row, width, &cell);
		tasd_print_name(&ls->out, row->name, row->len);
		tasd_buf_str(&ls->out, row->is_face ? ".tasd" : "");
		tasd_buf_str(&ls->out, row->is_dir ? "/" : "");
		if (ls->long_form && row->node && row->node->error) {
			tasd_buf_str(&ls->out, "  [");
			tasd_print_cut(&ls->out, row->node->error,
				strlen(row->node->error), 512);
			tasd_buf_char(&ls->out, ']');
		}
		tasd_buf_char(&ls->out, '\n');
	}
	tasd_buf_free(&cell);
}

static void json_row(
	struct ls *ls, const struct row *row, const char *dir, size_t dir_len)
{
	const struct tasd_tensor *t = row_tensor(row);
	struct tasd_buf path = TASD_BUF_EMPTY;
	struct tasd_buf *out = &ls->out;
	size_t at;

	if (dir_len) {
		tasd_buf_add(&path, dir, dir_len);
		tasd_buf_char(&path, '/');
	}
	at = path.len;
	tasd_buf_add(&path, row->name, row->len);
	tasd_buf_str(&path, row->is_face ? ".tasd" : "");
	if (tasd_buf_err(&path)) {
		out->err = tasd_buf_err(&path);
		return;
	}
	tasd_buf_str(out, ls->first ? "\n " : ",\n ");
	ls->first = false;
	tasd_buf_str(out, "{\"name\": ");
	tasd_buf_json_str(out, path.bytes + at, path.len - at);
	tasd_buf_str(out, ", \"path\": ");
	tasd_buf_json_str(out, path.bytes, path.len);
	tasd_buf_str(out, ", ");
	tasd_json_pair(out, "kind", row->kind);
	tasd_buf_printf(
		out, ", \"directory\": %s", row->is_dir ? "true" : "false");
	if (row->node && row->node->form != TASD_FORM_LINK) {
		tasd_buf_str(out, ", \"key\": ");
		tasd_node_key_json(out, row->node);
	}
	if (t && *tasd_tensor_dtype(t)) {
		tasd_buf_str(out, ", ");
		tasd_json_pair(out, "dtype", tasd_tensor_dtype(t));
		tasd_buf_str(out, ", \"shape\": ");
		tasd_print_shape(out, t);
	}
	if (row->has_size) {
		tasd_buf_str(out, ", \"nbytes\": ");
		tasd_buf_u64(out, row->size);
	}
	if (row->node && row->node->error) {
		tasd_buf_str(out, ", ");
		tasd_json_pair(out, "error", row->node->error);
	}
	tasd_buf_char(out, '}');
	tasd_buf_free(&path);
}

/* The rows of one directory, which messages and headings call dir. */
static void show(struct ls *ls, const char *dir, size_t dir_len,
	const struct row *rows, size_t n)
{
	if (ls->json) {
		for (size_t i = 0; i < n; i++)
			json_row(ls, &rows[i], dir, dir_len);
		return;
	}
	if (ls->recursive) {
		if (!ls->first)
			tasd_buf_char(&ls->out, '\n');
		if (dir_len)
			tasd_print_name(&ls->out, dir, dir_len);
		else
			tasd_buf_char(&ls->out, '.');
		tasd_buf_str(&ls->out, ":\n");
	}
	ls->first = false;
	print_rows(ls, rows, n);
}

static tasd_err show_children(
	struct ls *ls, const struct tasd_node *dir, const char *prefix)
{
	uint32_t n = dir->dir.nchildren;
	cleanup_free struct row *rows = calloc(n + 1, sizeof(*rows));
	struct tasd_buf path = TASD_BUF_EMPTY;

	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		rows[i] = row_of_node(dir->dir.children[i]);
	tasd_buf_str(&path, prefix);
	if (path.len && dir->parent)
		tasd_buf_char(&path, '/');
	tasd_node_path(&path, dir);
	if (!tasd_buf_err(&path))
		show(ls, path.bytes, path.len, rows, n);
	tasd_buf_free(&path);
	return tasd_buf_err(&path);
}

static tasd_err list_node(
	struct ls *ls, const struct tasd_node *node, const char *prefix)
{
	tasd_err err = 0;

	if (node->form != TASD_FORM_DIR) {
		struct row row = row_of_node(node);
		struct tasd_buf dir = TASD_BUF_EMPTY;
		bool recursive = ls->recursive;

		tasd_buf_str(&dir, prefix);
		if (node->parent && node->parent->parent) {
			if (dir.len)
				tasd_buf_char(&dir, '/');
			tasd_node_path(&dir, node->parent);
		}
		ls->recursive = false;
		show(ls, dir.bytes, dir.len, &row, 1);
		ls->recursive = recursive;
		tasd_buf_free(&dir);
		return 0;
	}
	if (!ls->recursive)
		return show_children(ls, node, prefix);
	for (const struct tasd_node *n = node; !err && n;
		n = tasd_next_below(n, node))
		if (n->form == TASD_FORM_DIR)
			err = show_children(ls, n, prefix);
	return err;
}

static tasd_err list_folder(struct ls *ls, const char *inside);

/* What -R finds below one entry: its face, then its folder. */
static tasd_err descend(struct ls *ls, const struct tasd_folder *folder,
	const struct tasd_entry *entry, const char *inside)
{
	cleanup_free char *path = tasd_path_join(inside, entry->name);
	cleanup_free char *face = NULL;
	struct tasd_container *ctr = NULL;
	struct tasd_diag diag = {.text = ""};
	tasd_err err;

	if (!path)
		return -ENOMEM;
	if (tasd_folder_has_face(folder, entry)) {
		err = tasd_container_open(ls->rootfd, path, 0, &ctr, &diag);
		if (err) {
			tasd_cli_diag(path, &diag, err);
			ls->failed = true;
		} else {
			if (asprintf(&face, "%s.tasd", path) < 0)
				face = NULL;
			err = face ? list_node(ls, tasd_statedict_root(ctr->sd),
					     face)
				   : -ENOMEM;
			tasd_container_put(ctr);
			if (err)
				return err;
		}
	}
	return entry->type == 'd' ? list_folder(ls, path) : 0;
}

static tasd_err list_folder(struct ls *ls, const char *inside)
{
	struct tasd_folder folder;
	struct tasd_diag diag = {.text = ""};
	cleanup_free struct row *rows = NULL;
	const char *shown = strcmp(inside, ".") == 0 ? "" : inside;
	size_t n = 0;
	tasd_err err = tasd_folder_read(ls->rootfd, inside, &folder, &diag);

	if (err) {
		tasd_cli_diag(*shown ? shown : ls->where, &diag, err);
		ls->failed = true;
		return 0;
	}
	rows = calloc(2 * folder.n + 1, sizeof(*rows));
	if (!rows)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < folder.n; i++) {
		rows[n++] = row_of_entry(&folder.entries[i]);
		if (tasd_folder_has_face(&folder, &folder.entries[i])) {
			rows[n] = rows[n - 1];
			rows[n].kind = "dict";
			rows[n].is_face = rows[n].is_dir = true;
			rows[n++].has_size = false;
		}
	}
	if (!err)
		show(ls, shown, strlen(shown), rows, n);
	for (size_t i = 0; ls->recursive && !err && i < folder.n; i++)
		err = descend(ls, &folder, &folder.entries[i], inside);
	tasd_folder_free(&folder);
	return err;
}

/* A file of a library that was named itself: a row, as ls does. */
static tasd_err list_file(struct ls *ls, const char *inside)
{
	cleanup_free char *dir = strdup(inside);
	struct tasd_folder folder;
	struct tasd_diag diag = {.text = ""};
	const char *name = inside;
	char *slash;
	tasd_err err;

	if (!dir)
		return -ENOMEM;
	slash = strrchr(dir, '/');
	if (slash) {
		*slash = '\0';
		name = slash + 1;
	}
	err = tasd_folder_read(ls->rootfd, slash ? dir : ".", &folder, &diag);
	if (err)
		return err;
	ls->recursive = false;
	for (size_t i = 0; i < folder.n; i++)
		if (strcmp(folder.entries[i].name, name) == 0) {
			struct row row = row_of_entry(&folder.entries[i]);

			show(ls, dir, slash ? strlen(dir) : 0, &row, 1);
		}
	tasd_folder_free(&folder);
	return 0;
}

static int list(struct ls *ls, const char *source, const char *path)
{
	struct tasd_target target;
	int rc = tasd_target_open(source, path, 0, &target);
	tasd_err err = 0;

	if (rc)
		return rc;
	ls->rootfd = target.place.dirfd;
	ls->where = target.where;
	if (ls->json)
		tasd_buf_char(&ls->out, '[');
	switch (target.kind) {
	case TASD_TARGET_NODE:
		err = list_node(ls, target.node, "");
		break;
	case TASD_TARGET_FOLDER:
		err = list_folder(ls, target.inside);
		break;
	case TASD_TARGET_FILE:
		err = list_file(ls, target.inside);
		break;
	}
	if (ls->json)
		tasd_buf_str(&ls->out, ls->first ? "]\n" : "\n]\n");
	if (err) {
		tasd_cli_diag(target.where, NULL, err);
		ls->failed = true;
	}
	tasd_target_close(&target);
	return ls->failed ? TASD_EXIT_FAIL : TASD_EXIT_OK;
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	static const struct option longs[] = {
		{"long", no_argument, NULL, 'l'},
		{"recursive", no_argument, NULL, 'R'},
		{"json", no_argument, NULL, 'j'},
		{NULL, 0, NULL, 0},
	};
	struct ls ls = {.out = TASD_BUF_EMPTY, .first = true};
	int c, rc, printed;

	while ((c = tasd_cli_getopt(cmd, argc, argv, "lR", longs, &rc)) !=
		TASD_GETOPT_END) {
		if (c == TASD_GETOPT_EXIT)
			return rc;
		if (c == 'l')
			ls.long_form = true;
		else if (c == 'R')
			ls.recursive = true;
		else
			ls.json = true;
	}
	rc = tasd_cli_operands(cmd, argc, argv, 1, 2, "SOURCE [PATH]");
	if (rc)
		return rc;
	rc = list(
		&ls, argv[optind], optind + 1 < argc ? argv[optind + 1] : NULL);
	printed = ls.json ? tasd_print_json(&ls.out) : tasd_print_out(&ls.out);
	return rc ? rc : printed;
}

const struct tasd_command tasd_command_ls = {
	.name = "ls",
	.summary = "list a state dict, or a folder of checkpoints",
	.help = help,
	.run = run,
};
