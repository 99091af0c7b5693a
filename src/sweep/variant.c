/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/variant.h"

#include <stdlib.h>
#include <string.h>

#include "backend/host_ops.h"
#include "base/mem.h"

uint64_t variants_size(const struct sweep_plan *plan, const struct model *model)
{
	const struct workspace_shape shape = { plan->longest, 1 };

	return (workspace_size(plan->params.executor, model, shape, plan->params.models[0].casts) +
		plan->longest * sizeof(double)) *
	       (uint64_t)plan->params.n_threads;
}

static uint64_t stream_size(const struct sweep_plan *plan, const struct model *model)
{
	return (uint64_t)plan->longest * forward_stream_width(model, plan->longest) * sizeof(float);
}

uint64_t variant_size(const struct sweep_plan *plan, const struct model *model, size_t n)
{
	return n * (stream_size(plan, model) + forward_slots(model) * sizeof(struct value_stats));
}

int variants_open(struct variants *variants, const struct runner *runner, struct err *err)
{
	const struct sweep_plan *plan = runner->plan;
	const struct workspace_shape shape = { plan->longest, 1 };
	size_t n_threads = (size_t)plan->params.n_threads;

	*variants = (struct variants){ .runner = runner, .forward = runner->forward };
	variants->forward.observer = NULL;
	variants->workspaces = xcalloc(n_threads, sizeof *variants->workspaces);
	variants->losses = xcalloc(n_threads * plan->longest, sizeof *variants->losses);
	for (size_t i = 0; i < n_threads; i++)
		if (workspace_new(&variants->workspaces[i], &variants->forward, shape, (int)i, err))
			return -1;
	return 0;
}

void variants_release(struct variants *variants)
{
	for (int i = 0; variants->workspaces && i < variants->runner->plan->params.n_threads; i++)
		workspace_free(variants->workspaces[i]);
	free(variants->workspaces);
	free(variants->losses);
	*variants = (struct variants){ 0 };
}

int variant_open(struct model_variant *variant, struct variants *variants, const size_t *sequences,
		 size_t n, struct err *err)
{
	const struct runner *runner = variants->runner;
	const struct sweep_plan *plan = runner->plan;
	struct executor *executor = runner->forward.executor;
	const struct executor_ops *ops = executor->ops;
	uint64_t size = stream_size(plan, runner->from->model);

	*variant = (struct model_variant){ .variants = variants, .n = n };
	variant->sequences = xcalloc(n, sizeof *variant->sequences);
	variant->places = xmalloc(plan->max_sequences * sizeof *variant->places);
	memset(variant->places, 0xFF, plan->max_sequences * sizeof *variant->places);
	if (ops->memory_new(executor, (void **)&variant->residuals, n * size,
			    "the residual streams of a variant", err) ||
	    ops->memory_new(executor, (void **)&variant->stats,
			    n * runner->n_slots * sizeof *variant->stats,
			    "the value stats of a variant", err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct sequence *sequence = &variant->sequences[i];

		*sequence = runner->memory.sequences[sequences[i]];
		sequence->residual = variant->residuals + i * (size / sizeof(float));
		sequence->stats = variant->stats + i * runner->n_slots;
		variant->places[sequences[i]] = i;
	}
	return 0;
}

void variant_release(struct model_variant *variant)
{
	if (variant->variants) {
		struct executor *executor = variant->variants->forward.executor;

		executor->ops->memory_free(executor, variant->residuals);
		executor->ops->memory_free(executor, variant->stats);
	}
	free(variant->sequences);
	free(variant->places);
	*variant = (struct model_variant){ 0 };
}

int variant_begin(struct model_variant *variant, int worker, size_t sequence, struct err *err)
{
	const struct runner *runner = variant->variants->runner;
	const struct sequence *to = &variant->sequences[variant->places[sequence]];
	struct executor_stream *stream = variant->variants->workspaces[worker]->stream;
	const struct executor_ops *ops = stream->executor->ops;
	size_t width = forward_stream_width(runner->from->model, to->n_tokens);
	const struct copy_args copy = { .y = { to->residual, width },
					.x = { runner->memory.sequences[sequence].residual, width },
					.repeat = 1,
					.n_rows = to->n_tokens,
					.n_cols = width };

	ops->copy(stream, &copy);
	ops->zero(stream, to->stats, runner->n_slots * sizeof *to->stats);
	return ops->wait(stream, err);
}

void variant_stage_begin(struct variant_stage *stage, const struct variants *variants)
{
	const struct stage *from = variants->runner->stage;
	const struct layer *layer = from->layers;
	size_t n = layer->ref ? layer_all_experts(layer->ref) : 0;

	*stage = (struct variant_stage){ .from = from, .layer = *layer, .head = *from->heads };
	stage->layer.experts = xcalloc(n + 1, sizeof *stage->layer.experts);
	if (n)
		memcpy(stage->layer.experts, layer->experts, n * sizeof *stage->layer.experts);
}

/* Frees the weight of a matrix that was replaced. */
static void linear_end(struct linear *linear, const struct linear *from)
{
	if (linear->weight.data && linear->weight.data != from->weight.data)
		linear->weight.executor->ops->weight_release(&linear->weight);
}

void variant_stage_end(struct variant_stage *stage)
{
	const struct layer *from = stage->from ? stage->from->layers : NULL;

	if (!from)
		return;
	for (size_t i = 0; from->ref && i < layer_n_linears(from->ref); i++)
		linear_end(layer_linear(&stage->layer, i), layer_linear(from, i));
	linear_end(&stage->head, stage->from->heads);
	free(stage->layer.experts);
	*stage = (struct variant_stage){ 0 };
}

/* Returns the matrix of this ref. */
static struct linear *find(struct variant_stage *stage, const struct linear_ref *ref)
{
	struct layer *layer = &stage->layer;

	for (size_t i = 0; layer->ref && i < layer_n_linears(layer->ref); i++)
		if (layer_linear(layer, i)->ref == ref)
			return layer_linear(layer, i);
	return &stage->head;
}

/* Writes rows of a panel as products take them to panel, if they are other than values; returns
 * them. */
static const void *panel_rows(const struct forward *forward, const float *values, size_t n,
			      void *panel)
{
	const struct host_ops *host = host_ops_select();

	if (forward->input == DT_BF16)
		host->round_bf16(values, n, panel);
	else if (forward->round)
		host->round_bf16_f32(values, n, panel);
	else
		return values;
	return panel;
}

int variants_panel_set(const struct variants *variants, const struct linear *linear, size_t panel,
		       const float *values, struct err *err)
{
	const struct executor_weight *weight = &linear->weight;
	size_t n = executor_weight_panel_rows(weight, panel) * weight->k;
	void *rows;
	int rc;

	if (buffer_alloc(&rows, n * sizeof *values, "a part of a weight", err))
		return -1;
	rc = weight->executor->ops->weight_set(
		weight, panel, panel_rows(&variants->forward, values, n, rows), err);
	free(rows);
	return rc ? err_wrap(err, "tensor '%s'", linear->ref->weight->tensor->name) : 0;
}

int variant_stage_take(struct variant_stage *stage, const struct variants *variants,
		       const struct linear_ref *ref, const struct input_cast *cast,
		       struct linear **linear, struct err *err)
{
	struct executor_weight weight;

	*linear = find(stage, ref);
	weight = (*linear)->weight;
	weight.dtype = variants->forward.input;
	weight.data = NULL;
	if (weight.executor->ops->weight_init(&weight, err))
		return err_wrap(err, "tensor '%s'", ref->weight->tensor->name);
	(*linear)->weight = weight;
	(*linear)->input = variants->forward.input;
	(*linear)->cast = cast;
	return 0;
}

int variant_stage_replace(struct variant_stage *stage, const struct variants *variants,
			  const struct linear_ref *ref, const float *values,
			  const struct input_cast *cast, struct err *err)
{
	struct linear *linear;

	if (variant_stage_take(stage, variants, ref, cast, &linear, err))
		return -1;
	for (size_t i = 0; i < executor_weight_panels(&linear->weight); i++) {
		if (variants_panel_set(variants, linear, i, values, err))
			return -1;
		values += executor_weight_panel_rows(&linear->weight, i) * linear->weight.k;
	}
	return 0;
}

int variant_run(struct model_variant *variant, const struct variant_stage *stage, int worker,
		size_t sequence, struct err *err)
{
	const struct pass pass = { &variant->variants->forward,
				   variant->variants->workspaces[worker], &stage->layer,
				   &variant->sequences[variant->places[sequence]] };

	return forward_layer(&pass, err);
}

struct head_pass variant_head(const struct model_variant *variant,
			      const struct variant_stage *stage, int worker, size_t sequence)
{
	const struct variants *variants = variant->variants;

	return (struct head_pass){
		.pass = { &variants->forward, variants->workspaces[worker], NULL,
			  &variant->sequences[variant->places[sequence]] },
		.head = { *stage->from->last, &stage->head },
		.losses = variants->losses + (size_t)worker * variants->runner->plan->longest,
	};
}
