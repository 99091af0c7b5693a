/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv report: a model card and a page about an FP8 checkpoint.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "ckpt/signature.h"
#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/selection.h"
#include "cli/options/values.h"
#include "cli/program.h"
#include "cli/print/message.h"
#include "cli/report/report.h"
#include "cli/process.h"
#include "cli/remote.h"
#include "cli/signals.h"

struct settings {
	const char *path;
	struct report_params params; /* completed by run() */
	const char *quantized_by;
	struct texts lm_eval, lm_eval_source;
	struct run_settings run;
	uint64_t max_memory; /* of run, without what is read ahead */
	bool dry_run;
};

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_OUTPUT, "output", 'o', "DIR",
	  "Directory of README.md and report.html; may be OUT itself", option_new_file,
	  PLACE(params.output) },
	{ SECTION_OUTPUT, "restart", 0, NULL, "Replace a README.md or report.html of others",
	  option_flag, PLACE(params.restart) },
	{ SECTION_ALIAS, "force", 'f', NULL, "The same as --restart", option_flag,
	  PLACE(params.restart) },
	{ SECTION_DATA, "source", 0, "MODEL",
	  "Model that OUT was made of: also report the SQNR of each weight", option_text,
	  PLACE(params.source) },
	{ SECTION_DATA, "eval", 0, "FILE", "Result of 'fp8conv eval --json' to show",
	  option_text, PLACE(params.eval) },
	{ SECTION_DATA, "lm-eval", 0, "FILE", "Result of lm_eval for OUT to show; may be repeated",
	  option_append, PLACE(lm_eval) },
	{ SECTION_DATA, "lm-eval-source", 0, "FILE", "The same for the source, to compare with",
	  option_append, PLACE(lm_eval_source) },
	{ SECTION_DATA, "calibration", 0, "S.amax", "Amax history to show", option_text,
	  PLACE(params.calibration) },
	{ SECTION_DATA, "base-model", 0, "ID",
	  "Name of the source on its hub (default: from its path or card)", option_text,
	  PLACE(params.base_model) },
	{ SECTION_DATA, "quantized-by", 0, "NAME", "Who releases OUT (default fp8conv)",
	  option_text, PLACE(quantized_by) },
	{ SECTION_REPORTING, "dry-run", 'n', NULL, "Print what would be written and exit",
	  option_flag, PLACE(dry_run) },
	{ 0 },
};
/* clang-format on */

/* Everything that is made on the way. */
struct report_state {
	const struct settings *settings;
	const struct backend *backend;
	struct progress progress;
	struct inspection inspection;
	struct report report;
	struct summary summary;
	struct tensor_stats *stats;
	struct verification verification;
	double *sqnr; /* by tensor; NULL without --source */
	struct summary_values values;
	struct report_files files;
};

/* Is it the name of a page, or of a card, where a directory is wanted? */
static int check_output(const char *output, struct err *err)
{
	if (!output || (!text_ends(output, ".html") && !text_ends(output, ".md")))
		return 0;
	return err_set(err, ERR_USAGE,
		       "option '--output': '%s' is the name of a file: give the directory for "
		       "README.md and report.html",
		       output);
}

static int open_checkpoint(struct report_state *job, struct err *err)
{
	const struct settings *settings = job->settings;
	const struct checkpoint *checkpoint = &job->inspection.checkpoint;
	const struct inspect_params files = { .io = settings->params.io,
					      .path = settings->path,
					      .temp_dir = process_temp_dir() };

	if (inspect_make(&job->inspection, &files, &job->progress, err))
		return -1;
	if (checkpoint->n_expected)
		return err_set(err, ERR_INPUT, "'%s' is unfinished: it has %zu of %zu files; %s",
			       settings->path, checkpoint->n_found, checkpoint->n_expected,
			       checkpoint_advice(checkpoint));
	if (!job->inspection.detection.n_weights)
		return err_set(err, ERR_INPUT,
			       "'%s' has no FP8 weights: give a checkpoint that 'fp8conv quantize' "
			       "or another tool has quantized",
			       settings->path);
	return report_open(&job->report, &settings->params, checkpoint, &job->inspection.detection,
			   err);
}

/* Compares with the source, and takes the SQNR of each weight. */
static int compare(struct report_state *job, struct err *err)
{
	const struct settings *settings = job->settings;
	const struct checkpoint *checkpoint = &job->inspection.checkpoint;
	const struct verify_params params = { .io = settings->params.io,
					      .input = settings->path,
					      .source = settings->params.source,
					      .renames = settings->params.renames,
					      .sqnr = true,
					      .backend = job->backend,
					      .n_threads = settings->params.n_threads,
					      .max_memory = settings->max_memory };

	if (verify_run(&job->verification, &params, &job->progress, err))
		return -1;
	job->sqnr = xcalloc(checkpoint->n_tensors, sizeof *job->sqnr);
	for (size_t t = 0; t < checkpoint->n_tensors; t++)
		job->sqnr[t] = NAN;
	for (size_t i = 0; i < job->verification.n_reports; i++) {
		const struct weight_report *weight = &job->verification.reports[i];
		const struct tensor_ref *ref = checkpoint_find(checkpoint, weight->name);

		if (ref)
			job->sqnr[low_bit_index(checkpoint, ref)] = weight->sqnr;
	}
	return 0;
}

static int read_values(struct report_state *job, struct err *err)
{
	const struct stats_params params = { .backend = job->backend,
					     .n_threads = job->settings->params.n_threads,
					     .progress = &job->progress,
					     .counts = job->summary.counts };

	if (inspect_stats(&job->inspection, &params, &job->stats, err) ||
	    (job->settings->params.source && compare(job, err)))
		return -1;
	summary_add_values(&job->values, &job->summary, &job->inspection, job->stats, job->sqnr);
	return 0;
}

static int write_files(struct report_state *job, struct err *err)
{
	const struct settings *settings = job->settings;
	struct reported reported = { .inspection = &job->inspection,
				     .summary = &job->summary,
				     .values = &job->values,
				     .stats = job->stats,
				     .sqnr = job->sqnr,
				     .verification = job->sqnr ? &job->verification : NULL,
				     .report = &job->report,
				     .quantized_by = settings->quantized_by ? settings->quantized_by
									    : "fp8conv" };

	card_print(&reported, &job->files.card);
	if (page_print(&reported, &job->files.page, err))
		return -1;
	if (report_write(&job->report, &job->files, &job->progress, err))
		return -1;
	if (outdir_has(&job->report.place.dir, SIGNATURE_NAME))
		message_note("the signature " SIGNATURE_NAME " does not cover these files: the "
			     "command that wrote it, with --sign KEY, signs the directory again");
	return 0;
}

static int work(struct report_state *job, struct err *err)
{
	if (open_checkpoint(job, err))
		return -1;
	summary_make(&job->summary, &job->inspection, job->report.kept.reasons);
	if (job->settings->dry_run)
		return 0;
	if (read_values(job, err))
		return -1;
	return write_files(job, err);
}

static void tell(const struct report_state *job)
{
	const struct settings *settings = job->settings;
	const struct run_settings *run = &settings->run;
	const struct report_told told = { .input = settings->path,
					  .source = settings->params.source,
					  .output = settings->params.output,
					  .eval = settings->params.eval,
					  .lm_eval = settings->lm_eval.n ? *settings->lm_eval.list
									 : NULL,
					  .report = &job->report,
					  .counts = report_count(&job->summary),
					  .verification = job->sqnr ? &job->verification : NULL,
					  .files = settings->dry_run ? NULL : &job->files };

	if (!run->quiet)
		report_print_notes(&told);
	if (run->json)
		report_print_json(&told);
	else if (settings->dry_run)
		report_print_plan(&told);
	else if (!run->quiet && (run->verbose || program_on_terminal(STDERR_FILENO)))
		report_print_summary(&told);
}

static void job_release(struct report_state *job)
{
	buf_release(&job->files.card);
	buf_release(&job->files.page);
	summary_values_release(&job->values);
	free(job->sqnr);
	verification_release(&job->verification);
	free(job->stats);
	summary_release(&job->summary);
	report_release(&job->report);
	inspect_release(&job->inspection);
}

static int check_settings(struct settings *settings, struct err *err)
{
	if (!strcmp(settings->path, "-"))
		return err_set(err, ERR_USAGE,
			       "a stream has no configuration to report on: give a directory or a "
			       "file");
	if (!settings->params.output && !settings->dry_run)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give a directory for README.md and "
			       "report.html (-o DIR), or --dry-run");
	if (settings->params.renames.n && !settings->params.source)
		return err_set(err, ERR_USAGE, "option '--rename' requires '--source'");
	if (settings->lm_eval_source.n && !settings->lm_eval.n)
		return err_set(err, ERR_USAGE,
			       "option '--lm-eval-source' requires '--lm-eval': the result for "
			       "'%s'",
			       settings->path);
	settings->params.benchmarks =
		(struct benchmark_paths){ settings->lm_eval.list, settings->lm_eval_source.list,
					  settings->lm_eval.n, settings->lm_eval_source.n };
	settings->params.n_threads = run_threads(&settings->run);
	return check_output(settings->params.output, err);
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	struct model_io model = { 0 };
	struct report_state job = { .settings = settings };
	struct watched watched = watch_bytes(&job.progress);
	struct ticker ticker;
	int rc;

	if (check_settings(settings, err))
		return -1;
	job.backend = run_backend(&settings->run, err);
	if (!job.backend)
		return -1;
	if (model_io_open(&model, &settings->path, &settings->params.source, &settings->run, err))
		return -1;
	settings->params.io = model.io;
	settings->max_memory = model_io_rest(&model, settings->run.max_memory);
	job.progress.stop = signals_watch();
	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = work(&job, err);
	ticker_stop(&ticker);
	if (rc == 0)
		tell(&job);
	job_release(&job);
	model_io_close(&model);
	return rc;
}

const struct command command_report = {
	.name = "report",
	.args = "OUT -o DIR",
	.summary = "Write a model card and a page with charts",
	.examples = { "fp8conv report OUT --source MODEL --eval E.json -o OUT" },
	.group = GROUP_INSPECT,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { source_options, PLACE(run) },
		    { rename_options, PLACE(params.renames) },
		    { run_options, PLACE(run) } },
	.argument = { SECTION_NONE, "OUT", 0, "OUT", NULL, option_text, PLACE(path) },
	.settings_size = sizeof(struct settings),
	.run = run,
};
