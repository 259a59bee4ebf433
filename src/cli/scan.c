/*
 * tasdfs scan: what the pickles in files and folders would import.  Nothing is
 * imported, and no checkpoint has to be whole for it.
 *
 * A clean report must mean something: whatever could not be looked into is
 * trouble, and the exit status says so.
 */
#include "cli.h"
#include "print.h"
#include "progress.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <format/scan.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Beside these, the exit status is 0. */
#define EXIT_UNSAFE  1
#define EXIT_TROUBLE 2

static const char help[] =
	"Usage: tasdfs scan [OPTION]... PATH...\n"
	"\n"
	"Tell which classes and functions the pickles in files would have "
	"Python import,\n"
	"and which of them torch's own safe loader (weights_only) does not "
	"allow. Runs\n"
	"nothing, needs no Python; looks into pickles, PyTorch files of any "
	"age, zip and\n"
	"tar archives, .npy and .npz. Other files hold no pickle.\n"
	"\n"
	"PATH  a file, or a folder: all files below it\n"
	"\n"
	"      --json  one JSON object\n"
	"  -h, --help  show this text\n"
	"\n"
	"Exit status: 0 clean; 1 imports outside the safe list; 2 something "
	"could not be\n"
	"read or looked into (and nothing unsafe was found in the rest).\n"
	"\n"
	"  tasdfs scan downloaded.pt\n"
	"  tasdfs scan --json ~/.cache/huggingface\n";

struct file {
	char *path; /* owned */
	uint64_t size;
	bool named; /* on the command line: told of in any case */
};

struct report {
	struct file *files; /* owned */
	size_t nfiles, room;
	uint64_t bytes; /* of all */
	bool json;
	struct tasd_buf out; /* the JSON; or lines not printed yet */
	struct tasd_progress progress;
	size_t told;              /* entries of the JSON */
	size_t clean, unsafe;     /* files */
	size_t unreadable;        /* files and folders with trouble */
	struct tasd_buf globals;  /* of the file at hand, as they are told */
	struct tasd_buf troubles; /* of the file at hand, as JSON strings */
	const char *path;         /* of the file at hand */
	size_t nglobals, nunsafe, ntroubles;
};

/* ---- which files -------------------------------------------------------- */

static tasd_err add_file(struct report *report, const char *path,
	const struct stat *st, bool named)
{
	if (report->nfiles == report->room) {
		size_t room = report->room ? 2 * report->room : 64;
		struct file *grown = reallocarray(
			report->files, room, sizeof(*report->files));

		if (!grown)
			return -ENOMEM;
		report->files = grown;
		report->room = room;
	}
	report->files[report->nfiles] = (struct file){
		.path = strdup(path),
		.size = (uint64_t)st->st_size,
		.named = named,
	};
	if (!report->files[report->nfiles].path)
		return -ENOMEM;
	report->nfiles++;
	report->bytes += (uint64_t)st->st_size;
	return 0;
}

static void begin_entry(struct report *report, const char *path)
{
	tasd_buf_str(&report->out, report->told++ ? ",\n  {\"path\": "
						  : "\n  {\"path\": ");
	tasd_buf_json_str(&report->out, path, strlen(path));
}

/* What could not even be opened. */
static void unreadable(struct report *report, const char *path, int number)
{
	tasd_progress_clear(&report->progress);
	tasd_cli_fail("%s: %s", path, strerror(number));
	report->unreadable++;
	if (!report->json)
		return;
	begin_entry(report, path);
	tasd_buf_str(&report->out,
		", \"status\": \"unreadable\", \"pickles\": 0, \"globals\": "
		"[], \"errors\": [");
	tasd_buf_json_str(&report->out, strerror(number),
		strlen(strerror(number)));
	tasd_buf_str(&report->out, "]}");
}

static tasd_err look_at(struct report *report, const FTSENT *at)
{
	bool named = at->fts_level == FTS_ROOTLEVEL;
	struct stat st;

	switch (at->fts_info) {
	case FTS_F:
		return add_file(report, at->fts_accpath, at->fts_statp, named);
	case FTS_SL: /* a file of a hub's cache lies behind a link */
		if (stat(at->fts_accpath, &st) == 0 && S_ISREG(st.st_mode))
			return add_file(report, at->fts_path, &st, named);
		return 0;
	case FTS_NS:
	case FTS_SLNONE:
	case FTS_DNR:
	case FTS_ERR:
		unreadable(report, at->fts_path,
			at->fts_errno ? at->fts_errno : ENOENT);
		return 0;
	case FTS_DEFAULT: /* a device, a socket */
		if (named)
			unreadable(report, at->fts_path, EINVAL);
		return 0;
	default:
		return 0;
	}
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static tasd_err find_files(struct report *report, char **paths)
{
	tasd_err err = 0;
	FTS *fts = fts_open(paths,
		FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	FTSENT *at;

	if (!fts)
		return -errno;
	while (!err && (errno = 0, at = fts_read(fts)))
		err = look_at(report, at);
	if (!err && errno)
		err = -errno;
	fts_close(fts);
	return err;
}

/* ---- one file ----------------------------------------------------------- */

static void add_name(struct tasd_buf *buf, const struct tasd_scan_global *g)
{
	tasd_buf_add(buf, g->module, g->module_len);
	if (g->module_len)
		tasd_buf_char(buf, '.');
	tasd_buf_add(buf, g->name, g->name_len);
}

static tasd_err on_global(void *ctx, const struct tasd_scan_global *g)
{
	struct report *report = ctx;
	struct tasd_buf *to = &report->globals;
	struct tasd_buf name = TASD_BUF_EMPTY;

	add_name(&name, g);
	report->nunsafe += !g->safe;
	if (report->json) {
		tasd_buf_str(to, report->nglobals ? ",\n    {" : "\n    {");
		tasd_json_pair(to, "pickle", g->pickle);
		tasd_buf_str(to, ", \"name\": ");
		tasd_buf_json_str(to, name.bytes, name.len);
		tasd_buf_printf(to, ", \"count\": %llu, \"safe\": %s}",
			(unsigned long long)g->count,
			g->safe ? "true" : "false");
	} else if (!g->safe) {
		tasd_buf_str(to, "  ");
		tasd_print_cut(to, name.bytes, name.len, 256);
		if (g->pickle[0]) {
			tasd_buf_str(to, "  in ");
			tasd_print_name(to, g->pickle, strlen(g->pickle));
		}
		if (g->count > 1)
			tasd_buf_printf(to, ", %llu times",
				(unsigned long long)g->count);
		tasd_buf_char(to, '\n');
	}
	report->nglobals++;
	tasd_buf_free(&name);
	return tasd_buf_err(to);
}

static tasd_err on_trouble(void *ctx, const char *pickle, const char *why)
{
	struct report *report = ctx;
	struct tasd_buf text = TASD_BUF_EMPTY;

	if (pickle[0])
		tasd_buf_printf(&text, "%s: ", pickle);
	tasd_buf_str(&text, why);
	tasd_buf_char(&text, '\0');
	if (tasd_buf_err(&text))
		return tasd_buf_err(&text);
	tasd_progress_clear(&report->progress);
	tasd_cli_fail("%s: %s", report->path, text.bytes);
	if (report->ntroubles++)
		tasd_buf_str(&report->troubles, ", ");
	tasd_buf_json_str(&report->troubles, text.bytes, text.len - 1);
	tasd_buf_free(&text);
	return tasd_buf_err(&report->troubles);
}

static void tell_json(struct report *report, uint64_t npickles)
{
	struct tasd_buf *out = &report->out;

	begin_entry(report, report->path);
	tasd_buf_printf(out, ", \"status\": \"%s\", \"pickles\": %llu",
		report->nunsafe     ? "unsafe"
		: report->ntroubles ? "unreadable"
				    : "clean",
		(unsigned long long)npickles);
	tasd_buf_str(out, ", \"globals\": [");
	tasd_buf_add(out, report->globals.bytes, report->globals.len);
	tasd_buf_str(out, "], \"errors\": [");
	tasd_buf_add(out, report->troubles.bytes, report->troubles.len);
	tasd_buf_str(out, "]}");
}

static void tell(struct report *report, uint64_t npickles)
{
	struct tasd_buf *out = &report->out;
	char pickles[TASD_NUMBER_TEXT + 32], imports[TASD_NUMBER_TEXT + 32];

	tasd_print_name(out, report->path, strlen(report->path));
	if (report->nunsafe)
		tasd_buf_printf(out,
			": unsafe: %s outside torch's safe list\n",
			tasd_print_plural(imports, report->nunsafe, "import"));
	else if (report->ntroubles)
		tasd_buf_str(out, ": not looked into whole\n");
	else if (npickles == 0)
		tasd_buf_str(out, ": clean: no pickle\n");
	else
		tasd_buf_printf(out, ": clean: %s, %s\n",
			tasd_print_plural(pickles, npickles, "pickle"),
			tasd_print_plural(imports, report->nglobals, "import"));
	tasd_buf_add(out, report->globals.bytes, report->globals.len);
}

/* Print what there is to print now; JSON is printed at the end. */
static int flush(struct report *report)
{
	int rc;

	if (report->json || report->out.len == 0)
		return TASD_EXIT_OK;
	tasd_progress_clear(&report->progress);
	rc = tasd_print_out(&report->out);
	report->out = TASD_BUF_EMPTY;
	return rc;
}

static tasd_err scan_file(struct report *report, const struct file *file)
{
	struct tasd_scan scan = {
		.global = on_global,
		.trouble = on_trouble,
		.ctx = report,
	};
	const char *slash = strrchr(file->path, '/');
	struct tasd_diag diag = {""};
	/* A path can become a pipe between the walk and now. */
	cleanup_fd int fd = open(
		file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	tasd_err err;

	if (fd < 0 || fstat(fd, &st) < 0) {
		unreadable(report, file->path, errno);
		return 0;
	}
	if (!S_ISREG(st.st_mode)) {
		unreadable(report, file->path, EINVAL);
		return 0;
	}
	report->path = file->path;
	report->nglobals = report->nunsafe = report->ntroubles = 0;
	err = tasd_scan_file(
		fd, slash ? slash + 1 : file->path, &scan, &diag);
	if (err == -ENOMEM)
		return err;
	if (err)
		on_trouble(report, "", tasd_diag_text(&diag, err));
	report->unsafe += report->nunsafe > 0;
	report->unreadable += report->ntroubles > 0;
	report->clean += !report->nunsafe && !report->ntroubles;
	if (report->json)
		tell_json(report, scan.npickles);
	else if (file->named || scan.npickles || report->ntroubles)
		tell(report, scan.npickles);
	tasd_buf_free(&report->globals);
	tasd_buf_free(&report->troubles);
	return 0;
}

static int scan_all(struct report *report)
{
	char files[TASD_NUMBER_TEXT + 32], count[TASD_NUMBER_TEXT];

	tasd_progress_begin(&report->progress, "scanned", report->bytes);
	for (size_t i = 0; i < report->nfiles; i++) {
		tasd_err err = scan_file(report, &report->files[i]);
		int rc = flush(report);

		if (err) {
			tasd_progress_clear(&report->progress);
			return tasd_cli_diag(
				report->files[i].path, NULL, err);
		}
		if (rc)
			return rc;
		tasd_progress_add(&report->progress, report->files[i].size);
	}
	tasd_progress_clear(&report->progress);
	if (report->json) {
		tasd_buf_printf(&report->out,
			"%s], \"clean\": %zu, \"unsafe\": %zu, \"trouble\": "
			"%zu}\n",
			report->told ? "\n" : "", report->clean,
			report->unsafe, report->unreadable);
		return tasd_print_json(&report->out);
	}
	if (report->nfiles < 2)
		return TASD_EXIT_OK;
	tasd_buf_printf(&report->out, "%s: %s clean",
		tasd_print_plural(files, report->nfiles, "file"),
		tasd_print_count(count, report->clean));
	tasd_buf_printf(&report->out, ", %s unsafe",
		tasd_print_count(count, report->unsafe));
	tasd_buf_printf(&report->out, ", %s not read or not whole\n",
		tasd_print_count(count, report->unreadable));
	return tasd_print_out(&report->out);
}

static void report_free(struct report *report)
{
	for (size_t i = 0; i < report->nfiles; i++)
		free(report->files[i].path);
	free(report->files);
	tasd_buf_free(&report->out);
	tasd_buf_free(&report->globals);
	tasd_buf_free(&report->troubles);
}

static int run(const struct tasd_command *cmd, int argc, char **argv)
{
	cleanup_with(report_free) struct report report = {.nfiles = 0};
	tasd_err err;
	int rc;

	if (!tasd_cli_only_json(cmd, argc, argv, &report.json, &rc))
		return rc == TASD_EXIT_OK ? rc : EXIT_TROUBLE;
	rc = tasd_cli_operands(cmd, argc, argv, 1, argc, "PATH");
	if (rc)
		return EXIT_TROUBLE;
	if (report.json)
		tasd_buf_str(&report.out, "{\"files\": [");
	err = find_files(&report, argv + optind);
	if (err) {
		tasd_cli_diag(argv[optind], NULL, err);
		return EXIT_TROUBLE;
	}
	if (scan_all(&report))
		return EXIT_TROUBLE;
	return report.unsafe	   ? EXIT_UNSAFE
	       : report.unreadable ? EXIT_TROUBLE
				   : 0;
}

const struct tasd_command tasd_command_scan = {
	.name = "scan",
	.summary = "tell what the pickles in files would import",
	.help = help,
	.run = run,
};
