/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv eval: how well a checkpoint predicts text, and how far it is from its source.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/selection.h"
#include "cli/options/values.h"
#include "cli/print/calibration.h"
#include "cli/print/evaluation.h"
#include "cli/print/message.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "cli/remote.h"
#include "cli/signals.h"

struct settings {
	struct eval_params params; /* completed by run() */
	struct texts data;
	struct run_settings run;
	struct ranks ranks;
	struct model_io model;
	bool mpi;
	double max_kld; /* 0: no gate */
	bool dry_run;
};

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_DATA, "data", 0, "FILE",
	  "Text or token ids (.txt, .jsonl, .json, .npy; .gz, .zst), a directory of "
	  "such files, or -; may be repeated",
	  option_append, PLACE(data) },
	{ SECTION_DATA, "source", 0, "MODEL",
	  "Model that OUT was made of: also compare both", option_text, PLACE(params.source) },
	{ SECTION_DATA, "seq-len", 0, "N", "Tokens per sequence (default 512)", option_large,
	  PLACE(params.seq_len) },
	{ SECTION_DATA, "stride", 0, "N",
	  "Begin a sequence every N tokens, and count its last N positions", option_large,
	  PLACE(params.stride) },
	{ SECTION_DATA, "passes", 0, "N", "Maximum number of sequences (default all)",
	  option_large, PLACE(params.passes) },
	{ SECTION_NUMBERS, "activations", 0, "engine|bf16",
	  "Cast the inputs of FP8 weights as an engine does (default), or not at all",
	  option_text, PLACE(params.activations) },
	{ SECTION_NUMBERS, "kv-cache", 0, NULL,
	  "Round keys and values through the KV-cache scales of OUT", option_flag,
	  PLACE(params.kv_cache) },
	{ SECTION_NUMBERS, "precision", 0, "bf16|f32",
	  "Input type of matrix products (default bf16)", option_text, PLACE(params.precision) },
	{ SECTION_CHECKS, "max-kld", 0, "X", "Exit with 1 if the mean KLD is above X",
	  option_positive, PLACE(max_kld) },
	{ SECTION_RUNNING, "resume", 0, "FILE",
	  "Keep in FILE what is measured, and continue from what it has", option_new_file,
	  PLACE(params.resume) },
	{ SECTION_RUNNING, "max-memory", 0, "SIZE",
	  "Memory for sequences in flight, in addition to one layer of each model (default 1G)",
	  option_size, PLACE(run.max_memory) },
	{ SECTION_RUNNING, "ranks", 0, "mpi", "Share the sequences with the other processes of MPI",
	  option_mpi, PLACE(mpi) },
	{ SECTION_REPORTING, "by-layer", 0, NULL,
	  "Also report the error of each module and layer", option_flag,
	  PLACE(params.by_layer) },
	{ SECTION_REPORTING, "dry-run", 'n', NULL, "Print the plan and exit", option_flag,
	  PLACE(dry_run) },
	{ 0 },
};
/* clang-format on */

static bool has_fp8(const struct checkpoint *checkpoint)
{
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (dtype_is_fp8(checkpoint->tensors[i].tensor->dtype))
			return true;
	return false;
}

/* Notes what the user may not expect: properties of the data, models in the wrong order. */
static void note_data(const struct eval_plan *plan, const struct eval_params *params)
{
	size_t asked = (size_t)params->passes;

	if (plan->data.n < asked)
		message_note("the data is enough for %zu of %zu sequences", plan->data.n, asked);
	if (plan->has_source && has_fp8(&plan->source.checkpoint) &&
	    !has_fp8(&plan->out.checkpoint))
		message_note("'%s' has no FP8 tensor, but its source '%s' has: are they swapped?",
			     params->input, params->source);
	data_print_notes(&plan->data, &plan->out.model);
}

/* Prints the result, after the bar is cleared; main() reports a standard output that failed. */
static void report(const struct settings *settings, const struct eval_report *report)
{
	(settings->run.json ? eval_report_json : eval_report_text)(report);
	if (fflush(program.out) || settings->run.quiet)
		return;
	if (settings->run.verbose || program_on_terminal(STDERR_FILENO))
		eval_report_summary(report);
}

static void report_gate(double kld, double max_kld)
{
	char *text = xasprintf("the mean KLD is %.6f, above --max-kld %g", kld, max_kld);

	message_error(text, 1, NULL);
	free(text);
}

static int job_run(const struct eval_plan *plan, const struct settings *settings, struct err *err)
{
	struct sweep_progress progress = { 0 };
	const struct watched_tokens tokens = { &progress, plan->out.model.n_layers + 1 };
	const struct watched watched = watch_tokens(&tokens);
	struct eval_result result;
	struct ticker ticker;
	double began = process_now();
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = eval_run(plan, &settings->params, &progress, &result, err);
	ticker_stop(&ticker);
	if (rc)
		return -1;
	if (ranks_print(&settings->ranks))
		report(settings, &(struct eval_report){ .params = &settings->params,
							.plan = plan,
							.result = &result,
							.seconds = process_now() - began,
							.is_json = settings->run.json });
	rc = settings->max_kld > 0 && !(result.quality.of[QUALITY_KLD].value <= settings->max_kld);
	if (rc && ranks_print(&settings->ranks))
		report_gate(result.quality.of[QUALITY_KLD].value, settings->max_kld);
	eval_result_release(&result);
	return rc;
}

static int open_and_run(const struct settings *settings, struct err *err)
{
	struct eval_plan plan;
	int rc = eval_plan_make(&plan, &settings->params, err);

	rc = group_settle(settings->params.group, rc, err);
	if (!rc && !settings->run.quiet)
		note_data(&plan, &settings->params);
	if (!rc && !settings->dry_run)
		rc = job_run(&plan, settings, err);
	else if (!rc && ranks_print(&settings->ranks))
		(settings->run.json ? eval_print_json : eval_print_text)(&plan);
	eval_plan_release(&plan);
	return rc;
}

/* Checks the options, and completes the parameters. */
static int prepare(struct settings *settings, struct err *err)
{
	struct eval_params *params = &settings->params;

	params->data = settings->data.list;
	params->n_data = settings->data.n;
	params->stop = signals_watch();
	if (!params->n_data)
		return err_set(err, ERR_USAGE,
			       "option '--data' is missing: give text or token ids to predict");
	if (!params->source && (params->by_layer || settings->max_kld > 0))
		return err_set(err, ERR_USAGE, "option '--%s' requires '--source'",
			       params->by_layer ? "by-layer" : "max-kld");
	params->backend = run_forward_backend(&settings->run, err);
	if (!params->backend)
		return -1;
	if (model_io_open(&settings->model, &params->input, &params->source, &settings->run, err))
		return -1;
	params->io = settings->model.io;
	params->max_memory = model_io_rest(&settings->model, settings->run.max_memory);
	params->n_threads = run_streams(&settings->run, params->backend->executor);
	return params->group ? ranks_check_data(params->data, params->n_data, err) : 0;
}

static int check_and_run(void *place, struct err *err)
{
	struct settings *settings = place;
	settings->params.group = ranks_group(&settings->ranks);
	if (group_settle(settings->params.group, prepare(settings, err), err))
		return -1;
	return open_and_run(settings, err);
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	int rc = ranks_run(&settings->ranks, settings->mpi, &settings->run, check_and_run, settings,
			   err);

	model_io_close(&settings->model);
	return rc;
}

const struct command command_eval = {
	.name = "eval",
	.args = "OUT --data FILE",
	.summary = "Measure perplexity, and the divergence from the source",
	.examples = { "fp8conv eval OUT --source MODEL --data text.jsonl",
		      "fp8conv eval OUT --source MODEL --data text.jsonl --json > E.json" },
	.group = GROUP_INSPECT,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { source_options, PLACE(run) },
		    { rename_options, PLACE(params.renames) },
		    { run_options, PLACE(run) } },
	.argument = { SECTION_NONE, "OUT", 0, "OUT", NULL, option_text, PLACE(params.input) },
	.settings_size = sizeof(struct settings),
	.defaults = &(const struct settings){ .params.now = process_now },
	.run = run,
};
