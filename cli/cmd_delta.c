/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv delta: what changed between two checkpoints, byte by byte, as one file.
 */
#include <unistd.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/values.h"
#include "cli/print/difference.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "cli/remote.h"
#include "cli/signals.h"

struct settings {
	struct texts models;
	const char *output;
	struct run_settings run;
};

static const struct option_row options[] = {
	{ SECTION_OUTPUT, "output", 'o', "D.safetensors", "Output file", option_new_file,
	  PLACE(output) },
	{ SECTION_RUNNING, "threads", 'j', "N", "Number of threads (default one per CPU)",
	  option_count, PLACE(run.n_threads) },
	{ SECTION_REPORTING, "verbose", 'v', NULL,
	  "Print the summary even when stderr is not a terminal", option_flag, PLACE(run.verbose) },
	{ 0 },
};

static int make(const struct settings *settings, const struct delta_params *params, struct err *err)
{
	const struct run_settings *run = &settings->run;
	struct progress progress = { .stop = signals_watch() };
	struct watched watched = watch_bytes(&progress);
	struct delta_counts counts;
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(run), &watched);
	rc = delta_make(params, &counts, &progress, err);
	ticker_stop(&ticker);
	if (!rc && run->json)
		delta_print_json(&counts, params->delta);
	if (!rc && !run->quiet && (run->verbose || program_on_terminal(STDERR_FILENO)))
		delta_print_summary(&counts, params->delta);
	return rc;
}

static int run(void *place, struct err *err)
{
	const struct settings *settings = place;
	struct model_io model = { 0 };
	struct delta_params params = { .delta = settings->output,
				       .n_threads = run_threads(&settings->run) };
	int rc = -1;

	if (settings->models.n != 2)
		return err_set(err, ERR_USAGE,
			       "2 checkpoints are compared, but %zu given: give OLD and NEW",
			       settings->models.n);
	if (!settings->output)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give an output file (-o "
			       "D.safetensors)");
	params.base = settings->models.list[0];
	params.result = settings->models.list[1];
	if (!model_io_open(&model, &params.base, &params.result, &settings->run, err)) {
		params.io = model.io;
		rc = make(settings, &params, err);
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
	.options = options,
	.shared = { { report_options, PLACE(run) } },
	.argument = { SECTION_NONE, "OLD", 0, "OLD", NULL, option_append, PLACE(models) },
	.settings_size = sizeof(struct settings),
	.many = true,
	.run = run,
};
