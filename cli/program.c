/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/words.h"
#include "cli/peers.h"
#include "cli/print/wrap.h"

#define SUMMARY_COLUMN 14

struct program program;

bool program_on_terminal(int fd)
{
	return program.terminal && isatty(fd);
}

/* The text goes to /dev/null, so that no printer asks which of the streams there are. */
void program_objects_on_err(void)
{
	FILE *nowhere = program.objects ? NULL : fopen("/dev/null", "w");

	if (!nowhere)
		return;
	program.objects = program.err;
	program.err = nowhere;
}

int program_objects_on(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	FILE *stream = copy < 0 ? NULL : fdopen(copy, "w");

	if (!stream) {
		if (copy >= 0)
			close(copy);
		return -1;
	}
	setvbuf(stream, NULL, _IOLBF, BUFSIZ);
	program.objects = stream;
	return 0;
}

/* Returns the index of an option as it is written, before any "--"; 0: it is not there. */
static int find_word(int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], word))
			return i;
	return 0;
}

bool program_has_word(int argc, char **argv, const char *word)
{
	return find_word(argc, argv, word) != 0;
}

/* Was --progress=json given?  run_progress_mode() finds every other spelling, but not before the
 * command line was read. */
static bool wants_objects(int argc, char **argv)
{
	int apart = find_word(argc, argv, "--progress");

	return find_word(argc, argv, "--progress=json") ||
	       (apart && apart + 1 < argc && !strcmp(argv[apart + 1], "json"));
}

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name, struct err *err)
{
	const char *peer = peer_word(PEER_COMMAND, name);
	const char **names = NULL;
	size_t n = 0;

	if (*name == '-')
		return err_set(err, ERR_USAGE, "unknown option '%s' (see 'fp8conv --help')", name);
	if (peer)
		return err_set(err, ERR_USAGE, "unknown command '%s' (did you mean '%s'?)", name,
			       peer);
	if (!access(name, F_OK))
		return err_set(err, ERR_USAGE,
			       "unknown command '%s' (did you mean 'quantize %s -o OUT'?)", name,
			       name);
	for (size_t i = 0; commands[i]; i++) {
		if (!commands[i]->group)
			continue;
		ARRAY_GROW(names, n);
		names[n++] = commands[i]->name;
	}
	ARRAY_GROW(names, n);
	names[n] = NULL;
	words_unknown("command", name, names, "fp8conv --help", err);
	free(names);
	return -1;
}

static void print_usage(void)
{
	static const char *const headings[N_GROUPS] = { NULL, "Converting", "Inspecting",
							"Calibrating", "Information" };
	size_t width = wrap_width(STDOUT_FILENO);

	fputs("Usage: fp8conv COMMAND [OPTION...] [ARGUMENT...]\n", program.out);
	wrap_print("Convert LLM checkpoints (safetensors, Hugging Face layout) to FP8.", 0, 0,
		   width);
	for (int group = GROUP_HIDDEN + 1; group < N_GROUPS; group++) {
		fprintf(program.out, "\n%s:\n", headings[group]);
		for (size_t i = 0; commands[i]; i++)
			if ((int)commands[i]->group == group) {
				fprintf(program.out, "  %-*s", SUMMARY_COLUMN - 2,
					commands[i]->name);
				wrap_print(commands[i]->summary, SUMMARY_COLUMN, SUMMARY_COLUMN,
					   width);
			}
	}
	fputs("\nExamples:\n"
	      "  fp8conv quantize MODEL -o OUT --target vllm\n"
	      "  fp8conv verify OUT --source MODEL --target vllm\n"
	      "  fp8conv eval OUT --source MODEL --data text.jsonl\n\n",
	      program.out);
	wrap_print("See 'fp8conv help COMMAND' or the man page fp8conv-COMMAND(1) for "
		   "more.",
		   0, 0, width);
	fputs("'fp8conv --version' (-V) prints the version.\n", program.out);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int help(int argc, char **argv, struct err *err)
{
	const struct command *command;

	if (argc > 2)
		return argument_unexpected(argv[2], err);
	if (argc < 2 || is_help(argv[1])) {
		print_usage();
		return 0;
	}
	command = command_find(argv[1]);
	if (!command)
		return unknown_command(argv[1], err);
	command_help(command);
	return 0;
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	void *settings;
	int rc;

	if (command->answer && argc > 2 && !strcmp(argv[1], "words")) {
		command->answer(argv + 2, argc - 2);
		return 0;
	}
	settings = xcalloc(1, command->settings_size);
	if (command->defaults)
		memcpy(settings, command->defaults, command->settings_size);
	rc = command_parse(command, argc, argv, settings, err);
	rc = rc ? (rc < 0 ? -1 : 0) : command->run(settings, err);
	command_release(command, settings);
	free(settings);
	return rc;
}

int program_run(int argc, char **argv, struct err *err)
{
	if (argc < 2)
		return err_set(err, ERR_USAGE, "no command given (see 'fp8conv --help')");
	if (is_help(argv[1]))
		return help(argc - 1, argv + 1, err);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		fputs("fp8conv " FP8CONV_VERSION "\n", program.out);
		return 0;
	}
	if (wants_objects(argc, argv))
		program_objects_on_err();
	program.command = command_find(argv[1]);
	if (!program.command)
		return unknown_command(argv[1], err);
	program.argc = argc - 1;
	program.argv = argv + 1;
	return run(program.command, argc - 1, argv + 1, err);
}
