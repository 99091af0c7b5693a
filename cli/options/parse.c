/* SPDX-License-Identifier: Apache-2.0
 *
 * argp parses, but does not print: an error here is one line that names the option and the nearest
 * valid one, while argp's own error is two lines and names only the program.
 */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/options/values.h"
#include "cli/peers.h"
#include "cli/program.h"

static int read_help(const struct option_row *option, const char *value, void *place,
		     struct err *err)
{
	(void)option, (void)value, (void)place, (void)err;
	return ECANCELED;
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
	const char *nearest, *peer, *advice = peer_word(PEER_ADVICE, given);
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
	else if (advice)
		err_set(err, ERR_USAGE, "unknown option '--%s' (%s)", given, advice);
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

static int value_missing(const struct option_row *option, const char *written, struct err *err)
{
	return err_set(err, ERR_USAGE, "option '%s' needs a value (%s)", written, option->arg);
}

/* Diagnoses a word "--name" or "--name=value", followed by `next` (NULL: the last word).  Returns 1
 * if it takes the next word as its value. */
static int diagnose_long(const struct command *command, const char *word, const char *next,
			 struct err *err)
{
	const char *name = word + 2;
	size_t n = strcspn(name, "=");
	const struct option_row *found[2];
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
		return err_set(err, ERR_USAGE, "option '%s' does not take a value ('%s')", written,
			       name + n + 1);
	if (!found[0]->arg || name[n])
		return 0;
	return next ? 1 : value_missing(found[0], written, err);
}

/* Diagnoses a word of short options, "-qo" or "-oOUT". */
static int diagnose_short(const struct command *command, const char *word, const char *next,
			  struct err *err)
{
	for (const char *key = word + 1; *key; key++) {
		const struct option_row *option = find_short(command, *key);
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

/* Finds the error of getopt, which argp does not report: reads the words again, in order, up to the
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
	return err_set(err, ERR_USAGE, "invalid arguments (see 'fp8conv %s --help')",
		       command->name);
}

/* The table for argp, made of the command's rows: an option's key is its index in rows, after all
 * letters.  Settings and errors belong to one parse. */
struct parse {
	const struct command *command;
	void *settings;
	struct err *err;
	char **words; /* of the command line; NULL after the last */
	bool has_argument;
	size_t n_rows, n_entries;
	const struct option_row **rows;
	struct argp_option *entries;
};

enum { KEY_ROW = 256 };

static void add_entry(struct parse *parse, const struct argp_option *entry)
{
	ARRAY_GROW(parse->entries, parse->n_entries);
	parse->entries[parse->n_entries++] = *entry;
}

static void parse_init(struct parse *parse, const struct command *command)
{
	const struct option_row *o = NULL;

	while ((o = command_option_next(command, o))) {
		int key = o->letter ? o->letter : KEY_ROW + (int)parse->n_rows;

		add_entry(parse,
			  &(struct argp_option){
				  .name = o->name, .key = key, .arg = o->arg, .doc = o->doc });
		ARRAY_GROW(parse->rows, parse->n_rows);
		parse->rows[parse->n_rows++] = o;
	}
	add_entry(parse, &(struct argp_option){ 0 });
	parse->command = command;
}

static void parse_release(struct parse *parse)
{
	free(parse->rows);
	free(parse->entries);
}

static const struct option_row *find_row(const struct parse *parse, int key)
{
	if (key >= KEY_ROW && key < KEY_ROW + (int)parse->n_rows)
		return parse->rows[key - KEY_ROW];
	return key > 0 && key < 128 ? find_short(parse->command, (char)key) : NULL;
}

/* Does the command have the option, which is not given? */
static bool lacks(const struct parse *parse, const char *name, const char *written)
{
	for (char **word = parse->words; *word; word++)
		if (!strncmp(*word, name, 4) || !strncmp(*word, written, strlen(written)))
			return false;
	return has_option(parse->command, name + 2);
}

static int parse_argument(struct parse *parse, const char *value)
{
	const struct option_row *row = &parse->command->argument;
	const char *meant = lacks(parse, "--source", "--source") ? "--source"
			    : lacks(parse, "--output", "-o")	 ? "-o"
								 : NULL;

	if (row->name && meant && *value != '-' && parse->has_argument && !parse->command->many)
		return err_set(parse->err, ERR_USAGE,
			       "unexpected argument '%s' (did you mean '%s %s'?)", value, meant,
			       value);
	if (!row->name || (parse->has_argument && !parse->command->many))
		return argument_unexpected(value, parse->err);
	parse->has_argument = true;
	return row->read(row, value, (char *)parse->settings + row->offset, parse->err);
}

static error_t parse_key(int key, char *value, struct argp_state *state)
{
	struct parse *parse = state->input;
	const struct option_row *row = find_row(parse, key);

	if (key == ARGP_KEY_ARG)
		return parse_argument(parse, value);
	if (!row)
		return ARGP_ERR_UNKNOWN;
	return row->read(row, value, option_place(parse->command, row, parse->settings),
			 parse->err);
}

static int parse_words(const struct command *command, int argc, char **argv, void *settings,
		       bool has_argument, struct err *err)
{
	struct parse parse = {
		.settings = settings, .err = err, .words = argv, .has_argument = has_argument
	};
	struct argp argp = { .parser = parse_key };
	error_t rc;

	parse_init(&parse, command);
	argp.options = parse.entries;
	rc = argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL,
			&parse);
	parse_release(&parse);
	if (rc == ECANCELED) {
		command_help(command);
		return 1;
	}
	if (rc == ENOMEM)
		return err_set(err, ERR_SYSTEM, "out of memory for the arguments");
	if (rc && err->kind == ERR_NONE)
		return diagnose(command, argc, argv, err);
	if (rc == 0 && command->argument.name && !command->optional && !parse.has_argument)
		return err_set(err, ERR_USAGE, "%s is missing (fp8conv %s %s)",
			       command->argument.name, command->name, command->args);
	return rc ? -1 : 0;
}

int command_parse(const struct command *command, int argc, char **argv, void *settings,
		  struct err *err)
{
	return parse_words(command, argc, argv, settings, false, err);
}

int command_parse_more(const struct command *command, int argc, char **argv, void *settings,
		       struct err *err)
{
	return parse_words(command, argc, argv, settings, true, err);
}

struct option_search {
	struct parse parse;
	const char *option;
	bool found;
};

static error_t search_key(int key, char *value, struct argp_state *state)
{
	struct option_search *search = state->input;
	const struct option_row *row = find_row(&search->parse, key);

	(void)value;
	search->found |= row && !strcmp(row->name, search->option);
	return row || key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

bool command_gives(const struct command *command, int argc, char **argv, const char *option)
{
	struct option_search search = { .option = option };
	struct argp argp = { .parser = search_key };

	parse_init(&search.parse, command);
	argp.options = search.parse.entries;
	argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &search);
	parse_release(&search.parse);
	return search.found;
}

void command_release(const struct command *command, void *settings)
{
	const struct option_row *o = NULL, *argument = &command->argument;

	option_release(argument, (char *)settings + argument->offset);
	while ((o = command_option_next(command, o)))
		option_release(o, option_place(command, o, settings));
}

const struct option_row facts_options[] = {
	{ SECTION_NONE, "json", 0, NULL, "Print one JSON object", option_flag, 0 },
	{ 0 },
};

int facts_run(void *settings, struct err *err)
{
	const bool *json = settings;

	(void)err;
	(*json ? program.command->print_json : program.command->print_text)();
	return 0;
}

int argument_unexpected(const char *argument, struct err *err)
{
	return err_set(err, ERR_USAGE, "unexpected argument '%s'", argument);
}
