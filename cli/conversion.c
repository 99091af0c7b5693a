/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/conversion.h"

#include <string.h>
#include <unistd.h>

#include "ckpt/signature.h"
#include "cli/options/values.h"
#include "cli/print/conversion.h"
#include "cli/print/calibration.h"
#include "cli/print/difference.h"
#include "cli/print/plan.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "cli/remote.h"
#include "cli/signals.h"
#include "delta/since.h"
#include "execute/exactness.h"

/* Reports after success: a failure prints one line, and nothing on standard output. */
static void report_success(const struct convert_settings *settings,
			   const struct conversion_report *report)
{
	const struct plan *plan = report->plan;

	if (settings->dry_run && settings->run.json)
		plan_print_json(plan, &settings->params);
	else if (settings->dry_run)
		plan_print_text(plan, &settings->params, settings->since);
	else if (settings->run.json)
		conversion_print_json(report);
	if (settings->run.quiet)
		return;
	notes_print(&plan->selection.notes, settings->run.verbose || settings->dry_run);
	if (plan->rounding)
		data_print_notes(&plan->rounding->plan.data, &plan->rounding->plan.model);
	if (!settings->dry_run && (settings->run.verbose || program_on_terminal(STDERR_FILENO)))
		conversion_print_text(report);
}

/* The same of a delta. */
static void report_delta(const struct convert_settings *settings,
			 const struct conversion_report *report, const struct delta_counts *counts)
{
	if (settings->run.json)
		delta_print_json(counts, settings->params.output);
	if (settings->run.quiet)
		return;
	notes_print(&report->plan->selection.notes, settings->run.verbose);
	if (settings->run.verbose || program_on_terminal(STDERR_FILENO)) {
		delta_print_summary(counts, settings->params.output);
		delta_print_next(settings->since, settings->params.output);
	}
}

/* Executes the plan, or compares what it would write with the base. */
static int execute(const struct convert_settings *settings, const struct plan *plan,
		   struct since_result *result, struct progress *progress, struct err *err)
{
	const struct since_params params = { .delta = { .io = settings->params.io,
							.base = settings->since,
							.delta = settings->params.output,
							.n_threads = settings->params.n_threads },
					     .plan = plan,
					     .convert = &settings->params };

	if (settings->since)
		return since_make(&params, result, progress, err);
	return execute_plan(plan, &settings->params, progress, &result->converted, err);
}

/* Adds the notes on the output directory: a delta has none. */
static void add_notes(const struct convert_settings *settings, struct plan *plan)
{
	struct convert_params params = settings->params;

	if (settings->since)
		params.output = NULL;
	output_notes_add(plan, &params, settings->run.verbose || settings->run.json);
}

/* Plans and executes, with progress. */
static int convert(struct convert_settings *settings, struct err *err)
{
	enum progress_mode mode = run_progress_mode(&settings->run);
	struct progress progress = { .stop = signals_watch() };
	struct plan plan = { 0 };
	struct since_result result = { 0 };
	struct conversion_report report = { .plan = &plan,
					    .params = &settings->params,
					    .result = &result.converted };
	struct watched watched = watch_bytes(&progress);
	struct ticker ticker;
	double began = process_now();
	int rc;

	ticker_start(&ticker, mode, &watched);
	rc = settings->make_plan(&plan, settings, &progress, err);
	rc = group_settle(settings->params.group, rc, err);
	if (rc == 0 && !settings->dry_run)
		rc = execute(settings, &plan, &result, &progress, err);
	ticker_stop(&ticker);
	report.seconds = process_now() - began;
	report.bytes = result.converted.bytes;
	if (rc == 0) {
		exactness_note(&plan, &result.converted);
		add_notes(settings, &plan);
		if (settings->since && !settings->dry_run)
			report_delta(settings, &report, &result.counts);
		else if (ranks_print(&settings->ranks))
			report_success(settings, &report);
	} else if (err->kind >= ERR_SYSTEM && !settings->dry_run)
		conversion_ended(&report, err);
	plan_release(&plan);
	return rc;
}

static bool is_stream(const char *path)
{
	return path && !strcmp(path, "-");
}

/* Checks the options against each other, and fills in defaults. */
static int finish(struct convert_settings *settings, struct err *err)
{
	struct convert_params *params = &settings->params;

	if (!params->output && !settings->dry_run)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give an output (-o OUT), or "
			       "--dry-run");
	if (is_stream(params->input) && isatty(STDIN_FILENO))
		return err_set(err, ERR_USAGE, "standard input is a terminal, not a checkpoint");
	if (is_stream(params->output) && !settings->dry_run) {
		if (settings->run.json)
			return err_set(
				err, ERR_USAGE,
				"options '--output -' and '--json' cannot be combined: both write "
				"to standard output");
		if (program_on_terminal(STDOUT_FILENO))
			return err_set(err, ERR_USAGE, "cannot write a checkpoint to a terminal");
	}
	params->backend = run_backend(&settings->run, err);
	if (!params->backend)
		return -1;
	params->n_threads = run_threads(&settings->run);
	params->max_memory = settings->run.max_memory;
	params->temp_dir = process_temp_dir();
	return 0;
}

/* Opens the key that signs, before any work. */
static int open_key(struct convert_settings *settings, struct err *err)
{
	if (!settings->sign)
		return 0;
	settings->params.hashes = true;
	if (signing_key_open(&settings->key, settings->sign, true, err))
		return err_wrap(err, "option '--sign'");
	settings->params.sign = settings->key;
	return 0;
}

/* Completes the settings, and opens the model's I/O. */
static int prepare(struct convert_settings *settings, struct model_io *model, struct err *err)
{
	struct convert_params *params = &settings->params;

	if (finish(settings, err) || open_key(settings, err) ||
	    model_io_open(model, &params->input, NULL, &settings->run, err))
		return -1;
	params->io = model->io;
	params->io_memory = model->memory;
	return 0;
}

static int prepare_and_convert(void *place, struct err *err)
{
	struct convert_settings *settings = place;
	struct model_io model = { 0 };
	int rc;

	settings->params.group = ranks_group(&settings->ranks);
	rc = prepare(settings, &model, err);
	rc = group_settle(settings->params.group, rc, err);
	rc = rc ? rc : convert(settings, err);
	if (!rc && !settings->run.quiet && (settings->run.verbose || settings->dry_run))
		model_io_note(&model);
	model_io_close(&model);
	signing_key_close(settings->key);
	return rc;
}

int conversion_run(void *place, struct err *err)
{
	struct convert_settings *settings = place;

	return ranks_run(&settings->ranks, settings->mpi, &settings->run, prepare_and_convert,
			 settings, err);
}

#define CONVERT_PLACE(member) offsetof(struct convert_settings, member)

static int read_part(const struct option_row *option, const char *value, void *place,
		     struct err *err)
{
	struct convert_params *params = place;

	return option_part(option, value, &params->part, &params->n_parts, &params->part_finish,
			   err);
}

/* clang-format off */
const struct option_row convert_output[] = {
	{ SECTION_OUTPUT, "output", 'o', "OUT",
	  "A directory, a .safetensors file, or - for stdout", option_output,
	  CONVERT_PLACE(params.output) },
	{ 0 },
};

const struct option_row convert_options[] = {
	{ SECTION_OUTPUT, "manifest", 0, NULL, "Record the SHA-256 of every input and output file",
	  option_flag, CONVERT_PLACE(params.hashes) },
	{ SECTION_OUTPUT, "sign", 0, "KEY", "Sign every file with the private key of a PEM file",
	  option_text, CONVERT_PLACE(sign) },
	{ SECTION_OUTPUT, "max-shard-size", 0, "SIZE",
	  "Files of at most SIZE bytes of weights: 5GB, 500MB", option_decimal_size,
	  CONVERT_PLACE(params.max_shard_size) },
	{ SECTION_RUNNING, "restart", 0, NULL, "Discard an unfinished or different job in OUT",
	  option_flag, CONVERT_PLACE(params.restart) },
	{ SECTION_ALIAS, "force", 'f', NULL, "The same as --restart", option_flag,
	  CONVERT_PLACE(params.restart) },
	{ SECTION_RUNNING, "part", 0, "I/N",
	  "Convert part I of N; 'auto': this task's part", read_part, CONVERT_PLACE(params) },
	{ SECTION_REPORTING, "dry-run", 'n', NULL, "Print the plan and exit", option_flag,
	  CONVERT_PLACE(dry_run) },
	{ 0 },
};
/* clang-format on */
