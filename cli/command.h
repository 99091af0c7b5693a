/* SPDX-License-Identifier: Apache-2.0
 *
 * A command is a file cmd_<name>.c that ends in one row; the build lists them.  Its tables of
 * options serve the parser, --help, the completions and the test that compares the man page with
 * them.
 *
 * program_run() parses the command line into the settings, which it releases after run().
 */
#ifndef FP8CONV_CLI_COMMAND_H
#define FP8CONV_CLI_COMMAND_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/options/option.h"

/* The headings of `fp8conv --help`, in this order. */
enum command_group {
	GROUP_HIDDEN,
	GROUP_CONVERT,
	GROUP_INSPECT,
	GROUP_CALIBRATE,
	GROUP_INFORMATION,
	N_GROUPS
};

#define MAX_SHARED   9
#define MAX_EXAMPLES 6

struct command {
	const char *name;
	const char *args;		    /* "MODEL -o OUT": the first word is the argument */
	const char *summary;		    /* one line */
	const char *examples[MAX_EXAMPLES]; /* command lines; NULL after the last */
	enum command_group group;
	const struct option_row *options; /* its own, for its settings; NULL: none */
	/* Options that several commands have: the first table comes before its own options, the
	 * others after them.  A row of its own replaces one with the same name. */
	struct option_table shared[MAX_SHARED];
	struct option_row argument; /* without a name: the command takes none */
	bool optional;		    /* the argument may be left out; else it is required */
	bool many;		    /* more than one argument is allowed */
	const char *gone;	    /* options of earlier versions: "a|b"; NULL: none */
	const char *instead;	    /* what to do in place of them */

	/* The struct that the rows fill, and its value before; NULL: zeros. */
	size_t settings_size;
	const void *defaults;

	/* of a command that prints facts, by facts_run() */
	void (*print_text)(void);
	void (*print_json)(void);

	/* Answers `CMD words WORD...`, whose words are no options; NULL: none. */
	void (*answer)(char **words, int n);

	/* Returns the exit status, or -1 with the failure in err, whose kind is the exit status. */
	int (*run)(void *settings, struct err *err);
};

/* The offset of a member in a command's own struct settings. */
#define PLACE(member) offsetof(struct settings, member)

extern const struct command *const commands[]; /* generated; NULL at the end */

/* Returns the command with this name, or NULL. */
const struct command *command_find(const char *name);

/* Returns the next row of the command's options, --help first, shared ones last.  option NULL
 * returns the first row; the last row returns NULL. */
const struct option_row *command_option_next(const struct command *command,
					     const struct option_row *option);

/* Parses argv into the settings of the command.  Returns 0 to go on, 1 if --help was given and is
 * printed, -1 with ERR_USAGE.  The caller releases the settings, also after a failure: what
 * option_append and option_append_rule have allocated.  Texts belong to argv. */
int command_parse(const struct command *command, int argc, char **argv, void *settings,
		  struct err *err);
void command_release(const struct command *command, void *settings);

/* Parses options into settings that have an argument already. */
int command_parse_more(const struct command *command, int argc, char **argv, void *settings,
		       struct err *err);

/* Is the option, in any spelling, in words that command_parse() took? */
bool command_gives(const struct command *command, int argc, char **argv, const char *option);

/* Prints `fp8conv CMD --help` on standard output. */
void command_help(const struct command *command);

/* The options and the run() of a command that prints facts: as text, or with --json.  Its settings
 * are a bool. */
extern const struct option_row facts_options[];
int facts_run(void *settings, struct err *err);

/* Fails with ERR_USAGE for a superfluous argument.  Returns -1. */
int argument_unexpected(const char *argument, struct err *err);

#endif
