/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv completion bash|zsh|fish: prints completions from the tables that the parser uses.  `make
 * install` installs them, so the command is not listed.
 */
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "cli/command.h"
#include "cli/options/values.h"
#include "format/format.h"
#include "recipe/recipe.h"

#define SHELLS	     "bash|zsh|fish"
#define HELP_SUMMARY "Print the help of a command"
#define HELP_DOC     "List the commands"
#define VERSION_DOC  "Print the version"

/* The possible values of an option, or of an argument. */
enum value_kind {
	VALUE_NONE,
	VALUE_WORDS, /* one of a list of words */
	VALUE_PATH,
	VALUE_TEXT, /* a number, a pattern: nothing to complete */
};

/* Adds the words of "a|b|c".  For "a=P", which stands for values that begin with "a=", it adds
 * "a=". */
static void put_choices(struct buf *words, const char *choices)
{
	for (const char *p = choices; *p; p += strspn(p, "|")) {
		size_t n = strcspn(p, "|");
		const char *equals = memchr(p, '=', n);

		buf_printf(words, "%.*s ", equals ? (int)(equals + 1 - p) : (int)n, p);
		p += n;
	}
}

/* Returns the kind of an option's values, and adds its words, each followed by a space. */
static enum value_kind option_values(const struct option_row *option, struct buf *words)
{
	static const char *const paths[] = { "DIR", "FILE", "MODEL", "OUT" };
	const char *arg = option->arg;

	words->len = 0;
	buf_puts(words, "");
	if (!arg)
		return VALUE_NONE;
	if (!strcmp(arg, "RECIPE"))
		for (size_t i = 0; recipes[i]; i++)
			buf_printf(words, "%s ", recipes[i]->name);
	else if (!strcmp(arg, "FORMAT")) {
		for (size_t i = 0; formats[i]; i++)
			if (formats[i]->configure)
				buf_printf(words, "%s ", formats[i]->name);
	} else if (!strcmp(arg, "BACKEND")) {
		buf_puts(words, "auto cpu ");
		for (size_t i = 0; backends[i]; i++)
			buf_printf(words, "%s ", backends[i]->name);
	} else if (!strpbrk(arg, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || strchr(arg, '|')) {
		put_choices(words, arg);
	} else {
		for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
			if (!strcmp(arg, paths[i]))
				return VALUE_PATH;
		return strstr(arg, ".amax") ? VALUE_PATH : VALUE_TEXT;
	}
	return VALUE_WORDS;
}

/* Prints text inside single quotes of a shell; for zsh's _arguments it also escapes ':' and
 * brackets. */
static void put_quoted(const char *text, bool zsh)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (zsh && strchr(":[]\\", *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void put_command_names(void)
{
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group)
			printf("%s ", commands[i]->name);
}

static void bash_option(const struct option_row *option, struct buf *words)
{
	enum value_kind kind = option_values(option, words);

	if (kind == VALUE_NONE)
		return;
	printf("\t\t--%s", option->name);
	if (option->letter)
		printf("|-%c", option->letter);
	putchar(')');
	if (kind == VALUE_WORDS)
		printf(" words='%s'", words->data);
	else if (kind == VALUE_PATH)
		printf(" files=yes");
	printf(" ;;\n");
}

static void bash_command(const struct command *command)
{
	const struct option_row *o = NULL;
	struct buf words = { 0 };

	printf("\t%s)\n\t\tcase $option in\n", command->name);
	while ((o = command_option_next(command, o)))
		bash_option(o, &words);
	printf("\t\t*)\n\t\t\tif [[ $value == -* ]]; then\n\t\t\t\twords='");
	while ((o = command_option_next(command, o)))
		printf("--%s ", o->name);
	printf("'\n");
	if (command->argument)
		printf("\t\t\telse\n\t\t\t\tfiles=yes\n");
	printf("\t\t\tfi ;;\n\t\tesac ;;\n");
	buf_release(&words);
}

/* bash splits words at '=': "--recipe=b" arrives as three words, or as one if COMP_WORDBREAKS lacks
 * '='. */
static void bash_print(void)
{
	printf("_fp8conv() {\n"
	       "\tlocal value=$2 option=$3 before= words= files= commands='");
	put_command_names();
	printf("'\n"
	       "\tif [[ $option == = ]]; then\n"
	       "\t\toption=${COMP_WORDS[COMP_CWORD-2]}\n"
	       "\telif [[ $value == --*=* ]]; then\n"
	       "\t\toption=${value%%%%=*} before=${value%%%%=*}= value=${value#*=}\n"
	       "\tfi\n"
	       "\tcase $COMP_CWORD,${COMP_WORDS[1]} in\n"
	       "\t1,-*) words='--help --version' ;;\n"
	       "\t1,*) words=\"help $commands\" ;;\n"
	       "\t2,help) words=$commands ;;\n"
	       "\t*)\n"
	       "\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group)
			bash_command(commands[i]);
	printf("\tesac\n\tesac\n"
	       "\tmapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$words\" -- \"$value\")\n"
	       "\t[[ $files ]] || compopt +o default 2>/dev/null\n"
	       "\t[[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>/dev/null\n"
	       "}\n"
	       "complete -o default -F _fp8conv fp8conv\n");
}

static void zsh_option(const struct option_row *option, struct buf *words)
{
	enum value_kind kind = option_values(option, words);

	printf(" \\\n\t\t\t'%s--%s%s[", option_repeats(option) ? "*" : "", option->name,
	       kind == VALUE_NONE ? "" : "=");
	put_quoted(option->doc, true);
	putchar(']');
	if (kind == VALUE_WORDS)
		printf(":%s: _fp8conv_words %s", option->name, words->data);
	else if (kind == VALUE_PATH)
		printf(":file:_files");
	else if (kind == VALUE_TEXT)
		printf(":%s: ", option->arg);
	putchar('\'');
}

static void zsh_command(const struct command *command)
{
	const struct option_row *o = NULL;
	struct buf words = { 0 };

	printf("\t%s)\n\t\t_arguments", command->name);
	while ((o = command_option_next(command, o)))
		zsh_option(o, &words);
	printf("%s ;;\n", command->argument ? " \\\n\t\t\t'*:file:_files'" : "");
	buf_release(&words);
}

static void zsh_print(void)
{
	printf("#compdef fp8conv\n"
	       "_fp8conv_words() {\n"
	       "\tlocal word\n"
	       "\tfor word; do\n"
	       "\t\tif [[ $word == *= ]]; then compadd -S '' -- $word; else compadd -- $word; fi\n"
	       "\tdone\n"
	       "}\n"
	       "_fp8conv() {\n\tlocal -a commands=(\n");
	for (size_t i = 0; commands[i]; i++) {
		if (!commands[i]->group)
			continue;
		printf("\t\t'%s:", commands[i]->name);
		put_quoted(commands[i]->summary, true);
		printf("'\n");
	}
	printf("\t)\n"
	       "\tlocal -a about=('--help:" HELP_DOC "' '--version:" VERSION_DOC "')\n"
	       "\tlocal -a help=('help:" HELP_SUMMARY "')\n"
	       "\tif (( CURRENT == 2 )); then\n"
	       "\t\tif [[ $PREFIX == -* ]]; then _describe -o option about\n"
	       "\t\telse _describe command help -- commands; fi\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tshift words\n"
	       "\t(( CURRENT-- ))\n"
	       "\tcase $words[1] in\n"
	       "\thelp) (( CURRENT == 2 )) && _describe command commands ;;\n");
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group)
			zsh_command(commands[i]);
	printf("\tesac\n}\n_fp8conv \"$@\"\n");
}

/* Prints the recipes among an option's words, each with its summary. */
static void fish_recipes(void)
{
	printf(" -x -a '");
	for (size_t i = 0; recipes[i]; i++) {
		printf("%s\\t\"", recipes[i]->name);
		put_quoted(recipes[i]->summary, false);
		printf("\" ");
	}
	putchar('\'');
}

static void fish_option(const struct command *command, const struct option_row *option,
			struct buf *words)
{
	enum value_kind kind = option_values(option, words);

	printf("complete -c fp8conv -n '__fish_seen_subcommand_from %s' -l %s", command->name,
	       option->name);
	if (option->letter)
		printf(" -s %c", option->letter);
	if (kind == VALUE_WORDS && !strcmp(option->arg, "RECIPE"))
		fish_recipes();
	else if (kind == VALUE_WORDS)
		printf(" -x -a '%s'", words->data);
	else if (kind == VALUE_PATH)
		printf(" -r");
	else if (kind == VALUE_TEXT)
		printf(" -x");
	printf(" -d '");
	put_quoted(option->doc, false);
	printf("'\n");
}

static void fish_command(const struct command *command)
{
	const struct option_row *o = NULL;
	struct buf words = { 0 };

	printf("complete -c fp8conv -f -n __fish_use_subcommand -a %s -d '", command->name);
	put_quoted(command->summary, false);
	printf("'\n");
	if (!command->argument)
		printf("complete -c fp8conv -f -n '__fish_seen_subcommand_from %s'\n",
		       command->name);
	while ((o = command_option_next(command, o)))
		fish_option(command, o, &words);
	buf_release(&words);
}

static void fish_print(void)
{
	printf("complete -c fp8conv -f -n __fish_use_subcommand -l help -s h -d '" HELP_DOC "'\n"
	       "complete -c fp8conv -f -n __fish_use_subcommand -l version -d '" VERSION_DOC "'\n"
	       "complete -c fp8conv -f -n __fish_use_subcommand -a help -d '" HELP_SUMMARY "'\n"
	       "complete -c fp8conv -f -n '__fish_seen_subcommand_from help' -a '");
	put_command_names();
	printf("'\n");
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group)
			fish_command(commands[i]);
}

static int read_shell(const struct option_row *option, const char *value, void *place,
		      struct err *err)
{
	if (option_choice(option, value, place, err))
		return err_set(err, ERR_USAGE, "shell '%s' is not one of %s", value, option->arg);
	return 0;
}

static const struct option_row argument = { .name = "SHELL", .arg = SHELLS, .read = read_shell };

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	static void (*const print[])(void) = { bash_print, zsh_print, fish_print };
	int shell;
	int rc = command_parse(command, argc, argv, &shell, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	print[shell]();
	return 0;
}

const struct command command_completion = {
	.name = "completion",
	.args = SHELLS,
	.summary = "Print the completions of a shell",
	.argument = &argument,
	.run = run,
};
