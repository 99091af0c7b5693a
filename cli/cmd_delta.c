/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv delta and fp8conv apply: what changed between two checkpoints, and the one made of the
 * other.
 */
#include <unistd.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/values.h"
#include "cli/print/difference.h"
#include "cli/print/message.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "cli/remote.h"
#include "cli/signals.h"

/* The settings of both. */
struct settings {
	struct texts paths;
	const char *output;
	bool in_place;
	struct run_settings run;
};

static const struct option_row delta_options[] = {
	{ SECTION_OUTPUT, "output", 'o', "D.safetensors", "Output file", option_new_file,
	  PLACE(output) },
	{ 0 },
};

static const struct option_row apply_options[] = {
	{ SECTION_OUTPUT, "output", 'o', "NEW", "Output directory", option_new_file,
	  PLACE(output) },
	{ SECTION_OUTPUT, "in-place", 0, NULL, "Change OLD itself", option_flag, PLACE(in_place) },
	{ 0 },
};

static const struct option_row shared_options[] = {
	{ SECTION_RUNNING, "threads", 'j', "N", "Number of threads (default one per CPU)",
	  option_count, PLACE(run.n_threads) },
	{ SECTION_REPORTING, "verbose", 'v', NULL,
	  "Print the summary even when stderr is not a terminal", option_flag, PLACE(run.verbose) },
	{ 0 },
};

/* delta_make() or delta_apply(). */
typedef int delta_function(const struct delta_params *params, struct delta_counts *counts,
			   struct progress *progress, struct err *err);

/* Does the job with progress, and reports it.  made: what it wrote. */
static int carry_out(const struct run_settings *run, delta_function *job,
		     const struct delta_params *params, const char *made, struct err *err)
{
	struct progress progress = { .stop = signals_watch() };
	struct watched watched = watch_bytes(&progress);
	struct delta_counts counts;
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(run), &watched);
	rc = job(params, &counts, &progress, err);
	ticker_stop(&ticker);
	if (rc)
		return -1;
	if (run->json)
		delta_print_json(&counts, made);
	if (counts.already && !run->quiet)
		message_note("'%s' is already applied to '%s'", params->delta, made);
	else if (!run->quiet && (run->verbose || program_on_terminal(STDERR_FILENO))) {
		delta_print_summary(&counts, made);
		if (job == delta_make)
			delta_print_next(params->base, made);
	}
	return 0;
}

static int run_delta(void *place, struct err *err)
{
	const struct settings *settings = place;
	struct model_io model = { 0 };
	struct delta_params params = { .delta = settings->output,
				       .n_threads = run_threads(&settings->run) };
	int rc = -1;

	if (settings->paths.n != 2)
		return err_set(err, ERR_USAGE,
			       "2 checkpoints are compared, but %zu given: give OLD and NEW",
			       settings->paths.n);
	if (!settings->output)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give an output file (-o "
			       "D.safetensors)");
	params.base = settings->paths.list[0];
	params.result = settings->paths.list[1];
	if (!model_io_open(&model, &params.base, &params.result, &settings->run, err)) {
		params.io = model.io;
		rc = carry_out(&settings->run, delta_make, &params, params.delta, err);
	}
	model_io_close(&model);
	return rc;
}

static int run_apply(void *place, struct err *err)
{
	const struct settings *settings = place;
	struct model_io model = { 0 };
	struct delta_params params = { .output = settings->output,
				       .n_threads = run_threads(&settings->run) };
	int rc = -1;

	if (settings->paths.n != 2)
		return err_set(
			err, ERR_USAGE,
			"2 arguments are expected, but %zu given: give OLD and D.safetensors",
			settings->paths.n);
	if (!settings->output == !settings->in_place)
		return err_set(err, ERR_USAGE,
			       "give one of the options '--output' (-o NEW) and '--in-place'");
	params.base = settings->paths.list[0];
	params.delta = settings->paths.list[1];
	if (!model_io_open(&model, &params.base, NULL, &settings->run, err)) {
		params.io = model.io;
		rc = carry_out(&settings->run, delta_apply, &params,
			       params.output ? params.output : params.base, err);
	}
	model_io_close(&model);
	return rc;
}

const struct command command_delta = {
	.name = "delta",
	.args = "OLD NEW -o D.safetensors",
	.summary = "Write what changed from one checkpoint to the next, byte by byte",
	.examples = { "fp8conv delta OLD NEW -o D.safetensors",
		      "fp8conv apply OLD D.safetensors --in-place" },
	.group = GROUP_CONVERT,
	.options = delta_options,
	.shared = { { shared_options, 0 }, { report_options, PLACE(run) } },
	.argument = { SECTION_NONE, "OLD", 0, "OLD", NULL, option_append, PLACE(paths) },
	.settings_size = sizeof(struct settings),
	.many = true,
	.run = run_delta,
};

const struct command command_apply = {
	.name = "apply",
	.args = "OLD D.safetensors -o NEW",
	.summary = "Make the next checkpoint from the old one and what 'delta' wrote",
	.examples = { "fp8conv apply OLD D.safetensors -o NEW",
		      "fp8conv apply OLD D.safetensors --in-place" },
	.group = GROUP_CONVERT,
	.options = apply_options,
	.shared = { { shared_options, 0 }, { report_options, PLACE(run) } },
	.argument = { SECTION_NONE, "OLD", 0, "OLD", NULL, option_append, PLACE(paths) },
	.settings_size = sizeof(struct settings),
	.many = true,
	.run = run_apply,
};
