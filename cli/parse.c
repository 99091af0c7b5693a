/* SPDX-License-Identifier: Apache-2.0
 *
 * argp parses, and is kept from printing: an error here is one line that names the option and the
 * nearest right one, where argp's own are two lines and name only the program.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "cli/command.h"

static const struct argp_option common_options[] = {
	{ "help", 'h', NULL, 0, "Print this help and exit", -1 },
	{ 0 },
};

/* The i-th table of the command's options; NULL behind the last. */
static const struct argp_option *option_table(const struct command *command, size_t i)
{
	const struct argp_child *children = command->argp->children;

	if (i == 0)
		return common_options;
	if (i == 1)
		return command->argp->options;
	for (size_t k = 0; children && children[k].argp; k++)
		if (k == i - 2)
			return children[k].argp->options;
	return NULL;
}

static bool ends_table(const struct argp_option *option)
{
	return !option->name && !option->key && !option->doc;
}

const struct argp_option *command_option_next(const struct command *command,
					      const struct argp_option *option)
{
	const struct argp_option *table, *end;

	option = option ? option + 1 : common_options;
	for (size_t i = 0; ends_table(option) && (table = option_table(command, i)); i++) {
		for (end = table; !ends_table(end);)
			end++;
		if (end == option && option_table(command, i + 1))
			option = option_table(command, i + 1);
	}
	return ends_table(option) ? NULL : option;
}

/* The long options of the command that begin with name; an option of exactly that name is the only
 * one. */
static size_t find_long(const struct command *command, const char *name, size_t n,
			const struct argp_option *found[2])
{
	const struct argp_option *o = NULL;
	size_t n_found = 0;

	while ((o = command_option_next(command, o))) {
		if (!o->name || strncmp(o->name, name, n) != 0)
			continue;
		if (!o->name[n]) {
			found[0] = o;
			return 1;
		}
		if (n_found < 2)
			found[n_found] = o;
		n_found++;
	}
	return n_found;
}

static const struct argp_option *find_short(const struct command *command, char key)
{
	const struct argp_option *o = NULL;

	while ((o = command_option_next(command, o)) && o->key != key)
		;
	return o;
}

static int unknown_long(const struct command *command, const char *name, size_t n, struct err *err)
{
	const struct argp_option *o = NULL;
	char *wanted = xstrndup(name, n);
	const char **names = NULL;
	const char *nearest;
	size_t n_names = 0;

	while ((o = command_option_next(command, o))) {
		if (!o->name)
			continue;
		ARRAY_GROW(names, n_names);
		names[n_names++] = o->name;
	}
	ARRAY_GROW(names, n_names);
	names[n_names] = NULL;
	nearest = nearest_name(wanted, names);
	if (nearest)
		err_set(err, ERR_USAGE, "unknown option '--%s' (did you mean '--%s'?)", wanted,
			nearest);
	else
		err_set(err, ERR_USAGE, "unknown option '--%s' (see 'fp8conv %s --help')", wanted,
			command->name);
	free(names);
	free(wanted);
	return -1;
}

static int value_missing(const struct argp_option *option, const char *written, struct err *err)
{
	return err_set(err, ERR_USAGE, "option '%s' needs a value (%s)", written, option->arg);
}

/* A word "--name" or "--name=value" with `next` behind it (NULL: it is the last).  1: it takes the
 * next word. */
static int diagnose_long(const struct command *command, const char *word, const char *next,
			 struct err *err)
{
	const char *name = word + 2;
	size_t n = strcspn(name, "=");
	const struct argp_option *found[2];
	size_t n_found = find_long(command, name, n, found);
	char written[80];

	if (n_found == 0 || n == 0)
		return unknown_long(command, name, n, err);
	if (n_found > 1)
		return err_set(err, ERR_USAGE, "option '--%.*s' is ambiguous: '--%s' or '--%s'%s",
			       (int)n, name, found[0]->name, found[1]->name,
			       n_found > 2 ? ", and more" : "");
	snprintf(written, sizeof written, "--%s", found[0]->name);
	if (!found[0]->arg && name[n])
		return err_set(err, ERR_USAGE, "option '%s' takes no value, and '%s' is given",
			       written, name + n + 1);
	if (!found[0]->arg || name[n])
		return 0;
	return next ? 1 : value_missing(found[0], written, err);
}

/* A word of short options, "-qo" or "-oOUT". */
static int diagnose_short(const struct command *command, const char *word, const char *next,
			  struct err *err)
{
	for (const char *key = word + 1; *key; key++) {
		const struct argp_option *option = find_short(command, *key);
		char written[3] = { '-', *key };

		if (!option)
			return err_set(err, ERR_USAGE,
				       "unknown option '-%c' (see 'fp8conv %s --help')", *key,
				       command->name);
		if (!option->arg)
			continue;
		if (key[1])
			return 0;
		return next ? 1 : value_missing(option, written, err);
	}
	return 0;
}

/* Says what getopt stumbled over, which argp does not tell: the words again, in order, up to the
 * first bad one. */
static int diagnose(const struct command *command, int argc, char **argv, struct err *err)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;
		int taken = 0;

		if (argv[i][0] == '-' && argv[i][1] == '-')
			taken = diagnose_long(command, argv[i], next, err);
		else if (argv[i][0] == '-' && argv[i][1])
			taken = diagnose_short(command, argv[i], next, err);
		if (taken < 0)
			return -1;
		i += taken;
	}
	return err_set(err, ERR_USAGE, "the arguments do not fit (see 'fp8conv %s --help')",
		       command->name);
}

struct common_input {
	const struct command *command;
	struct parse_input input;
};

static error_t parse_common(int key, char *argument, struct argp_state *state)
{
	struct common_input *common = state->input;

	(void)argument;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &common->input;
		return 0;
	case 'h':
		command_help(common->command);
		return ECANCELED;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_parse(const struct command *command, int argc, char **argv, void *settings,
		  struct err *err)
{
	struct common_input common = { command, { settings, err } };
	const struct argp_child children[] = { { command->argp, 0, NULL, 0 }, { 0 } };
	const struct argp argp = { .options = common_options,
				   .parser = parse_common,
				   .children = children };
	error_t rc = argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL,
				&common);

	if (rc == ECANCELED)
		return 1;
	if (rc == ENOMEM)
		return err_set(err, ERR_SYSTEM, "out of memory for the arguments");
	if (rc && err->kind == ERR_NONE)
		return diagnose(command, argc, argv, err);
	return rc ? -1 : 0;
}

void command_help(const struct command *command)
{
	const struct argp_child children[] = { { command->argp, 0, NULL, 0 }, { 0 } };
	const struct argp argp = { .options = common_options,
				   .args_doc = *command->args ? command->args : NULL,
				   .doc = command->summary,
				   .children = children };
	char name[80];

	snprintf(name, sizeof name, "fp8conv %s", command->name);
	setenv("ARGP_HELP_FMT", "no-dup-args-note,opt-doc-col=32,rmargin=99", 1);
	argp_help(&argp, stdout, ARGP_HELP_LONG | ARGP_HELP_SHORT_USAGE | ARGP_HELP_DOC, name);
}

enum { FACTS_JSON = 256 };

static error_t parse_facts(int key, char *argument, struct argp_state *state)
{
	struct parse_input *input = state->input;

	switch (key) {
	case FACTS_JSON:
		*(bool *)input->settings = true;
		return 0;
	case ARGP_KEY_ARG:
		return argument_unexpected(argument, input->err);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option facts_options[] = {
	{ "json", FACTS_JSON, NULL, 0, "Print one JSON object", 0 },
	{ 0 },
};

const struct argp facts_argp = { .options = facts_options, .parser = parse_facts };

int argument_unexpected(const char *argument, struct err *err)
{
	return err_set(err, ERR_USAGE, "unexpected argument '%s'", argument);
}
