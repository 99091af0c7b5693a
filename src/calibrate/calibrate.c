/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "calibrate/steps.h"

void calibrate_count_data(struct amax_stats *stats, const struct calibrate_plan *plan, size_t first,
			  size_t n)
{
	for (size_t i = first; i < first + n; i++) {
		size_t len = plan->data.sequences[i].len;

		amax_stats_data(stats, calibrate_plan_tokens(plan, i), len * sizeof(uint32_t), len);
	}
}

static int run_alloc(struct run *run, struct err *err)
{
	const struct calibrate_plan *plan = run->plan;
	const struct observer observer = recorder_observer(run->recorder);
	const struct executor_ops *ops = run->forward.executor->ops;
	size_t longest = plan->longest, most = plan->sweep;
	uint64_t stream_size = (uint64_t)longest * plan->model.hidden * sizeof(float);

	run->observer = observer;
	run->forward.observer = &run->observer;
	run->sequences = xcalloc(most, sizeof *run->sequences);
	run->nll = xcalloc(most, sizeof *run->nll);
	run->workspaces = xcalloc((size_t)run->params->n_threads, sizeof *run->workspaces);
	run->embed = xcalloc((size_t)run->params->n_threads, sizeof *run->embed);
	for (int i = 0; i < run->params->n_threads; i++)
		if (workspace_new(&run->workspaces[i], &run->forward, longest, i, err) ||
		    embed_init(&run->embed[i], &plan->model, longest, err))
			return -1;
	run->n_slots = forward_slots(&plan->model);
	run->host_value_stats = xcalloc(most * run->n_slots, sizeof *run->host_value_stats);
	return ops->memory_new(run->forward.executor, (void **)&run->value_stats,
			       most * run->n_slots * sizeof *run->value_stats,
			       "the value stats of sequences", err) ||
			       ops->memory_new(run->forward.executor, (void **)&run->residuals,
					       most * stream_size,
					       "the residual streams of a sweep", err)
		       ? -1
		       : 0;
}

static void run_release(struct run *run)
{
	for (int i = 0; run->workspaces && i < run->params->n_threads; i++)
		workspace_free(run->workspaces[i], &run->forward);
	free(run->workspaces);
	free(run->sequences);
	free(run->nll);
	free(run->host_value_stats);
	for (int i = 0; run->embed && i < run->params->n_threads; i++)
		embed_release(&run->embed[i]);
	free(run->embed);
	if (run->forward.executor) {
		run->forward.executor->ops->memory_free(run->forward.executor, run->residuals);
		run->forward.executor->ops->memory_free(run->forward.executor, run->value_stats);
	}
	recorder_free(run->recorder);
	fp8_forward_free(run->fp8);
	context_stack_release(&run->contexts);
	weights_release(&run->weights);
	forward_release(&run->forward);
}

static void want_linear(struct amax_stats *wanted, const struct linear_ref *linear)
{
	if (linear->weight)
		amax_stats_site(wanted, linear->module, AMAX_GEMM);
}

static void want_sites(struct amax_stats *wanted, const struct model *model)
{
	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		amax_stats_site(wanted, layer->attention, AMAX_ATTENTION);
		for (int l = 0; l < N_LINEARS; l++)
			want_linear(wanted, &layer->linear[l]);
		for (size_t e = 0; e < layer->n_experts; e++)
			for (int l = 0; l < N_EXPERT_ROLES; l++)
				want_linear(wanted, &layer->experts[e][l]);
	}
	want_linear(wanted, &model->head);
}

/* The passes that a file holds are the first ones of the data. */
static int count_first(void *context, struct amax_stats *wanted, uint64_t n_passes, struct err *err)
{
	const struct calibrate_plan *plan = context;
	size_t n = n_passes * plan->batch;

	(void)err;
	want_sites(wanted, &plan->model);
	calibrate_count_data(wanted, plan, 0, n < plan->n_sequences ? n : plan->n_sequences);
	return 0;
}

static void run_fp8(struct run *run, const struct backend *backend)
{
	run->contexts.backend = backend;
	if (!run->params->fp8.forward)
		return;
	run->fp8 = fp8_forward_new(&run->plan->fp8, backend, run->params->n_threads);
	run->forward.filter = fp8_forward_filter(run->fp8);
	run->weights.fp8 = run->fp8;
}

/* Delayed scaling goes on where the passes before left it. */
static int resume_fp8(struct run *run, struct err *err)
{
	const struct amax_stats *stats = run->stats;

	if (!run->fp8 || !run->plan->fp8.recipe.needs_history)
		return 0;
	if (stats->n_passes > stats->history_len)
		return err_set(err, ERR_INPUT,
			       "'%s' holds %llu of %llu passes, and delayed scaling needs all to "
			       "go on: --restart begins anew",
			       run->params->output, (unsigned long long)stats->history_len,
			       (unsigned long long)stats->n_passes);
	fp8_forward_replay(run->fp8, &run->plan->model, stats);
	return 0;
}

int calibrate_run(const struct calibrate_plan *plan, const struct calibrate_params *params,
		  struct calibrate_progress *progress, struct calibrate_result *result,
		  struct amax_stats *stats, struct err *err)
{
	const struct backend *backend =
		backend_select_forward(params->backend ? params->backend : "auto", err);
	struct run run = { .plan = plan,
			   .params = params,
			   .progress = progress,
			   .result = result,
			   .stats = stats,
			   .length = { .now = params->now,
				       .first = calibrate_first_sweep(plan, params) } };
	const struct beginning beginning = { .params = params,
					     .place = &run.place,
					     .source = &run.weights.source,
					     .backend = backend ? backend->executor->name : NULL,
					     .data = params->data,
					     .n_passes = plan->n_passes,
					     .context = (void *)plan,
					     .count = count_first };
	int rc = -1;

	if (!backend || forward_init(&run.forward, backend->executor, &plan->model,
				     calibrate_is_f32(params), err))
		goto out;
	run.recorder = recorder_new(&run.forward, plan->sweep, plan->batch, params->n_threads,
				    params->histogram);
	if (weights_open(&run.weights, &run.forward, params->io, backend, params->n_threads,
			 progress->stop, err))
		goto out;
	run_fp8(&run, backend);
	if (calibrate_begin(&beginning, stats, err) || resume_fp8(&run, err) ||
	    run_alloc(&run, err))
		goto out;
	result->n_resumed = stats->n_passes;
	run.first = stats->n_passes * plan->batch;
	atomic_store(&progress->total,
		     (plan->n_tokens - stats->n_tokens) * (plan->model.n_layers + 1));
	rc = calibrate_sweeps(&run, err) || weights_close(&run.weights, err)
		     ? calibrate_failed(&beginning, stats, result->n_resumed, err)
		     : 0;
out:
	amax_place_close(&run.place);
	run_release(&run);
	return rc;
}
