/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/verification.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "ckpt/signature.h"
#include "cli/print/low_bit.h"
#include "cli/print/path.h"
#include "cli/print/wrap.h"
#include "cli/program.h"
#include "model/model.h"
#include "source/fp8_source.h"
#include "cli/print/message.h"

#define MAX_ON_TERMINAL 5 /* problems of a kind */

static void compensated_json(struct json_out *out, const struct compensated_report *report)
{
	if (!report->n_codes)
		return;
	json_out_open(out, "compensated", '{');
	json_out_count(out, "codes", report->n_codes);
	json_out_count(out, "not_nearest", report->n_moved);
	json_out_real(out, "sqnr_db", report->sqnr);
	json_out_real(out, "nearest_sqnr_db", report->own_sqnr);
	json_out_close(out, '}');
}

static void problems_json(struct json_out *out, const char *key, const struct problem *list,
			  size_t n)
{
	json_out_open(out, key, '[');
	for (size_t i = 0; i < n; i++) {
		json_out_open(out, NULL, '{');
		json_out_text(out, "kind", problem_kind_name(list[i].kind));
		json_out_text(out, "tensor", list[i].tensor);
		json_out_text(out, "file", list[i].file);
		json_out_text(out, "message", list[i].message);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

void verification_print_json(const struct verification *verification)
{
	const struct low_bit_report *low_bit = &verification->low_bit;
	struct json_out out = json_out_begin(program.out);

	json_out_bool(&out, "ok", verification->problems.n == 0);
	json_out_count(&out, "tensors", verification->n_tensors);
	json_out_text(&out, "recipe", fp8_source_recipe(&verification->detection));
	json_out_text(&out, "format", verification->detection.format);
	json_out_text(&out, "scale_fmt", verification->detection.scale_fmt);
	json_out_text(&out, "arithmetic", verification->arithmetic);
	json_out_real(&out, "cost_db", verification->cost);
	json_out_real(&out, "worst_cost_db", verification->worst_cost);
	low_bit_print_json(&out, &(struct low_bit_shown){ .kind = low_bit->kind,
							  .tensors = low_bit->n,
							  .exact = low_bit->n_exact,
							  .values = low_bit->n_values,
							  .changed = low_bit->n_changed,
							  .first = low_bit->first,
							  .known = LOW_BIT_COUNTED });
	compensated_json(&out, &verification->compensated);
	problems_json(&out, "problems", verification->problems.list, verification->problems.n);
	problems_json(&out, "notes", verification->problems.notes, verification->problems.n_notes);
	json_out_open(&out, "weights", '[');
	for (size_t i = 0; i < verification->n_reports; i++) {
		json_out_open(&out, NULL, '{');
		json_out_text(&out, "tensor", verification->reports[i].name);
		json_out_real(&out, "sqnr_db", verification->reports[i].sqnr);
		json_out_real(&out, "own_sqnr_db", verification->reports[i].own_sqnr);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
}

/* Prints a problem on a line; on a terminal, on lines of its width. */
static void print_problem(const struct problem *problem, bool is_terminal)
{
	struct buf text = { 0 };

	if (problem->file) {
		buf_puts(&text, problem->file);
		text_sanitize(text.data);
		buf_puts(&text, ": ");
	}
	buf_printf(&text, "%s: %s", problem_kind_name(problem->kind), problem->message);
	wrap_print(text.data, 0, 2, is_terminal ? wrap_width(STDOUT_FILENO) : SIZE_MAX);
	buf_release(&text);
}

/* The name of a file may have any bytes, that of a tensor many. */
static void print_name(const char *name, const char *end)
{
	struct buf text = { 0 };

	buf_puts(&text, name);
	text_sanitize(text.data);
	fprintf(program.out, "%s%s", text.data, end);
	buf_release(&text);
}

void verification_print_problems(const struct verification *verification)
{
	const struct problems *problems = &verification->problems;
	bool is_terminal = program_on_terminal(STDOUT_FILENO);
	size_t n_of[N_PROBLEM_KINDS] = { 0 };

	for (size_t i = 0; i < problems->n; i++) {
		const struct problem *problem = &problems->list[i];

		if (is_terminal && n_of[problem->kind]++ >= MAX_ON_TERMINAL)
			continue;
		print_problem(problem, is_terminal);
	}
	for (size_t kind = 0; kind < N_PROBLEM_KINDS; kind++)
		if (n_of[kind] > MAX_ON_TERMINAL)
			fprintf(program.out,
				"%s: %zu more of this kind (a pipe and --json have them)\n",
				problem_kind_name((enum problem_kind)kind),
				problems->n_of[kind] - MAX_ON_TERMINAL);
}

void verification_print_notes(const struct verification *verification)
{
	for (size_t i = 0; i < verification->problems.n_notes; i++) {
		const struct problem *note = &verification->problems.notes[i];

		message_note("%s: %s", problem_kind_name(note->kind), note->message);
	}
}

/* Prints the arithmetic of the codes, and its error. */
static void print_arithmetic(const struct verification *verification)
{
	fprintf(program.out, "against the source: arithmetic %s",
		verification->arithmetic ? verification->arithmetic
					 : "unknown, within half a step of each code");
	if (isfinite(verification->cost))
		fprintf(program.out,
			"; it costs %.3f dB on average and %.3f dB at most, compared with "
			"the arithmetic of fp8conv for such scales",
			verification->cost, verification->worst_cost);
	fputc('\n', program.out);
}

void verification_print_checked(const struct verification *verification, bool has_source)
{
	const struct detection *detection = &verification->detection;

	if (detection->format)
		fprintf(program.out, "recipe %s, format %s, scales %s\n",
			fp8_source_recipe(detection), detection->format, detection->scale_fmt);
	else
		fprintf(program.out, "not FP8\n");
	fprintf(program.out,
		"%zu tensors, %zu of them FP8 weights; names, types, shapes, configuration, index, "
		"every scale and code\n",
		verification->n_tensors, detection->n_weights);
	if (!has_source)
		return;
	print_arithmetic(verification);
	if (verification->low_bit.kind)
		fprintf(program.out, "of %s: %" PRIu64 " of %" PRIu64 " values are not exact\n",
			verification->low_bit.kind, verification->low_bit.n_changed,
			verification->low_bit.n_values);
	for (size_t i = 0; i < verification->n_reports; i++) {
		if (isfinite(verification->reports[i].sqnr))
			fprintf(program.out, "%6.2f dB  ", verification->reports[i].sqnr);
		else
			fputs("lossless   ", program.out);
		print_name(verification->reports[i].name, "\n");
	}
}

/* Can eval run the model? */
static bool is_runnable(const struct checkpoint *checkpoint)
{
	struct model_config config;
	bool runnable;

	if (model_config_read(&config, &checkpoint->config, &(struct err){ 0 }))
		return false;
	runnable = arch_of(&config);
	model_config_release(&config);
	return runnable;
}

/* Prints the command that measures the checkpoint, or else describes it. */
static void print_next(const struct verification *verification, const struct verify_params *params)
{
	bool runnable = is_runnable(&verification->checkpoint);

	path_print_next_of(&params->renames, runnable ? "fp8conv eval " : "fp8conv report ",
			   params->input, " --source ", params->source,
			   runnable ? " --data " : " -o ", runnable ? "FILE" : params->input);
}

void verification_print_verdict(const struct verification *verification,
				const struct verify_params *params)
{
	const struct compensated_report *compensated = &verification->compensated;
	size_t n_unsigned = verification->problems.n_of[PROBLEM_FILE_UNSIGNED];
	size_t n = verification->problems.n;
	bool has_source = params->source;

	if (n)
		fprintf(program.err, "%zu problem%s in %zu tensors, %zu FP8 weights\n", n,
			n == 1 ? "" : "s", verification->n_tensors,
			verification->detection.n_weights);
	else
		fprintf(program.err, "OK: %zu tensors, %zu FP8 weights; %s\n",
			verification->n_tensors, verification->detection.n_weights,
			compensated->n_codes ? "every scale compared with the source"
			: has_source	     ? "every scale and code compared with the source"
					     : "names, types, shapes, config, scales, codes");
	if (compensated->n_codes)
		fprintf(program.err,
			"compensated: %.1f %% of codes are not the nearest; SQNR %.1f dB, nearest "
			"%.1f dB\n",
			100 * (double)compensated->n_moved / (double)compensated->n_codes,
			compensated->sqnr, compensated->own_sqnr);
	if (!n && params->hashes)
		fputs("manifest   every file has the recorded SHA-256\n", program.err);
	if (!n && params->key && n_unsigned)
		fprintf(program.err, "signature  all files but %zu are signed with the key of %s\n",
			n_unsigned, signing_key_path(params->key));
	else if (!n && params->key)
		fprintf(program.err, "signature  every file is signed with the key of %s\n",
			signing_key_path(params->key));
	if (!n && has_source)
		print_next(verification, params);
}
