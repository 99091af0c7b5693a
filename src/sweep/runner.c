/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/runner.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int memory_init(struct runner *runner, struct err *err)
{
	const struct sweep_plan *plan = runner->plan;
	const struct model *model = runner->from->model;
	struct runner_memory *memory = &runner->memory;
	struct executor *executor = runner->forward.executor;
	const struct executor_ops *ops = executor->ops;
	size_t n = plan->max_sequences, n_threads = (size_t)plan->params.n_threads;
	const struct workspace_shape shape = { plan->longest, plan->max_group };
	uint64_t stream_size = (uint64_t)plan->longest * model->stream.width * sizeof(float);

	runner->n_slots = forward_slots(model);
	memory->sequences = xcalloc(n, sizeof *memory->sequences);
	memory->losses = xcalloc(n_threads * plan->longest, sizeof *memory->losses);
	memory->nll = xcalloc(n, sizeof *memory->nll);
	memory->fetched = xcalloc(n * runner->n_slots, sizeof *memory->fetched);
	memory->workspaces = xcalloc(n_threads, sizeof *memory->workspaces);
	memory->embeds = xcalloc(n_threads, sizeof *memory->embeds);
	for (size_t i = 0; i < n_threads; i++)
		if (workspace_new(&memory->workspaces[i], &runner->forward, shape, (int)i, err) ||
		    embed_init(&memory->embeds[i], model, plan->longest, err))
			return -1;
	if (ops->memory_new(executor, (void **)&memory->stats,
			    n * runner->n_slots * sizeof *memory->stats,
			    "the value stats of sequences", err))
		return -1;
	return ops->memory_new(executor, (void **)&memory->residuals,
			       plan->own_sequences * stream_size, "the residual streams of a sweep",
			       err);
}

static void memory_release(struct runner *runner, int n_threads)
{
	struct runner_memory *memory = &runner->memory;
	struct executor *executor = runner->forward.executor;

	for (int i = 0; memory->workspaces && i < n_threads; i++)
		workspace_free(memory->workspaces[i]);
	for (int i = 0; memory->embeds && i < n_threads; i++)
		embed_release(&memory->embeds[i]);
	free(memory->workspaces);
	free(memory->embeds);
	free(memory->sequences);
	free(memory->losses);
	free(memory->nll);
	free(memory->fetched);
	if (executor) {
		executor->ops->memory_free(executor, memory->residuals);
		executor->ops->memory_free(executor, memory->stats);
	}
}

int runner_open(struct runner *runner, const struct sweep_plan *plan,
		const struct sweep_model *from, const struct backend *backend,
		const atomic_int *stop, struct err *err)
{
	const struct sweep_params *params = &plan->params;
	const struct weights_params weights = { &runner->forward, params->io, params->n_threads,
						stop };

	*runner = (struct runner){ .plan = plan,
				   .from = from,
				   .contexts = { .backend = backend },
				   .resident = plan->resident };
	if (forward_init(&runner->forward, backend->executor, from->model, params->is_f32, err) ||
	    weights_open(&runner->weights, &weights, err))
		return -1;
	runner->n_stages = plan->resident ? from->model->n_layers + 1 : 2;
	runner->stages = xcalloc(runner->n_stages, sizeof *runner->stages);
	runner->forward.filter = from->filter;
	if (from->fp8) {
		runner->fp8 = fp8_forward_new(from->fp8, backend, params->n_threads);
		runner->forward.filter = fp8_forward_filter(runner->fp8);
		runner->weights.fp8 = runner->fp8;
	}
	return memory_init(runner, err);
}

int runner_close(struct runner *runner, struct err *err)
{
	return weights_close(&runner->weights, err);
}

static void stage_release(const struct runner *runner, struct stage *stage)
{
	weights_load_end(&stage->load);
	layer_release(&stage->layer, runner->forward.executor);
	runner->forward.executor->ops->memory_free(runner->forward.executor, stage->norm);
	linear_release(&stage->head);
	*stage = (struct stage){ 0 };
}

void runner_release(struct runner *runner)
{
	for (size_t i = 0; i < runner->n_stages; i++)
		stage_release(runner, &runner->stages[i]);
	free(runner->stages);
	if (runner->plan)
		memory_release(runner, runner->plan->params.n_threads);
	fp8_forward_free(runner->fp8);
	context_stack_release(&runner->contexts);
	weights_release(&runner->weights);
	forward_release(&runner->forward);
	*runner = (struct runner){ 0 };
}

/* Gives the sequences of this rank in a step their residual streams, and returns the end of
 * these. */
static float *begin_step(struct runner *runner, struct span step, float *residual)
{
	struct span own = sweep_plan_own(runner->plan, step);

	for (size_t i = own.first; i < own.first + own.n; i++) {
		struct sequence *sequence = &runner->memory.sequences[i];

		sequence->residual = residual;
		residual += sequence->n_tokens * runner->from->model->stream.width;
	}
	return residual;
}

void runner_begin(struct runner *runner, size_t first, size_t n)
{
	const struct sweep_plan *plan = runner->plan;
	struct runner_memory *memory = &runner->memory;
	float *residual = memory->residuals;
	struct span step;

	for (size_t i = 0; i < n; i++)
		memory->sequences[i] = (struct sequence){
			.index = first + i,
			.n_tokens = plan->params.data->sequences[first + i].len,
			.tokens = sweep_plan_tokens(plan, first + i),
			.stats = memory->stats + i * runner->n_slots,
		};
	memset(memory->nll, 0, n * sizeof *memory->nll);
	for (size_t at = 0; at < n; at += step.n) {
		step = sweep_plan_step(plan, at, n);
		residual = begin_step(runner, step, residual);
	}
}

int runner_embed(struct runner *runner, int worker, size_t sequence, struct err *err)
{
	struct runner_memory *memory = &runner->memory;

	return embed_run(&memory->embeds[worker], &runner->weights, memory->workspaces[worker],
			 &memory->sequences[sequence], err);
}

static int load_stage(struct runner *runner, struct stage *stage, size_t i, struct err *err)
{
	const struct model *model = runner->from->model;
	struct executor_stream *stream = runner_stream(runner);

	stage->begun = true;
	if (i < model->n_layers)
		return weights_begin_layer(&stage->load, &runner->weights, stream,
					   &model->layers[i], &stage->layer, err);
	if (weights_load_vector(&runner->weights, stream, model->norm, &stage->norm, err))
		return -1;
	return weights_begin_linear(&stage->load, &runner->weights, stream, &model->head,
				    &stage->head, err);
}

/* Begins to load a stage.  Where memory is missing, it takes that of the stages that stayed, but
 * the current one. */
static int load_begin(struct runner *runner, struct stage *stage, size_t i, struct err *err)
{
	if (!load_stage(runner, stage, i, err))
		return 0;
	if (!err->no_memory)
		return -1;
	stage_release(runner, stage);
	if (!runner->resident)
		return -1;
	runner->resident = false;
	for (size_t s = 0; s < runner->n_stages; s++)
		if (&runner->stages[s] != runner->stage)
			stage_release(runner, &runner->stages[s]);
	return load_stage(runner, stage, i, err);
}

/* Begins to load the stage after the current one, unless memory is missing. */
static int next_begin(struct runner *runner, size_t i, struct err *err)
{
	struct stage *next = &runner->stages[i % runner->n_stages];

	if (!runner->plan->ahead || i > runner->from->model->n_layers || next->begun)
		return 0;
	if (load_begin(runner, next, i, err)) {
		if (!err->no_memory)
			return -1;
		stage_release(runner, next);
		return 0;
	}
	runner->next = next;
	return 0;
}

int runner_stage_begin(struct runner *runner, size_t i, struct sweep_length *length,
		       struct err *err)
{
	struct stage *stage = &runner->stages[i % runner->n_stages];
	double began = sweep_length_now(length);
	int rc = 0;

	runner->stage = stage;
	runner->next = NULL;
	if (!stage->begun) {
		rc = load_begin(runner, stage, i, err);
		rc = rc ? rc : weights_load_pieces(&stage->load, err);
	}
	weights_load_end(&stage->load);
	rc = rc ? rc : next_begin(runner, i + 1, err);
	sweep_length_loaded(length, began, runner->plan->params.n_threads);
	return rc;
}

void runner_stage_end(struct runner *runner)
{
	if (!runner->resident)
		stage_release(runner, runner->stage);
}

size_t runner_n_pieces(const struct runner *runner)
{
	return runner->next ? runner->next->load.n : 0;
}

int runner_load_piece(struct runner *runner, int worker, size_t i, struct err *err)
{
	return weights_load_piece(&runner->next->load, worker, i, err);
}

int runner_step_begin(struct runner *runner, struct err *err)
{
	const struct fp8_selection *fp8 = runner->from->fp8;
	const struct context inner = { .enabled = fp8,
				       .calibrating = fp8,
				       .emulated = true,
				       .recipe = fp8 ? &fp8->recipe : NULL,
				       .group = runner->plan->params.group };
	const struct layer *layer = runner_layer(runner);

	if (context_enter(&runner->contexts, &inner, &runner->outer, err))
		return -1;
	if (runner->fp8 && layer)
		fp8_forward_touch(runner->fp8, &runner->contexts, layer);
	return 0;
}

int runner_step_end(struct runner *runner, struct err *err)
{
	return context_exit(&runner->contexts, &runner->outer, err);
}

struct pass runner_pass(const struct runner *runner, int worker, size_t sequence)
{
	return (struct pass){ &runner->forward, runner->memory.workspaces[worker],
			      runner_layer(runner), &runner->memory.sequences[sequence] };
}

struct head_pass runner_head_pass(const struct runner *runner, int worker, size_t sequence)
{
	return (struct head_pass){
		.pass = runner_pass(runner, worker, sequence),
		.head = { runner->stage->norm, &runner->stage->head },
		.losses = runner->memory.losses + (size_t)worker * runner->plan->longest,
	};
}

static int run_head(struct runner *runner, int worker, size_t sequence, struct err *err)
{
	const struct head_pass run = runner_head_pass(runner, worker, sequence);
	double nll = 0;

	if (forward_head(&run, NULL, err))
		return -1;
	for (size_t t = 0; t + 1 < run.pass.sequence->n_tokens; t++)
		nll += run.losses[t];
	runner->memory.nll[sequence] = nll;
	return 0;
}

int runner_run(struct runner *runner, int worker, struct span sequences, struct err *err)
{
	const struct pass pass = runner_pass(runner, worker, sequences.first);

	if (pass.layer)
		return forward_group(&pass, sequences.n, err);
	for (size_t i = 0; i < sequences.n; i++)
		if (run_head(runner, worker, sequences.first + i, err))
			return -1;
	return 0;
}

size_t runner_group(const struct runner *runner, size_t n)
{
	const struct layer *layer = runner_layer(runner);
	size_t n_threads = (size_t)runner->plan->params.n_threads, max = runner->plan->max_group;
	size_t each = (n + n_threads - 1) / n_threads, n_rounds = (each + max - 1) / max;

	return layer && layer->ref->n_experts && n ? (each + n_rounds - 1) / n_rounds : 1;
}

/* Waits until the value stats of the current stage are where they belong. */
static int stats_wait(const struct runner *runner, struct err *err)
{
	struct executor_stream *stream = runner_stream(runner);
	const struct layer *layer = runner_layer(runner);

	if (stream->executor->ops->wait(stream, err))
		return err_wrap(err, "value stats of '%s'",
				layer ? layer->ref->mixer_module : runner->stage->head.ref->module);
	return 0;
}

int runner_stats_clear(struct runner *runner, size_t n, struct err *err)
{
	struct executor_stream *stream = runner_stream(runner);

	stream->executor->ops->zero(stream, runner->memory.stats,
				    n * runner->n_slots * sizeof *runner->memory.stats);
	return stats_wait(runner, err);
}

int runner_stats_fetch(struct runner *runner, size_t n, struct err *err)
{
	struct executor_stream *stream = runner_stream(runner);

	stream->executor->ops->fetch(stream, runner->memory.fetched, runner->memory.stats,
				     n * runner->n_slots * sizeof *runner->memory.stats);
	return stats_wait(runner, err);
}
