/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv verify: finds the problems of an FP8 checkpoint; prints nothing on standard output if
 * there are none.
 */
#include <unistd.h>

#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/values.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "cli/print/difference.h"
#include "cli/print/verification.h"
#include "cli/remote.h"
#include "cli/signals.h"
#include "ckpt/signature.h"
#include "cli/options/selection.h"
#include "verify/verify.h"
#include "format/engine.h"

struct settings {
	struct verify_params params;
	struct run_settings run;
	const char *base; /* of a delta; NULL: none */
	const char *key;  /* file of the public key; NULL: no signature is checked */
};

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_CHECKS, "source", 0, "MODEL",
	  "Compare every code and scale with the source model", option_text,
	  PLACE(params.source) },
	{ SECTION_CHECKS, "base", 0, "OLD",
	  "Check a delta against the checkpoint that it applies to", option_text, PLACE(base) },
	{ SECTION_CHECKS, "target", 0, ENGINE_WORDS,
	  "Also check the rules of this engine", option_target, PLACE(params.target) },
	{ SECTION_CHECKS, "tp", 0, "N", "Check that it loads at tensor-parallel size N",
	  option_count,
	  PLACE(params.tp) },
	{ SECTION_CHECKS, "manifest", 0, NULL,
	  "Compare the SHA-256 of every file with the record of 'quantize --manifest'", option_flag,
	  PLACE(params.hashes) },
	{ SECTION_CHECKS, "key", 0, "KEY",
	  "Check the signature of every file with this public key, of a PEM file", option_text,
	  PLACE(key) },
	{ SECTION_CHECKS, "recipe", 0, "RECIPE",
	  "With --source: expect this recipe instead of detecting it",
	  option_recipe, PLACE(params.recipe) },
	{ SECTION_REPORTING, "verbose", 'v', NULL,
	  "Print the checks and, with --source, the SQNR of each weight (worst first)", option_flag,
	  PLACE(run.verbose) },
	{ 0 },
};
/* clang-format on */

static void report(const struct settings *settings, const struct verification *verification)
{
	const struct run_settings *run = &settings->run;
	bool has_source = settings->params.source != NULL;

	if (run->json)
		verification_print_json(verification);
	else
		verification_print_problems(verification);
	if (!run->quiet && !run->json)
		verification_print_notes(verification);
	if (run->verbose && !run->json)
		verification_print_checked(verification, has_source);
	if (!run->quiet && program_on_terminal(STDERR_FILENO))
		verification_print_verdict(verification, &settings->params);
}

static int verify(const struct settings *settings, struct err *err)
{
	struct progress progress = { .stop = signals_watch() };
	struct verification verification;
	struct watched watched = watch_bytes(&progress);
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = verify_run(&verification, &settings->params, &progress, err);
	ticker_stop(&ticker);
	if (rc == 0) {
		report(settings, &verification);
		rc = verification.problems.n > 0;
	}
	verification_release(&verification);
	return rc;
}

/* Refuses what is checked of checkpoints alone. */
static int check_base(const struct settings *settings, struct err *err)
{
	const struct verify_params *params = &settings->params;
	const char *given = params->source   ? "source"
			    : params->target ? "target"
			    : params->tp     ? "tp"
			    : params->hashes ? "manifest"
			    : settings->key  ? "key"
					     : NULL;

	return given ? err_set(err, ERR_USAGE,
			       "options '--base' and '--%s' cannot be combined: apply the delta, "
			       "and verify the result",
			       given)
		     : 0;
}

/* Does all that `apply` does, but write. */
static int verify_delta(const struct settings *settings, const struct io *io, struct err *err)
{
	const struct delta_params params = { .io = io,
					     .base = settings->base,
					     .delta = settings->params.input,
					     .n_threads = run_threads(&settings->run) };
	struct progress progress = { .stop = signals_watch() };
	struct watched watched = watch_bytes(&progress);
	struct delta_counts counts;
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = delta_verify(&params, &counts, &progress, err);
	ticker_stop(&ticker);
	if (!rc && settings->run.json)
		delta_print_json(&counts, params.delta);
	else if (!rc && !settings->run.quiet && program_on_terminal(STDERR_FILENO))
		fprintf(program.err,
			"OK: %zu of %zu tensors change; base and result are as recorded\n",
			counts.n_changed, counts.n_tensors);
	return rc;
}

/* Options of numbers belong to a recipe, and a recipe needs the source to compare with. */
static int check_settings(const struct verify_params *params, struct err *err)
{
	const struct recipe_tuning *tuning = &params->tuning;
	const struct {
		const char *option, *value;
	} numbers[] = {
		{ "fp8-format", tuning->fp8_format },	  { "scale-fmt", tuning->scale_fmt },
		{ "scale-arith", tuning->scale_arith },	  { "mx-scale", tuning->mx_scale },
		{ "amax-epsilon", tuning->amax_epsilon }, { "margin", tuning->margin },
	};

	if (params->renames.n && !params->source)
		return err_set(err, ERR_USAGE, "option '--rename' requires '--source'");
	if (params->recipe && !params->source)
		return err_set(err, ERR_USAGE, "option '--recipe' requires '--source'");
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !params->recipe; i++)
		if (numbers[i].value)
			return err_set(err, ERR_USAGE,
				       "option '--%s' requires '--recipe' and '--source'",
				       numbers[i].option);
	return 0;
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	struct model_io model = { 0 };
	struct signing_key *key = NULL;
	int rc = 0;

	settings->params.sqnr = settings->run.json || settings->run.verbose;
	if (check_settings(&settings->params, err) || (settings->base && check_base(settings, err)))
		return -1;
	settings->params.backend = run_backend(&settings->run, err);
	if (!settings->params.backend)
		return -1;
	if (model_io_open(&model, &settings->params.input, &settings->params.source, &settings->run,
			  err))
		return -1;
	if (settings->base || delta_is_file(model.io, settings->params.input)) {
		rc = settings->base
			     ? verify_delta(settings, model.io, err)
			     : err_set(err, ERR_USAGE,
				       "'%s' is a delta: give the checkpoint that it applies "
				       "to by option '--base'",
				       settings->params.input);
		model_io_close(&model);
		return rc;
	}
	settings->params.io = model.io;
	settings->params.max_memory = model_io_rest(&model, settings->run.max_memory);
	settings->params.n_threads = run_threads(&settings->run);
	if (settings->key && signing_key_open(&key, settings->key, false, err))
		rc = err_wrap(err, "option '--key'");
	settings->params.key = key;
	rc = rc ? rc : verify(settings, err);
	model_io_close(&model);
	signing_key_close(key);
	return rc;
}

const struct command command_verify = {
	.name = "verify",
	.args = "OUT",
	.summary = "Check an FP8 checkpoint for errors that make engines fail",
	.examples = { "fp8conv verify OUT --source MODEL --target vllm",
		      "fp8conv verify OUT --json" },
	.group = GROUP_INSPECT,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { source_options, PLACE(run) },
		    { rename_options, PLACE(params.renames) },
		    { run_options, PLACE(run) },
		    { tuning_options, PLACE(params.tuning) } },
	.argument = { SECTION_NONE, "OUT", 0, "OUT", NULL, option_text, PLACE(params.input) },
	.settings_size = sizeof(struct settings),
	.run = run,
};
