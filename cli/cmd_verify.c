/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv verify: what is wrong with an FP8 checkpoint; nothing to say is good news.
 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "cli/command.h"
#include "cli/print/json.h"
#include "cli/options/run.h"
#include "cli/options/values.h"
#include "cli/print/progress.h"
#include "cli/signals.h"
#include "cli/options/recipe.h"
#include "source/fp8_source.h"
#include "verify/verify.h"
#include "format/engine.h"

struct settings {
	struct verify_params params;
	struct run_settings run;
};

#define PLACE(member) offsetof(struct settings, member)

static const struct option_row argument = {
	.name = "OUT", .arg = "OUT", .read = option_text, .offset = PLACE(params.input)
};

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_CHECKS, "source", 0, "MODEL",
	  "Compare every code and scale with the model it was made from", option_text,
	  PLACE(params.source) },
	{ SECTION_CHECKS, "target", 0, ENGINE_WORDS,
	  "The rules of this engine too", option_text, PLACE(params.target) },
	{ SECTION_CHECKS, "tp", 0, "N", "Whether it loads at tensor-parallel size N", option_count,
	  PLACE(params.tp) },
	{ SECTION_CHECKS, "manifest", 0, NULL,
	  "Compare the SHA-256 of every file with what 'quantize --manifest' recorded", option_flag,
	  PLACE(params.hashes) },
	{ SECTION_CHECKS, "recipe", 0, "RECIPE",
	  "With --source: made by this recipe and the numbers given, not by what is detected",
	  option_recipe, PLACE(params.recipe) },
	{ SECTION_REPORTING, "verbose", 'v', NULL,
	  "What was checked, and with --source the SQNR of each weight, worst first", option_flag,
	  PLACE(run.verbose) },
	{ 0 },
};
/* clang-format on */

static void print_json(const struct verification *verification)
{
	struct json_out out = { .stream = stdout };

	json_out_open(&out, NULL, '{');
	json_out_bool(&out, "ok", verification->problems.n == 0);
	json_out_count(&out, "tensors", verification->n_tensors);
	json_out_text(&out, "recipe", fp8_source_recipe(&verification->detection));
	json_out_text(&out, "format", verification->detection.format);
	json_out_text(&out, "scale_fmt", verification->detection.scale_fmt);
	json_out_text(&out, "arithmetic", verification->arithmetic);
	json_out_real(&out, "cost_db", verification->cost);
	json_out_real(&out, "worst_cost_db", verification->worst_cost);
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
		json_out_real(&out, "own_sqnr_db", verification->reports[i].own_sqnr);
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
			printf("%s: %s: %s\n", problem->file, problem_kind_name(problem->kind),
			       problem->message);
		else
			printf("%s: %s\n", problem_kind_name(problem->kind), problem->message);
	}
}

/* What made the codes, and what that costs. */
static void print_arithmetic(const struct verification *verification)
{
	printf("against the source: arithmetic %s",
	       verification->arithmetic ? verification->arithmetic
					: "unknown, within half a step of each code");
	if (isfinite(verification->cost))
		printf("; against fp8conv's own for such scales it costs %.3f dB in the mean, %.3f "
		       "dB at most",
		       verification->cost, verification->worst_cost);
	putchar('\n');
}

static void print_checked(const struct verification *verification,
			  const struct verify_params *params)
{
	const struct detection *detection = &verification->detection;

	if (detection->format)
		printf("recipe %s, format %s, scales %s\n", fp8_source_recipe(detection),
		       detection->format, detection->scale_fmt);
	else
		printf("not FP8\n");
	printf("%zu tensors, %zu of them FP8 weights; names, types, shapes, configuration, index, "
	       "every scale and code\n",
	       verification->n_tensors, detection->n_weights);
	if (!params->source)
		return;
	print_arithmetic(verification);
	for (size_t i = 0; i < verification->n_reports; i++) {
		if (isfinite(verification->reports[i].sqnr))
			printf("%6.2f dB  %s\n", verification->reports[i].sqnr,
			       verification->reports[i].name);
		else
			printf("lossless   %s\n", verification->reports[i].name);
	}
}

static int verify(const struct settings *settings, struct err *err)
{
	enum progress_mode mode = run_progress_mode(&settings->run);
	struct progress progress = { .stop = signals_watch() };
	struct verification verification;
	struct watched watched = watch_bytes(&progress);
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, "verify", mode, &watched);
	rc = verify_run(&verification, &settings->params, &progress, err);
	ticker_stop(&ticker);
	if (rc == 0) {
		rc = verification.problems.n > 0;
		if (settings->run.json)
			print_json(&verification);
		else
			print_problems(&verification);
		if (settings->run.verbose && !settings->run.json)
			print_checked(&verification, &settings->params);
	}
	verification_release(&verification);
	return rc;
}

/* Numbers are a recipe's, and a recipe is what the source was to become. */
static int check_settings(const struct verify_params *params, struct err *err)
{
	const struct recipe_tuning *tuning = &params->tuning;
	const char *numbers[] = { tuning->fp8_format, tuning->scale_fmt,    tuning->scale_arith,
				  tuning->mx_scale,   tuning->amax_epsilon, tuning->margin };

	if (params->recipe && !params->source)
		return err_set(
			err, ERR_USAGE,
			"--recipe compares with what the codes were made from: add --source MODEL");
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !params->recipe; i++)
		if (numbers[i])
			return err_set(err, ERR_USAGE,
				       "'%s' is a number of a recipe that is given: add --recipe "
				       "and --source",
				       numbers[i]);
	return 0;
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { .params = { .io = &io_system } };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	settings.params.sqnr = settings.run.json || settings.run.verbose;
	if (check_settings(&settings.params, err))
		return -1;
	settings.params.backend = backend_select(settings.run.backend, err);
	if (!settings.params.backend)
		return -1;
	settings.params.max_memory = settings.run.max_memory;
	settings.params.n_threads = run_threads(&settings.run);
	return verify(&settings, err);
}

const struct command command_verify = {
	.name = "verify",
	.args = "OUT",
	.summary = "Find what engines would trip over in an FP8 checkpoint",
	.group = GROUP_LOOK,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { run_options, PLACE(run) },
		    { tuning_options, PLACE(params.tuning) } },
	.argument = &argument,
	.run = run,
};
