/*
 * Reading options and saying what is wrong with them.  Every refusal names
 * what was given and, when something is near, what may have been meant.
 */
#include "cli.h"
#include "print.h"
#include <base/cleanup.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HELP_OPTION  512
#define OPTIONS_MAX  16
#define DISTANCE_MAX 64 /* longer words are compared by their beginning */

/* A line for people on standard error; the names in it may be hostile. */
__attribute__((format(printf, 1, 0))) static void say(
	const char *format, va_list args)
{
	char raw[2048], line[2048];
	int n = vsnprintf(raw, sizeof(raw), format, args);

	if (n < 0)
		return;
	if ((size_t)n >= sizeof(raw))
		n = sizeof(raw) - 1;
	tasd_print_bytes(line, sizeof(line), raw, (size_t)n);
	fprintf(stderr, "tasdfs: %s\n", line);
}

int tasd_cli_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return TASD_EXIT_FAIL;
}

int tasd_cli_usage(const struct tasd_command *cmd, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tasd_cli_fail(
		"%s: %s; see tasdfs %s --help", cmd->name, text, cmd->name);
	return TASD_EXIT_USAGE;
}

/* text after "name: ", or NULL when it does not begin with that. */
static const char *after(const char *text, const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || strncmp(text, name, len) || text[len] != ':')
		return NULL;
	return text + len + 1 + strspn(text + len + 1, " ");
}

const char *tasd_cli_reason(
	const char *where, const struct tasd_diag *diag, tasd_err err)
{
	const char *text = tasd_diag_text(diag, err);
	const char *slash = strrchr(where, '/');
	const char *rest = after(text, where);

	if (!rest)
		rest = after(text, slash ? slash + 1 : where);
	return rest ? rest : text;
}

int tasd_cli_diag(const char *where, const struct tasd_diag *diag, tasd_err err)
{
	const char *reason = tasd_cli_reason(where, diag, err);

	/* Said by what looked at the file: what it is instead. */
	if (err == -ENOTSUP && diag && diag->text[0])
		return tasd_cli_fail(
			"%s: not a checkpoint that tasdfs reads: %s", where,
			reason);
	return tasd_cli_fail("%s: %s", where, reason);
}

int tasd_read_failed(const char *where, tasd_err err)
{
	if (err == -EIO || err == -ESTALE)
		return tasd_cli_fail(
			"%s: the file has changed or is cut short", where);
	return tasd_cli_diag(where, NULL, err);
}

static unsigned int smallest(
	unsigned int a, unsigned int b, unsigned int c, unsigned int d)
{
	unsigned int e = a < b ? a : b, f = c < d ? c : d;

	return e < f ? e : f;
}

/* Insertions, deletions, changes and swaps of neighbours, each one step. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int rows[3][DISTANCE_MAX + 1];
	unsigned int *before = rows[0], *last = rows[1], *now = rows[2];
	size_t na = strnlen(a, DISTANCE_MAX), nb = strnlen(b, DISTANCE_MAX);

	for (size_t j = 0; j <= nb; j++)
		last[j] = (unsigned int)j;
	memset(rows[0], 0, sizeof(rows[0]));
	for (size_t i = 1; i <= na; i++) {
		unsigned int *spare = before;

		now[0] = (unsigned int)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned int swap = DISTANCE_MAX;

			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1])
				swap = before[j - 2] + 1;
			now[j] = smallest(last[j] + 1, now[j - 1] + 1,
				last[j - 1] + (a[i - 1] != b[j - 1]), swap);
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[nb];
}

const char *tasd_cli_nearest(const char *word, size_t n,
	const char *(*at)(const void *ctx, size_t i), const void *ctx)
{
	unsigned int least = DISTANCE_MAX;
	size_t len = strlen(word);
	const char *best = NULL;

	for (size_t i = 0; i < n; i++) {
		const char *name = at(ctx, i);
		unsigned int d;

		if (!name)
			continue;
		/* The beginning of a name is near however much is missing. */
		d = len >= 2 && strncmp(name, word, len) == 0
			    ? 1
			    : distance(word, name);
		if (d < least) {
			least = d;
			best = name;
		}
	}
	/* Further away it is no hint but a guess. */
	return least <= (len < 6 ? 1 : len / 3) && least < len ? best : NULL;
}

static const char *option_at(const void *ctx, size_t i)
{
	return ((const struct option *)ctx)[i].name;
}

static int unknown_long(const struct tasd_command *cmd, const char *arg,
	const struct option *all)
{
	const char *equals = strchr(arg, '=');
	size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
	cleanup_free char *name = NULL;
	const char *near;
	size_t n = 0;

	while (all[n].name)
		n++;
	name = strndup(arg + 2, len - 2);
	near = name ? tasd_cli_nearest(name, n, option_at, all) : NULL;
	if (near && strcmp(near, name) == 0)
		return tasd_cli_usage(cmd, "--%s takes no value", near);
	if (near)
		return tasd_cli_usage(cmd,
			"unknown option %.*s, did you mean --%s?", (int)len,
			arg, near);
	return tasd_cli_usage(cmd, "unknown option %.*s", (int)len, arg);
}

static int bad_option(const struct tasd_command *cmd, int c, char **argv,
	const struct option *all)
{
	const char *arg = argv[optind > 0 ? optind - 1 : 0];
	bool is_long = strncmp(arg, "--", 2) == 0;

	if (c == ':' && is_long)
		return tasd_cli_usage(cmd, "%s needs a value", arg);
	if (c == ':')
		return tasd_cli_usage(cmd, "-%c needs a value", optopt);
	/* optopt is 0, or the option's own value, for a long one. */
	if (is_long && (optopt == 0 || strchr(arg, '=')))
		return unknown_long(cmd, arg, all);
	return tasd_cli_usage(cmd, "unknown option -%c", optopt);
}

void tasd_cli_keep_stdio(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDONLY);
		if (fd == STDIN_FILENO) {
			close(fd);
			fd = open("/dev/null", O_WRONLY);
		}
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int tasd_cli_getopt(const struct tasd_command *cmd, int argc, char **argv,
	const char *shorts, const struct option *longs, int *ret_exit)
{
	struct option all[OPTIONS_MAX + 1] = {0};
	char letters[64];
	size_t n = 0;
	int c;

	for (; longs[n].name && n < OPTIONS_MAX - 1; n++)
		all[n] = longs[n];
	all[n] = (struct option){"help", no_argument, NULL, HELP_OPTION};
	snprintf(letters, sizeof(letters), ":h%s", shorts);
	opterr = 0;
	c = getopt_long(argc, argv, letters, all, NULL);
	switch (c) {
	case -1:
		return TASD_GETOPT_END;
	case 'h':
	case HELP_OPTION: {
		struct tasd_buf buf = TASD_BUF_EMPTY;

		tasd_buf_str(&buf, cmd->help);
		*ret_exit = tasd_print_out(&buf);
		return TASD_GETOPT_EXIT;
	}
	case '?':
	case ':':
		*ret_exit = bad_option(cmd, c, argv, all);
		return TASD_GETOPT_EXIT;
	default:
		return c;
	}
}

bool tasd_cli_only_json(const struct tasd_command *cmd, int argc, char **argv,
	bool *ret_json, int *ret_exit)
{
	static const struct option longs[] = {
		{"json", no_argument, NULL, 'j'},
		{NULL, 0, NULL, 0},
	};
	int c;

	*ret_json = false;
	while ((c = tasd_cli_getopt(cmd, argc, argv, "", longs, ret_exit)) !=
		TASD_GETOPT_END) {
		if (c == TASD_GETOPT_EXIT)
			return false;
		*ret_json = true;
	}
	return true;
}

int tasd_cli_operands(const struct tasd_command *cmd, int argc, char **argv,
	int min, int max, const char *what)
{
	int have = argc - optind;

	if (have < min)
		return tasd_cli_usage(cmd, "needs %s", what);
	if (have > max && max == 0)
		return tasd_cli_usage(cmd, "takes no operands");
	if (have > max)
		return tasd_cli_usage(cmd, "too many operands, takes %s", what);
	for (int i = 0; i < min; i++)
		if (!*argv[optind + i])
			return tasd_cli_usage(
				cmd, "an operand is empty, needs %s", what);
	return TASD_EXIT_OK;
}
