/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv quantize: runs the job, watched, and tells how it went.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/opts.h"
#include "cli/plan_print.h"
#include "cli/progress.h"
#include "cli/quantize_options.h"
#include "cli/signals.h"
#include "cli/units.h"

/* All that is told comes after success: an error is one line, and nothing on standard output. */
static void tell(const struct quantize_settings *settings, const struct quantize_report *report)
{
	const struct plan *plan = report->plan;

	if (settings->dry_run && settings->json)
		plan_print_json(plan, &settings->params);
	else if (settings->dry_run)
		plan_print_text(plan, &settings->params);
	else if (settings->json)
		report_print_json(report);
	if (settings->quiet)
		return;
	if (plan->selection.advice)
		fprintf(stderr, "fp8conv quantize: note: %s\n", plan->selection.advice);
	if (plan->selection.unmatched)
		fprintf(stderr, "fp8conv quantize: note: %s\n", plan->selection.unmatched);
	if (plan->selection.caution && (settings->verbose || settings->dry_run))
		fprintf(stderr, "fp8conv quantize: note: %s\n", plan->selection.caution);
	if (!settings->dry_run && (settings->verbose || isatty(STDERR_FILENO)))
		report_print_text(report);
}

static int convert(const struct quantize_settings *settings, struct err *err)
{
	enum progress_mode mode =
		settings->quiet ? PROGRESS_NONE : (enum progress_mode)settings->progress;
	struct progress progress = { .stop = signals_watch() };
	struct plan plan = { 0 };
	struct convert_result result = { 0 };
	struct quantize_report report = { .plan = &plan, .result = &result };
	struct ticker ticker;
	double began = units_now();
	int rc;

	ticker_start(&ticker, "quantize", mode, &progress);
	rc = quantize_plan_make(&plan, &settings->params, &progress, err);
	if (rc == 0 && !settings->dry_run) {
		ticker_plan(&ticker, &plan);
		rc = convert_run(&plan, &settings->params.convert, &progress, &result, err);
	}
	ticker_stop(&ticker);
	report.seconds = units_now() - began;
	report.bytes = atomic_load(&progress.done);
	if (rc == 0)
		tell(settings, &report);
	plan_release(&plan);
	return rc;
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct quantize_settings settings = { .params.convert = { .io = &io_system,
							  .temp_dir = opt_temp_dir() } };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc == 0 && (quantize_settings_finish(&settings, err) || convert(&settings, err)))
		rc = -1;
	quantize_settings_release(&settings);
	return rc < 0 ? -1 : 0;
}

const struct command command_quantize = {
	.name = "quantize",
	.args = "MODEL -o OUT",
	.summary = "Write an FP8 checkpoint, each quantized tensor with its own scale",
	.group = GROUP_CONVERT,
	.argp = &quantize_argp,
	.run = run,
};
