/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/sweep.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"

static int memory_init(struct sweep *sweep, struct err *err)
{
	const struct sweep_plan *plan = sweep->plan;
	const struct model *model = plan->params.model;
	struct sweep_memory *memory = &sweep->memory;
	struct executor *executor = sweep->forward.executor;
	const struct executor_ops *ops = executor->ops;
	size_t n = plan->max_sequences, n_threads = (size_t)plan->params.n_threads;
	uint64_t stream_size = (uint64_t)plan->longest * model->hidden * sizeof(float);

	sweep->n_slots = forward_slots(model);
	memory->sequences = xcalloc(n, sizeof *memory->sequences);
	memory->nll = xcalloc(n, sizeof *memory->nll);
	memory->fetched = xcalloc(n * sweep->n_slots, sizeof *memory->fetched);
	memory->workspaces = xcalloc(n_threads, sizeof *memory->workspaces);
	memory->embeds = xcalloc(n_threads, sizeof *memory->embeds);
	for (size_t i = 0; i < n_threads; i++)
		if (workspace_new(&memory->workspaces[i], &sweep->forward, plan->longest, (int)i,
				  err) ||
		    embed_init(&memory->embeds[i], model, plan->longest, err))
			return -1;
	if (ops->memory_new(executor, (void **)&memory->stats,
			    n * sweep->n_slots * sizeof *memory->stats,
			    "the value stats of sequences", err))
		return -1;
	return ops->memory_new(executor, (void **)&memory->residuals, n * stream_size,
			       "the residual streams of a sweep", err);
}

static void memory_release(struct sweep *sweep)
{
	struct sweep_memory *memory = &sweep->memory;
	struct executor *executor = sweep->forward.executor;

	for (int i = 0; memory->workspaces && i < sweep->plan->params.n_threads; i++)
		workspace_free(memory->workspaces[i]);
	for (int i = 0; memory->embeds && i < sweep->plan->params.n_threads; i++)
		embed_release(&memory->embeds[i]);
	free(memory->workspaces);
	free(memory->embeds);
	free(memory->sequences);
	free(memory->nll);
	free(memory->fetched);
	if (executor) {
		executor->ops->memory_free(executor, memory->residuals);
		executor->ops->memory_free(executor, memory->stats);
	}
}

int sweep_open(struct sweep *sweep, const struct sweep_plan *plan, const struct backend *backend,
	       const atomic_int *stop, _Atomic uint64_t *done, struct err *err)
{
	const struct sweep_params *params = &plan->params;
	const struct weights_params weights = { &sweep->forward, params->io, backend,
						params->n_threads, stop };

	*sweep = (struct sweep){ .plan = plan,
				 .stop = stop,
				 .done = done,
				 .contexts = { .backend = backend },
				 .length = { .now = params->now, .first = plan->first_passes } };
	if (forward_init(&sweep->forward, backend->executor, params->model, params->is_f32, err) ||
	    weights_open(&sweep->weights, &weights, err))
		return -1;
	if (params->fp8) {
		sweep->fp8 = fp8_forward_new(params->fp8, backend, params->n_threads);
		sweep->forward.filter = fp8_forward_filter(sweep->fp8);
		sweep->weights.fp8 = sweep->fp8;
	}
	return memory_init(sweep, err);
}

int sweep_close(struct sweep *sweep, struct err *err)
{
	return weights_close(&sweep->weights, err);
}

void sweep_release(struct sweep *sweep)
{
	memory_release(sweep);
	fp8_forward_free(sweep->fp8);
	context_stack_release(&sweep->contexts);
	weights_release(&sweep->weights);
	forward_release(&sweep->forward);
	*sweep = (struct sweep){ 0 };
}

static int run_sequence(struct sweep *sweep, int worker, size_t i, struct err *err)
{
	const struct pass pass = { &sweep->forward, sweep->memory.workspaces[worker],
				   sweep_layer(sweep), &sweep->memory.sequences[i] };
	const struct head head = { sweep->stage->norm, &sweep->stage->head };
	int rc = pass.layer ? forward_layer(&pass, err)
			    : forward_head(&pass, &head, &sweep->memory.nll[i], NULL, err);

	atomic_fetch_add(sweep->done, pass.sequence->n_tokens);
	return rc;
}

static int load_piece(struct sweep *sweep, int worker, size_t i, struct err *err)
{
	double began = sweep_length_now(&sweep->length);
	int rc = weights_load_piece(&sweep->next->load, worker, i, err);

	sweep_length_loaded(&sweep->length, began, 1);
	return rc;
}

/* Runs a sequence, or after the last sequence loads a piece of the next stage. */
static int run_item(void *context, int worker, size_t item, struct err *err)
{
	struct sweep *sweep = context;

	return item < sweep->n_step ? run_sequence(sweep, worker, sweep->step_first + item, err)
				    : load_piece(sweep, worker, item - sweep->n_step, err);
}

/* Runs the sequences of a step in their own context: with delayed scaling, the history grows at the
 * end of the step. */
static int run_step(struct sweep *sweep, struct err *err)
{
	const struct sweep_params *params = &sweep->plan->params;
	const struct context inner = { .enabled = sweep->fp8,
				       .calibrating = sweep->fp8,
				       .emulated = true,
				       .recipe = params->fp8 ? &params->fp8->recipe : NULL };
	const struct layer *layer = sweep_layer(sweep);
	size_t n_pieces = sweep->next ? sweep->next->load.n : 0;
	struct context outer;
	struct err second = { 0 };
	int rc;

	if (context_enter(&sweep->contexts, &inner, &outer, err))
		return -1;
	if (sweep->fp8 && layer)
		fp8_forward_touch(sweep->fp8, &sweep->contexts, layer);
	rc = pool_run(params->n_threads, sweep->n_step + n_pieces, run_item, sweep, sweep->stop,
		      err);
	if (context_exit(&sweep->contexts, &outer, rc ? &second : err))
		return -1;
	return rc;
}

/* Runs all sequences through the current stage: at once, or with delayed scaling pass by pass. */
static int run_steps(struct sweep *sweep, struct err *err)
{
	const struct sweep_params *params = &sweep->plan->params;
	bool by_pass = sweep->fp8 && params->fp8->recipe.needs_history;
	size_t max = by_pass ? params->batch : sweep->n_sequences;

	for (sweep->step_first = 0; sweep->step_first < sweep->n_sequences;
	     sweep->step_first += max) {
		size_t left = sweep->n_sequences - sweep->step_first;

		sweep->n_step = left < max ? left : max;
		if (run_step(sweep, err))
			return -1;
	}
	return 0;
}

/* Waits until the value stats of the current stage are on the host. */
static int stats_wait(const struct sweep *sweep, struct err *err)
{
	struct executor_stream *stream = sweep_stream(sweep);
	const struct layer *layer = sweep_layer(sweep);

	if (stream->executor->ops->wait(stream, err))
		return err_wrap(err, "value stats of '%s'",
				layer ? layer->ref->attention : sweep->stage->head.ref->module);
	return 0;
}

static int run_stage(struct sweep *sweep, struct err *err)
{
	struct sweep_memory *memory = &sweep->memory;
	struct executor_stream *stream = sweep_stream(sweep);
	const struct executor_ops *ops = stream->executor->ops;
	const struct sweep_events *events = sweep->events;
	size_t size = sweep->n_sequences * sweep->n_slots * sizeof *memory->stats;

	ops->zero(stream, memory->stats, size);
	if (stats_wait(sweep, err) || events->stage_begins(events->context, sweep, err) ||
	    run_steps(sweep, err))
		return -1;
	ops->fetch(stream, memory->fetched, memory->stats, size);
	if (stats_wait(sweep, err))
		return -1;
	return events->stage_ends(events->context, sweep, err);
}

static int begin_load(struct sweep *sweep, struct stage *stage, size_t i, struct err *err)
{
	const struct model *model = sweep->plan->params.model;
	struct executor_stream *stream = sweep_stream(sweep);

	if (i < model->n_layers)
		return weights_begin_layer(&stage->load, &sweep->weights, stream, &model->layers[i],
					   &stage->layer, err);
	if (weights_load_vector(&sweep->weights, stream, model->norm, &stage->norm, err))
		return -1;
	return weights_begin_linear(&stage->load, &sweep->weights, stream, &model->head,
				    &stage->head, err);
}

/* Begins to load stage i.  Ends the loading too, unless `ahead`: then it continues while the stage
 * before runs. */
static int stage_load(struct sweep *sweep, struct stage *stage, size_t i, bool ahead,
		      struct err *err)
{
	double began = sweep_length_now(&sweep->length);
	int rc = begin_load(sweep, stage, i, err);

	if (!rc && !ahead)
		rc = weights_load_pieces(&stage->load, err);
	sweep_length_loaded(&sweep->length, began, sweep->plan->params.n_threads);
	return rc;
}

static void stage_release(const struct sweep *sweep, struct stage *stage)
{
	weights_load_end(&stage->load);
	layer_release(&stage->layer, sweep->forward.executor);
	sweep->forward.executor->ops->memory_free(sweep->forward.executor, stage->norm);
	linear_release(&stage->head);
	*stage = (struct stage){ 0 };
}

/* Runs stage i.  If there is memory for two stages, it was loaded while the stage before ran, and
 * the next one is loaded while it runs. */
static int sweep_stage(struct sweep *sweep, size_t i, struct err *err)
{
	struct stage *stage = &sweep->stages[i % 2], *next = &sweep->stages[(i + 1) % 2];
	bool two = sweep->plan->ahead, ahead = two && i < sweep->plan->params.model->n_layers;

	if ((i == 0 || !two) && stage_load(sweep, stage, i, false, err))
		return -1;
	weights_load_end(&stage->load);
	if (ahead && stage_load(sweep, next, i + 1, true, err))
		return -1;
	sweep->stage = stage;
	sweep->next = ahead ? next : NULL;
	if (run_stage(sweep, err))
		return -1;
	stage_release(sweep, stage);
	return 0;
}

static int sweep_stages(struct sweep *sweep, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i <= sweep->plan->params.model->n_layers && !rc; i++)
		rc = sweep_stage(sweep, i, err);
	for (int i = 0; i < 2; i++)
		stage_release(sweep, &sweep->stages[i]);
	return rc;
}

static int embed_sequence(void *context, int worker, size_t item, struct err *err)
{
	struct sweep *sweep = context;
	struct sweep_memory *memory = &sweep->memory;

	return embed_run(&memory->embeds[worker], &sweep->weights, memory->workspaces[worker],
			 &memory->sequences[item], err);
}

/* Sets up the sequences of the sweep, with the embeddings of their tokens. */
static int sweep_embed(struct sweep *sweep, struct err *err)
{
	const struct sweep_plan *plan = sweep->plan;
	float *residual = sweep->memory.residuals;

	for (size_t i = 0; i < sweep->n_sequences; i++) {
		struct sequence *sequence = &sweep->memory.sequences[i];

		*sequence = (struct sequence){
			.index = sweep->first + i,
			.n_tokens = plan->params.data->sequences[sweep->first + i].len,
			.tokens = sweep_plan_tokens(plan, sweep->first + i),
			.residual = residual,
			.stats = sweep->memory.stats + i * sweep->n_slots,
		};
		residual += sequence->n_tokens * plan->params.model->hidden;
	}
	return pool_run(plan->params.n_threads, sweep->n_sequences, embed_sequence, sweep,
			sweep->stop, err);
}

int sweep_run(struct sweep *sweep, size_t first, const struct sweep_events *events, struct err *err)
{
	const struct sweep_plan *plan = sweep->plan;
	size_t batch = plan->params.batch;
	size_t n = sweep_length_begin(&sweep->length, plan->max_sequences / batch);

	sweep->events = events;
	sweep->forward.observer = &events->observer;
	for (sweep->first = first; sweep->first < plan->params.data->n;
	     sweep->first += sweep->n_sequences) {
		size_t left = plan->params.data->n - sweep->first;

		sweep->n_sequences = left < n * batch ? left : n * batch;
		if (sweep_embed(sweep, err) || sweep_stages(sweep, err) ||
		    events->sweep_ends(events->context, sweep, err))
			return -1;
		n = sweep_length_next(&sweep->length, (sweep->n_sequences + batch - 1) / batch,
				      plan->params.n_threads);
	}
	return 0;
}
