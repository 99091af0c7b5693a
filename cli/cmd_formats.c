/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv formats: the variants, and which engine loads which recipe in them.  The answers come
 * from the rows that quantize uses, so they cannot differ from its behavior.
 */
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/print/json.h"
#include "cli/print/table.h"
#include "cli/program.h"
#include "format/format.h"
#include "recipe/recipe.h"

static struct scheme scheme_of(const struct recipe *recipe)
{
	return scheme_from_qspec(&recipe->weight, recipe->needs_history);
}

static bool loads(const struct format *format, const struct recipe *recipe, enum engine engine)
{
	struct scheme scheme = scheme_of(recipe);
	struct err err = { 0 };

	return engine_check(engine, format, &scheme, recipe->name, &err) == 0;
}

/* Does the engine load it only in models without experts? */
static bool loads_dense(const struct format *format, const struct recipe *recipe,
			enum engine engine)
{
	struct scheme scheme = scheme_of(recipe);

	return loads(format, recipe, engine) && engine_refuses_experts(engine, format, &scheme);
}

static void engines_json(struct json_out *out, const char *key,
			 bool (*which)(const struct format *, const struct recipe *, enum engine),
			 const struct format *format, const struct recipe *recipe)
{
	json_out_open(out, key, '[');
	for (int e = ENGINE_ANY + 1; e < N_ENGINES; e++)
		if (which(format, recipe, (enum engine)e))
			json_out_text(out, NULL, engine_name((enum engine)e));
	json_out_close(out, ']');
}

static void recipe_json(struct json_out *out, const struct format *format,
			const struct recipe *recipe)
{
	json_out_open(out, NULL, '{');
	json_out_text(out, "recipe", recipe->name);
	engines_json(out, "engines", loads, format, recipe);
	engines_json(out, "dense_only", loads_dense, format, recipe);
	json_out_close(out, '}');
}

static void print_json(void)
{
	struct json_out out = json_out_begin(program.out);

	json_out_open(&out, "formats", '[');
	for (size_t f = 0; formats[f]; f++) {
		if (!formats[f]->configure)
			continue;
		json_out_open(&out, NULL, '{');
		json_out_text(&out, "name", formats[f]->name);
		json_out_text(&out, "summary", formats[f]->summary);
		json_out_open(&out, "recipes", '[');
		for (size_t r = 0; recipes[r]; r++)
			if (loads(formats[f], recipes[r], ENGINE_ANY))
				recipe_json(&out, formats[f], recipes[r]);
		json_out_close(&out, ']');
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
}

static void engines_cell(struct table *table, const struct format *format,
			 const struct recipe *recipe)
{
	struct buf engines = { 0 };

	for (int e = ENGINE_ANY + 1; e < N_ENGINES; e++)
		if (loads(format, recipe, (enum engine)e))
			buf_printf(&engines, "%s%s%s", engines.len ? " " : "",
				   engine_name((enum engine)e),
				   loads_dense(format, recipe, (enum engine)e) ? "(dense)" : "");
	table_cell(table, engines.len ? engines.data : "");
	buf_release(&engines);
}

static void print_table(void)
{
	struct table table = { .columns = "lll" };

	for (size_t f = 0; formats[f]; f++) {
		for (size_t r = 0; recipes[r]; r++) {
			if (!loads(formats[f], recipes[r], ENGINE_ANY))
				continue;
			table_cell(&table, formats[f]->name);
			table_cell(&table, recipes[r]->name);
			engines_cell(&table, formats[f], recipes[r]);
		}
	}
	table_print(&table, program.out, program_on_terminal(STDOUT_FILENO));
}

const struct command command_formats = {
	.name = "formats",
	.args = "",
	.summary = "List the formats, the recipes that each can express and the engines "
		   "that load them",
	.group = GROUP_INFORMATION,
	.options = facts_options,
	.settings_size = sizeof(bool),
	.print_text = print_table,
	.print_json = print_json,
	.run = facts_run,
};
