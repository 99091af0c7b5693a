/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv completion bash|zsh|fish: completions from the tables that parse.  `make install` puts
 * them in place, so the command is not listed.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/command.h"
#include "cli/options/values.h"
#include "format/format.h"
#include "recipe/recipe.h"

#define SHELLS "bash|zsh|fish"

/* The values of an option, with a blank behind each; nothing where any text may stand. */
static void option_values(const struct option_row *option, struct buf *values)
{
	const char *arg = option->arg ? option->arg : "";

	values->len = 0;
	buf_puts(values, "");
	if (!strcmp(arg, "RECIPE"))
		for (size_t i = 0; recipes[i]; i++)
			buf_printf(values, "%s ", recipes[i]->name);
	else if (!strcmp(arg, "FORMAT"))
		for (size_t i = 0; formats[i]; i++)
			buf_printf(values, "%s ", formats[i]->name);
	else if (strchr(arg, '|'))
		for (const char *p = arg; *p; p += strspn(p, "|")) {
			buf_printf(values, "%.*s ", (int)strcspn(p, "|"), p);
			p += strcspn(p, "|");
		}
}

/* Text inside single quotes of a shell; zsh's _arguments also obeys ':' and brackets. */
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

static void bash_command(const struct command *command)
{
	const struct option_row *o = NULL;
	struct buf values = { 0 };

	printf("\t%s)\n\t\tcase $3 in\n", command->name);
	while ((o = command_option_next(command, o))) {
		option_values(o, &values);
		if (!o->arg)
			continue;
		printf("\t\t--%s) words='%s' ;;\n", o->name, values.data);
	}
	printf("\t\t*) [[ $2 == -* ]] && words='");
	while ((o = command_option_next(command, o)))
		printf("--%s ", o->name);
	printf("' ;;\n\t\tesac ;;\n");
	buf_release(&values);
}

static void bash_print(void)
{
	printf("_fp8conv() {\n\tlocal words=\n\tif [ \"$COMP_CWORD\" -eq 1 ]; "
	       "then\n\t\twords='help ");
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group)
			printf("%s ", commands[i]->name);
	printf("'\n\telse\n\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group)
			bash_command(commands[i]);
	printf("\tesac\n\tfi\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$2\")\n}\n"
	       "complete -o default -F _fp8conv fp8conv\n");
}

static void zsh_option(const struct option_row *option, struct buf *values)
{
	option_values(option, values);
	printf(" \\\n\t\t\t'--%s%s[", option->name, option->arg ? "=" : "");
	put_quoted(option->doc, true);
	putchar(']');
	if (option->arg && values->len)
		printf(":value:(%s)", values->data);
	else if (option->arg)
		printf(":value:_files");
	putchar('\'');
}

static void zsh_print(void)
{
	const struct option_row *o = NULL;
	struct buf values = { 0 };

	printf("#compdef fp8conv\n_fp8conv() {\n\tlocal -a commands=(\n");
	for (size_t i = 0; commands[i]; i++) {
		if (!commands[i]->group)
			continue;
		printf("\t\t'%s:", commands[i]->name);
		put_quoted(commands[i]->summary, true);
		printf("'\n");
	}
	printf("\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe command "
	       "commands\n\t\treturn\n\tfi\n"
	       "\tcase $words[2] in\n");
	for (size_t i = 0; commands[i]; i++) {
		if (!commands[i]->group)
			continue;
		printf("\t%s)\n\t\t_arguments", commands[i]->name);
		while ((o = command_option_next(commands[i], o)))
			zsh_option(o, &values);
		printf(" \\\n\t\t\t'*:file:_files' ;;\n");
	}
	printf("\tesac\n}\n_fp8conv \"$@\"\n");
	buf_release(&values);
}

static void fish_option(const struct command *command, const struct option_row *option,
			struct buf *values)
{
	option_values(option, values);
	printf("complete -c fp8conv -n '__fish_seen_subcommand_from %s' -l %s", command->name,
	       option->name);
	if (option->letter)
		printf(" -s %c", option->letter);
	if (option->arg && values->len)
		printf(" -x -a '%s'", values->data);
	else if (option->arg)
		printf(" -r");
	printf(" -d '");
	put_quoted(option->doc, false);
	printf("'\n");
}

static void fish_print(void)
{
	const struct option_row *o = NULL;
	struct buf values = { 0 };

	for (size_t i = 0; commands[i]; i++) {
		if (!commands[i]->group)
			continue;
		printf("complete -c fp8conv -f -n __fish_use_subcommand -a %s -d '",
		       commands[i]->name);
		put_quoted(commands[i]->summary, false);
		printf("'\n");
		while ((o = command_option_next(commands[i], o)))
			fish_option(commands[i], o, &values);
	}
	buf_release(&values);
}

static int read_shell(const struct option_row *option, const char *value, void *place,
		      struct err *err)
{
	if (opt_choice(option->name, value, option->arg, place, err))
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
