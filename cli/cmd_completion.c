/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv completion bash|zsh|fish: prints the function by which a shell asks this program for what
 * can follow.  `make install` installs them, so the command is not listed.
 * fp8conv completion words WORD...: answers such a function, from the tables that the parser uses,
 * for the words of a line but the program, up to the one in which the cursor is.  A line for each
 * word that can stand there, with a tab and what it is; one that ends in '=' is not whole.  Or one
 * line with ':': a path; or ":.EXT": a directory or a file whose name ends so.
 */
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "cli/command.h"
#include "cli/family.h"
#include "cli/options/values.h"
#include "cli/program.h"
#include "format/format.h"
#include "recipe/recipe.h"

#define SHELLS "bash|zsh|fish"

/* The word in which the cursor is. */
struct cursor {
	const char *before; /* what each answer begins with: "--recipe=" */
	size_t n_before;
	const char *value; /* what follows */
	size_t n_value;
};

/* Prints a word of n bytes, if the one at the cursor begins it. */
static void offer(const struct cursor *cursor, const char *word, size_t n, const char *doc)
{
	if (n >= cursor->n_value && !memcmp(word, cursor->value, cursor->n_value))
		fprintf(program.out, "%.*s%.*s\t%s\n", (int)cursor->n_before, cursor->before,
			(int)n, word, doc);
}

static void offer_text(const struct cursor *cursor, const char *word, const char *doc)
{
	offer(cursor, word, strlen(word), doc);
}

/* Offers the words of "a|b|c".  For "a=P", which stands for values that begin with "a=", it offers
 * "a=". */
static void offer_choices(const struct cursor *cursor, const char *choices)
{
	for (const char *p = choices; *p; p += strspn(p, "|")) {
		size_t n = strcspn(p, "|");
		const char *equals = memchr(p, '=', n);

		offer(cursor, p, equals ? (size_t)(equals + 1 - p) : n, "");
		p += n;
	}
}

/* Offers the values of an option. */
static void offer_values(const struct cursor *cursor, const char *arg)
{
	static const char *const paths[] = { "DIR", "FILE", "KEY", "MODEL", "OUT" };

	if (!strcmp(arg, "RECIPE")) {
		for (size_t i = 0; recipes[i]; i++)
			offer_text(cursor, recipes[i]->name, recipes[i]->summary);
	} else if (!strcmp(arg, "FORMAT")) {
		for (size_t i = 0; formats[i]; i++)
			if (formats[i]->configure)
				offer_text(cursor, formats[i]->name, "");
	} else if (!strcmp(arg, "BACKEND")) {
		offer_choices(cursor, "auto|cpu");
		for (size_t i = 0; backends[i]; i++)
			offer_text(cursor, backends[i]->name, "");
	} else if (!strpbrk(arg, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || strchr(arg, '|')) {
		offer_choices(cursor, arg);
	} else {
		const char *extension = strrchr(arg, '.');
		bool path = extension;

		for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
			path |= !strcmp(arg, paths[i]);
		if (path)
			fprintf(program.out, ":%s\n", extension ? extension : "");
	}
}

static void offer_commands(const struct cursor *cursor)
{
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group)
			offer_text(cursor, commands[i]->name, commands[i]->summary);
}

/* Returns the option of the command that takes a value and is written as n bytes; or NULL. */
static const struct option_row *find_option(const struct command *command, const char *text,
					    size_t n)
{
	const struct option_row *o = NULL;

	while ((o = command_option_next(command, o)))
		if (o->arg && ((n > 2 && strlen(o->name) == n - 2 && !memcmp(text, "--", 2) &&
				!memcmp(text + 2, o->name, n - 2)) ||
			       (n == 2 && *text == '-' && text[1] == o->letter)))
			break;
	return o;
}

/* Returns the option whose value the cursor is in, or NULL, and cuts its name off.  bash splits
 * words at '=': "--recipe=b" are three words, or one if COMP_WORDBREAKS lacks '='. */
static const struct option_row *option_at(const struct command *command, char **words, int n,
					  struct cursor *cursor)
{
	const char *word = words[n - 1], *equals = strchr(word, '=');
	int name = n - 2;

	if (!strcmp(word, "=")) {
		cursor->value = word + 1;
		cursor->n_value = 0;
	} else if (!strncmp(word, "--", 2) && equals) {
		cursor->before = word;
		cursor->n_before = (size_t)(equals + 1 - word);
		cursor->value = equals + 1;
		cursor->n_value = strlen(cursor->value);
		return find_option(command, word, cursor->n_before - 1);
	} else if (!strcmp(words[n - 2], "=")) {
		name = n - 3;
	}
	return name > 0 ? find_option(command, words[name], strlen(words[name])) : NULL;
}

/* Offers the families; a directory is still completed where none of them begins as it does. */
static void offer_families(const struct cursor *cursor)
{
	struct families families = { 0 };
	bool found = false;

	families_all(&families);
	for (size_t i = 0; i < families.n; i++) {
		const char *name = families.list[i].name;

		found |= !strncmp(name, cursor->value, cursor->n_value);
		offer_text(cursor, name, "");
	}
	if (!found)
		fputs(":\n", program.out);
	families_release(&families);
}

static void offer_of_command(const struct command *command, char **words, int n,
			     struct cursor *cursor)
{
	const struct option_row *o = option_at(command, words, n, cursor);
	struct buf name = { 0 };

	if (o) {
		offer_values(cursor, o->arg);
		return;
	}
	if (*cursor->value != '-') {
		if (command->argument.name && !strcmp(command->argument.name, "FAMILY"))
			offer_families(cursor);
		else if (command->argument.name)
			offer_values(cursor, command->argument.arg);
		return;
	}
	while ((o = command_option_next(command, o))) {
		name.len = 0;
		buf_printf(&name, "--%s", o->name);
		offer_text(cursor, name.data, o->doc);
	}
	buf_release(&name);
}

static void answer(char **words, int n)
{
	struct cursor cursor = { .before = "", .value = words[n - 1] };

	cursor.n_value = strlen(cursor.value);
	if (n == 1 && *cursor.value == '-') {
		offer_text(&cursor, "--help", "List the commands");
		offer_text(&cursor, "--version", "Print the version");
	} else if (n == 1) {
		offer_text(&cursor, "help", "Print the help of a command");
		offer_commands(&cursor);
	} else if (n == 2 && !strcmp(words[0], "help")) {
		offer_commands(&cursor);
	}
	for (size_t i = 0; n > 1 && commands[i]; i++)
		if (commands[i]->group && !strcmp(commands[i]->name, words[0]))
			offer_of_command(commands[i], words, n, &cursor);
}

static const char bash[] =
	"_fp8conv() {\n"
	"\tlocal lines\n"
	"\tmapfile -t lines < <(\"$1\" completion words \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
	"2>/dev/null)\n"
	"\t[[ ${lines[0]} != : ]] || return\n"
	"\tif [[ ${lines[0]} == :* ]]; then\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -X \"!*${lines[0]:1}\" -o plusdirs -- "
	"\"$2\")\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tcompopt +o default 2>/dev/null\n"
	"\tCOMPREPLY=(\"${lines[@]%%$'\\t'*}\")\n"
	"\t[[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>/dev/null\n"
	"}\n"
	"complete -o default -F _fp8conv fp8conv\n";

static const char zsh[] =
	"#compdef fp8conv\n"
	"_fp8conv() {\n"
	"\tlocal -a lines open whole\n"
	"\tlines=(\"${(@f)$($words[1] completion words \"${(@Q)words[2,CURRENT-1]}\" \"$PREFIX\" "
	"2>/dev/null)}\")\n"
	"\tif [[ $lines[1] == :* ]]; then\n"
	"\t\t[[ $PREFIX != --*=* ]] || compset -P '*='\n"
	"\t\t_files -g \"*${lines[1]#:}\"\n"
	"\t\treturn\n"
	"\tfi\n"
	"\topen=(${(M)lines:#*=$'\\t'*})\n"
	"\twhole=(${lines:#*=$'\\t'*})\n"
	"\topen=(${open/$'\\t'/:})\n"
	"\twhole=(${whole/$'\\t'/:})\n"
	"\t_describe fp8conv whole -- open -S ''\n"
	"}\n"
	"_fp8conv \"$@\"\n";

static const char fish[] =
	"function __fp8conv_words\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l current (commandline -ct)\n"
	"\tset -l lines ($words[1] completion words $words[2..-1] \"$current\" 2>/dev/null)\n"
	"\tif string match -q ':*' -- \"$lines[1]\"\n"
	"\t\tset -l parts (string match -r '^(--[^=]*=|)(.*)$' -- \"$current\")\n"
	"\t\tset -l end (string escape --style=regex -- (string sub -s 2 -- \"$lines[1]\"))\n"
	"\t\tfor path in (__fish_complete_path \"$parts[3]\")\n"
	"\t\t\tstring match -qr -- \"(/|$end)(\\t|\\$)\" \"$path\"\n"
	"\t\t\tand echo \"$parts[2]$path\"\n"
	"\t\tend\n"
	"\telse\n"
	"\t\tprintf '%s\\n' $lines\n"
	"\tend\n"
	"end\n"
	"complete -c fp8conv -f -a '(__fp8conv_words)'\n";

static int read_shell(const struct option_row *option, const char *value, void *place,
		      struct err *err)
{
	if (option_choice(option, value, place, err))
		return err_set(err, ERR_USAGE, "shell '%s' is not one of %s", value, option->arg);
	return 0;
}

static int run(void *settings, struct err *err)
{
	static const char *const scripts[] = { bash, zsh, fish };
	const int *shell = settings;

	(void)err;
	fputs(scripts[*shell], program.out);
	return 0;
}

const struct command command_completion = {
	.name = "completion",
	.args = SHELLS,
	.summary = "Print the completions of a shell",
	.argument = { SECTION_NONE, "SHELL", 0, SHELLS, NULL, read_shell, 0 },
	.settings_size = sizeof(int),
	.answer = answer,
	.run = run,
};
