/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/inspection.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/print/table.h"
#include "cli/print/units.h"
#include "source/fp8_source.h"
#include "cli/print/wrap.h"
#include "cli/program.h"
#include "cli/print/message.h"

static void cell(struct table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void cell(struct table *table, const char *format, ...)
{
	char text[96];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	table_cell(table, text);
}

/* Adds a cell "multiplies F32 128x128". */
static void scale_cell(struct table *table, const struct shown *shown, const struct tensor_ref *ref)
{
	struct scale_names scale;

	if (scale_names_of(shown, ref, &scale))
		cell(table, "%s %s %llux%llu", scale.use, scale.dtype,
		     (unsigned long long)scale.tile[0], (unsigned long long)scale.tile[1]);
	else
		table_cell(table, "");
}

/* Adds amax, smallest scale, largest scale, saturated codes, SQNR. */
static void stats_cells(struct table *table, const struct tensor_stats *stats, bool terminal)
{
	const int digits = terminal ? 4 : 9;
	double sqnr = tensor_stats_sqnr(stats);

	if (stats->known)
		cell(table, "%.*g", digits, stats->amax);
	else
		table_cell(table, "");
	if (!stats->fp8) {
		for (int i = 0; i < 4; i++)
			table_cell(table, "");
		return;
	}
	cell(table, "%.*g", digits, stats->scale_min);
	cell(table, "%.*g", digits, stats->scale_max);
	if (terminal)
		cell(table, "%.3f %%",
		     stats->n_codes ? 100 * (double)stats->n_saturated / (double)stats->n_codes
				    : 0);
	else
		table_cell_number(table, stats->n_saturated);
	if (isnan(sqnr))
		table_cell(table, "");
	else
		cell(table, terminal ? "%.2f dB" : "%.2f", sqnr);
}

static void name_cells(struct table *table, const struct st_tensor *tensor)
{
	table_cell(table, tensor->name);
	table_cell(table, dtype_name(tensor->dtype));
	table_cell(table, st_shape(tensor).text);
}

/* Adds the file of the tensor, and its scale. */
static void place_cells(struct table *table, const struct shown *shown,
			const struct tensor_ref *ref)
{
	struct scale_names scale;

	table_cell(table, shown->inspection->checkpoint.shards[ref->shard].name);
	table_cell(table, scale_names_of(shown, ref, &scale) ? scale.name : "");
	scale_cell(table, shown, ref);
}

static void tensor_cells(struct table *table, const struct shown *shown, size_t t)
{
	const struct tensor_ref *ref = &shown->inspection->checkpoint.tensors[t];

	name_cells(table, ref->tensor);
	table_cell_number(table, st_tensor_size(ref->tensor));
	place_cells(table, shown, ref);
	if (shown->stats)
		stats_cells(table, &shown->stats[t], false);
}

/* Adds the cells that fit a line of a terminal.  Statistics take the place of sizes and files. */
static void tensor_cells_terminal(struct table *table, const struct shown *shown, size_t t)
{
	const struct tensor_ref *ref = &shown->inspection->checkpoint.tensors[t];

	name_cells(table, ref->tensor);
	if (shown->stats) {
		scale_cell(table, shown, ref);
		stats_cells(table, &shown->stats[t], true);
		return;
	}
	table_cell_size(table, st_tensor_size(ref->tensor));
	place_cells(table, shown, ref);
}

struct inspection_totals inspection_total(const struct inspection *inspection)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	struct inspection_totals totals = { 0 };

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->tensors[i];
		const struct st_tensor *tensor = ref->tensor;

		totals.n_tensors[tensor->dtype]++;
		totals.bytes[tensor->dtype] += st_tensor_size(tensor);
		totals.n_bytes += st_tensor_size(tensor);
		if (detection_is_scale(&inspection->detection, ref) ||
		    low_bit_is_part(&inspection->low_bit, i))
			continue;
		if (low_bit_of(&inspection->low_bit, i))
			totals.n_parameters += 2 * st_tensor_size(tensor);
		else
			totals.n_parameters += st_n_elements(tensor->shape, tensor->n_dims);
	}
	return totals;
}

double inspection_bits(const struct inspection_totals *totals)
{
	return totals->n_parameters ? 8 * (double)totals->n_bytes / (double)totals->n_parameters
				    : NAN;
}

/* Prints "1.05 MB, 1842304 parameters, 4.57 bits each", then a line for each type. */
static void print_totals(const struct inspection *inspection)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	struct inspection_totals totals = inspection_total(inspection);
	struct table table = { .columns = "rlrl" };
	struct buf size = { 0 };

	units_size(&size, checkpoint->data_bytes);
	fprintf(program.out, "%zu tensors, %s, in %zu file%s\n", checkpoint->n_tensors, size.data,
		checkpoint->n_shards, checkpoint->n_shards == 1 ? "" : "s");
	buf_release(&size);
	if (totals.n_parameters)
		fprintf(program.out, "%" PRIu64 " parameters, %.2f bits each\n",
			totals.n_parameters, inspection_bits(&totals));
	for (int dtype = 0; dtype < N_DTYPES; dtype++) {
		if (!totals.n_tensors[dtype])
			continue;
		table_cell_number(&table, totals.n_tensors[dtype]);
		table_cell(&table, dtype_name((enum dtype)dtype));
		table_cell_size(&table, totals.bytes[dtype]);
		table_cell(&table, "");
	}
	table_print(&table, program.out, true);
}

void inspect_print_summary(const struct inspection *inspection)
{
	const struct detection *detection = &inspection->detection;

	if (detection->format)
		fprintf(program.out, "FP8: recipe %s, format %s, scales %s\n",
			fp8_source_recipe(detection), detection->format, detection->scale_fmt);
	else if (!inspection->low_bit.n)
		fprintf(program.out, "not FP8\n");
	if (inspection->low_bit.n)
		fprintf(program.out, "low-bit: %zu %s weights\n", inspection->low_bit.n,
			low_bit_kind(&inspection->low_bit));
	print_totals(inspection);
}

/* Compares names with numbers in order: layers.2 before layers.10. */
static int by_name(const void *a, const void *b, void *context)
{
	const struct tensor_ref *tensors = context;

	return strverscmp(tensors[*(const size_t *)a].tensor->name,
			  tensors[*(const size_t *)b].tensor->name);
}

static void print_terminal(const struct shown *shown)
{
	static const char *const headings[] = { "tensor",    "type",	  "shape",
						"scale",     "amax",	  "min scale",
						"max scale", "saturated", "est. SQNR" };
	static const char *const choices[] = { "xxxxxxx", "xxxx--x", "xxxx---", NULL };
	static const char *const stats_choices[] = { "xxxxxxxxx", "xxx-xxxxx", "x---xxxxx",
						     "x---x--xx", NULL };
	const struct checkpoint *checkpoint = &shown->inspection->checkpoint;
	struct table table = { .columns = shown->stats ? "llllrrrrr" : "lllrlll" };
	size_t *order = xcalloc(checkpoint->n_tensors, sizeof *order);

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		order[i] = i;
	qsort_r(order, checkpoint->n_tensors, sizeof *order, by_name, checkpoint->tensors);
	for (size_t i = 0; shown->stats && i < sizeof headings / sizeof *headings; i++)
		table_cell(&table, headings[i]);
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		tensor_cells_terminal(&table, shown, order[i]);
	table_fit(&table, shown->stats ? stats_choices : choices, wrap_columns(STDOUT_FILENO));
	table_print(&table, program.out, true);
	fputc('\n', program.out); /* a terminal shows what comes last */
	inspect_print_summary(shown->inspection);
	free(order);
}

void inspect_print_note(const struct inspection *inspection)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;

	if (checkpoint->n_expected)
		message_note("unfinished: %zu of %zu files; %s", checkpoint->n_found,
			     checkpoint->n_expected, checkpoint_advice(checkpoint));
	if (checkpoint->n_states)
		message_note("%zu states of TransformerEngine ('%s'), %zu of modules with an amax "
			     "history (%" PRIu64 " passes at most): 'fp8conv quantize "
			     "--calibration' takes static scales from them",
			     checkpoint->n_states, checkpoint->states[0].ref.tensor->name,
			     inspection->states.n_sites, inspection->states.n_passes);
	if (checkpoint->has_stale_index)
		message_note(INDEX_NAME " names files of another build, none of which is there: "
					"'%s'%s read in their place; remove the index",
			     checkpoint->shards[0].name,
			     checkpoint->n_shards > 1 ? " and its set are" : " is");
}

void inspect_print_text(const struct shown *shown)
{
	struct table table = { .columns = shown->stats ? "llllllllllll" : "lllllll" };

	if (program_on_terminal(STDOUT_FILENO)) {
		print_terminal(shown);
		return;
	}
	for (size_t i = 0; i < shown->inspection->checkpoint.n_tensors; i++)
		tensor_cells(&table, shown, i);
	table_print(&table, program.out, false);
}
