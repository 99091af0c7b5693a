/* SPDX-License-Identifier: Apache-2.0
 *
 * Words as getopt_long() reads them: options and arguments in any order, up to "--"; long options
 * by a beginning that no other has.  An error here names the option and the nearest valid one.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/options/values.h"
#include "cli/peers.h"

/* What reading a word returns beside 0 and -1: the next one was its value; or --help was given. */
enum { VALUE_TAKEN = 1, HELP_WANTED };

static int read_help(const struct option_row *option, const char *value, void *place,
		     struct err *err)
{
	(void)option, (void)value, (void)place, (void)err;
	return HELP_WANTED;
}

static const struct option_row common_options[] = {
	{ SECTION_HELP, "help", 'h', NULL, "Print this help and exit", read_help, 0 },
	{ 0 },
};

/* Returns the i-th table of the command, in order; after the last, one without rows. */
static struct option_table option_table(const struct command *command, size_t i)
{
	static const struct option_row none[] = { { 0 } };
	struct option_table own = { command->options ? command->options : none, 0 };

	if (i == 0)
		return (struct option_table){ common_options, 0 };
	if (!command->shared[0].rows)
		return i == 1 ? own : (struct option_table){ 0 };
	if (i == 2)
		return own;
	i = i == 1 ? 0 : i - 2;
	return i < MAX_SHARED ? command->shared[i] : (struct option_table){ 0 };
}

static const struct option_row *rows_end(const struct option_row *rows)
{
	while (rows && rows->name)
		rows++;
	return rows;
}

/* Is a shared row replaced by the command's own row of that name? */
static bool is_replaced(const struct command *command, const struct option_row *option)
{
	const struct option_row *own = command->options;

	if (!own || rows_end(own) == rows_end(option))
		return false;
	while (own->name && strcmp(own->name, option->name) != 0)
		own++;
	return own->name != NULL;
}

const struct option_row *command_option_next(const struct command *command,
					     const struct option_row *option)
{
	struct option_table next;

	do {
		option = option ? option + 1 : common_options;
		for (size_t i = 0; !option->name && (next = option_table(command, i + 1)).rows; i++)
			if (rows_end(option_table(command, i).rows) == option)
				option = next.rows;
	} while (option->name && is_replaced(command, option));
	return option->name ? option : NULL;
}

/* Returns where the value of an option goes. */
static void *option_place(const struct command *command, const struct option_row *option,
			  void *settings)
{
	size_t i = 0;

	while (rows_end(option_table(command, i).rows) != rows_end(option))
		i++;
	return (char *)settings + option_table(command, i).offset + option->offset;
}

/* Finds the long options that begin with name.  An option of exactly that name is the only
 * match. */
static size_t find_long(const struct command *command, const char *name, size_t n,
			const struct option_row *found[2])
{
	const struct option_row *o = NULL;
	size_t n_found = 0;

	while ((o = command_option_next(command, o))) {
		if (strncmp(o->name, name, n) != 0)
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

static const struct option_row *find_short(const struct command *command, char key)
{
	const struct option_row *o = NULL;

	while ((o = command_option_next(command, o)) && o->letter != key)
		;
	return o;
}

static bool has_option(const struct command *command, const char *name)
{
	const struct option_row *found[2];

	return find_long(command, name, strlen(name), found) == 1;
}

static int unknown_long(const struct command *command, const char *name, size_t n, struct err *err)
{
	const struct option_row *o = NULL;
	char *given = xstrndup(name, n);
	const char **names = NULL;
	const char *nearest, *peer;
	size_t n_names = 0;

	while ((o = command_option_next(command, o))) {
		ARRAY_GROW(names, n_names);
		names[n_names++] = o->name;
	}
	ARRAY_GROW(names, n_names);
	names[n_names] = NULL;
	nearest = words_nearest(given, names);
	peer = peer_word(PEER_OPTION, given);
	if (peer && has_option(command, peer))
		nearest = peer;
	if (command->gone && words_find(command->gone, given) >= 0)
		err_set(err, ERR_USAGE, "option '--%s' is gone: %s", given, command->instead);
	else if (nearest)
		err_set(err, ERR_USAGE, "unknown option '--%s' (did you mean '--%s'?)", given,
			nearest);
	else
		err_set(err, ERR_USAGE, "unknown option '--%s' (see 'fp8conv %s --help')", given,
			command->name);
	free(names);
	free(given);
	return -1;
}

/* The words of a command, as they are read. */
struct parse {
	const struct command *command;
	void *settings;
	struct err *err;
	bool has_argument;
};

/* Reads an option, whose value is in its own word, or else (NULL) the next one. */
static int read_option(struct parse *parse, const struct option_row *option, const char *written,
		       const char *value, const char *next)
{
	bool takes_next = option->arg && !value;
	int rc;

	if (takes_next && !next)
		return err_set(parse->err, ERR_USAGE, "option '%s' needs a value (%s)", written,
			       option->arg);
	rc = option->read(option, takes_next ? next : value,
			  option_place(parse->command, option, parse->settings), parse->err);
	return rc ? rc : takes_next ? VALUE_TAKEN : 0;
}

/* Reads a word "--name" or "--name=value". */
static int read_long(struct parse *parse, const char *word, const char *next)
{
	const char *name = word + 2;
	size_t n = strcspn(name, "=");
	const struct option_row *found[2];
	size_t n_found = find_long(parse->command, name, n, found);
	char written[80];

	if (n_found == 0 || n == 0)
		return unknown_long(parse->command, name, n, parse->err);
	if (n_found > 1)
		return err_set(parse->err, ERR_USAGE,
			       "option '--%.*s' is ambiguous: '--%s' or '--%s'%s", (int)n, name,
			       found[0]->name, found[1]->name, n_found > 2 ? ", and more" : "");
	snprintf(written, sizeof written, "--%s", found[0]->name);
	if (!found[0]->arg && name[n])
		return err_set(parse->err, ERR_USAGE, "option '%s' does not take a value ('%s')",
			       written, name + n + 1);
	return read_option(parse, found[0], written, name[n] ? name + n + 1 : NULL, next);
}

/* Reads a word of short options, "-qo" or "-oOUT". */
static int read_short(struct parse *parse, const char *word, const char *next)
{
	int rc = 0;

	for (const char *key = word + 1; *key && !rc; key++) {
		const struct option_row *option = find_short(parse->command, *key);
		const char written[3] = { '-', *key };

		if (!option)
			return err_set(parse->err, ERR_USAGE,
				       "unknown option '-%c' (see 'fp8conv %s --help')", *key,
				       parse->command->name);
		rc = read_option(parse, option, written, option->arg && key[1] ? key + 1 : NULL,
				 next);
		if (option->arg)
			break;
	}
	return rc;
}

static int read_argument(struct parse *parse, const char *value)
{
	const struct option_row *row = parse->command->argument;

	if (row && *value != '-' && parse->has_argument && !parse->command->many &&
	    has_option(parse->command, "output"))
		return err_set(parse->err, ERR_USAGE,
			       "unexpected argument '%s' (give the output as -o %s)", value, value);
	if (!row || (parse->has_argument && !parse->command->many))
		return argument_unexpected(value, parse->err);
	parse->has_argument = true;
	return row->read(row, value, (char *)parse->settings + row->offset, parse->err);
}

/* Reads the options; the words that are none change places with them, to the front; *n becomes
 * their number. */
static int read_options(struct parse *parse, int argc, char **argv, int *n)
{
	bool ended = false;
	int rc = 0;

	*n = 0;
	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;
		char *word = argv[i];

		if (ended || word[0] != '-' || !word[1]) {
			argv[i] = argv[++*n]; /* the caller may free them all */
			argv[*n] = word;
			continue;
		}
		ended = !strcmp(argv[i], "--");
		if (!ended)
			rc = (argv[i][1] == '-' ? read_long : read_short)(parse, argv[i], next);
		if (rc == VALUE_TAKEN)
			i++;
		else if (rc)
			return rc;
		rc = 0;
	}
	return 0;
}

static int argument_missing(const struct command *command, struct err *err)
{
	return err_set(err, ERR_USAGE, "%s is missing (fp8conv %s %s)", command->argument->name,
		       command->name, command->args);
}

int command_parse(const struct command *command, int argc, char **argv, void *settings,
		  struct err *err)
{
	struct parse parse = { .command = command, .settings = settings, .err = err };
	int n, rc = read_options(&parse, argc, argv, &n);

	if (rc == HELP_WANTED) {
		command_help(command);
		return 1;
	}
	for (int i = 1; i <= n && !rc; i++)
		rc = read_argument(&parse, argv[i]);
	if (rc == 0 && command->argument && !command->optional && !parse.has_argument)
		return argument_missing(command, err);
	return rc;
}

const struct option_row facts_options[] = {
	{ SECTION_NONE, "json", 0, NULL, "Print one JSON object", option_flag, 0 },
	{ 0 },
};

int facts_run(const struct command *command, int argc, char **argv, struct err *err)
{
	bool json = false;
	int rc = command_parse(command, argc, argv, &json, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	(json ? command->print_json : command->print_text)();
	return 0;
}

int argument_unexpected(const char *argument, struct err *err)
{
	return err_set(err, ERR_USAGE, "unexpected argument '%s'", argument);
}
