/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes the plan, by the kind of output.
 */
#include "execute/execute.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/outdir.h"
#include "execute/compensated.h"
#include "execute/directory.h"
#include "execute/exactness.h"
#include "execute/execution.h"
#include "plan/write_index.h"
#include "source/spool.h"

void figures_add(struct figures *sum, const struct figures *figures)
{
	sum->saturated += figures->saturated;
	sum->nonfinite += figures->nonfinite;
	if (figures->worst && (!sum->worst || figures->worst_sqnr < sum->worst_sqnr)) {
		sum->worst = figures->worst;
		sum->worst_sqnr = figures->worst_sqnr;
	}
	sum->n_changed += figures->n_changed;
	sum->n_inexact += figures->n_inexact;
	sum->n_compensated += figures->n_compensated;
	sum->n_moved += figures->n_moved;
	if (!sum->inexact)
		sum->inexact = figures->inexact;
}

/* Completes a run whose output is one shard: a file or stream. */
static void execution_complete(struct execution *execution)
{
	struct convert_result *result = execution->result;

	pipeline_figures(execution->pipeline, 0, &result->figures);
	result->has_figures = true;
	result->shards_done = 1;
	result->complete = true;
}

/* Checks that the file, the preserved file and the input are different files. */
static int check_file_places(const struct execution *execution, const char *directory,
			     const char *name, struct err *err)
{
	const struct output_shard *kept = execution->plan->preserved;
	const char *preserve = execution->params->preserve;

	if (output_check_not_input(execution->plan, NULL, execution->params->output, err))
		return -1;
	if (!kept)
		return 0;
	if (!strcmp(kept->name, name) && directory_same_path(preserve, directory))
		return err_set(
			err, ERR_USAGE,
			"option '--preserve-high-precision' would write '%s', which is the output",
			execution->params->output);
	return output_check_not_input(execution->plan, preserve, kept->name, err);
}

static int file_run(struct execution *execution, struct err *err)
{
	const struct output_shard *shard = &execution->plan->shards[0];
	const struct output_shard *kept = execution->plan->preserved;
	struct writer writer = { 0 }, preserved = { 0 };
	struct outfile file;
	uint32_t crc;
	int rc = -1;

	if (outfile_open(&file, execution->params->io, execution->params->output, err))
		return -1;
	execution->out = file.dir;
	if (check_file_places(execution, file.dir.path, file.name, err) ||
	    outdir_check_space(&execution->out, output_shard_size(shard), err) ||
	    output_shard_open(shard, &writer, &execution->out, file.name, err))
		goto out;
	if (kept && (outdir_open(&execution->preserve, execution->params->io,
				 execution->params->preserve, OUTDIR_LOCK, false, err) ||
		     output_shard_open(kept, &preserved, &execution->preserve, kept->name, err)))
		goto out;
	if (execution_shard(execution, 0, &writer, kept ? &preserved : NULL, err) ||
	    (kept &&
	     (writer_commit(&preserved, &crc, err) ||
	      output_index_put(kept, execution->plan->n_shards, &execution->preserve, err))) ||
	    writer_commit(&writer, &crc, err))
		goto out;
	execution_complete(execution);
	rc = 0;
out:
	writer_release(&preserved);
	writer_release(&writer);
	outdir_close(&execution->preserve);
	outdir_close(&execution->out);
	return rc;
}

static int stream_run(struct execution *execution, struct err *err)
{
	const struct output_shard *shard = &execution->plan->shards[0];
	struct writer writer = { 0 };
	struct buf header = { 0 };
	uint32_t crc;
	int rc = -1;

	if (execution->params->preserve)
		return err_set(err, ERR_USAGE,
			       "option '--preserve-high-precision' requires a directory or file as "
			       "output, not '-'");
	output_shard_header(shard, &header);
	if (writer_open_anonymous(&writer, execution->params->io, execution->params->temp_dir,
				  &header, output_shard_size(shard), err) ||
	    execution_shard(execution, 0, &writer, NULL, err) ||
	    writer_commit(&writer, &crc, err) ||
	    spool_send(execution->params->io, writer.fd, output_shard_size(shard),
		       execution->progress, err))
		goto out;
	execution_complete(execution);
	rc = 0;
out:
	writer_release(&writer);
	buf_release(&header);
	return rc;
}

/* The part of the leading rank, or of one process. */
static int lead(struct execution *execution, struct err *err)
{
	static int (*const run[])(struct execution *, struct err *) = {
		[DESTINATION_STREAM] = stream_run,
		[DESTINATION_FILE] = file_run,
		[DESTINATION_DIRECTORY] = directory_run,
	};
	const struct convert_params *params = execution->params;
	int rc = pipeline_new(&execution->pipeline, execution->plan, params, execution->progress,
			      err);

	if (group_settle(params->group, rc, err))
		return -1;
	rc = params->exact ? execution_check_exact(execution, err) : 0;
	if (!rc)
		rc = run[destination_of(params->output)](execution, err);
	pipeline_free(execution->pipeline);
	return rc;
}

/* The part of the other ranks: the steps in which they wait for the leading one, and the codes. */
static int follow(struct execution *execution, struct err *err)
{
	const struct group *group = execution->params->group;

	if (group_settle(group, 0, err) || /* lead() */
	    group_settle(group, 0, err))   /* directory_run() */
		return -1;
	return compensated_run(execution, false, err);
}

int execute_plan(const struct plan *plan, const struct convert_params *params,
		 struct progress *progress, struct convert_result *result, struct err *err)
{
	struct execution execution = {
		.plan = plan, .params = params, .progress = progress, .result = result
	};
	int rc;

	*result = (struct convert_result){ 0 };
	malloc_trim(0); /* returns the memory of planning before buffers are allocated */
	if (params->group && compensated_agree(plan, params->group, err))
		return -1;
	rc = group_leads(params->group) ? lead(&execution, err) : follow(&execution, err);
	return group_settle(params->group, rc, err);
}

int execute_skip_nonfinite(struct plan *plan, const struct convert_params *params,
			   struct progress *progress, struct err *err)
{
	struct pipeline *pipeline;
	int rc;

	if (pipeline_new(&pipeline, plan, params, progress, err))
		return -1;
	rc = pipeline_skip_nonfinite(pipeline, &plan->selection, err);
	pipeline_free(pipeline);
	return rc;
}

static void losses_take(const struct pipeline *pipeline, size_t shard, struct unit_loss *losses)
{
	const struct output_shard *out = &pipeline->plan->shards[shard];

	for (size_t i = 0; i < out->n_tensors; i++) {
		const struct unit *unit = &pipeline->plan->selection.units[out->outputs[i].unit];
		const struct output_figures *figures = &pipeline->outputs[i];

		if (out->outputs[i].kind == OUTPUT_CODES)
			losses[out->outputs[i].unit] =
				(struct unit_loss){ .n = unit->rows * unit->cols,
						    .underflow = figures->n_underflow,
						    .overflow = figures->n_overflow,
						    .error = figures->error };
	}
}

int execute_losses(const struct plan *plan, const struct convert_params *params,
		   struct progress *progress, struct unit_loss **losses, struct err *err)
{
	struct pipeline *pipeline;
	int rc = pipeline_new(&pipeline, plan, params, progress, err);

	*losses = xcalloc(plan->selection.n_units, sizeof **losses);
	progress_begin(progress, PROGRESS_WORK, plan->totals.input_bytes);
	if (!rc)
		pipeline->every_row = true;
	for (size_t i = 0; !rc && i < plan->n_shards; i++) {
		rc = pipeline_shard_nowhere(pipeline, i, err);
		if (!rc)
			losses_take(pipeline, i, *losses);
	}
	pipeline_free(pipeline);
	return rc;
}
