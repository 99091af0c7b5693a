/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints `fp8conv CMD --help`: the options under their headings, in the order of their tables.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/command.h"
#include "cli/print/path.h"
#include "cli/print/wrap.h"
#include "cli/program.h"

#define DOC_COLUMN   28
#define USAGE_INDENT 7

static const char *const headings[N_SECTIONS] = {
	[SECTION_OUTPUT] = "Output:",
	[SECTION_CHECKS] = "Checks:",
	[SECTION_DATA] = "Data:",
	[SECTION_NUMBERS] = "Numbers:",
	[SECTION_TENSORS] = "Tensors (RE is a PCRE2 pattern on the full name):",
	[SECTION_RUNNING] = "Running:",
	[SECTION_REPORTING] = "Reporting:",
};

/* Adds "  -f, --restart, --force". */
static void put_names(struct buf *text, const struct option_row *option,
		      const struct option_row *alias)
{
	char letter = option->letter;

	if (!letter && alias)
		letter = alias->letter;
	if (letter)
		buf_printf(text, "  -%c, ", letter);
	else
		buf_puts(text, "      ");
	buf_printf(text, "--%s", option->name);
	if (alias)
		buf_printf(text, ", --%s", alias->name);
	if (option->arg)
		buf_printf(text, "=%s", option->arg);
}

static void print_option(const struct option_row *option, const struct option_row *alias,
			 size_t width)
{
	struct buf names = { 0 };

	put_names(&names, option, alias);
	if (names.len + 2 > DOC_COLUMN)
		fprintf(program.out, "%s\n%*s", names.data, DOC_COLUMN, "");
	else
		fprintf(program.out, "%-*s", DOC_COLUMN, names.data);
	wrap_print(option->doc, DOC_COLUMN, DOC_COLUMN, width);
	buf_release(&names);
}

static void print_section(const struct command *command, int section, size_t width)
{
	const struct option_row *option = NULL;
	bool headed = false;

	while ((option = command_option_next(command, option))) {
		const struct option_row *next = command_option_next(command, option);

		if ((int)option->section != section)
			continue;
		if (!headed)
			fprintf(program.out, "\n%s%s", headings[section] ? headings[section] : "",
				headings[section] ? "\n" : "");
		headed = true;
		print_option(option, next && next->section == SECTION_ALIAS ? next : NULL, width);
	}
}

static void print_examples(const char *const *examples, size_t width)
{
	if (examples[0])
		fputs("\nExamples:\n", program.out);
	for (; *examples; examples++) {
		fputs("  ", program.out);
		path_print_command(program.out, *examples, 2, 6, width);
	}
}

void command_help(const struct command *command)
{
	size_t width = wrap_width(STDOUT_FILENO);
	struct buf usage = { 0 };

	buf_printf(&usage, "Usage: fp8conv %s [OPTION...]%s%s", command->name,
		   *command->args ? " " : "", command->args);
	wrap_print(usage.data, 0, USAGE_INDENT, width);
	wrap_print(command->summary, 0, 0, width);
	for (int section = 0; section < N_SECTIONS; section++)
		if (section != SECTION_ALIAS)
			print_section(command, section, width);
	buf_release(&usage);
	print_examples(command->examples, width);
}
