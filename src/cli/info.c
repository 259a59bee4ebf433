/*
 * tasdfs info: what a checkpoint, or one thing in it, is.  A container that
 * has problems can be read, so they are told and the exit status is 0.
 */
#include "cli.h"
#include "print.h"
#include "sums.h"
#include "target.h"
#include <base/cleanup.h>
#include <format/attr.h>
#include <format/format.h>
#include <stdlib.h>
#include <string.h>

/* The longest is requires_grad. */
#define LABEL_WIDTH 15
#define FILES_SHOWN 8
#define NAME_SHOWN  48
#define VALUE_SHOWN 100

static const char help[] =
	"Usage: tasdfs info [OPTION]... SOURCE [PATH]\n"
	"\n"
	"Tell what a checkpoint is: format, files, tensors, parameters, bytes, "
	"element\n"
	"types, metadata, and everything that is wrong with it. With PATH, all "
	"that is\n"
	"known of a tensor or a directory. For a folder, a line a checkpoint.\n"
	"\n"
	"SOURCE  a checkpoint (file or folder), or a folder of checkpoints\n"
	"PATH    in SOURCE: names with / between them, or a whole dotted key\n"
	"\n"
	"      --json  one JSON object; metadata values are not cut\n"
	"  -h, --help  show this text\n"
	"\n"
	"Exit status: 0 also for a checkpoint with problems, as long as it can "
	"be read;\n"
	"1 when it cannot.\n"
	"\n"
	"  tasdfs info model.safetensors\n"
	"  tasdfs info model.safetensors encoder.layer.0.output.dense.weight\n";

static void label(struct tasd_buf *out, const char *name)
{
	size_t from = out->len;

	tasd_print_name(out, name, strlen(name));
	tasd_print_pad(out, from, LABEL_WIDTH - 2);
	tasd_buf_str(out, "  ");
}

static void size_row(struct tasd_buf *out, const char *name, uint64_t bytes)
{
	char count[TASD_NUMBER_TEXT], size[TASD_NUMBER_TEXT];

	label(out, name);
	tasd_buf_str(out, tasd_print_count(count, bytes));
	if (bytes >= 1024)
		tasd_buf_printf(out, " (%s)", tasd_print_size(size, bytes));
	tasd_buf_char(out, '\n');
}

static void count_row(struct tasd_buf *out, const char *name, uint64_t n)
{
	char count[TASD_NUMBER_TEXT];

	label(out, name);
	tasd_buf_printf(out, "%s\n", tasd_print_count(count, n));
}

static void text_row(
	struct tasd_buf *out, const char *name, const char *text, size_t len)
{
	label(out, name);
	tasd_print_name(out, text, len);
	tasd_buf_char(out, '\n');
}

static const char *dtype_name(int dtype)
{
	if (dtype == TASD_DTYPE_NONE)
		return "unknown";
	if (dtype == TASD_DTYPE_COUNT)
		return "other";
	return tasd_dtype_info((enum tasd_dtype)dtype)->name;
}

static void sums_rows(struct tasd_buf *out, const struct tasd_sums *sums)
{
	char text[TASD_NUMBER_TEXT + 32], size[TASD_NUMBER_TEXT];

	count_row(out, "tensors", sums->all.tensors);
	count_row(out, "parameters", sums->all.parameters);
	size_row(out, "bytes", sums->all.bytes);
	/* Those that are not known come last. */
	for (int n = 1; n <= TASD_DTYPE_COUNT + 1; n++) {
		int i = n % (TASD_DTYPE_COUNT + 1);
		const struct tasd_sum *sum = &sums->by_dtype[i];

		if (!sum->tensors)
			continue;
		label(out, "dtype");
		tasd_buf_printf(out, "%s: %s", dtype_name(i),
			tasd_print_plural(text, sum->tensors, "tensor"));
		if (i)
			tasd_buf_printf(out, ", %s, %s",
				tasd_print_plural(
					text, sum->parameters, "parameter"),
				tasd_print_size(size, sum->bytes));
		tasd_buf_char(out, '\n');
	}
	if (sums->broken) {
		label(out, "broken");
		tasd_buf_printf(out, "%s cannot be read\n",
			tasd_print_plural(text, sums->broken, "tensor"));
	}
}

/* Sources that are files; others are made of those. */
static uint32_t count_files(const struct tasd_container *ctr)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ctr->nsources; i++)
		n += ctr->sources[i]->fd >= 0;
	return n;
}

static void files_rows(struct tasd_buf *out, const struct tasd_container *ctr)
{
	uint32_t files = count_files(ctr), shown = 0;
	char size[TASD_NUMBER_TEXT];
	bool listed = ctr->name && ctr->nsources > 0 &&
		      strcmp(ctr->sources[0]->name, ctr->name) == 0;
	const char *first = listed && files == 1 ? "file" : "data";

	if (ctr->name && !listed)
		text_row(out, "file", ctr->name, strlen(ctr->name));
	for (uint32_t i = 0; i < ctr->nsources; i++) {
		const struct tasd_source *source = ctr->sources[i];

		if (source->fd < 0)
			continue;
		if (shown == FILES_SHOWN) {
			label(out, "");
			tasd_buf_printf(
				out, "and %u files more\n", files - shown);
			return;
		}
		label(out, shown++ ? "" : first);
		tasd_print_name(out, source->name, strlen(source->name));
		tasd_buf_printf(
			out, " (%s)\n", tasd_print_size(size, source->size));
	}
}

static void meta_rows(struct tasd_buf *out, const struct tasd_container *ctr)
{
	for (uint32_t i = 0; i < ctr->nmeta; i++) {
		const struct tasd_meta *meta = &ctr->meta[i];

		label(out, "meta");
		if (meta->name_len)
			tasd_print_cut(
				out, meta->name, meta->name_len, NAME_SHOWN);
		else
			tasd_buf_str(out, "\"\"");
		tasd_buf_str(out, " = ");
		tasd_print_cut(out, meta->value, meta->value_len, VALUE_SHOWN);
		tasd_buf_char(out, '\n');
	}
}

/*
 * Call fn for each problem that is kept; returns how many are only counted.
 */
static uint32_t each_problem(const struct tasd_container *ctr,
	void (*fn)(void *ctx, const char *text, size_t len), void *ctx)
{
	const char *at = ctr->problems;
	const char *end = at ? at + ctr->problems_len : NULL;
	uint32_t kept = 0;

	while (at && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((stop ? stop : end) - at);

		if (len > 0) {
			fn(ctx, at, len);
			kept++;
		}
		at += len + 1;
	}
	return ctr->nproblems > kept ? ctr->nproblems - kept : 0;
}

static void problem_row(void *ctx, const char *text, size_t len)
{
	text_row(ctx, "problem", text, len);
}

static void container_text(
	struct tasd_buf *out, const struct tasd_container *ctr)
{
	struct tasd_sums sums;
	uint32_t more;

	tasd_sums_of(tasd_statedict_root(ctr->sd), &sums);
	text_row(out, "format", ctr->format->name, strlen(ctr->format->name));
	files_rows(out, ctr);
	sums_rows(out, &sums);
	meta_rows(out, ctr);
	more = each_problem(ctr, problem_row, out);
	if (more) {
		label(out, "problem");
		tasd_buf_printf(out, "and %u more\n", more);
	}
}

static void json_sum(struct tasd_buf *out, const struct tasd_sum *sum)
{
	tasd_buf_str(out, "\"tensors\": ");
	tasd_buf_u64(out, sum->tensors);
	tasd_buf_str(out, ", \"parameters\": ");
	tasd_buf_u64(out, sum->parameters);
	tasd_buf_str(out, ", \"bytes\": ");
	tasd_buf_u64(out, sum->bytes);
}

static void json_sums(struct tasd_buf *out, const struct tasd_sums *sums)
{
	bool first = true;

	json_sum(out, &sums->all);
	tasd_buf_str(out, ", \"broken\": ");
	tasd_buf_u64(out, sums->broken);
	tasd_buf_str(out, ",\n \"dtypes\": {");
	for (int i = 1; i <= TASD_DTYPE_COUNT; i++) {
		if (!sums->by_dtype[i].tensors)
			continue;
		tasd_buf_printf(out, "%s\n  \"%s\": {", first ? "" : ",",
			dtype_name(i));
		json_sum(out, &sums->by_dtype[i]);
		tasd_buf_char(out, '}');
		first = false;
	}
	tasd_buf_char(out, '}');
}

struct json_list {
	struct tasd_buf *out;
	bool started;
};

static void json_item(void *ctx, const char *text, size_t len)
{
	struct json_list *list = ctx;

	tasd_buf_str(list->out, list->started ? ",\n  " : "\n  ");
	tasd_buf_json_str(list->out, text, len);
	list->started = true;
}

static void container_json(
	struct tasd_buf *out, const struct tasd_container *ctr)
{
	struct json_list problems = {.out = out};
	struct tasd_sums sums;

	tasd_sums_of(tasd_statedict_root(ctr->sd), &sums);
	tasd_buf_char(out, '{');
	tasd_json_pair(out, "format", ctr->format->name);
	tasd_buf_str(out, ",\n ");
	if (ctr->name) {
		tasd_json_pair(out, "file", ctr->name);
		tasd_buf_str(out, ",\n ");
	}
	tasd_buf_str(out, "\"data\": [");
	for (uint32_t i = 0; i < ctr->nsources; i++) {
		if (ctr->sources[i]->fd < 0)
			continue;
		tasd_buf_str(out, i ? ",\n  {" : "\n  {");
		tasd_json_pair(out, "file", ctr->sources[i]->name);
		tasd_buf_str(out, ", \"size\": ");
		tasd_buf_u64(out, ctr->sources[i]->size);
		tasd_buf_char(out, '}');
	}
	tasd_buf_str(out, "],\n ");
	json_sums(out, &sums);
	tasd_buf_str(out, ",\n \"meta\": {");
	for (uint32_t i = 0; i < ctr->nmeta; i++) {
		const struct tasd_meta *meta = &ctr->meta[i];

		tasd_buf_str(out, i ? ",\n  " : "\n  ");
		tasd_buf_json_str(out, meta->name, meta->name_len);
		tasd_buf_str(out, ": ");
		tasd_buf_json_str(out, meta->value, meta->value_len);
	}
	tasd_buf_printf(out, "},\n \"nproblems\": %u,\n \"problems\": [",
		ctr->nproblems);
	each_problem(ctr, json_item, &problems);
	tasd_buf_str(out, "]}");
}

struct attrs {
	struct tasd_buf *out;
	const struct tasd_container *ctr;
	const struct tasd_node *node;
	bool json;
	bool started;
};

/* Is the value of that attribute JSON as it stands? */
static bool is_json(const char *name, const struct tasd_buf *value)
{
	static const char *const names[] = {"key", "order", "shape", "stride",
		"nbytes", "source", "links", "tensors", "bytes", "inserted",
		"resident_bytes", "generation", "unsafe", "meta_omitted"};

	if (value->len == 0)
		return false;
	if ((value->len == 4 && memcmp(value->bytes, "true", 4) == 0) ||
		(value->len == 5 && memcmp(value->bytes, "false", 5) == 0))
		return strncmp(name, "meta.", 5) != 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static void attr_row(void *ctx, const char *name)
{
	struct attrs *a = ctx;
	struct tasd_buf value = TASD_BUF_EMPTY;
	bool found = false;

	if (tasd_attr_get(a->ctr, a->node, name, true, &value, &found) ||
		!found || tasd_buf_err(&value)) {
		tasd_buf_free(&value);
		return;
	}
	if (a->json) {
		tasd_buf_str(a->out, a->started ? ",\n  " : "\n  ");
		tasd_buf_json_str(a->out, name, strlen(name));
		tasd_buf_str(a->out, ": ");
		if (is_json(name, &value))
			tasd_buf_add(a->out, value.bytes, value.len);
		else
			tasd_buf_json_str(a->out, value.bytes, value.len);
	} else {
		text_row(a->out, name, value.bytes, value.len);
	}
	a->started = true;
	tasd_buf_free(&value);
}

static void node_info(struct tasd_buf *out, const struct tasd_container *ctr,
	const struct tasd_node *node, bool json)
{
	struct attrs attrs = {
		.out = out, .ctr = ctr, .node = node, .json = json};
	struct tasd_buf path = TASD_BUF_EMPTY;
	struct tasd_sums sums;
	bool dir = node->form == TASD_FORM_DIR;

	tasd_node_path(&path, node);
	tasd_sums_of(node, &sums);
	if (json) {
		tasd_buf_str(out, "{\"path\": ");
		tasd_buf_json_str(out, path.bytes, path.len);
		tasd_buf_str(out, ",\n \"attributes\": {");
		tasd_attr_list(ctr, node, true, attr_row, &attrs);
		tasd_buf_char(out, '}');
		if (dir) {
			tasd_buf_str(out, ",\n ");
			json_sums(out, &sums);
		}
		tasd_buf_char(out, '}');
	} else {
		text_row(out, "path", path.bytes, path.len);
		tasd_attr_list(ctr, node, true, attr_row, &attrs);
		if (dir)
			sums_rows(out, &sums);
	}
	tasd_buf_free(&path);
}

/* One checkpoint of a folder, in a line or an object. */
static tasd_err folder_row(struct tasd_buf *out, int rootfd, const char *inside,
	const char *name, bool json)
{
	cleanup_free char *path = tasd_path_join(inside, name);
	char text[TASD_NUMBER_TEXT + 32], size[TASD_NUMBER_TEXT];
	struct tasd_container *ctr = NULL;
	struct tasd_diag diag = {.text = ""};
	struct tasd_sums sums;
	tasd_err err;

	if (!path)
		return -ENOMEM;
	err = tasd_container_open(rootfd, path, 0, &ctr, &diag);
	if (json) {
		tasd_buf_char(out, '{');
		tasd_json_pair(out, "name", name);
		tasd_buf_str(out, ", ");
		if (err) {
			tasd_json_pair(out, "error",
				tasd_cli_reason(path, &diag, err));
		} else {
			tasd_buf_str(out, "\"info\":\n ");
			container_json(out, ctr);
		}
		tasd_buf_char(out, '}');
	} else if (err) {
		tasd_print_name(out, name, strlen(name));
		tasd_buf_printf(out, ": cannot be read: %s\n",
			tasd_cli_reason(path, &diag, err));
	} else {
		tasd_sums_of(tasd_statedict_root(ctr->sd), &sums);
		tasd_print_name(out, name, strlen(name));
		tasd_buf_printf(out, ": %s, %s, %s", ctr->format->name,
			tasd_print_plural(text, sums.all.tensors, "tensor"),
			tasd_print_size(size, sums.all.bytes));
		if (ctr->nproblems)
			tasd_buf_printf(out, ", %s",
				tasd_print_plural(
					text, ctr->nproblems, "problem"));
		tasd_buf_char(out, '\n');
	}
	if (ctr)
		tasd_container_put(ctr);
	return 0;
}

static tasd_err folder_info(struct tasd_buf *out,
	const struct tasd_target *target, bool json, struct tasd_diag *diag)
{
	int rootfd = target->place.dirfd;
	struct tasd_folder folder;
	size_t found = 0;
	tasd_err err = tasd_folder_read(rootfd, target->inside, &folder, diag);

	if (err)
		return err;
	if (json)
		tasd_buf_str(out, "{\"checkpoints\": [");
	for (size_t i = 0; !err && i < folder.n; i++) {
		if (!folder.entries[i].format)
			continue;
		if (json)
			tasd_buf_str(out, found ? ",\n " : "\n ");
		found++;
		err = folder_row(out, rootfd, target->inside,
			folder.entries[i].name, json);
	}
	if (json)
		tasd_buf_str(out, "]}");
	else if (!found)
		tasd_buf_str(out, "a folder without checkpoints\n");
	tasd_folder_free(&folder);
	return err;
}

static int info(const char *source, const char *path, bool json)
{
	struct tasd_buf out = TASD_BUF_EMPTY;
	struct tasd_target target;
	struct tasd_diag diag = {.text = ""};
	int rc = tasd_target_open(source, path, TASD_TARGET_OPEN, &target);
	tasd_err err = 0;

	if (rc)
		return rc;
	if (target.kind == TASD_TARGET_FOLDER)
		err = folder_info(&out, &target, json, &diag);
	else if (target.node->parent)
		node_info(&out, target.ctr, target.node, json);
	else if (json)
		container_json(&out, target.ctr);
	else
		container_text(&out, target.ctr);
	if (err) {
		tasd_buf_free(&out);
		tasd_cli_diag(target.where, &diag, err);
		tasd_target_close(&target);
		return TASD_EXIT_FAIL;
	}
	if (json)
		tasd_buf_char(&out, '\n');
	tasd_target_close(&target);
	return json ? tasd_print_json(&out) : tasd_print_out(&out);
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	bool json = false;
	int rc;

	if (!tasd_cli_only_json(cmd, argc, argv, &json, &rc))
		return rc;
	rc = tasd_cli_operands(cmd, argc, argv, 1, 2, "SOURCE [PATH]");
	if (rc)
		return rc;
	return info(argv[optind], optind + 1 < argc ? argv[optind + 1] : NULL,
		json);
}

const struct tasd_command tasd_command_info = {
	.name = "info",
	.summary = "tell what a checkpoint or a tensor is, and what is wrong",
	.help = help,
	.run = run,
};
