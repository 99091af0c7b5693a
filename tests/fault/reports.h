/* SPDX-License-Identifier: Apache-2.0
 *
 * A report, whose files have the numbers that a card and a page show.
 */
#ifndef FP8CONV_TESTS_FAULT_REPORTS_H
#define FP8CONV_TESTS_FAULT_REPORTS_H

#include "backend/backend.h"
#include "inspect/summary.h"
#include "report/report.h"
#include "tests/fault/histories.h"
#include "verify/verify.h"

/* Everything that a report is made of. */
struct report_job {
	struct inspection inspection;
	struct report report;
	struct summary summary;
	struct tensor_stats *stats;
	struct verification verification;
	struct report_files files;
};

static void report_put_numbers(struct report_job *job)
{
	const struct report *report = &job->report;
	struct buf *card = &job->files.card, *page = &job->files.page;

	buf_printf(card, "%s %d %d %a %zu\n", report->base_model, report->manifest != NULL,
		   card_is_empty(&report->card), report->evaluation.of[QUALITY_PERPLEXITY].value,
		   report->curves.n);
	for (size_t g = 0; g < job->summary.n; g++) {
		const struct tensor_group *group = &job->summary.groups[g];

		buf_printf(page, "%s %s %zu", group->pattern, group->reason ? group->reason : "-",
			   group->n_tensors);
		for (int code = 0; group->counts && code < 256; code++)
			buf_printf(page, " %llu", (unsigned long long)group->counts->codes[code]);
		buf_putc(page, '\n');
	}
	for (size_t i = 0; i < job->verification.n_reports; i++)
		buf_printf(page, "%s %a\n", job->verification.reports[i].name,
			   job->verification.reports[i].sqnr);
	buf_printf(page, "%zu %s\n", job->verification.problems.n, job->verification.arithmetic);
}

static int report_work(struct report_job *job, const struct report_params *params,
		       struct progress *progress, struct err *err)
{
	const struct verify_params verify = { .io = params->io,
					      .input = "fp8",
					      .source = params->source,
					      .sqnr = true,
					      .backend = backends[0],
					      .n_threads = params->n_threads };
	struct stats_params stats = { .backend = backends[0],
				      .n_threads = params->n_threads,
				      .progress = progress };

	if (inspect_make(&job->inspection,
			 &(struct inspect_params){ params->io, "fp8", "tmp", { 0 } }, progress,
			 err) ||
	    report_open(&job->report, params, &job->inspection.checkpoint,
			&job->inspection.detection, err))
		return -1;
	summary_make(&job->summary, &job->inspection, job->report.kept.reasons);
	stats.counts = job->summary.counts;
	if (inspect_stats(&job->inspection, &stats, &job->stats, err) ||
	    verify_run(&job->verification, &verify, progress, err))
		return -1;
	report_put_numbers(job);
	return report_write(&job->report, &job->files, progress, err);
}

/* On fp8, which was made of llama, into a directory of its own. */
static int run_report(const struct io *io, const struct place *place, bool other, bool half,
		      const atomic_int *stop, struct err *err)
{
	const struct report_params params = { .io = io,
					      .source = "llama",
					      .calibration = "a.amax",
					      .output = "out",
					      .n_threads = place->n_threads };
	struct progress progress = { .stop = stop };
	struct report_job job = { .inspection.stream_fd = -1 };
	int rc = report_work(&job, &params, &progress, err);

	(void)other, (void)half;
	buf_release(&job.files.card);
	buf_release(&job.files.page);
	verification_release(&job.verification);
	free(job.stats);
	summary_release(&job.summary);
	report_release(&job.report);
	inspect_release(&job.inspection);
	return rc;
}

#endif
