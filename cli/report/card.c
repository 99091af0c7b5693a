/* SPDX-License-Identifier: Apache-2.0
 *
 * The model card: README.md, as hubs and people read it.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/card.h"
#include "cli/print/units.h"
#include "report/escape.h"
#include "source/fp8_source.h"

/* --- front matter --- */

/* Adds the values of a key of the source's card. */
static void put_key(struct buf *out, const struct card *card, enum card_key key)
{
	const struct card_value *value = &card->values[key];

	if (!value->n)
		return;
	buf_printf(out, "%s:", card_keys[key]);
	if (value->n == 1) {
		buf_putc(out, ' ');
		escape_yaml(out, value->texts[0]);
	}
	for (size_t i = 0; value->n > 1 && i < value->n; i++) {
		buf_puts(out, "\n- ");
		escape_yaml(out, value->texts[i]);
	}
	buf_putc(out, '\n');
}

static void put_front_matter(struct buf *out, const struct reported *reported)
{
	const struct report *report = reported->report;
	const struct detection *detection = &reported->inspection->detection;

	buf_puts(out, "---\n");
	if (report->base_model) {
		buf_puts(out, "base_model: ");
		escape_yaml(out, report->base_model);
		buf_puts(out, "\nbase_model_relation: quantized\n");
	}
	buf_puts(out, "quantized_by: ");
	escape_yaml(out, reported->quantized_by);
	buf_putc(out, '\n');
	for (int key = CARD_LANGUAGE; key < N_CARD_KEYS; key++)
		put_key(out, &report->card, (enum card_key)key);
	buf_puts(out, "tags:\n- fp8\n");
	/* "hf" is no word of hubs, which know that layout as fp8 */
	if (detection->format && strcmp(detection->format, "unknown") != 0 &&
	    strcmp(detection->format, "hf") != 0) {
		buf_puts(out, "- ");
		escape_yaml(out, detection->format);
		buf_putc(out, '\n');
	}
	if (report_version(report))
		buf_puts(out, "- fp8conv\n");
	buf_puts(out, "---\n\n");
}

/* --- rows --- */

static void row(struct buf *out, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds a row of two cells. */
static void row(struct buf *out, const char *name, const char *format, ...)
{
	va_list args;
	char text[160];

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	buf_printf(out, "| %s | %s |\n", name, text);
}

uint64_t report_source_bytes(const struct report *report)
{
	const json_t *inputs = json_object_get(report->manifest, "inputs"), *input;
	uint64_t bytes = 0;
	size_t i;

	json_array_foreach(inputs, i, input)
	{
		if (json_object_get(input, "header_crc32"))
			bytes += (uint64_t)json_integer_value(json_object_get(input, "size"));
	}
	return bytes;
}

static void put_size(struct buf *out, const struct reported *reported)
{
	const struct checkpoint *checkpoint = &reported->inspection->checkpoint;
	uint64_t before = report_source_bytes(reported->report);
	uint64_t n_parameters = report_count(reported->summary).n_parameters;

	buf_puts(out, "| Size | ");
	units_size(out, checkpoint->data_bytes);
	if (before) {
		buf_puts(out, " (source: ");
		units_size(out, before);
		buf_putc(out, ')');
	}
	if (n_parameters)
		buf_printf(out, ", %.2f bits for each of %llu parameters",
			   8 * (double)checkpoint->data_bytes / (double)n_parameters,
			   (unsigned long long)n_parameters);
	buf_puts(out, " |\n");
}

/* Returns the group of FP8 weights with the most tensors; NULL without one. */
static const struct tensor_group *main_group(const struct summary *summary)
{
	const struct tensor_group *found = NULL;

	for (size_t g = 0; g < summary->n; g++)
		if (summary->groups[g].fp8 &&
		    (!found || summary->groups[g].n_tensors > found->n_tensors))
			found = &summary->groups[g];
	return found;
}

static void put_scheme(struct buf *out, const struct reported *reported)
{
	const struct detection *detection = &reported->inspection->detection;
	const struct tensor_group *group = main_group(reported->summary);

	if (!group)
		return;
	buf_puts(out, "| Weights | ");
	report_put_type(out, group);
	buf_puts(out, ", a scale for ");
	report_put_tile(out, group);
	if (detection->scale_fmt && !strcmp(detection->scale_fmt, "ue8m0"))
		buf_puts(out, ", a power of two");
	buf_puts(out, " |\n");
	if (detection->weight_only)
		row(out, "Activations", "in high precision");
	else if (detection->known)
		row(out, "Activations", "%s",
		    detection->scheme.static_input ? "FP8, static scales"
						   : "FP8, quantized while the model runs");
	row(out, "KV cache", "%s",
	    reported->summary->n_scales[SCALE_OF_CACHE] ? "scales for FP8 are included"
							: "no scales");
}

/* Adds what the manifest says of compensated rounding. */
static void put_rounding(struct buf *out, const struct report *report)
{
	const json_t *options = json_object_get(report->manifest, "options");
	const json_t *planned = json_object_get(options, "rounding");
	const json_t *done = json_object_get(report->manifest, "rounding");
	const char *rounding = json_string_value(json_object_get(done, "rounding"));
	const char *hash = json_string_value(json_object_get(planned, "data_sha256"));

	if (!rounding || !hash)
		return;
	buf_puts(out, "| Rounding | ");
	escape_markdown(out, rounding);
	buf_printf(out,
		   ", by %lld tokens in %lld sequences of calibration data; SHA-256 of the "
		   "token ids ",
		   (long long)json_integer_value(json_object_get(planned, "tokens")),
		   (long long)json_integer_value(json_object_get(planned, "sequences")));
	escape_markdown_code(out, hash);
	if (json_is_number(json_object_get(done, "shrink")))
		buf_printf(out, "; shrinkage %g",
			   json_number_value(json_object_get(done, "shrink")));
	buf_puts(out, " |\n");
}

static void put_overview(struct buf *out, const struct reported *reported)
{
	const struct detection *detection = &reported->inspection->detection;
	const struct report *report = reported->report;

	buf_puts(out, "## Overview\n\n| | |\n|---|---|\n");
	if (report->base_model) {
		buf_puts(out, "| Base model | ");
		escape_markdown_code(out, report->base_model);
		buf_puts(out, " |\n");
	}
	if (detection->format) {
		buf_puts(out, "| Recipe | ");
		escape_markdown_code(out, fp8_source_recipe(detection));
		buf_puts(out, " |\n| Format | ");
		escape_markdown_code(out, detection->format);
		buf_puts(out, " |\n");
	}
	put_scheme(out, reported);
	put_rounding(out, report);
	put_size(out, reported);
	buf_puts(out, "| Made by | ");
	if (report_version(report)) {
		buf_puts(out, "fp8conv ");
		escape_markdown(out, report_version(report));
	} else {
		buf_puts(out, "another tool, or unknown");
	}
	buf_puts(out, " |\n\n");
}

/* --- numbers --- */

static void put_sqnr(struct buf *out, const struct reported *reported)
{
	const struct verification *verification = reported->verification;
	const struct compensated_report *compensated;
	double sum = 0;
	size_t n = 0;

	if (!verification)
		return;
	compensated = &verification->compensated;
	for (size_t i = 0; i < verification->n_reports; i++) {
		if (!isfinite(verification->reports[i].sqnr))
			continue;
		sum += verification->reports[i].sqnr;
		n++;
	}
	buf_puts(out, "## Weights against the source\n\n");
	if (n) {
		buf_printf(out, "SQNR of %zu FP8 weights: mean %.2f dB, lowest %.2f dB (", n,
			   sum / (double)n, verification->reports[0].sqnr);
		escape_markdown_code(out, verification->reports[0].name);
		buf_puts(out, ").\n");
	}
	if (compensated->n_codes)
		buf_printf(out,
			   "Compensated: %.1f %% of codes are not the nearest; SQNR %.2f dB, "
			   "to nearest %.2f dB: the weights are further from the source, the "
			   "outputs closer.\n",
			   100 * (double)compensated->n_moved / (double)compensated->n_codes,
			   compensated->sqnr, compensated->own_sqnr);
	if (verification->arithmetic) {
		buf_printf(out, "Every %s was compared with the source; arithmetic: ",
			   compensated->n_codes ? "scale" : "code and scale");
		escape_markdown_code(out, verification->arithmetic);
		buf_puts(out, ".\n");
	}
	if (verification->problems.n)
		buf_printf(out, "`fp8conv verify` found %zu problem%s.\n", verification->problems.n,
			   verification->problems.n == 1 ? "" : "s");
	else
		buf_puts(out, "`fp8conv verify` found no problem.\n");
	buf_putc(out, '\n');
}

/* Returns the decimals that show two digits of an error. */
static int decimals(double error)
{
	int n = error > 0 ? 1 - (int)floor(log10(error)) : 6;

	return n < 0 ? 0 : n > 6 ? 6 : n;
}

static void number_row(struct buf *out, const struct evaluation_file *evaluation,
		       enum quality_number number)
{
	const struct quality_row *what = &quality_rows[number];
	const struct estimate *estimate = &evaluation->of[number];

	if (isnan(estimate->value))
		return;
	if (isnan(estimate->se))
		row(out, what->title, "%.3g%s", estimate->value, what->unit);
	else
		row(out, what->title, "%.*f ± %.*f%s", decimals(estimate->se), estimate->value,
		    decimals(estimate->se), estimate->se, what->unit);
}

static void put_spread(struct buf *out, const struct evaluation_file *evaluation)
{
	const struct estimate *kld = evaluation->of + QUALITY_KLD_SPREAD;

	row(out, "KLD, median / 90 % / 99 % / 99.9 %", "%.3g / %.3g / %.3g / %.3g", kld[5].value,
	    kld[4].value, kld[2].value, kld[1].value);
	row(out, "Maximum KLD", "%.3g", kld[0].value);
}

static void put_data(struct buf *out, const struct evaluation_file *evaluation)
{
	buf_puts(out, "\nData: ");
	for (size_t i = 0; i < evaluation->n_data; i++) {
		char *name = report_base_name(evaluation->data[i]);

		escape_markdown_code(out, name);
		buf_puts(out, ", ");
		free(name);
	}
	if (evaluation->n_more_data)
		buf_printf(out, "%zu more, ", evaluation->n_more_data);
	buf_printf(out,
		   "%llu positions in %llu sequence%s of at most %llu tokens; SHA-256 of the "
		   "token ids `%s`.\n",
		   (unsigned long long)evaluation->tokens,
		   (unsigned long long)evaluation->sequences, evaluation->sequences == 1 ? "" : "s",
		   (unsigned long long)evaluation->seq_len, evaluation->data_sha256);
	buf_printf(out, "Activations: %s; products in ",
		   evaluation->activations && !strcmp(evaluation->activations, "bf16")
			   ? "not quantized"
			   : "quantized as an engine does");
	escape_markdown(out, evaluation->precision ? evaluation->precision : "bf16");
	buf_puts(out, ".\n");
	if (evaluation->compared)
		buf_puts(out, "KLD is the Kullback-Leibler divergence from the source, by "
			      "position, in nats. Near the baseline it says how far the outputs "
			      "moved, and does not rank benchmark scores.\n");
	buf_putc(out, '\n');
}

static void put_measured(struct buf *out, const struct report *report)
{
	if (!report->has_evaluation)
		return;
	buf_puts(out, "## Measured\n\n| | |\n|---|---|\n");
	for (enum quality_number i = 0; i < N_QUALITY; i++) {
		if (quality_rows[i].in_card)
			number_row(out, &report->evaluation, i);
		if (i == QUALITY_KLD && report->evaluation.compared)
			put_spread(out, &report->evaluation);
	}
	put_data(out, &report->evaluation);
}

/* Adds a cell with a value and its standard error, as far as they are known. */
static void put_value(struct buf *out, double value, double se)
{
	if (!isnan(value))
		buf_printf(out, "%.4f", value);
	if (!isnan(value) && !isnan(se))
		buf_printf(out, " ± %.4f", se);
	buf_puts(out, " | ");
}

static void put_benchmarks(struct buf *out, const struct benchmarks *benchmarks)
{
	if (!benchmarks->n)
		return;
	buf_puts(out, "## Benchmarks\n\n| Task | Metric | Source | FP8 | Recovery |\n"
		      "|---|---|--:|--:|--:|\n");
	for (size_t i = 0; i < benchmarks->n; i++) {
		const struct benchmark *row = &benchmarks->list[i];

		buf_puts(out, "| ");
		escape_markdown_code(out, row->task);
		if (row->shots >= 0)
			buf_printf(out, ", %" JSON_INTEGER_FORMAT "-shot", row->shots);
		buf_puts(out, " | ");
		escape_markdown_code(out, row->metric);
		buf_puts(out, " | ");
		put_value(out, row->source, row->source_se);
		put_value(out, row->value, row->se);
		if (!isnan(row->recovery))
			buf_printf(out, "%.1f %% ", row->recovery);
		buf_puts(out, "|\n");
	}
	if (benchmarks->n_more)
		buf_printf(out, "\n%zu more are left out.\n", benchmarks->n_more);
	buf_puts(out,
		 "\nBy lm-evaluation-harness; ± is its standard error. Recovery is the share of "
		 "the source's result, inverted where less is better.\n\n");
}

/* --- commands --- */

static void put_use(struct buf *out, const struct reported *reported)
{
	static const struct {
		enum engine engine;
		const char *name;
	} engines[] = { { ENGINE_VLLM, "vLLM" }, { ENGINE_SGLANG, "SGLang" } };

	buf_puts(out, "## Use\n\n");
	for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
		struct buf line = { 0 };

		if (report_put_serve(&line, reported, engines[i].engine)) {
			buf_printf(out, "%s:\n\n```sh\n%s\n```\n\n", engines[i].name, line.data);
		} else {
			buf_printf(out, "%s does not load this layout: ", engines[i].name);
			escape_markdown(out, line.data);
			buf_puts(out, ".\n\n");
		}
		buf_release(&line);
	}
}

static void put_commands(struct buf *out, const struct reported *reported)
{
	struct buf commands = { 0 };

	report_put_commands(&commands, reported);
	buf_puts(out, "## How it was made\n\n");
	if (!report_version(reported->report))
		buf_puts(out, "The checkpoint has no record of its conversion: the commands are "
			      "unknown.\n\n");
	if (commands.len)
		buf_printf(out, "```sh\n%s```\n\n", commands.data);
	buf_puts(out, "`" REPORT_PAGE_NAME "` shows every tensor: codes, scales, saturation and, "
		      "where the source was given, SQNR by layer.\n");
	buf_release(&commands);
}

void card_print(const struct reported *reported, struct buf *out)
{
	put_front_matter(out, reported);
	buf_puts(out, "# ");
	escape_markdown(out, reported->report->name);
	buf_puts(out, "\n\n");
	put_overview(out, reported);
	put_use(out, reported);
	card_put_precision(out, reported->summary);
	put_sqnr(out, reported);
	put_measured(out, reported->report);
	put_benchmarks(out, &reported->report->benchmarks);
	put_commands(out, reported);
}
