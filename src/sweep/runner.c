/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/runner.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static size_t n_devices(const struct runner *runner)
{
	return runner->forward.n_devices;
}

static uint64_t stats_size(const struct runner *runner, size_t n)
{
	return n * runner->n_slots * sizeof(struct value_stats);
}

/* Allocates the arrays of a device. */
static int arrays_init(struct runner *runner, size_t device, struct err *err)
{
	const struct sweep_plan *plan = runner->plan;
	struct runner_arrays *arrays = &runner->memory.arrays[device];
	struct executor *executor = runner->forward.executors[device];
	size_t width = forward_stream_width(runner->from->model, plan->longest);
	uint64_t residuals = plan->own_sequences * (uint64_t)plan->longest * width * sizeof(float);

	if (executor->ops->memory_new(executor, (void **)&arrays->stats,
				      stats_size(runner, plan->max_sequences),
				      "the value stats of sequences", err))
		return -1;
	return executor->ops->memory_new(executor, (void **)&arrays->residuals, residuals,
					 "the residual streams of a sweep", err);
}

static int memory_init(struct runner *runner, struct err *err)
{
	const struct sweep_plan *plan = runner->plan;
	const struct model *model = runner->from->model;
	struct runner_memory *memory = &runner->memory;
	size_t n = plan->max_sequences, n_threads = (size_t)plan->params.n_threads;
	const struct workspace_shape shape = { plan->longest, plan->max_group };

	runner->n_slots = forward_slots(model);
	memory->arrays = xcalloc(n_devices(runner), sizeof *memory->arrays);
	memory->streams = xcalloc(n_devices(runner), sizeof *memory->streams);
	memory->sequences = xcalloc(n, sizeof *memory->sequences);
	memory->devices = xcalloc(n, sizeof *memory->devices);
	memory->losses = xcalloc(n_threads * plan->longest, sizeof *memory->losses);
	memory->nll = xcalloc(n, sizeof *memory->nll);
	memory->fetched = xcalloc(n * runner->n_slots, sizeof *memory->fetched);
	if (n_devices(runner) > 1)
		memory->others = xcalloc(n * runner->n_slots, sizeof *memory->others);
	memory->workspaces = xcalloc(n_threads, sizeof *memory->workspaces);
	memory->embeds = xcalloc(n_threads, sizeof *memory->embeds);
	for (size_t i = 0; i < n_threads; i++)
		if (workspace_new(&memory->workspaces[i], &runner->forward, shape, (int)i, err) ||
		    embed_init(&memory->embeds[i], model, plan->longest, err))
			return -1;
	for (size_t d = 0; d < n_devices(runner); d++) {
		memory->streams[d] = memory->workspaces[d]->stream;
		if (arrays_init(runner, d, err))
			return -1;
	}
	return 0;
}

static void memory_release(struct runner *runner, int n_threads)
{
	struct runner_memory *memory = &runner->memory;

	for (int i = 0; memory->workspaces && i < n_threads; i++)
		workspace_free(memory->workspaces[i]);
	for (int i = 0; memory->embeds && i < n_threads; i++)
		embed_release(&memory->embeds[i]);
	free(memory->workspaces);
	free(memory->embeds);
	free(memory->sequences);
	free(memory->devices);
	free(memory->losses);
	free(memory->nll);
	free(memory->fetched);
	free(memory->others);
	for (size_t d = 0; memory->arrays && d < n_devices(runner); d++) {
		struct executor *executor = runner->forward.executors[d];

		executor->ops->memory_free(executor, memory->arrays[d].residuals);
		executor->ops->memory_free(executor, memory->arrays[d].stats);
	}
	free(memory->arrays);
	free(memory->streams);
}

static void stages_new(struct runner *runner)
{
	size_t n = n_devices(runner);

	runner->n_stages = runner->plan->resident ? runner->from->model->n_layers + 1 : 2;
	runner->stages = xcalloc(runner->n_stages, sizeof *runner->stages);
	for (size_t i = 0; i < runner->n_stages; i++) {
		struct stage *stage = &runner->stages[i];

		stage->layers = xcalloc(n, sizeof *stage->layers);
		stage->heads = xcalloc(n, sizeof *stage->heads);
		stage->last = xcalloc(n, sizeof *stage->last);
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
	    forward_add_devices(&runner->forward, params->n_devices, err) ||
	    weights_open(&runner->weights, &weights, err))
		return -1;
	stages_new(runner);
	runner->forward.casts = from->casts || from->fp8;
	if (from->fp8) {
		runner->fp8 = fp8_forward_new(from->fp8, runner->weights.source.backend);
		runner->weights.fp8 = runner->fp8;
	}
	return memory_init(runner, err);
}

int runner_close(struct runner *runner, struct err *err)
{
	return weights_close(&runner->weights, err);
}

/* Frees the weights of a stage on all devices. */
static void stage_release(const struct runner *runner, struct stage *stage)
{
	weights_load_end(&stage->load);
	for (size_t d = 0; d < n_devices(runner); d++) {
		struct executor *executor = runner->forward.executors[d];

		layer_release(&stage->layers[d], executor);
		weights_release_last(stage->last[d], executor);
		linear_release(&stage->heads[d]);
	}
	stage->begun = false;
}

void runner_release(struct runner *runner)
{
	for (size_t i = 0; i < runner->n_stages; i++) {
		struct stage *stage = &runner->stages[i];

		stage_release(runner, stage);
		free(stage->layers);
		free(stage->heads);
		free(stage->last);
	}
	free(runner->stages);
	if (runner->plan)
		memory_release(runner, runner->plan->params.n_threads);
	fp8_forward_free(runner->fp8);
	context_stack_release(&runner->contexts);
	weights_release(&runner->weights);
	forward_release(&runner->forward);
	*runner = (struct runner){ 0 };
}

/* Gives the sequences of a device in a step their places there, and returns the end of their
 * residual streams. */
static float *begin_step(struct runner *runner, struct span step, size_t device, float *residual)
{
	struct span own = sweep_plan_part(runner->plan, step, device);
	struct runner_memory *memory = &runner->memory;

	for (size_t i = own.first; i < own.first + own.n; i++) {
		struct sequence *sequence = &memory->sequences[i];

		memory->devices[i] = device;
		sequence->stats = memory->arrays[device].stats + i * runner->n_slots;
		sequence->residual = residual;
		residual += sequence->n_tokens *
			    forward_stream_width(runner->from->model, sequence->n_tokens);
	}
	return residual;
}

void runner_begin(struct runner *runner, size_t first, size_t n)
{
	const struct sweep_plan *plan = runner->plan;
	struct runner_memory *memory = &runner->memory;

	for (size_t i = 0; i < n; i++)
		memory->sequences[i] = (struct sequence){
			.index = first + i,
			.n_tokens = plan->params.data->sequences[first + i].len,
			.tokens = sweep_plan_tokens(plan, first + i),
		};
	memset(memory->nll, 0, n * sizeof *memory->nll);
	for (size_t d = 0; d < n_devices(runner); d++) {
		float *residual = memory->arrays[d].residuals;
		struct span step;

		for (size_t at = 0; at < n; at += step.n) {
			step = sweep_plan_step(plan, at, n);
			residual = begin_step(runner, step, d, residual);
		}
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
	struct executor_stream *const *streams = runner->memory.streams;

	stage->begun = true;
	if (i < model->n_layers)
		return weights_begin_layer(&stage->load, &runner->weights, streams,
					   &model->layers[i], stage->layers, err);
	if (weights_load_last(&runner->weights, streams, stage->last, err))
		return -1;
	return weights_begin_linear(&stage->load, &runner->weights, streams, &model->head,
				    stage->heads, err);
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

int runner_take_amaxes(struct runner *runner, struct err *err)
{
	const struct layer *layer = runner_layer(runner);

	for (int i = 0; runner->fp8 && layer && i < runner->plan->params.n_threads; i++)
		if (fp8_forward_take_amaxes(runner->fp8, layer, runner->memory.workspaces[i], err))
			return err_wrap(err, "the inputs of '%s'", layer->ref->mixer_module);
	return 0;
}

int runner_step_end(struct runner *runner, struct err *err)
{
	return context_exit(&runner->contexts, &runner->outer, err);
}

struct pass runner_pass(const struct runner *runner, int worker, size_t sequence)
{
	const struct layer *layer = &runner->stage->layers[runner_device(runner, worker)];

	return (struct pass){ &runner->forward, runner->memory.workspaces[worker],
			      layer->ref ? layer : NULL, &runner->memory.sequences[sequence] };
}

struct head_pass runner_head_pass(const struct runner *runner, int worker, size_t sequence)
{
	size_t device = runner_device(runner, worker);

	return (struct head_pass){
		.pass = runner_pass(runner, worker, sequence),
		.head = { runner->stage->last[device], &runner->stage->heads[device] },
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
	size_t n_threads = sweep_plan_lanes(runner->plan), max = runner->plan->max_group;
	size_t each = (n + n_threads - 1) / n_threads, n_rounds = (each + max - 1) / max;

	return layer && layer->ref->n_experts && n ? (each + n_rounds - 1) / n_rounds : 1;
}

/* Waits for the copy of the stage's value stats. */
static int stats_wait(const struct runner *runner, size_t device, struct err *err)
{
	struct executor_stream *stream = runner->memory.streams[device];
	const struct layer *layer = runner_layer(runner);

	if (stream->executor->ops->wait(stream, err))
		return err_wrap(err, "value stats of '%s'",
				layer ? layer->ref->mixer_module
				      : runner->stage->heads->ref->module);
	return 0;
}

int runner_stats_clear(struct runner *runner, size_t n, struct err *err)
{
	for (size_t d = 0; d < n_devices(runner); d++) {
		struct executor_stream *stream = runner->memory.streams[d];

		stream->executor->ops->zero(stream, runner->memory.arrays[d].stats,
					    stats_size(runner, n));
		if (stats_wait(runner, d, err))
			return -1;
	}
	return 0;
}

static int fetch_from(const struct runner *runner, size_t device, struct value_stats *to, size_t n,
		      struct err *err)
{
	struct executor_stream *stream = runner->memory.streams[device];

	stream->executor->ops->fetch(stream, to, runner->memory.arrays[device].stats,
				     stats_size(runner, n));
	return stats_wait(runner, device, err);
}

int runner_stats_fetch(struct runner *runner, size_t n, struct err *err)
{
	struct runner_memory *memory = &runner->memory;

	if (fetch_from(runner, 0, memory->fetched, n, err))
		return -1;
	for (size_t d = 1; d < n_devices(runner); d++) {
		if (fetch_from(runner, d, memory->others, n, err))
			return -1;
		group_combine(GROUP_UNION, memory->fetched, memory->others, stats_size(runner, n));
	}
	return 0;
}
