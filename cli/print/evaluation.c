/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/evaluation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/print/calibration.h"
#include "cli/print/json.h"
#include "cli/print/path.h"
#include "cli/print/table.h"
#include "cli/print/wrap.h"
#include "cli/process.h"
#include "cli/program.h"

void eval_print_text(const struct eval_plan *plan)
{
	fprintf(program.out, "architecture %s, %zu layers, %s\n", plan->out.model.arch->name,
		plan->out.model.n_layers, plan->has_source ? "two models" : "one model");
	fprintf(program.out, "sequences %zu, tokens %" PRIu64 "\n", plan->data.n,
		plan->sweep.n_tokens);
	fprintf(program.out, "%zu matrices take inputs in FP8\n", plan->inputs.n);
	data_print_memory(plan->sweep.memory_bytes);
}

void eval_print_json(const struct eval_plan *plan)
{
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "architecture", plan->out.model.arch->name);
	json_out_count(&out, "sequences", plan->data.n);
	json_out_count(&out, "tokens", plan->sweep.n_tokens);
	json_out_count(&out, "fp8_inputs", plan->inputs.n);
	json_out_count(&out, "memory_bytes", plan->sweep.memory_bytes);
	json_out_end(&out);
}

/* Prints one line: name, value and standard error. */
static void print_number(const struct quality_row *row, struct estimate estimate)
{
	const double factor = row->factor != 0 ? row->factor : 1;

	if (row->heading)
		fprintf(program.out, "\n%s\n", row->heading);
	if (isnan(estimate.value)) { /* the correlation of values that are all equal */
		fprintf(program.out, "%-30s %12s\n", row->label, "-");
		return;
	}
	fprintf(program.out, "%-30s %12.6f", row->label, factor * estimate.value);
	if (isfinite(estimate.se))
		fprintf(program.out, " +- %.6f", factor * estimate.se);
	fprintf(program.out, "%s\n", row->unit);
}

static void noise_cell(struct table *table, const struct noise *noise)
{
	char text[32];

	snprintf(text, sizeof text, "%.2f", noise_db(noise));
	table_cell(table, noise->signal > 0 ? text : "-");
}

/* Adds the share of the inputs that a module casts. */
static void share_cell(struct table *table, const struct module_quality *module, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof text, "%.3f %%", 100 * (double)n / (double)module->n_inputs);
	table_cell(table, module->n_inputs ? text : "");
}

/* Adds a row for each module, and one for the layer. */
static void layer_cells(struct table *table, const struct layer_quality *layer, size_t i)
{
	char name[64];

	for (size_t m = 0; m < layer->n_modules; m++) {
		const struct module_quality *module = &layer->modules[m];

		table_cell(table, module->ref->module);
		noise_cell(table, &module->local);
		noise_cell(table, &module->accumulated);
		share_cell(table, module, module->n_saturated);
		share_cell(table, module, module->n_zeros);
	}
	snprintf(name, sizeof name, "layer %zu, residual stream", i);
	table_cell(table, name);
	table_cell(table, "");
	noise_cell(table, &layer->residual);
	table_cell(table, "");
	table_cell(table, "");
}

/* A narrow terminal has no saturated inputs, and shorter names. */
static void print_layers(const struct eval_result *result)
{
	static const char *const headings[] = { "Signal to noise, dB", "local", "accumulated",
						"saturated", "zeros" };
	static const char *const choices[] = { "xxxxx", "xxx-x", NULL };
	struct table table = { .columns = "lrrrr" };

	for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
		table_cell(&table, headings[i]);
	for (size_t i = 0; i < result->n_layers; i++)
		layer_cells(&table, &result->layers[i], i);
	if (program_on_terminal(STDOUT_FILENO))
		table_fit(&table, choices, wrap_columns(STDOUT_FILENO));
	fputc('\n', program.out);
	table_print(&table, program.out, true);
}

void eval_report_text(const struct eval_report *report)
{
	const struct quality *quality = &report->result->quality;

	fprintf(program.out, "Perplexity (tokens: %zu, sequences: %zu)\n", quality->n_targets,
		quality->n_sequences);
	for (size_t i = 0; i < (quality->has_source ? N_QUALITY : 1); i++)
		print_number(&quality_rows[i], quality->of[i]);
	if (report->result->layers)
		print_layers(report->result);
}

/* Prints the numbers that decide, in one line, and the next command. */
static void print_answer(const struct eval_report *report)
{
	const struct eval_params *params = report->params;
	const struct estimate *of = report->result->quality.of;

	fprintf(program.err, "perplexity %.4g", of[QUALITY_PERPLEXITY].value);
	if (!report->result->quality.has_source) {
		fputc('\n', program.err);
		return;
	}
	fprintf(program.err, " (source %.4g, %+.1f %%), KLD %.3g, same top token %.1f %%\n",
		of[QUALITY_SOURCE_PERPLEXITY].value, 100 * (of[QUALITY_RATIO].value - 1),
		of[QUALITY_KLD].value, of[QUALITY_SAME_TOP].value);
	path_print_next_of(&params->renames, "fp8conv report ", params->input, " --source ",
			   params->source, report->is_json ? " --eval E.json -o " : " -o ",
			   params->input);
}

void eval_report_summary(const struct eval_report *report)
{
	const struct eval_plan *plan = report->plan;
	size_t n_resumed = report->result->n_resumed;
	uint64_t n = plan->sweep.n_tokens, n_earlier = 0;

	for (size_t i = 0; i < n_resumed; i++)
		n_earlier += plan->data.sequences[i].len;
	fprintf(program.err, "tokens     %" PRIu64, n);
	if (n_resumed)
		fprintf(program.err, ", %" PRIu64 " of them from earlier runs", n_earlier);
	if (n_earlier < n)
		fprintf(program.err, ", %.0f per second",
			(double)(n - n_earlier) / report->seconds);
	fputc('\n', program.err);
	data_print_time(report->seconds);
	print_answer(report);
}

/* Adds the numbers; an object has those that follow each other. */
static void json_numbers(struct json_out *out, const struct quality *quality)
{
	const char *object = NULL;

	for (size_t i = 0; i < (quality->has_source ? N_QUALITY : 1); i++) {
		const struct quality_row *row = &quality_rows[i];
		bool alone = !row->object && row->has_error;

		if (object && object != row->object)
			json_out_close(out, '}');
		if (alone || (row->object && object != row->object))
			json_out_open(out, alone ? row->key : row->object, '{');
		object = row->object;
		json_out_real(out, alone ? "value" : row->key, quality->of[i].value);
		if (row->has_error)
			json_out_real(out, "se", quality->of[i].se);
		if (alone)
			json_out_close(out, '}');
	}
	if (object)
		json_out_close(out, '}');
}

static void json_noise(struct json_out *out, const char *key, const struct noise *noise)
{
	json_out_open(out, key, '{');
	json_out_real(out, "sqnr_db", noise_db(noise));
	json_out_real(out, "relative_error",
		      noise->signal > 0 ? sqrt(noise->noise / noise->signal) : NAN);
	json_out_close(out, '}');
}

static void json_module(struct json_out *out, const struct module_quality *module)
{
	double n = (double)module->n_inputs;

	json_out_open(out, NULL, '{');
	json_out_text(out, "module", module->ref->module);
	json_noise(out, "local", &module->local);
	json_noise(out, "accumulated", &module->accumulated);
	json_out_real(out, "saturated", n > 0 ? (double)module->n_saturated / n : NAN);
	json_out_real(out, "zeros", n > 0 ? (double)module->n_zeros / n : NAN);
	json_out_close(out, '}');
}

static void json_layers(struct json_out *out, const struct eval_result *result)
{
	json_out_open(out, "layers", '[');
	for (size_t i = 0; i < result->n_layers; i++) {
		const struct layer_quality *layer = &result->layers[i];

		json_out_open(out, NULL, '{');
		json_out_count(out, "layer", i);
		json_noise(out, "residual", &layer->residual);
		json_out_open(out, "modules", '[');
		for (size_t m = 0; m < layer->n_modules; m++)
			json_module(out, &layer->modules[m]);
		json_out_close(out, ']');
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

void eval_report_json(const struct eval_report *report)
{
	const struct eval_params *params = report->params;
	const struct quality *quality = &report->result->quality;
	struct json_out out = json_out_begin(program.out);

	json_numbers(&out, quality);
	if (report->result->layers)
		json_layers(&out, report->result);
	json_out_count(&out, "tokens", quality->n_positions);
	json_out_count(&out, "targets", quality->n_targets);
	json_out_count(&out, "sequences", quality->n_sequences);
	json_out_count(&out, "seq_len", report->plan->sweep.longest);
	json_out_open(&out, "data", '[');
	for (size_t i = 0; i < params->n_data; i++)
		json_out_text(&out, NULL, params->data[i]);
	json_out_close(&out, ']');
	json_out_text(&out, "data_sha256", report->result->data_sha256);
	json_out_text(&out, "precision", params->precision ? params->precision : "bf16");
	json_out_text(&out, "activations", params->activations ? params->activations : "engine");
	json_out_text(&out, "model", params->input);
	json_out_text(&out, "source", params->source);
	json_out_real(&out, "seconds", report->seconds);
	json_out_count(&out, "peak_memory_bytes", process_peak_memory());
	json_out_end(&out);
}
