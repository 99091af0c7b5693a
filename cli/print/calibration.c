/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/print/json.h"
#include "cli/print/message.h"
#include "cli/print/path.h"
#include "cli/print/units.h"
#include "cli/process.h"
#include "cli/program.h"

void calibrate_print_text(const struct calibrate_plan *plan)
{
	size_t n_passes = share_n_passes(&plan->share), n_sequences = plan->share.own.n;

	fprintf(program.out, "architecture %s, %zu layers, %zu modules\n", plan->model.arch->name,
		plan->model.n_layers, plan->n_modules);
	fprintf(program.out, "%zu pass%s, %zu sequence%s, %llu tokens\n", n_passes,
		n_passes == 1 ? "" : "es", n_sequences, n_sequences == 1 ? "" : "s",
		(unsigned long long)plan->sweep.n_tokens);
	if (plan->fp8.n)
		fprintf(program.out, "%s, %zu matrices in FP8\n", plan->fp8.recipe.name,
			plan->fp8.n);
	fputs("finished sweeps are kept: --resume continues\n", program.out);
	data_print_memory(plan->memory_bytes);
}

void calibrate_print_json(const struct calibrate_plan *plan)
{
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "architecture", plan->model.arch->name);
	json_out_count(&out, "modules", plan->n_modules);
	json_out_count(&out, "passes", share_n_passes(&plan->share));
	json_out_count(&out, "tokens", plan->sweep.n_tokens);
	json_out_count(&out, "memory_bytes", plan->memory_bytes);
	json_out_count(&out, "fp8_modules", plan->fp8.n);
	json_out_open(&out, "input_ids", '[');
	for (size_t i = 0; i < plan->share.own.n; i++) {
		const uint32_t *tokens = sweep_plan_tokens(&plan->sweep, i);

		json_out_open(&out, NULL, '[');
		for (size_t t = 0; t < plan->share.own.sequences[i].len; t++)
			json_out_count(&out, NULL, tokens[t]);
		json_out_close(&out, ']');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
}

/* Has the module fewer tokens than --min-tokens in all passes? */
static bool is_uncovered(const struct amax_site *site, int min_tokens)
{
	uint64_t n = 0, min = (uint64_t)min_tokens;

	for (size_t p = 0; p < site->n_passes && n < min; p++)
		n += (uint64_t)site->tokens[p]; /* two numbers below 2^63 do not overflow */
	return site->kind == AMAX_GEMM && n < min;
}

void calibrate_report_json(const struct calibrate_report *report)
{
	const struct calibrate_result *result = report->result;
	const struct amax_stats *stats = report->stats;
	struct json_out out = json_out_begin(program.out);

	json_out_count(&out, "passes", stats->n_passes);
	json_out_count(&out, "tokens", stats->n_tokens);
	json_out_real(&out, "perplexity", result->n_passes ? result->perplexity : NAN);
	json_out_open(&out, "nll_per_pass", '[');
	for (size_t i = 0; i < result->n_passes; i++)
		json_out_real(&out, NULL, result->nll[i]);
	json_out_close(&out, ']');
	json_out_real(&out, "seconds", report->seconds);
	json_out_real(&out, "tokens_per_second", (double)result->n_tokens / report->seconds);
	json_out_count(&out, "peak_memory_bytes", process_peak_memory());
	json_out_open(&out, "uncovered", '[');
	for (size_t i = 0; i < stats->n_sites; i++)
		if (is_uncovered(stats->sites[i], report->min_tokens))
			json_out_text(&out, NULL, stats->sites[i]->name);
	json_out_close(&out, ']');
	json_out_end(&out);
}

void history_print_next(const char *model, const struct texts *renames, bool is_coded,
			const char *history)
{
	path_print_next_of(renames, "fp8conv quantize ", model,
			   is_coded ? " -o DIR --requantize --recipe delayed --calibration "
				    : " -o DIR --recipe delayed --calibration ",
			   history);
}

/* Prints the command that joins the files of all ranks, OUTPUT.I-of-N. */
static void ranks_print_next(const struct calibrate_params *params)
{
	size_t n = (size_t)(strrchr(params->output, '.') - params->output);
	char *output = xstrndup(params->output, n);
	char *pattern = xasprintf(".*-of-%d -o ", params->n_ranks);

	path_print_next("fp8conv merge --ranks ", output, pattern, output);
	free(pattern);
	free(output);
}

void calibrate_report_text(const struct calibrate_report *report)
{
	const struct calibrate_result *result = report->result;

	fprintf(program.err, "passes     %llu", (unsigned long long)report->stats->n_passes);
	if (result->n_resumed)
		fprintf(program.err, ", %zu of them from earlier runs", result->n_resumed);
	if (!result->n_passes)
		fputs(": the file was finished", program.err);
	fprintf(program.err, "\ntokens     %llu", (unsigned long long)report->stats->n_tokens);
	if (result->n_passes)
		fprintf(program.err, ", %.0f per second\nperplexity %.4f",
			(double)result->n_tokens / report->seconds, result->perplexity);
	fputc('\n', program.err);
	data_print_time(report->seconds);
	path_print_output(report->params->output);
	if (report->stats->rank.n)
		ranks_print_next(report->params);
	else
		history_print_next(report->params->input, &report->params->renames,
				   report->is_coded, report->params->output);
}

void calibrate_report_uncovered(const struct calibrate_report *report)
{
	size_t n = 0;

	for (size_t i = 0; i < report->stats->n_sites; i++)
		n += is_uncovered(report->stats->sites[i], report->min_tokens);
	if (n)
		message_note("%zu modules saw fewer than %d tokens (--json lists them): use more "
			     "data, or 'quantize --uncovered'",
			     n, report->min_tokens);
}

void data_print_notes(const struct dataset *data, const struct model *model)
{
	size_t n_towers = model_count_towers(model), longest = 0;

	for (size_t i = 0; i < data->n; i++)
		longest = data->sequences[i].len > longest ? data->sequences[i].len : longest;
	if (model->max_positions && longest > model->max_positions)
		message_note("a sequence of %zu tokens is longer than max_position_embeddings of "
			     "config.json (%zu): the model may not know the positions after it",
			     longest, model->max_positions);
	if (data->n_twice)
		message_note("%zu document%s the token that the tokenizer puts before a text "
			     "twice: leave it out of the text",
			     data->n_twice, data->n_twice == 1 ? " begins with" : "s begin with");

	if (data->n_chats)
		message_note("the model's chat template was not applied to messages: see \"Chat "
			     "templates\" in fp8conv-calibrate(1)");
	if (data->invalid_name)
		message_note("'%s' is not UTF-8 at byte %zu: invalid bytes are read as U+FFFD",
			     data->invalid_name, data->invalid_byte);
	if (n_towers)
		message_note("only text is read: the branches for images or audio (%zu tensor%s) "
			     "are not run",
			     n_towers, n_towers == 1 ? "" : "s");
}

void data_print_memory(uint64_t bytes)
{
	struct buf text = { 0 };

	units_memory(&text, bytes);
	fprintf(program.out, "%s of memory\n", text.data);
	buf_release(&text);
}

void data_print_time(double seconds)
{
	struct buf text = { 0 };

	units_duration(&text, seconds);
	buf_puts(&text, ", peak memory ");
	units_memory(&text, process_peak_memory());
	fprintf(program.err, "time       %s\n", text.data);
	buf_release(&text);
}
