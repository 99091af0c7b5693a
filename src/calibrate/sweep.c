/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes through the whole model, stage by stage, and what they leave in the history.
 */
#include <math.h>
#include <stdlib.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "calibrate/steps.h"

/* NULL: the head. */
static const struct layer *layer_of(const struct stage *stage)
{
	return stage->layer.ref ? &stage->layer : NULL;
}

static int run_sequence(struct run *run, int worker, size_t i, struct err *err)
{
	struct sequence *sequence = &run->sequences[i];
	const struct layer *layer = layer_of(run->stage);
	struct workspace *lane = run->workspaces[worker];
	int rc = layer ? forward_layer(&run->forward, lane, layer, sequence, err)
		       : forward_head(&run->forward, lane, run->stage->norm, &run->stage->head,
				      sequence, &run->nll[i], NULL, err);

	atomic_fetch_add(&run->progress->done, sequence->n_tokens);
	return rc;
}

static int load_piece(struct run *run, int worker, size_t i, struct err *err)
{
	double began = sweep_length_now(&run->length);
	int rc = weights_load_piece(&run->next->load, worker, i, err);

	sweep_length_loaded(&run->length, began, 1);
	return rc;
}

/* Threads that find no sequence any more load what comes next. */
static int run_item(void *context, int worker, size_t item, struct err *err)
{
	struct run *run = context;

	return item < run->n_step ? run_sequence(run, worker, run->step_first + item, err)
				  : load_piece(run, worker, item - run->n_step, err);
}

/* The sequences of a step in a context of their own: where scales come from a history, it grows at
 * its end. */
static int run_step(struct run *run, struct err *err)
{
	const struct context wanted = { .enabled = run->fp8,
					.calibrating = true,
					.emulated = true,
					.recipe = &run->plan->fp8.recipe };
	const struct layer *layer = layer_of(run->stage);
	struct context outer;
	struct err second = { 0 };
	int rc;

	if (context_enter(&run->contexts, &wanted, &outer, err))
		return -1;
	if (run->fp8 && layer)
		fp8_forward_touch(run->fp8, &run->contexts, layer);
	rc = pool_run(run->params->n_threads, run->n_step + (run->next ? run->next->load.n : 0),
		      run_item, run, run->progress->stop, err);
	if (context_exit(&run->contexts, &outer, rc ? &second : err))
		return -1;
	return rc;
}

/* All sequences through the stage under way: at once, or, for delayed scaling, pass by pass. */
static int run_steps(struct run *run, struct err *err)
{
	bool by_pass = run->fp8 && run->plan->fp8.recipe.needs_history;
	size_t most = by_pass ? run->plan->batch : run->n_sequences;

	for (run->step_first = 0; run->step_first < run->n_sequences; run->step_first += most) {
		size_t left = run->n_sequences - run->step_first;

		run->n_step = left < most ? left : most;
		if (run_step(run, err))
			return -1;
	}
	return 0;
}

/* Waits for work on the value stats of the stage under way. */
static int stats_wait(const struct run *run, struct err *err)
{
	struct executor_stream *lane = workspace_stream(run->workspaces[0]);
	const struct layer *layer = layer_of(run->stage);

	return lane->executor->ops->wait(lane, err)
		       ? err_wrap(err, "the value stats of '%s'",
				  layer ? layer->ref->attention : run->stage->head.ref->module)
		       : 0;
}

/* All sequences of the sweep through the stage under way, and their value stats. */
static int stage_run(struct run *run, struct err *err)
{
	struct executor_stream *lane = workspace_stream(run->workspaces[0]);
	const struct executor_ops *ops = lane->executor->ops;
	size_t size = run->n_sequences * run->n_slots * sizeof *run->value_stats;

	ops->zero(lane, run->value_stats, size);
	if (stats_wait(run, err) ||
	    recorder_begin(run->recorder, lane, layer_of(run->stage), &run->stage->head, run->first,
			   err) ||
	    run_steps(run, err))
		return -1;
	ops->fetch(lane, run->host_value_stats, run->value_stats, size);
	if (stats_wait(run, err))
		return -1;
	return recorder_end(run->recorder, lane, run->n_sequences, run->host_value_stats,
			    run->n_slots, err);
}

static int stage_begin(struct run *run, struct stage *stage, size_t i, struct err *err)
{
	const struct model *model = &run->plan->model;
	struct executor_stream *lane = workspace_stream(run->workspaces[0]);

	if (i < model->n_layers)
		return weights_begin_layer(&stage->load, &run->weights, lane, &model->layers[i],
					   &stage->layer, err);
	return weights_load_vector(&run->weights, lane, model->norm, &stage->norm, err) ||
			       weights_begin_linear(&stage->load, &run->weights, lane, &model->head,
						    &stage->head, err)
		       ? -1
		       : 0;
}

/* Begins stage i, and loads it unless that is done `ahead`, beside the sequences of the stage
 * before. */
static int stage_load(struct run *run, struct stage *stage, size_t i, bool ahead, struct err *err)
{
	double began = sweep_length_now(&run->length);
	int rc = stage_begin(run, stage, i, err) ||
				 (!ahead && weights_load_pieces(&stage->load, err))
			 ? -1
			 : 0;

	sweep_length_loaded(&run->length, began, run->params->n_threads);
	return rc;
}

static void stage_end(const struct run *run, struct stage *stage)
{
	weights_load_end(&stage->load);
	layer_release(&stage->layer, run->forward.executor);
	run->forward.executor->ops->memory_free(run->forward.executor, stage->norm);
	linear_release(&stage->head);
	*stage = (struct stage){ 0 };
}

/* Stage i, which was loaded beside the one before where there is memory for two, as the next is
 * beside this. */
static int sweep_stage(struct run *run, size_t i, struct err *err)
{
	struct stage *stage = &run->stages[i % 2], *next = &run->stages[(i + 1) % 2];
	bool ahead = run->plan->ahead && i < run->plan->model.n_layers;

	if ((i == 0 || !run->plan->ahead) && stage_load(run, stage, i, false, err))
		return -1;
	weights_load_end(&stage->load);
	if (ahead && stage_load(run, next, i + 1, true, err))
		return -1;
	run->stage = stage;
	run->next = ahead ? next : NULL;
	if (stage_run(run, err))
		return -1;
	stage_end(run, stage);
	return 0;
}

static int sweep_stages(struct run *run, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i <= run->plan->model.n_layers && !rc; i++)
		rc = sweep_stage(run, i, err);
	for (int i = 0; i < 2; i++)
		stage_end(run, &run->stages[i]);
	return rc;
}

static int embed_sequence(void *context, int worker, size_t item, struct err *err)
{
	struct run *run = context;

	return embed_run(&run->embed[worker], &run->weights, run->workspaces[worker],
			 &run->sequences[item], err);
}

/* run->n_sequences sequences, from run->first on. */
static int sweep_embed(struct run *run, struct err *err)
{
	const struct calibrate_plan *plan = run->plan;
	float *residual = run->residuals;

	for (size_t i = 0; i < run->n_sequences; i++) {
		struct sequence *sequence = &run->sequences[i];

		*sequence =
			(struct sequence){ .index = run->first + i,
					   .n_tokens = plan->data.sequences[run->first + i].len,
					   .tokens = calibrate_plan_tokens(plan, run->first + i),
					   .residual = residual,
					   .stats = run->value_stats + i * run->n_slots };
		residual += sequence->n_tokens * plan->model.hidden;
	}
	return pool_run(run->params->n_threads, run->n_sequences, embed_sequence, run,
			run->progress->stop, err);
}

/* The mean loss of each pass, and of all. */
static void sweep_losses(struct run *run)
{
	struct calibrate_result *result = run->result;
	size_t batch = run->plan->batch;

	for (size_t s = 0; s < run->n_sequences; s += batch) {
		double nll = 0;
		uint64_t n = 0;

		for (size_t i = s; i < s + batch && i < run->n_sequences; i++) {
			nll += run->nll[i];
			n += run->sequences[i].n_tokens - 1;
			result->n_tokens += run->sequences[i].n_tokens;
		}
		run->loss += nll;
		run->n_losses += n;
		ARRAY_GROW(result->nll, result->n_passes);
		result->nll[result->n_passes++] = n ? nll / (double)n : 0;
	}
	result->perplexity = exp(run->loss / (double)(run->n_losses ? run->n_losses : 1));
	atomic_store(&run->progress->loss, run->loss);
	atomic_store(&run->progress->tokens, run->n_losses);
}

static int sweep(struct run *run, struct err *err)
{
	if (sweep_embed(run, err) || sweep_stages(run, err)) {
		recorder_drop(run->recorder);
		return -1;
	}
	sweep_losses(run);
	recorder_commit(run->recorder, run->stats);
	calibrate_count_data(run->stats, run->plan, run->first, run->n_sequences);
	run->stats->n_passes += (run->n_sequences + run->plan->batch - 1) / run->plan->batch;
	return amax_stats_put(run->stats, &run->place, err);
}

int calibrate_sweeps(struct run *run, struct err *err)
{
	const struct calibrate_plan *plan = run->plan;
	size_t batch = plan->batch, n = sweep_length_begin(&run->length, plan->sweep / batch);

	while (run->first < plan->n_sequences) {
		size_t left = plan->n_sequences - run->first;

		run->n_sequences = left < n * batch ? left : n * batch;
		if (sweep(run, err))
			return -1;
		run->first += run->n_sequences;
		n = sweep_length_next(&run->length, (run->n_sequences + batch - 1) / batch,
				      run->params->n_threads);
	}
	return 0;
}

static double multiplications_of(const struct linear_ref *linears, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double)linears[i].n * (double)linears[i].k;
	return sum;
}

/* Of a token with weights; attention is little beside them. */
static double multiplications(const struct model *model)
{
	double sum = multiplications_of(&model->head, 1);

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		sum += multiplications_of(layer->linear, N_LINEARS);
		if (layer->n_experts)
			sum += (double)model->routing.top_k *
			       multiplications_of(layer->experts[0], N_EXPERT_ROLES);
	}
	return sum;
}

/* Those that a thread does in a minute on a slow machine: 15 billion a second. */
#define SLOW_MINUTE 9e11

size_t calibrate_first_sweep(const struct calibrate_plan *plan,
			     const struct calibrate_params *params)
{
	size_t pass = plan->longest * plan->batch, threads = (size_t)params->n_threads;
	size_t shared = (threads + plan->batch - 1) / plan->batch;
	size_t worth = backend_executor(params->backend)->tokens_per_load / pass;
	double minute =
		SLOW_MINUTE * (double)threads / (multiplications(&plan->model) * (double)pass);
	size_t quick = minute < (double)plan->n_passes ? (size_t)minute : plan->n_passes;
	size_t least = shared > worth ? shared : worth;

	return quick > least ? quick : least;
}
