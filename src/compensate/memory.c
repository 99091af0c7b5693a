/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a job: the residual streams of all sequences stay, and the Hessians of a layer are
 * made in as many turns as the rest of the memory asks for.
 */
#include "compensate/memory.h"

#include <inttypes.h>

#include "compensate/band.h"
#include "compensate/codes.h"
#include "compensate/factor.h"
#include "sweep/weights.h"

#define DEFAULT_MEMORY ((uint64_t)4 << 30)

uint64_t compensate_group_size(const struct compensate_group *group)
{
	uint64_t k = group->input.k;

	return 2 * k * k * sizeof(float) + factor_size((size_t)k);
}

uint64_t compensate_region_size(const struct compensate_plan *plan, const struct input_group *input,
				enum dtype dtype)
{
	uint64_t rows = plan->longest;

	if (input_group_is_expert(input))
		rows *= plan->model.routing.top_k;
	if (input->linears[0]->n_parts)
		rows *= input->linears[0]->n_parts;
	return rows * input->k * dtype_bits(dtype) / 8;
}

uint64_t compensate_inputs_size(const struct compensate_plan *plan,
				const struct compensate_stage *stage, size_t first, size_t end)
{
	uint64_t sizes[N_INPUT_KINDS] = { 0 }, sum = 0;

	for (size_t g = first; g < end; g++) {
		const struct input_group *input = &stage->groups[g].input;

		sizes[input->kind] =
			compensate_region_size(plan, input, compensate_input_type(plan));
	}
	for (int kind = 0; kind < N_INPUT_KINDS; kind++)
		sum += sizes[kind];
	return sum;
}

/* Returns the least memory for Hessians and inputs: of the largest group, and two
 * sequences a thread. */
static uint64_t least_room(const struct compensate_plan *plan)
{
	uint64_t n_threads = (uint64_t)plan->params.n_threads, least = 0;

	for (size_t i = 0; i <= plan->model.n_layers; i++)
		for (size_t g = 0; g < plan->stages[i].n_groups; g++) {
			uint64_t size =
				compensate_group_size(&plan->stages[i].groups[g]) +
				N_CHUNKS * n_threads *
					compensate_inputs_size(plan, &plan->stages[i], g, g + 1);

			least = size > least ? size : least;
		}
	return least;
}

static int plan_sweep(struct compensate_plan *plan, struct err *err)
{
	const struct compensate_params *params = &plan->params;
	const struct sweep_params sweep = { .io = params->io,
					    .models = { { .model = &plan->model } },
					    .n_models = 1,
					    .data = &plan->own,
					    .executor = params->backend->executor,
					    .batch = 1,
					    .n_threads = params->n_threads,
					    .max_memory = UINT64_MAX / 4,
					    .lean = true };

	return sweep_plan_make(&plan->sweep, &sweep, err);
}

/* Returns the bytes that all turns need, besides the loaded layer: streams, threads, candidates. */
static uint64_t fixed_size(const struct compensate_plan *plan, uint64_t layer)
{
	const struct sweep_plan *sweep = &plan->sweep;
	uint64_t stream =
		sweep->longest * forward_stream_width(&plan->model, sweep->longest) * sizeof(float);
	uint64_t size = sweep->memory_bytes - layer;

	size += (uint64_t)plan->params.n_threads * stream;
	size += bands_size(plan) + codes_size(plan);
	if (plan->n_held_out)
		size += variants_size(sweep, &plan->model) +
			(1 + plan->n_rhos) *
				variant_size(sweep, &plan->model, plan->n_own_held_out) +
			(uint64_t)plan->params.n_threads * forward_heads_size(1 + plan->n_rhos) +
			layer;
	return size;
}

int compensate_plan_memory(struct compensate_plan *plan, struct err *err)
{
	const struct compensate_params *params = &plan->params;
	struct weights_kind kind = { .executor = params->backend->executor,
				     .dtype = compensate_input_type(plan) };
	uint64_t layer = weights_layer_size(&plan->model, &kind, params->n_threads, false);
	uint64_t max = params->max_memory ? params->max_memory : DEFAULT_MEMORY, min;

	if (plan_sweep(plan, err))
		return -1;
	min = fixed_size(plan, layer) + least_room(plan);
	if (!params->max_memory && max < min)
		max = min;
	if (max < min)
		return err_set(err, ERR_USAGE,
			       "option '--max-memory': %" PRIu64 " bytes cannot hold compensated "
			       "rounding by %zu sequences (%" PRIu64
			       "): reduce --passes, --seq-len or --threads",
			       max, plan->data.n, min);
	plan->room = max - fixed_size(plan, layer);
	plan->memory_bytes = max + layer;
	return 0;
}
