/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a report: page.html, with the data of a checkpoint as JSON in place of its sample.
 * Everything is bounded: a page of any checkpoint has less than 5 MB.
 */
#include "cli/report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "cli/print/units.h"
#include "source/fp8_source.h"

#define MAX_PATTERNS 64 /* kinds of modules of an evaluation; others have no cells */

/* --- what was measured elsewhere --- */

static void numbers_json(struct json_out *out, const struct evaluation_file *evaluation)
{
	json_out_open(out, "numbers", '[');
	for (size_t i = 0; i < N_QUALITY; i++) {
		const struct quality_row *row = &quality_rows[i];
		const double factor = row->factor != 0 ? row->factor : 1;

		if (!row->title || isnan(evaluation->of[i].value))
			continue;
		json_out_open(out, NULL, '{');
		json_out_text(out, "spread", row->of_spread ? row->object : NULL);
		json_out_text(out, "title", row->title);
		json_out_real(out, "value", factor * evaluation->of[i].value);
		json_out_real(out, "se", factor * evaluation->of[i].se);
		json_out_text(out, "unit", row->unit);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

/* Adds the ratios of an evaluation by layer: a line for each kind of module. */
static void layers_json(struct json_out *out, const struct evaluation_file *evaluation)
{
	struct heat_cell *cells = xcalloc(evaluation->n_modules, sizeof *cells);
	char **names = xcalloc(MAX_PATTERNS, sizeof *names);
	struct intern patterns = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < evaluation->n_modules; i++) {
		const struct measured_module *module = &evaluation->modules[i];
		uint32_t layer;
		char *name = name_pattern(module->name ? module->name : "residual stream", &layer);
		size_t line = intern_add(&patterns, name, strlen(name));

		if (line < MAX_PATTERNS && !names[line])
			names[line] = xstrdup(name);
		if (line < MAX_PATTERNS && !isnan(module->sqnr) && module->layer < NO_LAYER)
			cells[n++] = (struct heat_cell){ names[line], line, (uint32_t)module->layer,
							 module->sqnr };
		free(name);
	}
	page_put_heat_map(out, "layers", cells, n);
	for (size_t line = 0; line < MAX_PATTERNS; line++)
		free(names[line]);
	free(names);
	intern_release(&patterns);
	free(cells);
}

static void evaluation_json(struct json_out *out, const struct evaluation_file *evaluation)
{
	json_out_open(out, "evaluation", '{');
	numbers_json(out, evaluation);
	json_out_open(out, "files", '[');
	for (size_t i = 0; i < evaluation->n_data; i++) {
		char *name = report_base_name(evaluation->data[i]);

		page_text(out, NULL, name);
		free(name);
	}
	json_out_close(out, ']');
	json_out_count(out, "more_files", evaluation->n_more_data);
	json_out_bool(out, "compared", evaluation->compared);
	json_out_count(out, "tokens", evaluation->tokens);
	json_out_count(out, "sequences", evaluation->sequences);
	json_out_count(out, "seq_len", evaluation->seq_len);
	json_out_text(out, "sha256", evaluation->data_sha256);
	page_text(out, "activations", evaluation->activations ? evaluation->activations : "engine");
	page_text(out, "precision", evaluation->precision ? evaluation->precision : "bf16");
	json_out_close(out, '}');
	layers_json(out, evaluation);
}

static void benchmarks_json(struct json_out *out, const struct benchmarks *benchmarks)
{
	json_out_open(out, "benchmarks", '[');
	for (size_t i = 0; i < benchmarks->n; i++) {
		const struct benchmark *row = &benchmarks->list[i];

		json_out_open(out, NULL, '{');
		page_text(out, "task", row->task);
		page_text(out, "metric", row->metric);
		if (row->shots >= 0)
			json_out_count(out, "shots", (uint64_t)row->shots);
		json_out_real(out, "value", row->value);
		json_out_real(out, "se", row->se);
		json_out_real(out, "source", row->source);
		json_out_real(out, "source_se", row->source_se);
		json_out_real(out, "recovery", row->recovery);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
	json_out_count(out, "more_benchmarks", benchmarks->n_more);
}

static void points_json(struct json_out *out, const char *key, const float *points, size_t n)
{
	json_out_open(out, key, '[');
	for (size_t i = 0; i < n; i++)
		json_out_float(out, NULL, points[i]);
	json_out_close(out, ']');
}

static void calibration_json(struct json_out *out, const struct curves *curves)
{
	json_out_open(out, "calibration", '{');
	json_out_count(out, "passes", curves->n_passes);
	json_out_count(out, "tokens", curves->n_tokens);
	json_out_count(out, "rows", curves->n_rows);
	json_out_count(out, "joined", curves->passes_of_point);
	json_out_count(out, "left", curves->n_left_out);
	page_text(out, "precision", curves->precision);
	json_out_open(out, "curves", '[');
	for (size_t i = 0; i < curves->n; i++) {
		const struct curve *curve = &curves->list[i];

		json_out_open(out, NULL, '{');
		page_text(out, "name", curve->pattern);
		json_out_count(out, "modules", curve->n_sites);
		json_out_float(out, "max", curve->max);
		points_json(out, "x", curve->x, curves->n_points);
		points_json(out, "y", curve->y, curves->n_points);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
	json_out_close(out, '}');
}

/* --- the page --- */

static void verification_json(struct json_out *out, const struct verification *verification)
{
	if (!verification) {
		json_out_null(out, "problems");
		json_out_null(out, "lowest");
		return;
	}
	json_out_count(out, "problems", verification->problems.n);
	page_ratio(out, "lowest", verification->n_reports ? verification->reports[0].sqnr : NAN);
}

static void overview_json(struct json_out *out, const struct reported *reported)
{
	const struct checkpoint *checkpoint = &reported->inspection->checkpoint;
	const struct detection *detection = &reported->inspection->detection;
	const struct report_counts counts = report_count(reported->summary);
	uint64_t source = report_source_bytes(reported->report);
	struct buf text = { 0 };

	page_text(out, "name", reported->report->name);
	json_out_text(out, "version", FP8CONV_VERSION);
	page_text(out, "base_model", reported->report->base_model);
	page_text(out, "recipe", fp8_source_recipe(detection));
	page_text(out, "format", detection->format);
	page_text(out, "made_by", report_version(reported->report));
	report_put_commands(&text, reported);
	page_buf(out, "commands", &text);
	json_out_count(out, "fp8", counts.n_fp8);
	json_out_count(out, "kept", counts.n_kept);
	units_size(&text, checkpoint->data_bytes);
	page_buf(out, "size", &text);
	if (source)
		units_size(&text, source);
	page_buf(out, "source_size", &text);
	json_out_real(out, "bits",
		      8 * (double)checkpoint->data_bytes / (double)counts.n_parameters);
	verification_json(out, reported->verification);
	buf_release(&text);
}

static void data_json(FILE *stream, const struct reported *reported)
{
	struct json_out out = json_out_begin(stream);
	const struct report *report = reported->report;
	size_t n_groups;

	overview_json(&out, reported);
	n_groups = page_put_groups(&out, reported);
	page_put_sqnr(&out, reported);
	if (report->has_evaluation)
		evaluation_json(&out, &report->evaluation);
	if (report->benchmarks.n)
		benchmarks_json(&out, &report->benchmarks);
	if (report->has_curves)
		calibration_json(&out, &report->curves);
	page_put_tensors(&out, reported, n_groups);
	json_out_end(&out);
}

int page_print(const struct reported *reported, struct buf *out, struct err *err)
{
	static const char mark[] = "id=\"data\">";
	const char *begin = strstr(page_html, mark) + strlen(mark),
		   *end = strstr(begin, "</script>");
	char *data = NULL;
	size_t n = 0;
	FILE *stream = open_memstream(&data, &n);

	if (stream)
		data_json(stream, reported);
	if (!stream || fclose(stream)) {
		free(data);
		return err_set(err, ERR_SYSTEM, "cannot get memory for '" REPORT_PAGE_NAME "'");
	}
	buf_add(out, page_html, (size_t)(begin - page_html));
	buf_add(out, data, n);
	buf_puts(out, end);
	free(data);
	return 0;
}
