/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread of the forward pass holds: one table of arrays makes them, frees them, and adds
 * them up for the plan.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "forward/pass.h"

/* The widest of something over the layers. */
struct widths {
	size_t mlp, experts, joined, narrow, expanded;
};

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static struct widths widths_of(const struct model *model)
{
	struct widths widths = { 0 };

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];
		const struct linear_ref *linear = layer->linear;

		widths.mlp = larger(widths.mlp, larger(larger(layer->width, layer->shared_width),
						       layer->expert_width));
		widths.narrow =
			larger(widths.narrow, larger(linear[LINEAR_Q_A].n, linear[LINEAR_KV_A].n));
		widths.expanded = larger(widths.expanded, linear[LINEAR_KV_B].n);
		widths.experts = larger(widths.experts, layer->n_experts);
		widths.joined = larger(widths.joined,
				       larger(linear[LINEAR_QKV].n, linear[LINEAR_GATE_UP].n));
		widths.joined =
			larger(widths.joined,
			       layer->n_experts ? layer->experts[0][EXPERT_ROLE_GATE_UP].n : 0);
	}
	return widths;
}

static uint64_t spare_size(const struct executor_ops *executor, const struct model *model,
			   size_t max_tokens)
{
	const struct attention_args args = { .n_tokens = max_tokens,
					     .n_heads = model->n_heads,
					     .n_kv_heads = model->n_kv_heads,
					     .head_dim = model->head_dim,
					     .value_dim = model->value_dim };

	return executor->attention_scratch(&args);
}

struct array {
	void **place;
	uint64_t size; /* bytes */
	bool host;
};

#define N_ARRAYS 38

static void arrays_of(struct workspace *lane, const struct executor_ops *executor,
		      const struct model *model, bool filtered, struct array arrays[N_ARRAYS])
{
	const struct widths w = widths_of(model);
	uint64_t t = lane->max_tokens, f = sizeof(float);
	uint64_t head_dims = larger(model->value_dim, model->latent.rope_dim);
	uint64_t block = t < HEAD_BLOCK ? t : HEAD_BLOCK,
		 part = executor->panel_rows(model->vocab_size);
	uint64_t parts = part ? (model->vocab_size + part - 1) / part : 0,
		 chosen = w.experts ? t * model->routing.top_k : 0;
	uint64_t widest = larger(
		larger(larger(model->n_heads * model->value_dim, w.mlp), model->hidden), w.narrow);
#define EXECUTOR(field, bytes)                        \
	{                                             \
		(void **)&lane->field, (bytes), false \
	}
#define HOST(field, bytes)                           \
	{                                            \
		(void **)&lane->field, (bytes), true \
	}
	const struct array all[] = {
		EXECUTOR(places, t * sizeof(uint32_t)),
		EXECUTOR(normed, t * model->hidden * f),
		EXECUTOR(q, t * model->n_heads * model->head_dim * f),
		EXECUTOR(k, t * model->n_kv_heads * model->head_dim * f),
		EXECUTOR(v, t * model->n_kv_heads * model->value_dim * f),
		EXECUTOR(joined, t * w.joined * f),
		EXECUTOR(narrow, t * w.narrow * f),
		EXECUTOR(latent, t * model->latent.kv_lora_rank * f),
		EXECUTOR(turning, t * model->latent.rope_dim * f),
		EXECUTOR(expanded, t * w.expanded * f),
		EXECUTOR(mixed, t * model->n_heads * head_dims * f),
		EXECUTOR(out, t * model->hidden * f),
		EXECUTOR(gate, t * w.mlp * f),
		EXECUTOR(up, t * w.mlp * f),
		EXECUTOR(scores, larger(block * part, t * w.experts) * f),
		EXECUTOR(spare, spare_size(executor, model, lane->max_tokens)),
		EXECUTOR(gathered, w.experts ? t * model->hidden * f : 0),
		EXECUTOR(expert_out, w.experts ? t * model->hidden * f : 0),
		EXECUTOR(rows, chosen * sizeof(uint32_t)),
		EXECUTOR(factors, chosen * f),
		EXECUTOR(rounded, t * widest * sizeof(uint16_t)),
		EXECUTOR(filtered, filtered ? t * widest * f : 0),
		EXECUTOR(cosines, t * model->head_dim * f),
		EXECUTOR(sines, t * model->head_dim * f),
		EXECUTOR(labels, block * sizeof(uint32_t)),
		EXECUTOR(log_sums, block * parts * f),
		EXECUTOR(picked, block * f),
		HOST(host_input, filtered ? t * widest * f : 0),
		HOST(host_scores, (t + 1) * w.experts * f),
		HOST(chosen, chosen * sizeof(size_t)),
		HOST(weights, chosen * f),
		HOST(host_rows, chosen * sizeof(uint32_t)),
		HOST(host_factors, chosen * f),
		HOST(host_cosines, t * model->head_dim * f),
		HOST(host_sines, t * model->head_dim * f),
		HOST(host_labels, block * sizeof(uint32_t)),
		HOST(host_log_sums, block * parts * f),
		HOST(host_picked, block * f),
	};
#undef EXECUTOR
#undef HOST

	_Static_assert(sizeof all == N_ARRAYS * sizeof *all, "count them");
	memcpy(arrays, all, sizeof all);
}

uint64_t workspace_size(const struct executor_ops *executor, const struct model *model,
			size_t max_tokens, bool filtered)
{
	struct workspace lane = { .max_tokens = max_tokens };
	struct array arrays[N_ARRAYS];
	uint64_t size = 0;

	arrays_of(&lane, executor, model, filtered, arrays);
	for (int i = 0; i < N_ARRAYS; i++)
		size += arrays[i].size;
	return size;
}

static int array_new(const struct array *array, struct executor *executor, struct err *err)
{
	static const char what[] = "the values of a sequence";

	if (array->size == 0)
		return 0;
	return array->host
		       ? buffer_alloc(array->place, array->size, what, err)
		       : executor->ops->memory_new(executor, array->place, array->size, what, err);
}

int workspace_new(struct workspace **result, const struct forward *forward, size_t max_tokens,
		  int number, struct err *err)
{
	const struct executor_ops *ops = forward->executor->ops;
	struct workspace *lane = xcalloc(1, sizeof *lane);
	struct array arrays[N_ARRAYS];

	*lane = (struct workspace){ .ops = ops, .number = number, .max_tokens = max_tokens };
	if (ops->stream_new(&lane->executor, forward->executor, err)) {
		free(lane);
		return -1;
	}
	arrays_of(lane, ops, forward->model, forward->filter.apply != NULL, arrays);
	for (int i = 0; i < N_ARRAYS; i++) {
		if (array_new(&arrays[i], forward->executor, err)) {
			workspace_free(lane, forward);
			return -1;
		}
	}
	*result = lane;
	return 0;
}

void workspace_free(struct workspace *lane, const struct forward *forward)
{
	struct array arrays[N_ARRAYS];

	if (!lane)
		return;
	arrays_of(lane, lane->ops, forward->model, false, arrays);
	for (int i = 0; i < N_ARRAYS; i++) {
		if (arrays[i].host)
			free(*arrays[i].place);
		else
			lane->ops->memory_free(forward->executor, *arrays[i].place);
	}
	lane->ops->stream_free(lane->executor);
	free(lane);
}

struct executor_stream *workspace_stream(const struct workspace *lane)
{
	return lane->executor;
}
