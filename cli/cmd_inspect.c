/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv inspect: describes a checkpoint or an amax file.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "cli/print/amax.h"
#include "cli/command.h"
#include "cli/print/inspection.h"
#include "cli/options/run.h"
#include "cli/options/values.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "cli/process.h"
#include "cli/remote.h"
#include "cli/signals.h"

struct settings {
	const char *path;
	struct run_settings run;
	bool stats, summary;
};

static const struct option_row argument = { .name = "MODEL",
					    .arg = "MODEL",
					    .read = option_text,
					    .offset = offsetof(struct settings, path) };

static const struct option_row options[] = {
	{ SECTION_NONE, "stats", 0, NULL,
	  "Read all values: amax, range of scales, saturated codes, expected SQNR", option_flag,
	  offsetof(struct settings, stats) },
	{ SECTION_NONE, "summary", 0, NULL, "Print the recipe, the sizes and the types alone",
	  option_flag, offsetof(struct settings, summary) },
	{ 0 },
};

/* Reads the requested facts, with progress. */
static int inspect(const struct settings *settings, const struct io *io,
		   struct inspection *inspection, struct tensor_stats **stats, struct err *err)
{
	struct progress progress = { .stop = signals_watch() };
	struct watched watched = watch_bytes(&progress);
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = inspect_make(inspection, io, settings->path, process_temp_dir(), &progress, err);
	if (rc == 0 && settings->stats)
		rc = inspect_stats(inspection,
				   &(struct stats_params){ .backend = backend_select(NULL, err),
							   .n_threads = process_cpus(),
							   .progress = &progress },
				   stats, err);
	ticker_stop(&ticker);
	return rc;
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { 0 };
	struct inspection inspection = { 0 };
	struct model_io model = { 0 };
	struct tensor_stats *stats = NULL;
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (!strcmp(settings.path, "-") && isatty(STDIN_FILENO))
		return err_set(err, ERR_USAGE, "standard input is a terminal, not a checkpoint");
	if (model_io_open(&model, &settings.path, NULL, &settings.run, err))
		return -1;
	rc = inspect(&settings, model.io, &inspection, &stats, err);
	if (rc == 0 && !settings.run.quiet) {
		inspect_print_note(&inspection);
		model_io_note(&model);
	}
	if (rc == 0 && settings.run.json)
		inspect_print_json(&(struct shown){ &inspection, stats });
	else if (rc == 0 && settings.summary && !inspection.is_amax)
		inspect_print_summary(&inspection);
	else if (rc == 0 && inspection.is_amax)
		amax_print_text(&inspection.amax, program_on_terminal(STDOUT_FILENO));
	else if (rc == 0)
		inspect_print_text(&(struct shown){ &inspection, stats });
	free(stats);
	inspect_release(&inspection);
	model_io_close(&model);
	return rc;
}

const struct command command_inspect = {
	.name = "inspect",
	.args = "MODEL",
	.summary = "Show the tensors, types, scales and sizes of a checkpoint, or an amax history",
	.examples = { "fp8conv inspect OUT --summary", "fp8conv inspect OUT --stats",
		      "fp8conv inspect hf://ORG/NAME", "fp8conv inspect S.amax" },
	.group = GROUP_INSPECT,
	.options = options,
	.shared = { { report_options, offsetof(struct settings, run) } },
	.argument = &argument,
	.run = run,
};
