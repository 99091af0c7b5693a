/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/difference.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/print/json.h"
#include "cli/print/path.h"
#include "cli/print/table.h"
#include "cli/print/units.h"
#include "cli/print/wrap.h"
#include "cli/program.h"

void delta_print_json(const struct delta_counts *counts, const char *output)
{
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "output", output);
	json_out_bool(&out, "already_applied", counts->already);
	json_out_text(&out, "base", counts->base);
	json_out_text(&out, "result", counts->result);
	json_out_count(&out, "tensors", counts->n_tensors);
	json_out_count(&out, "changed", counts->n_changed);
	json_out_count(&out, "elements", counts->n_elements);
	json_out_count(&out, "files", counts->n_files);
	json_out_count(&out, "removed", counts->n_removed);
	json_out_count(&out, "delta_bytes", counts->delta_bytes);
	json_out_count(&out, "result_bytes", counts->result_bytes);
	json_out_end(&out);
}

void delta_print_summary(const struct delta_counts *counts, const char *output)
{
	struct buf text = { 0 };
	double share = counts->result_bytes
			       ? 100 * (double)counts->delta_bytes / (double)counts->result_bytes
			       : 0;

	units_size(&text, counts->delta_bytes);
	buf_printf(&text, ", %.3g %% of ", share);
	units_size(&text, counts->result_bytes);
	fprintf(program.err, "changed    %zu of %zu tensors, %" PRIu64 " element%s, %zu file%s\n",
		counts->n_changed, counts->n_tensors, counts->n_elements,
		counts->n_elements == 1 ? "" : "s", counts->n_files,
		counts->n_files == 1 ? "" : "s");
	if (counts->n_removed)
		fprintf(program.err, "removed    %zu file%s\n", counts->n_removed,
			counts->n_removed == 1 ? "" : "s");
	fprintf(program.err, "delta      %s\n", text.data);
	path_print_output(output);
	buf_release(&text);
}

void delta_print_next(const char *base, const char *delta)
{
	path_print_next("fp8conv apply ", base, " ", delta, " -o ", "NEW");
}

/* --- what a file holds --- */

/* A tensor that changes. */
struct changed_tensor {
	const struct st_tensor *tensor;
	uint64_t n_elements, n_changed;
};

/* Takes the rows of the next tensor, from *row on; false: there is none. */
static bool changed_next(const struct delta_file *delta, size_t *row,
			 struct changed_tensor *changed)
{
	uint32_t number;

	if (*row == delta->n_rows)
		return false;
	number = delta->rows[*row].tensor;
	*changed = (struct changed_tensor){ .tensor = delta->tensors[number].tensor };
	changed->n_elements =
		st_tensor_size(changed->tensor) / chunk_element_size(changed->tensor->dtype);
	for (; *row < delta->n_rows && delta->rows[*row].tensor == number; ++*row)
		changed->n_changed += delta->rows[*row].count;
	return true;
}

static void print_tensors(const struct delta_file *delta)
{
	static const char *const headings[] = { "tensor", "type", "shape", "changed", "share" };
	static const char *const choices[] = { "xxxxx", "x--xx", NULL };
	struct table table = { .columns = "lllrr" };
	bool terminal = program_on_terminal(STDOUT_FILENO);
	struct changed_tensor changed;
	struct buf text = { 0 };
	size_t first = 0;

	if (!changed_next(delta, &first, &changed))
		return;
	for (size_t i = 0; terminal && i < sizeof headings / sizeof *headings; i++)
		table_cell(&table, headings[i]);
	for (size_t row = 0; changed_next(delta, &row, &changed);) {
		table_cell(&table, changed.tensor->name);
		table_cell(&table, dtype_name(changed.tensor->dtype));
		table_cell(&table, st_shape(changed.tensor).text);
		table_cell_number(&table, changed.n_changed);
		text.len = 0;
		buf_printf(&text, terminal ? "%.3g %%" : "%.9g",
			   100 * (double)changed.n_changed / (double)changed.n_elements);
		table_cell(&table, text.data);
	}
	if (terminal)
		table_fit(&table, choices, wrap_columns(STDOUT_FILENO));
	table_print(&table, program.out, terminal);
	buf_release(&text);
}

static void print_totals(const struct delta_file *delta)
{
	size_t n_changed = 0, n_files = 0;
	struct changed_tensor changed;
	uint64_t n_elements = 0;

	for (size_t row = 0; changed_next(delta, &row, &changed); n_changed++)
		n_elements += changed.n_changed;
	for (size_t i = 0; i < delta->n_files; i++)
		n_files += delta->files[i].n_frame != 0;
	fprintf(program.out, "base    %s\nresult  %s\n", delta->base, delta->result);
	fprintf(program.out, "%zu of %zu tensors change, %" PRIu64 " elements", n_changed,
		delta->n_tensors, n_elements);
	fprintf(program.out, "; other files: %zu changed, %zu removed\n", n_files,
		delta->n_removed);
}

void delta_print_contents(const struct delta_file *delta, bool summary)
{
	const bool terminal = program_on_terminal(STDOUT_FILENO);

	if (!summary)
		print_tensors(delta);
	for (size_t i = 0; terminal && i < delta->n_files && !summary; i++)
		if (delta->files[i].n_frame)
			fprintf(program.out, "changed file  %s\n", delta->files[i].name);
	for (size_t i = 0; terminal && i < delta->n_removed && !summary; i++)
		fprintf(program.out, "removed file  %s\n", delta->removed[i]);
	if (terminal || summary)
		print_totals(delta);
}

void delta_print_contents_json(const struct delta_file *delta)
{
	struct json_out out = json_out_begin(program.out);
	struct changed_tensor changed;

	json_out_text(&out, "kind", "delta");
	json_out_text(&out, "base", delta->base);
	json_out_text(&out, "result", delta->result);
	json_out_open(&out, "tensors", '[');
	for (size_t row = 0; changed_next(delta, &row, &changed);) {
		json_out_open(&out, NULL, '{');
		json_out_text(&out, "name", changed.tensor->name);
		json_out_text(&out, "dtype", dtype_name(changed.tensor->dtype));
		json_out_counts(&out, "shape", changed.tensor->shape,
				(size_t)changed.tensor->n_dims);
		json_out_count(&out, "elements", changed.n_elements);
		json_out_count(&out, "changed", changed.n_changed);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_open(&out, "files", '[');
	for (size_t i = 0; i < delta->n_files; i++)
		if (delta->files[i].n_frame)
			json_out_text(&out, NULL, delta->files[i].name);
	json_out_close(&out, ']');
	json_out_open(&out, "removed", '[');
	for (size_t i = 0; i < delta->n_removed; i++)
		json_out_text(&out, NULL, delta->removed[i]);
	json_out_close(&out, ']');
	json_out_end(&out);
}
