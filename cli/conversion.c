/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/conversion.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/plan_print.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/units.h"

static void note(const struct conversion *conversion, const char *text)
{
	if (text)
		fprintf(stderr, "fp8conv %s: note: %s\n", conversion->command, text);
}

/* All that is told comes after success: an error is one line, and nothing on standard output. */
static void tell(const struct conversion *conversion, const struct convert_report *report)
{
	const struct convert_settings *settings = conversion->settings;
	const struct plan *plan = report->plan;

	if (settings->dry_run && settings->json)
		plan_print_json(plan, &settings->params);
	else if (settings->dry_run)
		plan_print_text(plan, &settings->params);
	else if (settings->json)
		report_print_json(report);
	if (settings->quiet)
		return;
	note(conversion, plan->selection.advice);
	note(conversion, plan->selection.unmatched);
	if (settings->verbose || settings->dry_run)
		note(conversion, plan->selection.caution);
	if (!settings->dry_run && (settings->verbose || isatty(STDERR_FILENO)))
		report_print_text(report);
}

int conversion_run(const struct conversion *conversion, struct err *err)
{
	const struct convert_settings *settings = conversion->settings;
	enum progress_mode mode =
		settings->quiet ? PROGRESS_NONE : (enum progress_mode)settings->progress;
	struct progress progress = { .stop = signals_watch() };
	struct plan plan = { 0 };
	struct convert_result result = { 0 };
	struct convert_report report = { .plan = &plan, .result = &result };
	struct ticker ticker;
	double began = units_now();
	int rc;

	ticker_start(&ticker, conversion->command, mode, &progress);
	rc = conversion->make_plan(&plan, conversion->params, &progress, err);
	if (rc == 0 && !settings->dry_run) {
		ticker_plan(&ticker, &plan);
		rc = convert_run(&plan, &settings->params, &progress, &result, err);
	}
	ticker_stop(&ticker);
	report.seconds = units_now() - began;
	report.bytes = atomic_load(&progress.done);
	if (rc == 0)
		tell(conversion, &report);
	plan_release(&plan);
	return rc;
}
