/*
 * tasdfs COMMAND: the table of commands.
 */
#include "cli.h"
#include "print.h"
#include <base/cleanup.h>
#include <base/limits.h>
#include <stdio.h>
#include <string.h>

static const struct tasd_command *const commands[] = {
	&tasd_command_mount,
	&tasd_command_umount,
	&tasd_command_ls,
	&tasd_command_tree,
	&tasd_command_info,
	&tasd_command_cat,
	&tasd_command_diff,
	&tasd_command_export,
	&tasd_command_scan,
	&tasd_command_doctor,
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char *command_at(const void *ctx, size_t i)
{
	(void)ctx;
	return commands[i]->name;
}

static const struct tasd_command *find(const char *name)
{
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static int print_help(void)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;

	tasd_buf_str(&buf,
		"Usage: tasdfs COMMAND [OPTION]... [OPERAND]...\n"
		"\n"
		"Look into model checkpoints: nested keys are directories, "
		"tensors are files.\n"
		"\n");
	for (size_t i = 0; i < NCOMMANDS; i++)
		tasd_buf_printf(&buf, "  %-8s %s\n", commands[i]->name,
			commands[i]->summary);
	tasd_buf_str(&buf,
		"\n"
		"  -h, --help     show this text; tasdfs COMMAND --help tells "
		"more\n"
		"  -V, --version  show the version\n"
		"\n"
		"  tasdfs mount model.safetensors /mnt\n"
		"  cat /mnt/.tasd/tree\n"
		"  tasdfs umount /mnt\n"
		"\n"
		"Exit status: 0 success, 1 failure, 2 wrong usage.\n");
	return tasd_print_out(&buf);
}

static int print_version(void)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;

	tasd_buf_str(&buf, "tasdfs " TASD_VERSION "\n");
	return tasd_print_out(&buf);
}

static int unknown(const char *what, const char *word)
{
	const char *near = tasd_cli_nearest(word, NCOMMANDS, command_at, NULL);

	if (near)
		tasd_cli_fail("unknown %s %s, did you mean %s?; see tasdfs "
			      "--help",
			what, word, near);
	else
		tasd_cli_fail("unknown %s %s; see tasdfs --help", what, word);
	return TASD_EXIT_USAGE;
}

/* tasdfs help [COMMAND] */
static int help_command(int argc, char **argv)
{
	const struct tasd_command *cmd;
	struct tasd_buf buf = TASD_BUF_EMPTY;

	if (argc < 3)
		return print_help();
	cmd = find(argv[2]);
	if (!cmd)
		return unknown("command", argv[2]);
	tasd_buf_str(&buf, cmd->help);
	return tasd_print_out(&buf);
}

int main(int argc, char **argv)
{
	const struct tasd_command *cmd;

	tasd_cli_keep_stdio();
	tasd_limits_raise_files();
	if (argc < 2) {
		tasd_cli_fail("a command is missing; see tasdfs --help");
		return TASD_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help();
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return print_version();
	if (strcmp(argv[1], "help") == 0)
		return help_command(argc, argv);
	cmd = find(argv[1]);
	if (cmd)
		return cmd->run(cmd, argc - 1, argv + 1);
	return unknown(argv[1][0] == '-' ? "option" : "command", argv[1]);
}
