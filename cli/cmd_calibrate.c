/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv calibrate: the amax history of a model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/print/calibration.h"
#include "cli/print/plan.h"
#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/selection.h"
#include "cli/options/values.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "cli/progress/progress.h"
#include "cli/remote.h"
#include "cli/signals.h"
#include "calibrate/calibrate.h"
#include "cli/print/message.h"
#include "format/detect.h"

struct settings {
	struct calibrate_params params; /* completed by run() */
	struct texts data;
	struct run_settings run;
	int rank[2]; /* of [1]; 0: one process, or RANKS_MPI */
	struct ranks ranks;
	struct model_io model;
	int min_tokens;
	bool dry_run;
};

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_OUTPUT, "output", 'o', "S.amax", "Amax history to write", option_new_file,
	  PLACE(params.output) },
	{ SECTION_OUTPUT, "amax-history-len", 0, "N",
	  "Length of the amax history in passes (default 1024)",
	  option_large, PLACE(params.history_len) },
	{ SECTION_OUTPUT, "histogram", 0, NULL,
	  "Also record histograms (for --amax-algo percentile and mse)", option_flag,
	  PLACE(params.histogram) },
	{ SECTION_DATA, "data", 0, "FILE",
	  "Text or token ids (.txt, .jsonl, .json, .npy; .gz, .zst), a directory of "
	  "such files, or -; may be repeated",
	  option_append, PLACE(data) },
	{ SECTION_DATA, "seq-len", 0, "N", "Tokens per sequence (default 512)", option_large,
	  PLACE(params.seq_len) },
	{ SECTION_DATA, "passes", 0, "N", "Maximum number of passes (default 128)",
	  option_large, PLACE(params.passes) },
	{ SECTION_DATA, "batch", 0, "N", "Sequences per pass (default 1)", option_large,
	  PLACE(params.batch) },
	{ SECTION_DATA, "seed", 0, "N",
	  "Sample sequences at random with seed N instead of taking the first", option_large,
	  PLACE(params.seed) },
	{ SECTION_DATA, "min-tokens", 0, "N",
	  "Report experts that saw fewer than N tokens (default 64)",
	  option_large, PLACE(min_tokens) },
	{ SECTION_NUMBERS, "fp8-forward", 0, NULL,
	  "Run matrix products in FP8, as an engine will", option_flag,
	  PLACE(params.fp8.forward) },
	{ SECTION_NUMBERS, "recipe", 0, "RECIPE",
	  "Recipe for --fp8-forward (default blockwise)", option_recipe,
	  PLACE(params.fp8.recipe) },
	{ SECTION_NUMBERS, "scale-fmt", 0, "ue8m0|float",
	  "Scales for --fp8-forward: powers of two, or any float", option_text,
	  PLACE(params.fp8.scale_fmt) },
	{ SECTION_TENSORS, "include", 0, "RE", "Use FP8 only for matching tensors", option_append,
	  PLACE(params.fp8.select.include) },
	{ SECTION_TENSORS, "exclude", 0, "RE", "Keep matching tensors in high precision",
	  option_append,
	  PLACE(params.fp8.select.exclude) },
	{ SECTION_TENSORS, "ragged", 0, NULL,
	  "Allow partial blocks at the edges", option_flag,
	  PLACE(params.fp8.select.ragged) },
	{ SECTION_RUNNING, "precision", 0, "bf16|f32",
	  "Input type of matrix products (default bf16)",
	  option_text, PLACE(params.precision) },
	{ SECTION_RUNNING, "ranks", 0, "I/N",
	  "Run the share of rank I of N, or of this task ('auto'), and write S.amax.I-of-N; or "
	  "share the passes with the other processes of MPI ('mpi')",
	  option_rank, PLACE(rank) },
	{ SECTION_RUNNING, "resume", 0, NULL, "Continue from the passes in the output file",
	  option_flag, PLACE(params.resume) },
	{ SECTION_RUNNING, "restart", 0, NULL, "Overwrite an existing output", option_flag,
	  PLACE(params.restart) },
	{ SECTION_ALIAS, "force", 'f', NULL, "The same as --restart", option_flag,
	  PLACE(params.restart) },
	{ SECTION_RUNNING, "max-memory", 0, "SIZE",
	  "Memory for sequences in flight, in addition to one layer (default 1G)", option_size,
	  PLACE(run.max_memory) },
	{ SECTION_REPORTING, "dry-run", 'n', NULL, "Print the plan and exit", option_flag,
	  PLACE(dry_run) },
	{ 0 },
};
/* clang-format on */

/* Notes properties of the data that the user may not expect. */
static void note_data(const struct calibrate_plan *plan, const struct calibrate_params *params)
{
	size_t n_passes = share_n_passes(&plan->share), asked = (size_t)params->passes;

	if (n_passes < asked)
		message_note("the data is enough for %zu of %zu passes", n_passes, asked);
	data_print_notes(&plan->data, &plan->model);
}

/* Prints results and notes, after the bar is cleared. */
static void report(const struct settings *settings, const struct calibrate_report *report)
{
	if (settings->run.json)
		calibrate_report_json(report);
	if (settings->run.quiet)
		return;
	calibrate_report_uncovered(report);
	if (settings->run.verbose || program_on_terminal(STDERR_FILENO))
		calibrate_report_text(report);
}

/* Has the model weights that are decoded while they are read? */
static bool is_coded(const struct calibrate_plan *plan)
{
	bool found = plan->view.low_bit.n;

	for (size_t i = 0; i < plan->checkpoint.n_tensors && !found; i++)
		found = detection_is_weight(&plan->checkpoint.tensors[i]);
	return found;
}

static int plan_run(const struct calibrate_plan *plan, const struct settings *settings,
		    struct err *err)
{
	struct sweep_progress progress = { 0 };
	const struct watched_tokens tokens = { &progress, plan->model.n_layers + 1 };
	const struct watched watched = watch_tokens(&tokens);
	struct calibrate_result result = { 0 };
	struct amax_stats stats = { 0 };
	struct ticker ticker;
	double began = process_now();
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = calibrate_run(plan, &settings->params, &progress, &result, &stats, err);
	ticker_stop(&ticker);
	if (rc == 0)
		report(settings, &(struct calibrate_report){ .params = &settings->params,
							     .result = &result,
							     .stats = &stats,
							     .min_tokens = settings->min_tokens,
							     .is_coded = is_coded(plan),
							     .seconds = process_now() - began });
	free(result.nll);
	amax_stats_release(&stats);
	return rc;
}

static int open_and_run(const struct settings *settings, struct err *err)
{
	const struct calibrate_params *params = &settings->params;
	struct calibrate_plan plan = { 0 };
	int rc = group_settle(params->group, calibrate_plan_make(&plan, params, err), err);

	if (!rc && !settings->run.quiet) {
		notes_print(&plan.fp8.selection.notes, true);
		note_data(&plan, params);
	}
	if (!rc && !settings->dry_run)
		rc = plan_run(&plan, settings, err);
	else if (!rc && ranks_print(&settings->ranks))
		(settings->run.json ? calibrate_print_json : calibrate_print_text)(&plan);
	calibrate_plan_release(&plan);
	return rc;
}

/* Returns the path of this rank's file, which the caller frees; NULL: --output itself. */
static char *rank_output(const struct calibrate_params *params)
{
	if (params->n_ranks < 2 || !params->output)
		return NULL;
	return xasprintf("%s.%d-of-%d", params->output, params->rank, params->n_ranks);
}

/* Checks the options, and completes the parameters. */
static int prepare(struct settings *settings, struct err *err)
{
	struct calibrate_params *params = &settings->params;

	params->rank = settings->rank[0];
	params->n_ranks = settings->rank[1];
	params->data = settings->data.list;
	params->n_data = settings->data.n;
	params->stop = signals_watch();
	if (!params->data)
		return err_set(err, ERR_USAGE,
			       "option '--data' is missing: give text or token ids to run the "
			       "model on");
	if (params->group && ranks_check_data(params->data, params->n_data, err))
		return -1;
	if (!params->output && !settings->dry_run)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give a file for the history (-o "
			       "S.amax), or --dry-run");
	params->backend = run_forward_backend(&settings->run, err);
	if (!params->backend)
		return -1;
	if (model_io_open(&settings->model, &params->input, NULL, &settings->run, err))
		return -1;
	params->io = settings->model.io;
	params->max_memory = model_io_rest(&settings->model, settings->run.max_memory);
	params->n_devices = run_n_devices(&settings->run);
	params->n_threads = run_streams(&settings->run, params->backend->executor);
	return 0;
}

static int check_and_run(void *place, struct err *err)
{
	struct settings *settings = place;
	struct calibrate_params *params = &settings->params;
	char *path;
	int rc;

	params->group = ranks_group(&settings->ranks);
	if (group_settle(params->group, prepare(settings, err), err))
		return -1;
	path = rank_output(params);
	params->output = path ? path : params->output;
	rc = open_and_run(settings, err);
	free(path);
	return rc;
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	bool mpi = settings->rank[0] == RANKS_MPI;
	int rc = ranks_run(&settings->ranks, mpi, &settings->run, check_and_run, settings, err);

	model_io_close(&settings->model);
	return rc;
}

const struct command command_calibrate = {
	.name = "calibrate",
	.args = "MODEL --data FILE -o S.amax",
	.summary = "Run a model on data and record the amax of every matrix product",
	.examples = { "fp8conv calibrate MODEL --data text.jsonl -o S.amax",
		      "fp8conv calibrate MODEL --data text.jsonl -o S.amax --passes 512" },
	.group = GROUP_CALIBRATE,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { source_options, PLACE(run) },
		    { rename_options, PLACE(params.renames) },
		    { device_options, PLACE(run) },
		    { run_options, PLACE(run) } },
	.argument = { SECTION_NONE, "MODEL", 0, "MODEL", NULL, option_text, PLACE(params.input) },
	.settings_size = sizeof(struct settings),
	.defaults = &(const struct settings){ .params.now = process_now, .min_tokens = 64 },
	.gone = "activations",
	.instead = "record the amaxes while torch runs the model, as fp8conv-python(7) shows",
	.run = run,
};
