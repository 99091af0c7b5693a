/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/difference.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/print/json.h"
#include "cli/print/path.h"
#include "cli/print/table.h"
#include "cli/print/units.h"
#include "cli/print/wrap.h"
#include "cli/program.h"
#include "source/fp8_source.h"

#define MAX_ROWS    10
#define MANY	    10000 /* more are shown as a percentage */
#define VALUE_WIDTH 24	  /* of a value of config.json */

static const char *side_name(int s)
{
	return s ? "B" : "A";
}

/* Returns the tensor of the unit's scales, or NULL. */
static const struct st_tensor *scale_of(const struct unit *unit)
{
	return unit->source_scale.scale ? unit->source_scale.scale->tensor : NULL;
}

/* Ends a cell and empties the text. */
static void cell(struct table *table, struct buf *text)
{
	buf_putc(text, '\0');
	table_cell(table, text->data);
	text->len = 0;
}

/* Adds a number where it is known. */
static void share_cell(struct table *table, bool known, uint64_t n, uint64_t total)
{
	struct buf text = { 0 };

	if (known && n < MANY)
		buf_u64(&text, n);
	else if (known)
		buf_printf(&text, "%.1f %%", 100 * (double)n / (double)total);
	cell(table, &text);
	buf_release(&text);
}

/* Prints the columns that are marked, and how many rows there are more. */
static void print_table(struct table *table, const char *shown, size_t n_more)
{
	const char *const choices[] = { shown, NULL };

	table->shown = shown;
	if (program_on_terminal(STDOUT_FILENO))
		table_fit(table, choices, wrap_columns(STDOUT_FILENO));
	table_print(table, program.out, true);
	if (n_more)
		fprintf(program.out, "... and %zu more: --all\n", n_more);
}

/* --- tensors --- */

static const char *const headings[N_DIFF_KINDS] = {
	[DIFF_ONLY_A] = "in A alone",
	[DIFF_ONLY_B] = "in B alone",
	[DIFF_SHAPE] = "with another shape",
	[DIFF_TYPE] = "with types that cannot be compared",
	[DIFF_VALUES] = "with other values, worst first",
	[DIFF_STORED] = "with the same values, stored otherwise",
};

/* Adds what one side is. */
static void put_unit(struct buf *text, const struct diff_tensor *tensor, int s)
{
	const struct st_tensor *source = tensor->units[s]->source->tensor;

	buf_puts(text, dtype_name(source->dtype));
	if (tensor->kind >= DIFF_TYPE)
		return;
	buf_putc(text, ' ');
	st_shape_format(text, source->shape, source->n_dims);
}

/* Adds in what equal values of one type differ. */
static void put_stored(struct buf *text, const struct diff_tensor *tensor)
{
	const struct st_tensor *a = scale_of(tensor->units[0]), *b = scale_of(tensor->units[1]);

	for (int s = 0; s < 2; s++)
		if (strcmp(tensor->name, tensor->units[s]->source->tensor->name) != 0)
			buf_printf(text, "in one tensor with others in %s", side_name(s));
	if (text->len)
		return;
	if (tensor->found.n_codes || tensor->scales_off || !a || !b)
		buf_puts(text, "other codes");
	else if (a->dtype != b->dtype)
		buf_printf(text, "scale %s -> %s", dtype_name(a->dtype), dtype_name(b->dtype));
	else
		buf_printf(text, "%s -> %s", text_after(a->name, '.'), text_after(b->name, '.'));
}

/* Adds "BF16 -> F8_E4M3", or the one type of both. */
static void put_types(struct buf *text, const struct diff_tensor *tensor)
{
	struct unit *const *units = tensor->units;
	bool same = units[0] && units[1] && diff_type(units[0]) == diff_type(units[1]);

	if (same && tensor->kind == DIFF_STORED) {
		put_stored(text, tensor);
		return;
	}
	for (int s = 0; s < 2; s++) {
		if (!units[s] || (s && same && tensor->kind != DIFF_SHAPE))
			continue;
		buf_puts(text, s && units[0] ? " -> " : "");
		put_unit(text, tensor, s);
	}
}

/* Adds SQNR, values, codes, steps, scales, NaN and inf. */
static void value_cells(struct table *table, const struct diff_tensor *tensor)
{
	const struct diff_counts *found = &tensor->found;
	uint64_t odd[2] = { found->n_nan[0] + found->n_inf[0], found->n_nan[1] + found->n_inf[1] };
	struct buf text = { 0 };

	if (!isnan(diff_sqnr(found)))
		buf_printf(&text, "%.2f dB", diff_sqnr(found));
	cell(table, &text);
	share_cell(table, tensor->has_values, found->n_values, tensor->n_elements);
	share_cell(table, tensor->has_codes, found->n_codes, tensor->n_elements);
	if (found->max_ulp)
		buf_u64(&text, found->max_ulp);
	cell(table, &text);
	share_cell(table, tensor->n_scales, tensor->scales_off, tensor->n_scales);
	if (odd[0] || odd[1])
		buf_printf(&text, "%" PRIu64 " -> %" PRIu64, odd[0], odd[1]);
	cell(table, &text);
	buf_release(&text);
}

static void add_rows(struct table *table, const struct diff_tensor *list, size_t n)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < n; i++) {
		table_cell(table, list[i].name);
		put_types(&text, &list[i]);
		cell(table, &text);
		if (list->kind == DIFF_VALUES)
			value_cells(table, &list[i]);
	}
	buf_release(&text);
}

/* Prints the n tensors of one kind, with which `list` begins. */
static void print_kind(const struct diff_tensor *list, size_t n, bool all)
{
	static const char *const titles[] = { "tensor", "type", "SQNR",	  "values",
					      "codes",	"ULP",	"scales", "NaN, inf" };
	enum { N_TITLES = sizeof titles / sizeof *titles };
	bool has_values = list->kind == DIFF_VALUES;
	size_t n_rows = all || n < MAX_ROWS ? n : MAX_ROWS;
	struct table table = { .columns = has_values ? "llrrrrrr" : "ll" };
	char shown[N_TITLES + 1] = "xx";

	fprintf(program.out, "\n%zu tensor%s %s\n", n, n == 1 ? "" : "s", headings[list->kind]);
	add_rows(&table, list, n_rows);
	/* Columns without a number have no title. */
	for (size_t i = 2; has_values && i < N_TITLES; i++)
		shown[i] = table.width[i] ? 'x' : '-';
	if (has_values) {
		fprintf(program.out, "%s\n",
			shown[4] == 'x' ? "values, codes, scales: how many differ; "
					  "ULP: most steps between two codes"
					: "values: how many differ");
		table_clear(&table);
		for (size_t i = 0; i < N_TITLES; i++)
			table_cell(&table, titles[i]);
		add_rows(&table, list, n_rows);
	}
	print_table(&table, shown, n - n_rows);
}

/* --- keys and files --- */

static void value_cell(struct table *table, const char *value)
{
	char text[VALUE_WIDTH + 4];

	snprintf(text, sizeof text, "%.*s%s", VALUE_WIDTH, value ? value : "missing",
		 value && strlen(value) > VALUE_WIDTH ? "..." : "");
	table_cell(table, text);
}

static void print_entries(const struct diff_entry *entries, size_t n, bool keys, bool all)
{
	size_t n_rows = all || n < MAX_ROWS ? n : MAX_ROWS;
	struct table table = { .columns = "lll" };

	if (!n)
		return;
	fprintf(program.out, "\n%zu %s%s%s differ%s\n", n, keys ? "key" : "other file",
		n == 1 ? "" : "s", keys ? " of config.json" : "", n == 1 ? "s" : "");
	table_cell(&table, "name");
	table_cell(&table, "A");
	table_cell(&table, "B");
	for (size_t i = 0; i < n_rows; i++) {
		table_cell(&table, entries[i].name);
		value_cell(&table, entries[i].values[0]);
		value_cell(&table, entries[i].values[1]);
	}
	print_table(&table, "xxx", n - n_rows);
}

/* Prints "A  PATH: 38 tensors, 1.84 MB, blockwise hf". */
static void print_side(const struct difference *difference, int s)
{
	const struct diff_side *side = &difference->sides[s];
	const char *recipe = fp8_source_recipe(&side->detection);
	struct buf text = { 0 };

	buf_printf(&text, "%s  %s: %zu tensor%s, ", side_name(s), side->checkpoint.path,
		   side->checkpoint.n_tensors, side->checkpoint.n_tensors == 1 ? "" : "s");
	units_size(&text, side->checkpoint.data_bytes);
	if (recipe && side->detection.known)
		buf_printf(&text, ", %s %s", recipe, side->detection.format);
	else if (recipe)
		buf_puts(&text, ", FP8");
	else if (side->low_bit.n)
		buf_printf(&text, ", %s", low_bit_kind(&side->low_bit));
	text_sanitize(text.data);
	fprintf(program.out, "%s\n", text.data);
	buf_release(&text);
}

void difference_print_text(const struct difference *difference, bool all)
{
	size_t n = 0;

	if (diff_is_none(difference))
		return;
	print_side(difference, 0);
	print_side(difference, 1);
	for (int kind = 0; kind < DIFF_NONE; kind++) {
		if (difference->n_of[kind])
			print_kind(difference->tensors + n, difference->n_of[kind], all);
		n += difference->n_of[kind];
	}
	print_entries(difference->keys, difference->n_keys, true, all);
	print_entries(difference->files, difference->n_files, false, all);
}

/* --- the verdict --- */

void difference_print_verdict(const struct difference *difference, const struct texts *renames)
{
	size_t n = difference->n_tensors - difference->n_of[DIFF_NONE];
	struct diff_counts all = { 0 };
	struct buf text = { 0 };

	for (size_t i = 0; i < n; i++) {
		all.signal += difference->tensors[i].found.signal;
		all.noise += difference->tensors[i].found.noise;
	}
	if (diff_is_none(difference))
		buf_printf(&text, "nothing differs: %zu tensors%s", difference->n_tensors,
			   difference->has_files ? ", config.json, other files" : "");
	else
		buf_printf(&text, "%zu of %zu tensors differ", n, difference->n_tensors);
	if (all.noise > 0)
		buf_printf(&text, ", SQNR %.2f dB over them all", diff_sqnr(&all));
	if (difference->n_keys || difference->n_files)
		buf_printf(&text, "; %zu key%s, %zu file%s", difference->n_keys,
			   difference->n_keys == 1 ? "" : "s", difference->n_files,
			   difference->n_files == 1 ? "" : "s");
	fprintf(program.err, "%s\n", text.data);
	buf_release(&text);
	if (n && difference->sides[1].detection.n_weights &&
	    !difference->sides[0].detection.n_weights)
		path_print_next_of(renames, "fp8conv verify ", difference->sides[1].checkpoint.path,
				   " --source ", difference->sides[0].checkpoint.path);
}

/* --- JSON --- */

static void side_json(struct json_out *out, const struct difference *difference, int s)
{
	const struct diff_side *side = &difference->sides[s];

	json_out_open(out, s ? "b" : "a", '{');
	json_out_text(out, "path", side->checkpoint.path);
	json_out_count(out, "tensors", side->checkpoint.n_tensors);
	json_out_count(out, "bytes", side->checkpoint.data_bytes);
	json_out_text(out, "recipe", fp8_source_recipe(&side->detection));
	json_out_text(out, "format", side->detection.format);
	json_out_text(out, "low_bit", side->low_bit.n ? low_bit_kind(&side->low_bit) : NULL);
	json_out_close(out, '}');
}

static void unit_json(struct json_out *out, const struct difference *difference,
		      const struct unit *unit, int s)
{
	const struct st_tensor *scale = unit ? scale_of(unit) : NULL;

	if (!json_out_object(out, s ? "b" : "a", unit))
		return;
	json_out_text(out, "file",
		      difference->sides[s].checkpoint.shards[unit->source->shard].name);
	json_out_text(out, "tensor",
		      (unit->low_bit ? unit->low_bit->packed : unit->source)->tensor->name);
	json_out_text(out, "dtype", dtype_name(diff_type(unit)));
	json_out_counts(out, "shape", unit->source->tensor->shape,
			(size_t)unit->source->tensor->n_dims);
	json_out_text(out, "scale", scale ? scale->name : NULL);
	json_out_text(out, "scale_dtype", scale ? dtype_name(scale->dtype) : NULL);
	json_out_close(out, '}');
}

/* Writes the count, or null where nothing was counted. */
static void count_json(struct json_out *out, const char *key, bool known, uint64_t n)
{
	if (known)
		json_out_count(out, key, n);
	else
		json_out_null(out, key);
}

static void tensor_json(struct json_out *out, const struct difference *difference,
			const struct diff_tensor *tensor)
{
	const struct diff_counts *found = &tensor->found;
	bool compared = tensor->kind >= DIFF_VALUES, values = compared && tensor->has_values;

	json_out_open(out, NULL, '{');
	json_out_text(out, "name", tensor->name);
	json_out_text(out, "kind", diff_kind_name(tensor->kind));
	unit_json(out, difference, tensor->units[0], 0);
	unit_json(out, difference, tensor->units[1], 1);
	count_json(out, "elements", compared, tensor->n_elements);
	count_json(out, "codes_differ", compared && tensor->has_codes, found->n_codes);
	count_json(out, "max_ulp", compared && tensor->has_codes && !tensor->units[0]->low_bit,
		   found->max_ulp);
	count_json(out, "scales", tensor->n_scales, tensor->n_scales);
	count_json(out, "scales_differ", tensor->n_scales, tensor->scales_off);
	count_json(out, "values_differ", values, found->n_values);
	json_out_real(out, "sqnr_db", values ? diff_sqnr(found) : NAN);
	json_out_float(out, "max_error", values ? (float)fmin(found->max_error, FLT_MAX) : NAN);
	json_out_counts(out, "nan", found->n_nan, 2);
	json_out_counts(out, "inf", found->n_inf, 2);
	json_out_close(out, '}');
}

static void entries_json(struct json_out *out, const char *key, const struct diff_entry *entries,
			 size_t n)
{
	json_out_open(out, key, '[');
	for (size_t i = 0; i < n; i++) {
		json_out_open(out, NULL, '{');
		json_out_text(out, "name", entries[i].name);
		json_out_text(out, "a", entries[i].values[0]);
		json_out_text(out, "b", entries[i].values[1]);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

void difference_print_json(const struct difference *difference)
{
	struct json_out out = json_out_begin(program.out);

	json_out_bool(&out, "equal", diff_is_none(difference));
	side_json(&out, difference, 0);
	side_json(&out, difference, 1);
	json_out_open(&out, "totals", '{');
	for (int kind = 0; kind < N_DIFF_KINDS; kind++)
		json_out_count(&out, diff_kind_name((enum diff_kind)kind), difference->n_of[kind]);
	json_out_close(&out, '}');
	json_out_open(&out, "tensors", '[');
	for (size_t i = 0; i < difference->n_tensors - difference->n_of[DIFF_NONE]; i++)
		tensor_json(&out, difference, &difference->tensors[i]);
	json_out_close(&out, ']');
	entries_json(&out, "config", difference->keys, difference->n_keys);
	entries_json(&out, "files", difference->files, difference->n_files);
	json_out_end(&out);
}
