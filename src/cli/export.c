/*
 * tasdfs export: the tensors of a checkpoint of any format, as one safetensors
 * file.
 *
 * All that can be refused is refused before a byte is written.  A signal ends
 * the writer between two pieces, so that nothing half made stays behind.
 */
#include "cli.h"
#include "leaves.h"
#include "outfile.h"
#include "print.h"
#include "progress.h"
#include <base/checked.h>
#include <base/cleanup.h>
#include <fnmatch.h>
#include <format/format.h>
#include <format/st_write.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSALS_SHOWN 20

#define OPTION_ONLY  'o'
#define OPTION_STRIP 's'
#define OPTION_SKIP  'k'
#define OPTION_FORCE 'f'

static const char help[] =
	"Usage: tasdfs export [OPTION]... SOURCE OUT.safetensors\n"
	"\n"
	"Write the tensors of a checkpoint of any format into one safetensors "
	"file, under\n"
	"their dotted keys. OUT appears when it is whole and on the disk.\n"
	"\n"
	"SOURCE  a checkpoint (file or folder), or a part: "
	"DIR/step.pt.tasd/model;\n"
	"        the keys begin below that part\n"
	"\n"
	"      --only GLOB     keys that match, before anything is stripped "
	"(* matches\n"
	"                      dots too); can be repeated\n"
	"      --strip PREFIX  without that at the beginning of a key, however "
	"often;\n"
	"                      .PREFIX: between components too; can be "
	"repeated\n"
	"      --skip          leave out what safetensors cannot hold, and say "
	"so\n"
	"  -f, --force         replace OUT\n"
	"  -h, --help          show this text\n"
	"\n"
	"  tasdfs export model.npz model.safetensors\n"
	"  tasdfs export --only 'encoder.*' model.safetensors "
	"enc.safetensors\n";

/* Set by signals. */
static volatile sig_atomic_t stopped;

struct export
{
	struct tasd_strips strips;
	const char **globs; /* owned; the texts are borrowed */
	size_t nglobs;
	bool skip, force;
	struct tasd_target target;
	struct tasd_leaves leaves;
	struct tasd_st_item *items; /* owned */
	size_t nitems;
	uint64_t bytes;
	size_t refused, omitted;
	struct tasd_progress progress;
};

static void on_signal(int number)
{
	stopped = number;
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction act = {.sa_handler = on_signal}, before;

	sigemptyset(&act.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		/* nohup has SIGHUP ignored. */
		if (sigaction(numbers[i], NULL, &before) == 0 &&
			before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &act, NULL);
	}
}

static tasd_err on_progress(void *ctx, uint64_t bytes)
{
	struct export *export = ctx;

	tasd_progress_add(&export->progress, bytes);
	return stopped ? -EINTR : 0;
}

/* "key: reason" on standard error. */
static void say(const struct export *export, const struct tasd_leaf *leaf,
	const char *reason)
{
	struct tasd_buf key = TASD_BUF_EMPTY;

	tasd_print_key(&key, leaf->key, leaf->len);
	tasd_buf_char(&key, '\0');
	if (!tasd_buf_err(&key))
		tasd_cli_fail(
			"%s: %s: %s", export->target.where, key.bytes, reason);
	tasd_buf_free(&key);
}

/* Alone, the indices or the values of a sparse tensor are another tensor. */
static bool is_part(const struct export *export, const struct tasd_node *node)
{
	while (node != export->target.node && node->parent) {
		node = node->parent;
		if (node != export->target.node && tasd_leaf_is_compound(node))
			return true;
	}
	return false;
}

/* Can the file hold it?  As tasd_st_write_check(), for any leaf. */
static tasd_err check(const struct export *export,
	const struct tasd_st_item *item, struct tasd_diag *diag)
{
	const struct tasd_node *node = item->node;
	tasd_err err;

	if (node->form == TASD_FORM_LINK)
		return tasd_diag_set(diag, -ENOTSUP, "a link, not a tensor");
	if (node->form != TASD_FORM_TENSOR)
		return tasd_diag_set(diag, -ENOTSUP, "%s, not a tensor",
			tasd_kind_name((enum tasd_kind)node->kind));
	err = tasd_st_write_check(item, diag);
	if (!err && is_part(export, node))
		return tasd_diag_set(diag, -ENOTSUP,
			"a part of a tensor that safetensors cannot hold");
	return err;
}

/*
 * Take the leaf, or tell why not.  What is broken is never left out on the
 * quiet: the file would look whole.
 */
static void take(struct export *export, const struct tasd_leaf *leaf)
{
	struct tasd_st_item item = {
		.node = leaf->node, .name = leaf->key, .name_len = leaf->len};
	struct tasd_diag diag = {.text = ""};
	char reason[TASD_DIAG_MAX + 32];
	tasd_err err = check(export, &item, &diag);

	if (!err) {
		export->items[export->nitems++] = item;
		return;
	}
	if (export->skip && err != -EIO) {
		snprintf(reason, sizeof(reason), "left out: %s", diag.text);
		say(export, leaf, reason);
		export->omitted++;
		return;
	}
	if (export->refused++ < REFUSALS_SHOWN)
		say(export, leaf, diag.text);
}

static tasd_err matches(const struct export *export,
	const struct tasd_leaf *leaf, struct tasd_buf *key, bool *ret)
{
	static const struct tasd_strips none;
	tasd_err err;

	*ret = export->nglobs == 0;
	if (*ret)
		return 0;
	err = tasd_leaf_key(key, leaf->node, export->target.node, &none);
	tasd_buf_char(key, '\0');
	if (!err)
		err = tasd_buf_err(key);
	for (size_t i = 0; i < export->nglobs && !err && !*ret; i++)
		*ret = fnmatch(export->globs[i], key->bytes, 0) == 0;
	return err;
}

/* Leave those leaves that --only names. */
static tasd_err choose(struct export *export)
{
	struct tasd_leaves *leaves = &export->leaves;
	struct tasd_buf key = TASD_BUF_EMPTY;
	size_t kept = 0;
	tasd_err err = 0;

	for (size_t i = 0; i < leaves->n && !err; i++) {
		bool match;

		err = matches(export, &leaves->all[i], &key, &match);
		if (match)
			leaves->all[kept++] = leaves->all[i];
	}
	leaves->n = kept;
	tasd_buf_free(&key);
	return err;
}

/* Those of the leaves that become tensors of the file. */
static int take_all(struct export *export)
{
	struct tasd_leaves *leaves = &export->leaves;
	const char *where = export->target.where;

	export->items = calloc(leaves->n + 1, sizeof(*export->items));
	if (!export->items)
		return tasd_cli_fail("%s", strerror(ENOMEM));
	for (size_t i = 0; i < leaves->n; i++)
		take(export, &leaves->all[i]);
	if (export->refused > REFUSALS_SHOWN)
		tasd_cli_fail("%s: and %zu more", where,
			export->refused - REFUSALS_SHOWN);
	if (export->refused)
		return tasd_cli_fail("%s: nothing is written; --only chooses "
				     "keys, --skip leaves out what safetensors "
				     "cannot hold",
			where);
	for (size_t i = 0; i < export->nitems; i++)
		if (!tasd_add_u64(export->bytes,
			    export->items[i].node->tensor->nbytes,
			    &export->bytes))
			return tasd_cli_fail("%s: %s", where, strerror(EFBIG));
	return TASD_EXIT_OK;
}

/* Tied tensors become copies, which is for the user to know. */
static void say_ties(const struct export *export)
{
	for (size_t i = 0; i < export->nitems; i++) {
		const struct tasd_st_item *item = &export->items[i];
		const struct tasd_node_extra *extra = item->node->extra;
		struct tasd_buf text = TASD_BUF_EMPTY;

		if (!extra || !extra->tie)
			continue;
		tasd_print_key(&text, item->name, item->name_len);
		tasd_buf_str(&text, ": tied to ");
		tasd_node_dotted(&text, extra->tie);
		tasd_buf_str(&text, ", written as a copy");
		tasd_buf_char(&text, '\0');
		if (!tasd_buf_err(&text))
			tasd_cli_fail(
				"%s: %s", export->target.where, text.bytes);
		tasd_buf_free(&text);
	}
}

/*
 * What a safetensors source says of itself; else what tells torch's users that
 * it is theirs.  The total_size of an index is that of another file.
 */
static tasd_err choose_meta(
	const struct tasd_container *ctr, struct tasd_meta **ret, size_t *ret_n)
{
	static const char total_size[] = "total_size";
	bool kept = strncmp(ctr->format->name, "safetensors", 11) == 0;
	struct tasd_meta *meta = calloc(ctr->nmeta + 1, sizeof(*meta));
	size_t n = 0;

	if (!meta)
		return -ENOMEM;
	if (!kept)
		meta[n++] = (struct tasd_meta){.name = "format",
			.name_len = 6,
			.value = "pt",
			.value_len = 2};
	for (uint32_t i = 0; i < ctr->nmeta && kept; i++) {
		const struct tasd_meta *m = &ctr->meta[i];

		if (strcmp(ctr->format->name, "safetensors") != 0 &&
			m->name_len == strlen(total_size) &&
			memcmp(m->name, total_size, m->name_len) == 0)
			continue;
		meta[n++] = *m;
	}
	*ret = meta;
	*ret_n = n;
	return 0;
}

static tasd_err write_out(
	struct export *export, struct tasd_outfile *out, struct tasd_diag *diag)
{
	struct tasd_st_writing writing = {
		.ctr = export->target.ctr,
		.items = export->items,
		.nitems = export->nitems,
		.progress = on_progress,
		.ctx = export,
	};
	struct tasd_meta *meta = NULL;
	tasd_err err = choose_meta(writing.ctr, &meta, &writing.nmeta);

	writing.meta = meta;
	if (!err)
		err = tasd_outfile_reserve(out, export->bytes);
	tasd_progress_begin(&export->progress, "wrote", export->bytes);
	if (!err)
		err = tasd_st_write(out->fd, &writing, diag);
	tasd_progress_clear(&export->progress);
	free(meta);
	if (!err && stopped)
		err = -EINTR;
	return err ? err : tasd_outfile_commit(out, diag);
}

static int write_file(struct export *export, const char *path)
{
	char tensors[TASD_NUMBER_TEXT + 32], size[TASD_NUMBER_TEXT];
	struct tasd_diag diag = {.text = ""};
	struct tasd_buf line = TASD_BUF_EMPTY;
	struct tasd_outfile out;
	tasd_err err = tasd_outfile_begin(path, export->force, &out, &diag);

	if (err)
		return tasd_cli_diag(path, &diag, err);
	say_ties(export);
	catch_signals();
	err = write_out(export, &out, &diag);
	tasd_outfile_close(&out);
	if (err == -EINTR && stopped)
		return tasd_cli_fail("%s: stopped; nothing is written", path);
	if (err)
		return tasd_cli_diag(path, &diag, err);
	tasd_print_name(&line, path, strlen(path));
	tasd_buf_printf(&line, ": %s, %s",
		tasd_print_plural(tensors, export->nitems, "tensor"),
		tasd_print_size(size, export->bytes));
	if (export->omitted)
		tasd_buf_printf(&line, "; %s left out",
			tasd_print_count(size, export->omitted));
	tasd_buf_char(&line, '\n');
	return tasd_print_lines(&line);
}

static int do_export(struct export *export, const char *path)
{
	const char *where = export->target.where;
	tasd_err err = tasd_leaves_read(
		&export->target, &export->strips, 0, &export->leaves);
	int rc;

	if (!err)
		err = choose(export);
	if (err)
		return tasd_cli_diag(where, NULL, err);
	if (export->nglobs && export->leaves.n == 0)
		return tasd_cli_fail("%s: no key matches --only", where);
	err = tasd_leaves_sort(&export->leaves);
	if (err)
		return tasd_cli_diag(where, NULL, err);
	if (tasd_leaves_clashes(&export->leaves, where))
		return TASD_EXIT_FAIL;
	rc = take_all(export);
	return rc ? rc : write_file(export, path);
}

static int open_and_export(
	struct export *export, const char *source, const char *path)
{
	int rc = tasd_target_open(
		source, NULL, TASD_TARGET_OPEN, &export->target);

	if (rc)
		return rc;
	if (export->target.kind != TASD_TARGET_NODE)
		return tasd_cli_fail("%s: a folder of checkpoints; name one of "
				     "them, as tasdfs ls shows them",
			export->target.where);
	return do_export(export, path);
}

static int option(const struct tasd_command *cmd, struct export *export, int c)
{
	export->skip |= c == OPTION_SKIP;
	export->force |= c == OPTION_FORCE;
	if (c == OPTION_ONLY) {
		const char **globs = realloc(
			export->globs, (export->nglobs + 1) * sizeof(*globs));

		if (!globs)
			return tasd_cli_fail("%s", strerror(ENOMEM));
		export->globs = globs;
		globs[export->nglobs++] = optarg;
	}
	if (c == OPTION_STRIP && tasd_strips_add(&export->strips, optarg))
		return tasd_cli_usage(cmd,
			"--strip=%s: a component is expected, as in module.",
			optarg);
	return TASD_EXIT_OK;
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	static const struct option longs[] = {
		{"only", required_argument, NULL, OPTION_ONLY},
		{"strip", required_argument, NULL, OPTION_STRIP},
		{"skip", no_argument, NULL, OPTION_SKIP},
		{"force", no_argument, NULL, OPTION_FORCE},
		{NULL, 0, NULL, 0},
	};
	struct export export = {.target = {.place = {.dirfd = -1}}};
	int c, rc = TASD_EXIT_OK;
	bool ended = false;

	while (!ended && (c = tasd_cli_getopt(cmd, argc, argv, "f", longs,
				  &rc)) != TASD_GETOPT_END) {
		if (c != TASD_GETOPT_EXIT)
			rc = option(cmd, &export, c);
		ended = c == TASD_GETOPT_EXIT || rc;
	}
	if (!ended)
		rc = tasd_cli_operands(
			cmd, argc, argv, 2, 2, "SOURCE OUT.safetensors");
	if (!ended && !rc)
		rc = open_and_export(&export, argv[optind], argv[optind + 1]);
	tasd_leaves_free(&export.leaves);
	tasd_target_close(&export.target);
	tasd_strips_free(&export.strips);
	free(export.globs);
	free(export.items);
	return rc;
}

const struct tasd_command tasd_command_export = {
	.name = "export",
	.summary = "write the tensors into one safetensors file",
	.help = help,
	.run = run,
};
