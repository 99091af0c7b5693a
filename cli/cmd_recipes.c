/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv recipes: what numbers there are to choose from.
 */
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/print/json.h"
#include "cli/print/table.h"
#include "recipe/recipe.h"

static void print_json(void)
{
	struct json_out out = { .stream = stdout };

	json_out_open(&out, NULL, '{');
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

static void print_table(void)
{
	struct table table = { .columns = "lll" };

	for (size_t i = 0; recipes[i]; i++) {
		table_cell(&table, recipes[i]->name);
		table_cell(&table, recipes[i]->summary);
		table_cell(&table, recipes[i]->origin ? recipes[i]->origin : "");
	}
	table_print(&table, stdout, isatty(STDOUT_FILENO));
	table_release(&table);
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	return facts_run(command, argc, argv, print_table, print_json, err);
}

const struct command command_recipes = {
	.name = "recipes",
	.args = "",
	.summary = "List the recipes: what decides the numbers",
	.group = GROUP_ABOUT,
	.options = facts_options,
	.run = run,
};
