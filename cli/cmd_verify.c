/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv verify: what is wrong with an FP8 checkpoint; nothing to say is good news.
 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/json_out.h"
#include "cli/opts.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "job/verify.h"

struct settings {
	struct verify_params params;
	int progress;
	bool json, quiet, verbose;
};

#define PLACE(member) offsetof(struct settings, member)

static const struct option_row argument = { .name = "OUT",
					.arg = "OUT",
					.read = option_text,
					.offset = PLACE(params.input) };

static const struct option_row options[] = {
	{ SECTION_CHECK, "source", 0, "MODEL",
	  "Compare every code and scale with the model it was made from", option_text,
	  PLACE(params.source) },
	{ SECTION_CHECK, "target", 0, "vllm|sglang|trtllm|transformers",
	  "The rules of this engine too", option_text, PLACE(params.target) },
	{ SECTION_CHECK, "tp", 0, "N", "Whether it loads at tensor-parallel size N", option_count,
	  PLACE(params.tp) },
	{ SECTION_RUN, "threads", 0, "N", "Default: one for each CPU", option_count,
	  PLACE(params.n_threads) },
	{ SECTION_RUN, "backend", 0, "BACKEND",
	  "auto (default), cpu, or one that 'fp8conv version' lists", option_text,
	  PLACE(params.backend) },
	{ SECTION_TELL, "json", 0, NULL, "Print one JSON object", option_flag, PLACE(json) },
	{ SECTION_TELL, "progress", 0, PROGRESS_MODES, "Progress on standard error (default auto)",
	  option_choice, PLACE(progress) },
	{ SECTION_TELL, "quiet", 'q', NULL, "No progress, no summary", option_flag, PLACE(quiet) },
	{ SECTION_TELL, "verbose", 'v', NULL,
	  "What was checked, and with --source the SQNR of each weight, worst first", option_flag,
	  PLACE(verbose) },
	{ 0 },
};

static void print_json(const struct verification *verification)
{
	struct json_out out = { .stream = stdout };

	json_out_open(&out, NULL, '{');
	json_out_bool(&out, "ok", verification->problems.n == 0);
	json_out_count(&out, "tensors", verification->n_tensors);
	json_out_text(&out, "recipe", verification->recognition.recipe);
	json_out_text(&out, "format", verification->recognition.format);
	json_out_text(&out, "scale_fmt", verification->recognition.scale_fmt);
	json_out_text(&out, "arithmetic", verification->arithmetic);
	json_out_open(&out, "problems", '[');
	for (size_t i = 0; i < verification->problems.n; i++) {
		const struct problem *problem = &verification->problems.list[i];

		json_out_open(&out, NULL, '{');
		json_out_text(&out, "kind", problem_kind_name(problem->kind));
		json_out_text(&out, "tensor", problem->tensor);
		json_out_text(&out, "file", problem->file);
		json_out_text(&out, "message", problem->message);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_open(&out, "weights", '[');
	for (size_t i = 0; i < verification->n_reports; i++) {
		json_out_open(&out, NULL, '{');
		json_out_text(&out, "tensor", verification->reports[i].name);
		json_out_real(&out, "sqnr_db", verification->reports[i].sqnr);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
}

static void print_problems(const struct verification *verification)
{
	for (size_t i = 0; i < verification->problems.n; i++) {
		const struct problem *problem = &verification->problems.list[i];

		if (problem->file)
			printf("%s: %s: %s\n", problem->file, problem_kind_name(problem->kind), problem->message);
		else
			printf("%s: %s\n", problem_kind_name(problem->kind), problem->message);
	}
}

static void print_checked(const struct verification *verification, const struct verify_params *params)
{
	const struct recognition *recognition = &verification->recognition;

	if (recognition->format)
		printf("recipe %s, format %s, scales %s\n", recognition->recipe, recognition->format,
		       recognition->scale_fmt);
	else
		printf("not FP8\n");
	printf("%zu tensors, %zu of them FP8 weights; names, types, shapes, configuration, index, every scale and code\n",
	       verification->n_tensors, recognition->n_weights);
	if (!params->source)
		return;
	printf("against the source: arithmetic %s\n", verification->arithmetic ? verification->arithmetic
									       : "unknown, within half a step of each code");
	for (size_t i = 0; i < verification->n_reports; i++) {
		if (isfinite(verification->reports[i].sqnr))
			printf("%6.2f dB  %s\n", verification->reports[i].sqnr, verification->reports[i].name);
		else
			printf("lossless   %s\n", verification->reports[i].name);
	}
}

static int verify(const struct settings *settings, struct err *err)
{
	enum progress_mode mode = settings->quiet ? PROGRESS_NONE : (enum progress_mode)settings->progress;
	struct progress progress = { .stop = signals_watch() };
	struct verification verification;
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, "verify", mode, &progress);
	rc = verify_run(&verification, &settings->params, &progress, err);
	ticker_stop(&ticker);
	if (rc == 0) {
		rc = verification.problems.n > 0;
		if (settings->json)
			print_json(&verification);
		else
			print_problems(&verification);
		if (settings->verbose && !settings->json)
			print_checked(&verification, &settings->params);
	}
	verification_release(&verification);
	return rc;
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { .params = { .io = &io_system } };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (!settings.params.n_threads)
		settings.params.n_threads = online_cpus();
	return verify(&settings, err);
}

const struct command command_verify = {
	.name = "verify",
	.args = "OUT",
	.summary = "Find what engines would trip over in an FP8 checkpoint",
	.group = GROUP_LOOK,
	.options = options,
	.argument = &argument,
	.run = run,
};
