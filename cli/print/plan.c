/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/print/low_bit.h"
#include "cli/print/table.h"
#include "cli/print/units.h"
#include "cli/print/wrap.h"
#include "cli/program.h"
#include "cli/print/message.h"

bool plan_quantizes(const struct plan *plan)
{
	return plan->conversion == CONVERT_QUANTIZE;
}

const char *plan_done(const struct plan *plan)
{
	if (plan_quantizes(plan))
		return "quantized";
	return plan->dtype ? "dequantized" : "repacked";
}

/* Returns the value of --profile that holds; NULL for a source without config.json, of which no
 * family is known. */
static const char *plan_profile_word(const struct plan *plan)
{
	static const char *const words[] = {
		[PROFILE_VENDOR] = "vendor", [PROFILE_ENGINE] = "engine", [PROFILE_NONE] = "none"
	};

	return plan->source.config.len ? words[plan->profile.level] : NULL;
}

void plan_head_json(struct json_out *out, const struct plan *plan)
{
	if (plan->dtype) {
		json_out_text(out, "dtype", plan->dtype);
		return;
	}
	json_out_text(out, "recipe", plan->recipe->name);
	json_out_text(out, "format", plan->format->name);
}

void notes_print(const struct notes *notes, bool on_kernels)
{
	for (size_t i = 0; i < notes->n; i++)
		if (on_kernels || notes->list[i].kind != NOTE_SMALL_WEIGHTS)
			message_note("%s", notes->list[i].message);
}

void notes_json(struct json_out *out, const struct notes *notes)
{
	json_out_open(out, "notes", '[');
	for (size_t i = 0; i < notes->n; i++) {
		json_out_open(out, NULL, '{');
		json_out_text(out, "kind", note_kind_name(notes->list[i].kind));
		json_out_text(out, "tensor", notes->list[i].tensor);
		json_out_text(out, "message", notes->list[i].message);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

/* Is the unit one expert's part of a fused tensor, with its own name and shape? */
static bool unit_is_slice(const struct unit *unit)
{
	return unit->rows && strcmp(unit->name, unit->source->tensor->name) != 0;
}

static int unit_dims(const struct unit *unit)
{
	if (unit_is_slice(unit))
		return unit->part ? 1 : 2;
	return unit->source->tensor->n_dims;
}

/* Returns the first of the unit's outputs; *n becomes their number. */
static const struct st_tensor *unit_tensors(const struct plan *plan, size_t u, size_t *n)
{
	const struct output_shard *shard = &plan->shards[plan->units[u].shard];
	size_t first = plan->units[u].first_output;

	for (*n = 0; first + *n < shard->n_tensors && shard->outputs[first + *n].unit == u;)
		++*n;
	return shard->tensors + first;
}

/* Returns the source bytes of the unit. */
static uint64_t unit_input_size(const struct unit *unit)
{
	if (unit_is_slice(unit))
		return unit->rows * unit->cols * dtype_bits(unit->source->tensor->dtype) / 8;
	return st_tensor_size(unit->source->tensor);
}

static uint64_t unit_output_size(const struct plan *plan, size_t u)
{
	uint64_t size = 0;
	size_t n;
	const struct st_tensor *outputs = unit_tensors(plan, u, &n);

	for (size_t i = 0; i < n; i++)
		size += st_tensor_size(&outputs[i]);
	return size;
}

/* The facts of a unit in a line, without its name. */
struct facts {
	enum dtype dtype;
	int n_dims;
	const uint64_t *shape;
	uint64_t slice[2];
	uint64_t input, output; /* bytes */
	const char *what, *reason, *rule_source;
	const char *taken; /* why what is not that of the job; or NULL */
};

static void unit_facts(const struct plan *plan, size_t u, struct facts *facts)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct st_tensor *tensor = unit->source->tensor;

	*facts = (struct facts){ .dtype = tensor->dtype,
				 .n_dims = tensor->n_dims,
				 .shape = tensor->shape,
				 .slice = { unit->rows, unit->cols },
				 .input = unit_input_size(unit),
				 .output = unit_output_size(plan, u),
				 .rule_source = unit->rule_source };
	if (unit_is_slice(unit)) {
		facts->n_dims = unit_dims(unit);
		facts->shape = facts->slice;
	}
	if (unit->recipe && !plan->dtype) {
		facts->what = unit->recipe->name;
		facts->taken = unit->reason;
	} else if (unit->reason) {
		facts->reason = unit->reason;
	} else {
		facts->what = plan->dtype;
	}
}

static bool same_facts(const struct facts *a, const struct facts *b)
{
	return a->dtype == b->dtype && a->n_dims == b->n_dims && a->input == b->input &&
	       a->output == b->output && a->what == b->what && a->reason == b->reason &&
	       !a->taken == !b->taken && a->rule_source == b->rule_source &&
	       (!a->n_dims || !memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape));
}

#define REASON_MAX    27 /* "kept: state-space parameter" */
#define REASON_COLUMN 4	 /* of a longer one, which stands below its line */

/* The plan's table, one line at a time.  Lines that differ only in the name are made once: a plan
 * may have a million. */
struct plan_lines {
	struct table table;
	struct facts facts[2]; /* of this line and the last one, in turn */
	struct buf text;       /* for cells of several parts; at last the recipe or reason */
	const char *source;    /* of the rule that keeps it; or NULL */
	bool terminal;	       /* lines have to fit one */
	bool below;	       /* the reason stands below the line */
};

static void reason_make(struct plan_lines *lines, const struct facts *facts)
{
	struct buf *text = &lines->text;
	size_t n;

	lines->source = facts->reason ? facts->rule_source : NULL;
	text->len = 0;
	buf_puts(text, facts->reason ? "kept: " : "");
	buf_puts(text, facts->reason ? facts->reason : facts->what);
	if (facts->taken)
		buf_printf(text, ": %s", facts->taken);
	n = text->len;
	if (lines->source)
		buf_printf(text, " [%s]", lines->source);
	lines->below = lines->terminal && text->len > REASON_MAX;
	table_cell(&lines->table, lines->below ? "" : text->data);
	if (!lines->below)
		return;
	text->data[n] = '\0';
	text_sanitize(text->data);
}

static void line_make(struct plan_lines *lines, const struct plan *plan, size_t u)
{
	const char *name = plan->selection.units[u].name;
	struct table *table = &lines->table;
	struct facts *facts = &lines->facts[u % 2];

	unit_facts(plan, u, facts);
	if (u && same_facts(facts, &lines->facts[(u - 1) % 2])) {
		table_rename(table, name);
		return;
	}
	table_clear(table);
	table_cell(table, name);
	table_cell(table, dtype_name(facts->dtype));
	lines->text.len = 0;
	st_shape_format(&lines->text, facts->shape, facts->n_dims);
	table_cell(table, lines->text.data);
	table_cell_size(table, facts->input);
	table_cell_size(table, facts->output);
	reason_make(lines, facts);
}

static void print_size(const char *what, uint64_t bytes)
{
	struct buf text = { 0 };

	units_size(&text, bytes);
	fprintf(program.out, "%-9s %s (%llu bytes)\n", what, text.data, (unsigned long long)bytes);
	buf_release(&text);
}

static void print_rounding(const struct plan *plan)
{
	const struct compensate_plan *rounding = plan->rounding ? &plan->rounding->plan : NULL;
	struct buf text = { 0 };

	if (!rounding)
		return;
	units_size(&text, rounding->store_bytes);
	fprintf(program.out,
		"rounding  compensated, by %zu sequences (%" PRIu64 " tokens), %zu held out\n",
		rounding->data.n, rounding->n_tokens, rounding->n_held_out);
	fprintf(program.out, "          %s more on disk until the shards are written\n", text.data);
	if (rounding->n_outside)
		fprintf(program.out,
			"          to nearest: %zu tensors outside of the forward pass\n",
			rounding->n_outside);
	buf_release(&text);
}

static void print_totals(const struct plan *plan, const char *since)
{
	struct buf text = { 0 };

	fprintf(program.out, "tensors   %zu: %zu %s, %zu kept\n",
		plan->totals.n_converted + plan->totals.n_kept, plan->totals.n_converted,
		plan_done(plan), plan->totals.n_kept);
	print_size("input", plan->totals.input_bytes);
	print_size(since ? "result" : "output", plan->totals.output_bytes);
	if (plan->max_shard_size)
		fprintf(program.out, "files     %zu\n", plan->n_shards);
	if (!since)
		print_size("disk", plan->totals.disk_bytes);
	print_rounding(plan);
	units_memory(&text, plan->totals.memory_bytes);
	fprintf(program.out, "memory    %s for buffers\n", text.data);
	text.len = 0;
	for (size_t i = 0; i < plan->selection.n_tp; i++)
		buf_printf(&text, " %d", plan->selection.tp[i]);
	if (plan_quantizes(plan))
		fprintf(program.out, "tp       %s\n", text.len ? text.data : " no size loads");
	buf_release(&text);
}

static void lines_print(const struct plan_lines *lines, size_t width)
{
	table_print_rows(&lines->table, program.out, true);
	if (!lines->below)
		return;
	if (lines->source) {
		wrap_print_source(lines->text.data, lines->source, REASON_COLUMN, width);
		return;
	}
	fprintf(program.out, "%*s", REASON_COLUMN, "");
	wrap_print(lines->text.data, REASON_COLUMN, REASON_COLUMN, width);
}

/* Prints first what changes the choice of a recipe: the note that most is kept. */
static void print_first(const struct notes *notes, size_t width)
{
	if (!notes->n || notes->list[0].kind != NOTE_MOSTLY_KEPT)
		return;
	fprintf(program.out, "note      ");
	wrap_print(notes->list[0].message, 10, 10, width);
}

void plan_print_text(const struct plan *plan, const struct convert_params *params,
		     const char *since)
{
	/* Columns that are left out, one after the other, so that lines fit a terminal. */
	static const char *const choices[] = { "xxxxxx", "xxx-xx", "x-x-xx", "x---xx", NULL };
	struct plan_lines lines = { .table.columns = "lllrrl",
				    .terminal = program_on_terminal(STDOUT_FILENO) };
	size_t width = wrap_columns(STDOUT_FILENO);
	struct buf path = { 0 };

	for (size_t u = 0; u < plan->selection.n_units; u++)
		line_make(&lines, plan, u);
	if (lines.terminal)
		table_fit(&lines.table, choices, width);
	buf_puts(&path, params->input);
	if (params->output)
		buf_printf(&path, " to %s", params->output);
	if (since)
		buf_printf(&path, ", what changed since %s", since);
	text_sanitize(path.data);
	print_first(&plan->selection.notes, lines.terminal ? width : SIZE_MAX);
	if (plan->dtype)
		fprintf(program.out, "dtype     %s\n", plan->dtype);
	else
		fprintf(program.out, "recipe    %s\nformat    %s\n", plan->recipe->name,
			plan->format->name);
	fprintf(program.out, "from      %s\n\n", path.data);
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		line_make(&lines, plan, u);
		lines_print(&lines, width);
	}
	fputc('\n', program.out);
	print_totals(plan, since);
	buf_release(&path);
	buf_release(&lines.text);
	buf_release(&lines.table.cells);
}

static const char *const rule_words[] = { [RULE_GENERAL] = "general",
					  [RULE_USER] = "user",
					  [RULE_VENDOR] = "vendor",
					  [RULE_ENGINE] = "engine",
					  [RULE_SHAPE] = "shape" };

static void unit_json(struct json_out *out, const struct plan *plan, size_t u)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct st_tensor *tensor = unit->source->tensor;
	const uint64_t slice[] = { unit->rows, unit->cols };
	bool is_slice = unit_is_slice(unit);
	size_t n;
	const struct st_tensor *outputs = unit_tensors(plan, u, &n);

	json_out_open(out, NULL, '{');
	json_out_text(out, "name", unit->name);
	json_out_text(out, "file", plan->source.shards[unit->source->shard].name);
	json_out_text(out, "dtype", dtype_name(tensor->dtype));
	json_out_counts(out, "shape", is_slice ? slice : tensor->shape, (size_t)unit_dims(unit));
	json_out_text(out, "action", unit->reason && !unit->recipe ? "keep" : plan_command(plan));
	json_out_text(out, "recipe", unit->recipe ? unit->recipe->name : NULL);
	json_out_text(out, "reason", unit->reason);
	if (plan_quantizes(plan)) {
		json_out_text(out, "rule", rule_words[unit->rule]);
		json_out_text(out, "source", unit->rule_source);
	}
	json_out_open(out, "outputs", '[');
	for (size_t i = 0; i < n; i++) {
		const struct st_tensor *output = &outputs[i];

		json_out_open(out, NULL, '{');
		json_out_text(out, "name", output->name);
		json_out_text(out, "dtype", dtype_name(output->dtype));
		json_out_counts(out, "shape", output->shape, (size_t)output->n_dims);
		json_out_count(out, "bytes", st_tensor_size(output));
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
	json_out_close(out, '}');
}

static void totals_json(struct json_out *out, const struct plan *plan)
{
	json_out_open(out, "totals", '{');
	json_out_count(out, "tensors", plan->totals.n_converted + plan->totals.n_kept);
	json_out_count(out, plan_done(plan), plan->totals.n_converted);
	json_out_count(out, "kept", plan->totals.n_kept);
	json_out_count(out, "input_bytes", plan->totals.input_bytes);
	json_out_count(out, "output_bytes", plan->totals.output_bytes);
	json_out_count(out, "disk_bytes", plan->totals.disk_bytes);
	json_out_count(out, "memory_bytes", plan->totals.memory_bytes);
	json_out_close(out, '}');
}

static void rounding_json(struct json_out *out, const struct plan *plan)
{
	const struct compensate_plan *rounding = plan->rounding ? &plan->rounding->plan : NULL;

	if (!rounding)
		return;
	json_out_open(out, "rounding", '{');
	json_out_count(out, "sequences", rounding->data.n);
	json_out_count(out, "tokens", rounding->n_tokens);
	json_out_count(out, "held_out_sequences", rounding->n_held_out);
	json_out_text(out, "data_sha256", rounding->data_sha256);
	json_out_count(out, "tensors", rounding->n_units);
	json_out_count(out, "outside", rounding->n_outside);
	json_out_count(out, "store_bytes", rounding->store_bytes);
	json_out_close(out, '}');
}

static void low_bit_json(struct json_out *out, const struct plan *plan)
{
	struct low_bit_totals totals = low_bit_total(plan);

	low_bit_print_json(out,
			   &(struct low_bit_shown){ .kind = totals.kind, .tensors = totals.n });
}

void plan_print_json(const struct plan *plan, const struct convert_params *params)
{
	struct json_out out = json_out_begin(program.out);

	plan_head_json(&out, plan);
	json_out_text(&out, "source", params->input);
	json_out_text(&out, "output", params->output);
	json_out_open(&out, "tensors", '[');
	for (size_t u = 0; u < plan->selection.n_units; u++)
		unit_json(&out, plan, u);
	json_out_close(&out, ']');
	totals_json(&out, plan);
	if (plan_quantizes(plan)) {
		json_out_text(&out, "profile", plan_profile_word(plan));
		low_bit_json(&out, plan);
		rounding_json(&out, plan);
		json_out_open(&out, "tp", '[');
		for (size_t i = 0; i < plan->selection.n_tp; i++)
			json_out_count(&out, NULL, (uint64_t)plan->selection.tp[i]);
		json_out_close(&out, ']');
	}
	if (!plan->dtype) {
		json_out_open(&out, "skip_list", '[');
		for (size_t i = 0; i < plan->skipped.n; i++)
			json_out_text(&out, NULL, plan->skipped.names[i]);
		json_out_close(&out, ']');
	}
	notes_json(&out, &plan->selection.notes);
	json_out_end(&out);
}
