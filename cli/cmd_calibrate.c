/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv calibrate: the amax history of a model.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/print/calibration.h"
#include "cli/print/data.h"
#include "cli/print/plan.h"
#include "cli/command.h"
#include "cli/print/json.h"
#include "cli/options/run.h"
#include "cli/options/values.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "cli/progress/progress.h"
#include "cli/remote.h"
#include "cli/signals.h"
#include "cli/print/units.h"
#include "calibrate/dumps.h"

#define DEFAULT_MIN_TOKENS 64

struct settings {
	struct calibrate_params params; /* completed by run() */
	struct option_list data, include, exclude;
	struct run_settings run;
	int rank[2]; /* of [1]; 0: one process, or RANKS_MPI */
	struct ranks ranks;
	struct model_io model;
	int min_tokens;
	bool dry_run;
};

#define PLACE(member) offsetof(struct settings, member)

static const struct option_row argument = {
	.name = "MODEL", .arg = "MODEL", .read = option_text, .offset = PLACE(params.input)
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
	{ SECTION_DATA, "activations", 0, "DIR",
	  "Read dumped module inputs (*.safetensors, one per pass) instead of data", option_text,
	  PLACE(params.activations) },
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
	  PLACE(include) },
	{ SECTION_TENSORS, "exclude", 0, "RE", "Keep matching tensors in high precision",
	  option_append,
	  PLACE(exclude) },
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
	{ SECTION_REPORTING, "dry-run", 0, NULL, "Print the plan and exit", option_flag,
	  PLACE(dry_run) },
	{ 0 },
};
/* clang-format on */

/* Notes properties of the data that the user may not expect. */
static void note_data(const struct calibrate_plan *plan, const struct calibrate_params *params)
{
	size_t n_passes, asked = (size_t)params->passes;

	if (!params->n_data)
		return;
	n_passes = share_n_passes(&plan->share);
	if (n_passes < asked)
		fprintf(program.err,
			"fp8conv calibrate: note: the data is enough for %zu of %zu "
			"passes\n",
			n_passes, asked);
	data_print_notes("calibrate", &plan->data, &plan->model);
}

/* The job: a model over data, or for an unknown forward pass, its matrices over dumped inputs. */
struct calibrate_job {
	struct calibrate_plan plan;
	struct dumps_plan activations;
};

static int job_open(struct calibrate_job *job, const struct settings *settings, struct err *err)
{
	if (settings->params.activations)
		return dumps_plan_make(&job->activations, &settings->params, err);
	return calibrate_plan_make(&job->plan, &settings->params, err);
}

static void job_print(const struct calibrate_job *job, const struct settings *settings)
{
	if (settings->params.activations)
		(settings->run.json ? activations_print_json
				    : activations_print_text)(&job->activations);
	else
		(settings->run.json ? calibrate_print_json : calibrate_print_text)(&job->plan);
}

static size_t job_stages(const struct calibrate_job *job, const struct settings *settings)
{
	return settings->params.activations ? job->activations.n_linears
					    : job->plan.model.n_layers + 1;
}

static void job_release(struct calibrate_job *job)
{
	calibrate_plan_release(&job->plan);
	dumps_plan_release(&job->activations);
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

static int job_run(const struct calibrate_job *job, const struct settings *settings,
		   struct err *err)
{
	struct sweep_progress progress = { 0 };
	const struct watched_tokens tokens = { &progress, job_stages(job, settings) };
	const struct watched watched = watch_tokens(&tokens);
	struct calibrate_result result = { 0 };
	struct amax_stats stats = { 0 };
	struct ticker ticker;
	double began = process_now();
	int rc;

	ticker_start(&ticker, "calibrate", run_progress_mode(&settings->run), &watched);
	if (settings->params.activations)
		rc = dumps_run(&job->activations, &settings->params, &progress, &result, &stats,
			       err);
	else
		rc = calibrate_run(&job->plan, &settings->params, &progress, &result, &stats, err);
	ticker_stop(&ticker);
	if (rc == 0)
		report(settings, &(struct calibrate_report){ .params = &settings->params,
							     .result = &result,
							     .stats = &stats,
							     .min_tokens = settings->min_tokens,
							     .seconds = process_now() - began });
	free(result.nll);
	amax_stats_release(&stats);
	return rc;
}

static int open_and_run(const struct settings *settings, struct err *err)
{
	struct calibrate_job job = { 0 };
	int rc = 0;

	if (group_settle(settings->params.group, job_open(&job, settings, err), err)) {
		job_release(&job);
		return -1;
	}
	if (!settings->run.quiet) {
		notes_print("calibrate", &job.plan.fp8.selection.notes, true);
		note_data(&job.plan, &settings->params);
	}
	if (settings->dry_run && ranks_print(&settings->ranks))
		job_print(&job, settings);
	else if (!settings->dry_run)
		rc = job_run(&job, settings, err);
	job_release(&job);
	return rc;
}

/* Checks the source of passes: data or dumps, and options that fit it. */
static int check_source(const struct settings *settings, struct err *err)
{
	const struct calibrate_params *params = &settings->params;
	const struct fp8_params *fp8 = &params->fp8;

	if (params->data && params->activations)
		return err_set(err, ERR_USAGE,
			       "options '--data' and '--activations' cannot be combined");
	if (!params->data && !params->activations)
		return err_set(err, ERR_USAGE,
			       "option '--data' is missing: give text or token ids to run the "
			       "model on, or --activations DIR");
	if (params->activations && (params->n_ranks || params->group))
		return err_set(err, ERR_USAGE,
			       "option '--ranks' requires '--data': with '--activations', give "
			       "each process a directory of its own, and merge the files");
	if (params->group && ranks_check_data(params->data, params->n_data, err))
		return -1;
	if (params->activations && run_n_devices(&settings->run) > 1)
		return err_set(err, ERR_USAGE,
			       "option '--devices' requires '--data': with '--activations', give "
			       "one device");
	if (params->activations && (params->seq_len || params->batch || params->seed))
		return err_set(err, ERR_USAGE,
			       "option '--%s' requires '--data': with '--activations' each file "
			       "is one pass",
			       params->seq_len ? "seq-len"
			       : params->batch ? "batch"
					       : "seed");
	if (params->activations &&
	    (fp8->forward || fp8->recipe || fp8->scale_fmt || fp8->select.n_include ||
	     fp8->select.n_exclude || fp8->select.ragged))
		return err_set(err, ERR_USAGE,
			       "option '--fp8-forward' and its options require '--data': dumped "
			       "activations are used as they are");
	return 0;
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
	params->data = settings->data.texts;
	params->n_data = settings->data.n;
	params->stop = signals_watch();
	params->fp8.select.include = settings->include.texts;
	params->fp8.select.n_include = settings->include.n;
	params->fp8.select.exclude = settings->exclude.texts;
	params->fp8.select.n_exclude = settings->exclude.n;
	if (check_source(settings, err))
		return -1;
	if (!params->output && !settings->dry_run)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give a file for the history (-o "
			       "S.amax), or --dry-run");
	params->backend = run_forward_backend(&settings->run, "calibrate", err);
	if (!params->backend)
		return -1;
	if (model_io_open(&settings->model, params->input, NULL, settings->run.max_memory, err))
		return -1;
	params->io = settings->model.io;
	params->max_memory = model_io_rest(&settings->model, settings->run.max_memory);
	params->n_devices = run_n_devices(&settings->run);
	params->n_threads = run_streams(&settings->run, params->backend->executor);
	return 0;
}

static int check_and_run(struct settings *settings, struct err *err)
{
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

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { .params = { .now = process_now },
				     .min_tokens = DEFAULT_MIN_TOKENS };
	int rc = command_parse(command, argc, argv, &settings, err);

	rc = rc ? rc
		: ranks_open(&settings.ranks, settings.rank[0] == RANKS_MPI, &settings.run, err);
	rc = rc ? rc : check_and_run(&settings, err);
	rc = ranks_close(&settings.ranks, command->name, rc, err);
	model_io_close(&settings.model);
	free(settings.data.texts);
	free(settings.include.texts);
	free(settings.exclude.texts);
	return rc < 0 ? -1 : 0;
}

const struct command command_calibrate = {
	.name = "calibrate",
	.args = "MODEL --data FILE|--activations DIR -o S.amax",
	.summary = "Run a model on data and record the amax of every matrix product",
	.group = GROUP_CALIBRATE,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { device_options, PLACE(run) },
		    { run_options, PLACE(run) } },
	.argument = &argument,
	.run = run,
};
