/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv diff: what differs between two checkpoints; prints nothing on standard output if nothing
 * does.
 */
#include <unistd.h>

#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/selection.h"
#include "cli/options/values.h"
#include "cli/print/difference.h"
#include "cli/print/message.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "cli/remote.h"
#include "cli/signals.h"

struct settings {
	struct texts models, renames, include, exclude;
	struct run_settings run;
	bool all;
};

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_TENSORS, "include", 0, "RE", "Compare only matching tensors", option_append,
	  PLACE(include) },
	{ SECTION_TENSORS, "exclude", 0, "RE", "Leave out matching tensors", option_append,
	  PLACE(exclude) },
	{ SECTION_RUNNING, "max-memory", 0, "SIZE",
	  "Memory for buffers, with K, M, G or T (default 12M for each thread)", option_size,
	  PLACE(run.max_memory) },
	{ SECTION_REPORTING, "all", 0, NULL, "Print every row (default 10 of each table)",
	  option_flag, PLACE(all) },
	{ 0 },
};
/* clang-format on */

static void report(const struct settings *settings, const struct difference *difference)
{
	const struct run_settings *run = &settings->run;

	if (run->json)
		difference_print_json(difference);
	else
		difference_print_text(difference, settings->all);
	if (run->quiet)
		return;
	if (!difference->has_files)
		message_note("a single file has no config.json: tensors alone are compared");
	if (run->verbose || program_on_terminal(STDERR_FILENO))
		difference_print_verdict(difference, &settings->renames);
}

static int compare(const struct settings *settings, const struct diff_params *params,
		   struct err *err)
{
	struct progress progress = { .stop = signals_watch() };
	struct watched watched = watch_bytes(&progress);
	struct difference difference;
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = diff_run(&difference, params, &progress, err);
	ticker_stop(&ticker);
	if (rc == 0) {
		report(settings, &difference);
		rc = !diff_is_none(&difference);
	}
	diff_release(&difference);
	return rc;
}

static int run(void *place, struct err *err)
{
	const struct settings *settings = place;
	struct model_io model = { 0 };
	struct diff_params params = { .renames = settings->renames,
				      .include = settings->include.list,
				      .n_include = settings->include.n,
				      .exclude = settings->exclude.list,
				      .n_exclude = settings->exclude.n,
				      .backend = run_backend(&settings->run, err),
				      .n_threads = run_threads(&settings->run) };
	int rc = -1;

	if (!params.backend)
		return -1;
	if (settings->models.n != 2)
		return err_set(err, ERR_USAGE, "2 models are compared, but %zu given: give A and B",
			       settings->models.n);
	params.paths[0] = settings->models.list[0];
	params.paths[1] = settings->models.list[1];
	if (!model_io_open(&model, &params.paths[0], &params.paths[1], &settings->run, err)) {
		params.io = model.io;
		params.max_memory = model_io_rest(&model, settings->run.max_memory);
		rc = compare(settings, &params, err);
	}
	model_io_close(&model);
	return rc;
}

const struct command command_diff = {
	.name = "diff",
	.args = "A B",
	.summary = "Show what differs between two checkpoints of any format",
	.examples = { "fp8conv diff MODEL OUT", "fp8conv diff OUT hf://ORG/NAME --all",
		      "fp8conv diff A B --include mlp --json" },
	.group = GROUP_INSPECT,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { source_options, PLACE(run) },
		    { rename_options, PLACE(renames) },
		    { run_options, PLACE(run) } },
	.argument = { SECTION_NONE, "A", 0, "MODEL", NULL, option_append, PLACE(models) },
	.settings_size = sizeof(struct settings),
	.many = true,
	.run = run,
};
