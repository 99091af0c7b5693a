/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/families.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/print/json.h"
#include "cli/print/table.h"
#include "cli/print/wrap.h"
#include "cli/program.h"
#include "recipe/recipe.h"

#define PATTERN_COLUMN 13

static const char *rule_word(const struct profile_row *row)
{
	return row->vendor ? "vendor" : "engine";
}

/* --- conditions --- */

/* The names of one group of conditions: recipes, formats or engines. */
struct condition_names {
	const char *list[8];
	size_t n;
};

static void names_add(struct condition_names *names, const char *name)
{
	names->list[names->n++] = name;
}

static struct condition_names recipe_names(unsigned on)
{
	struct condition_names names = { 0 };

	for (size_t i = 0; recipes[i]; i++)
		if (on & profile_on_granularity(qspec_granularity(&recipes[i]->weight)))
			names_add(&names, recipes[i]->name);
	return names;
}

static struct condition_names format_names(unsigned on)
{
	struct condition_names names = { 0 };

	for (size_t i = 0; formats[i]; i++)
		if (formats[i]->configure && on & profile_on_format(formats[i]))
			names_add(&names, formats[i]->name);
	return names;
}

static struct condition_names engine_names(unsigned on)
{
	struct condition_names names = { 0 };

	for (int i = ENGINE_ANY + 1; i < N_ENGINES; i++)
		if (on & profile_on_engine((enum engine)i))
			names_add(&names, engine_name((enum engine)i));
	return names;
}

/* Adds "by current or delayed", after a blank where text precedes it. */
static void put_names(struct buf *text, const char *before, struct condition_names names)
{
	if (names.n && text->len)
		buf_putc(text, ' ');
	for (size_t i = 0; i < names.n; i++)
		buf_printf(text, "%s%s", i ? " or " : before, names.list[i]);
}

static void put_conditions(struct buf *text, const struct profile_row *row)
{
	put_names(text, "by ", recipe_names(row->on));
	put_names(text, "in ", format_names(row->on));
	put_names(text, "for ", engine_names(row->on));
}

/* --- JSON --- */

static void names_json(struct json_out *out, const char *key, struct condition_names names)
{
	if (!names.n) {
		json_out_null(out, key);
		return;
	}
	json_out_open(out, key, '[');
	for (size_t i = 0; i < names.n; i++)
		json_out_text(out, NULL, names.list[i]);
	json_out_close(out, ']');
}

static void family_json(struct json_out *out, const struct family *family)
{
	json_out_open(out, NULL, '{');
	json_out_text(out, "name", family->name);
	json_out_text(out, "convert", family->has_rows ? "rows" : "general");
	names_json(out, "refused_by", engine_names(family->refusing));
	json_out_text(out, "calibrate", family->arch ? "text" : "torch");
	json_out_bool(out, "eval", family->arch != NULL);
	json_out_text(out, "architecture", family->arch ? family->arch->name : NULL);
	json_out_close(out, '}');
}

static void row_families_json(struct json_out *out, const struct profile_row *row)
{
	struct buf family = { 0 };

	json_out_open(out, "families", '[');
	for (const char *word = row->families; *word; word += strspn(word, " ")) {
		size_t n = strcspn(word, " ");

		family.len = 0;
		buf_printf(&family, "%.*s", (int)n, word);
		json_out_text(out, NULL, family.data);
		word += n;
	}
	json_out_close(out, ']');
	buf_release(&family);
}

void families_print_json(const struct families *families)
{
	const struct profile *profile = &families->profile;
	struct json_out out = json_out_begin(program.out);

	json_out_open(&out, "families", '[');
	for (size_t i = 0; i < families->n; i++)
		family_json(&out, &families->list[i]);
	json_out_close(&out, ']');
	json_out_open(&out, "rows", '[');
	for (size_t i = 0; i < profile->n; i++) {
		const struct profile_row *row = profile->rows[i];

		json_out_open(&out, NULL, '{');
		row_families_json(&out, row);
		json_out_text(&out, "pattern", row->pattern);
		json_out_text(&out, "action", profile_actions[row->action].word);
		json_out_text(&out, "rule", rule_word(row));
		names_json(&out, "recipes", recipe_names(row->on));
		names_json(&out, "formats", format_names(row->on));
		names_json(&out, "engines", engine_names(row->on));
		json_out_text(&out, "said", row->said);
		json_out_text(&out, "source", row->source);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
}

/* --- text --- */

static void print_families(const struct families *families, bool aligned)
{
	struct table table = { .columns = "llll" };
	struct buf convert = { 0 };

	for (size_t i = 0; i < families->n; i++) {
		const struct family *family = &families->list[i];

		convert.len = 0;
		buf_puts(&convert, "convert");
		if (family->refusing)
			put_names(&convert, "not for ", engine_names(family->refusing));
		else if (family->has_rows)
			buf_puts(&convert, " by own rules");
		table_cell(&table, family->name);
		table_cell(&table, convert.data);
		table_cell(&table, family->arch ? "calibrate" : "calibrate in torch");
		table_cell(&table, family->arch ? "eval" : "-");
	}
	table_print(&table, program.out, aligned);
	buf_release(&convert);
}

/* Prints a row below the line of its families. */
static void print_row(const struct profile_row *row, size_t width)
{
	struct buf text = { 0 }, source = { 0 };

	put_conditions(&text, row);
	fprintf(program.out, "  %-*s", PATTERN_COLUMN - 2, profile_actions[row->action].word);
	buf_printf(&source, "%s%s%s", row->pattern, text.len ? ", " : "",
		   text.len ? text.data : "");
	wrap_print(source.data, PATTERN_COLUMN, PATTERN_COLUMN, width);
	source.len = 0;
	buf_printf(&source, "%s: %s", rule_word(row), row->source);
	wrap_print_source(row->said ? row->said : profile_actions[row->action].phrase, source.data,
			  PATTERN_COLUMN, width);
	buf_release(&text);
	buf_release(&source);
}

static void print_prose(const struct profile *profile)
{
	size_t width = wrap_width(STDOUT_FILENO);

	for (size_t i = 0; i < profile->n; i++) {
		const struct profile_row *row = profile->rows[i];

		if (!i || strcmp(row->families, profile->rows[i - 1]->families) != 0) {
			fputs(i ? "\n" : "", program.out);
			wrap_print(row->families, 0, 2, width);
		}
		print_row(row, width);
	}
}

static void print_lines(const struct profile *profile)
{
	struct table table = { .columns = "lllllll" };
	struct buf conditions = { 0 };

	for (size_t i = 0; i < profile->n; i++) {
		const struct profile_row *row = profile->rows[i];

		conditions.len = 0;
		buf_puts(&conditions, "");
		put_conditions(&conditions, row);
		table_cell(&table, row->families);
		table_cell(&table, row->pattern);
		table_cell(&table, profile_actions[row->action].word);
		table_cell(&table, rule_word(row));
		table_cell(&table, conditions.data);
		table_cell(&table, row->said ? row->said : "");
		table_cell(&table, row->source);
	}
	table_print(&table, program.out, false);
	buf_release(&conditions);
}

void families_print_text(const struct families *families)
{
	bool terminal = program_on_terminal(STDOUT_FILENO);

	print_families(families, terminal);
	if (families->profile.n)
		fputc('\n', program.out);
	if (terminal && families->n > 1) {
		fputs("'fp8conv families FAMILY' lists the rules of one.\n", program.out);
		return;
	}
	(terminal ? print_prose : print_lines)(&families->profile);
}
