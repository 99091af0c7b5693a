/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/evaluation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/print/json.h"
#include "cli/print/table.h"
#include "cli/print/units.h"
#include "cli/print/wrap.h"
#include "cli/process.h"

void eval_print_text(const struct eval_plan *plan)
{
	struct buf memory = { 0 };

	units_memory(&memory, plan->sweep.memory_bytes);
	printf("architecture %s, %zu layers, %s\n", plan->out.model.arch->name,
	       plan->out.model.n_layers, plan->has_source ? "two models" : "one model");
	printf("sequences %zu, tokens %" PRIu64 "\n", plan->data.n, plan->sweep.n_tokens);
	printf("%zu matrices take inputs in FP8\n", plan->inputs.n);
	printf("%s of memory\n", memory.data);
	buf_release(&memory);
}

void eval_print_json(const struct eval_plan *plan)
{
	struct json_out out = { .stream = stdout };

	json_out_begin(&out);
	json_out_text(&out, "architecture", plan->out.model.arch->name);
	json_out_count(&out, "sequences", plan->data.n);
	json_out_count(&out, "tokens", plan->sweep.n_tokens);
	json_out_count(&out, "fp8_inputs", plan->inputs.n);
	json_out_count(&out, "memory_bytes", plan->sweep.memory_bytes);
	json_out_end(&out);
}

/* One line: name, value and standard error. */
static void print_estimate(const char *name, struct estimate estimate, const char *unit)
{
	if (isnan(estimate.value)) { /* the correlation of values that are all equal */
		printf("%-30s %12s\n", name, "-");
		return;
	}
	printf("%-30s %12.6f", name, estimate.value);
	if (isfinite(estimate.se))
		printf(" +- %.6f", estimate.se);
	printf("%s\n", unit);
}

static void print_value(const char *name, double value, const char *unit)
{
	print_estimate(name, (struct estimate){ value, NAN }, unit);
}

/* The words of llama-perplexity for the numbers of a spread. */
static const char *const spread_words[N_SPREAD] = {
	"Maximum", "99.9%", "99.0%", "95.0%", "90.0%", "Median", "10.0%", "5.0%", "1.0%", "Minimum"
};

static void print_spread(const char *what, const struct spread *spread, const char *unit)
{
	char name[40];

	for (size_t i = 0; i < N_SPREAD; i++) {
		snprintf(name, sizeof name, "%s %s", spread_words[i], what);
		print_value(name, spread->of[i], unit);
	}
}

static void print_comparison(const struct quality *quality)
{
	print_estimate("Mean PPL(base)", quality->source_perplexity, "");
	print_value("Cor(ln(PPL(Q)),ln(PPL(base)))", 100 * quality->correlation, " %");
	print_estimate("Mean ln(PPL(Q)/PPL(base))", quality->ln_ratio, "");
	print_estimate("Mean PPL(Q)/PPL(base)", quality->ratio, "");
	print_estimate("Mean PPL(Q)-PPL(base)", quality->difference, "");
	printf("\nKullback-Leibler divergence, by position\n");
	print_estimate("Mean KLD", quality->kld, "");
	print_value("Mean reverse KLD", quality->reverse_kld, "");
	print_spread("KLD", &quality->kld_spread, "");
	printf("\nProbability of the next token, Q less base\n");
	print_value("Mean delta p", quality->delta_p, " %");
	print_value("RMS delta p", quality->delta_p_rms, " %");
	print_spread("delta p", &quality->delta_p_spread, " %");
	print_estimate("Same top p", quality->same_top, " %");
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
	if (isatty(STDOUT_FILENO))
		table_fit(&table, choices, wrap_columns(STDOUT_FILENO));
	putchar('\n');
	table_print(&table, stdout, true);
	table_release(&table);
}

void eval_report_text(const struct eval_report *report)
{
	const struct quality *quality = &report->result->quality;

	printf("Perplexity (tokens: %zu, sequences: %zu)\n", quality->n_targets,
	       quality->n_sequences);
	print_estimate("Mean PPL(Q)", quality->perplexity, "");
	if (quality->has_source)
		print_comparison(quality);
	if (report->result->layers)
		print_layers(report->result);
}

void eval_report_summary(const struct eval_report *report)
{
	uint64_t n = report->plan->sweep.n_tokens;
	struct buf time = { 0 };

	units_duration(&time, report->seconds);
	buf_puts(&time, ", peak memory ");
	units_memory(&time, process_peak_memory());
	fprintf(stderr, "tokens     %" PRIu64 ", %.0f per second\n", n,
		(double)n / report->seconds);
	fprintf(stderr, "time       %s\n", time.data);
	buf_release(&time);
}

static void json_estimate(struct json_out *out, const char *key, struct estimate estimate)
{
	json_out_open(out, key, '{');
	json_out_real(out, "value", estimate.value);
	json_out_real(out, "se", estimate.se);
	json_out_close(out, '}');
}

static void json_spread(struct json_out *out, const struct spread *spread)
{
	for (size_t i = 0; i < N_SPREAD; i++)
		json_out_real(out, spread_names[i], spread->of[i]);
}

static void json_comparison(struct json_out *out, const struct quality *quality)
{
	json_estimate(out, "source_perplexity", quality->source_perplexity);
	json_out_real(out, "correlation", quality->correlation);
	json_estimate(out, "ln_ratio", quality->ln_ratio);
	json_estimate(out, "ratio", quality->ratio);
	json_estimate(out, "difference", quality->difference);
	json_out_open(out, "kld", '{');
	json_out_real(out, "mean", quality->kld.value);
	json_out_real(out, "se", quality->kld.se);
	json_out_real(out, "reverse_mean", quality->reverse_kld);
	json_spread(out, &quality->kld_spread);
	json_out_close(out, '}');
	json_out_open(out, "delta_p", '{');
	json_out_real(out, "mean", quality->delta_p);
	json_out_real(out, "rms", quality->delta_p_rms);
	json_spread(out, &quality->delta_p_spread);
	json_out_close(out, '}');
	json_estimate(out, "same_top", quality->same_top);
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
	struct json_out out = { .stream = stdout };

	json_out_begin(&out);
	json_estimate(&out, "perplexity", quality->perplexity);
	if (quality->has_source)
		json_comparison(&out, quality);
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
