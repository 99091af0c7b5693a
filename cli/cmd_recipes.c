/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv recipes: the numeric recipes to choose from.
 */
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/print/json.h"
#include "cli/print/table.h"
#include "cli/print/wrap.h"
#include "cli/program.h"
#include "recipe/recipe.h"

#define SUMMARY_COLUMN 13

static void print_json(void)
{
	struct json_out out = json_out_begin(program.out);

	json_out_open(&out, "recipes", '[');
	for (size_t i = 0; recipes[i]; i++) {
		json_out_open(&out, NULL, '{');
		json_out_text(&out, "name", recipes[i]->name);
		json_out_text(&out, "summary", recipes[i]->summary);
		json_out_text(&out, "origin", recipes[i]->origin);
		json_out_bool(&out, "needs_history", recipes[i]->needs_history);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
}

/* Prints text for people, within the terminal's width. */
static void print_prose(void)
{
	size_t width = wrap_width(STDOUT_FILENO);

	for (size_t i = 0; recipes[i]; i++) {
		fprintf(program.out, "%-*s", SUMMARY_COLUMN, recipes[i]->name);
		wrap_print(recipes[i]->summary, SUMMARY_COLUMN, SUMMARY_COLUMN, width);
		if (recipes[i]->origin)
			fprintf(program.out, "%*s%s\n", SUMMARY_COLUMN, "", recipes[i]->origin);
	}
}

static void print_table(void)
{
	struct table table = { .columns = "lll" };

	if (program_on_terminal(STDOUT_FILENO)) {
		print_prose();
		return;
	}
	for (size_t i = 0; recipes[i]; i++) {
		table_cell(&table, recipes[i]->name);
		table_cell(&table, recipes[i]->summary);
		table_cell(&table, recipes[i]->origin ? recipes[i]->origin : "");
	}
	table_print(&table, program.out, false);
}

const struct command command_recipes = {
	.name = "recipes",
	.args = "",
	.summary = "List the recipes",
	.group = GROUP_INFORMATION,
	.options = facts_options,
	.settings_size = sizeof(bool),
	.print_text = print_table,
	.print_json = print_json,
	.run = facts_run,
};
