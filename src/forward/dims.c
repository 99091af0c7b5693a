/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/dims.h"

#include "forward/pass.h"

static void dims_of_layer(struct dims *d, const struct model *model, const struct layer_ref *layer)
{
	const struct linear_ref *linear = layer->linear;
	size_t pooled =
		model->indexer.pool_size ? model->indexer.head_dim : linear[LINEAR_INDEX_GATE].n;

	d->mlp = dims_larger(d->mlp, dims_larger(dims_larger(layer->width, layer->shared_width),
						 layer->expert_width));
	d->lora = dims_larger(d->lora, dims_larger(linear[LINEAR_Q_A].n, linear[LINEAR_KV_A].n));
	d->expanded = dims_larger(d->expanded, linear[LINEAR_KV_B].n);
	d->head_gates = dims_larger(d->head_gates, linear[LINEAR_HEAD_GATE].n);
	d->distances = dims_larger(d->distances, linear[LINEAR_DISTANCES].n);
	for (int i = VECTOR_SHORT_CONV_K; i <= VECTOR_SHORT_CONV_MLP; i++)
		if (layer->vector[i])
			d->convolved =
				dims_larger(d->convolved, layer->vector[i]->tensor->shape[0]);
	d->pooled = dims_larger(d->pooled, linear[LINEAR_POOL].n);
	d->index_pooled = dims_larger(d->index_pooled, pooled);
	if (linear[LINEAR_O].n_parts > 1) {
		d->part = dims_larger(d->part, linear[LINEAR_O].n / linear[LINEAR_O].n_parts);
		d->joined = dims_larger(d->joined, linear[LINEAR_O].n);
	}
	d->few = dims_larger(d->few,
			     dims_larger(linear[LINEAR_DELTA_F_A].n, linear[LINEAR_DELTA_G_A].n));
	d->experts = dims_larger(d->experts, layer->n_experts);
	d->shared = dims_larger(d->shared, layer->n_shared_experts);
	d->latent = dims_larger(d->latent, linear[LINEAR_LATENT_IN].n);
	d->fused =
		dims_larger(d->fused, dims_larger(linear[LINEAR_QKV].n, linear[LINEAR_GATE_UP].n));
	d->fused = dims_larger(d->fused, linear[LINEAR_DELTA_QKVZ].n);
	d->fused = dims_larger(d->fused, linear[LINEAR_CONV_IN].n);
	if (model->arch->gated_attention)
		d->fused = dims_larger(d->fused, linear[LINEAR_Q].n);
	d->fused = dims_larger(d->fused, linear[LINEAR_VALUE_GATE].n);
	d->fused = dims_larger(d->fused, linear[LINEAR_LAYER_INPUTS].n);
	d->mlp = dims_larger(d->mlp, linear[LINEAR_LAYER_GATE].n);
	if (model->clamped)
		d->fused = dims_larger(
			d->fused, 2 * dims_larger(dims_larger(layer->width, layer->shared_width),
						  layer->expert_width));
}

static void dims_of_attention(struct dims *d, const struct executor_ops *ops,
			      const struct layer_ref *layer)
{
	size_t n_pools = layer->pool_size ? d->tokens / layer->pool_size : 0;
	const struct attention_args args = { .n_tokens = d->tokens,
					     .n_before = n_pools,
					     .n_heads = layer->n_heads,
					     .n_kv_heads = layer->n_kv_heads,
					     .head_dim = layer->head_dim,
					     .value_dim = layer->value_dim };

	d->q = dims_larger(d->q, args.n_heads * args.head_dim);
	d->k = dims_larger(d->k, args.n_kv_heads * args.head_dim);
	d->v = dims_larger(d->v, args.n_kv_heads * args.value_dim);
	d->attended = dims_larger(d->attended, args.n_heads * args.value_dim);
	d->angles = dims_larger(d->angles, args.head_dim);
	d->pools = dims_larger(d->pools, n_pools);
	d->scratch = dims_larger(d->scratch,
				 ops->scratch(&(const struct scratch_args){ .attention = &args }));
}

/* n_pools: more than a sequence of n_tokens has, or 0. */
static uint64_t index_scratch(const struct executor_ops *ops, const struct model *model,
			      size_t n_tokens, size_t n_pools)
{
	const struct indexer *indexer = &model->indexer;
	const struct choose_keys_args keys = { .n_tokens = n_tokens,
					       .n_heads = indexer->n_heads,
					       .head_dim = indexer->head_dim,
					       .pool_size = n_pools > 0,
					       .n_pools = n_pools,
					       .together = indexer->n_sets == 1 };

	return indexer->n_chosen ? ops->scratch(&(const struct scratch_args){ .keys = &keys }) : 0;
}

static uint64_t scan_scratch(const struct executor_ops *ops, const struct model *model,
			     size_t n_tokens)
{
	const struct mamba *mamba = &model->mamba;
	const struct scan_args scan = { .n_tokens = n_tokens,
					.n_heads = mamba->n_heads,
					.head_dim = mamba->head_dim,
					.n_groups = mamba->n_groups,
					.state_size = mamba->state_size };
	const struct delta_args delta = { .n_tokens = n_tokens,
					  .n_heads = model->delta.n_heads,
					  .n_key_heads = model->delta.n_key_heads,
					  .key_dim = model->delta.key_dim,
					  .value_dim = model->delta.value_dim,
					  .n_decays = model->delta.n_decays };
	const struct scratch_args args = { .scan = scan.n_heads ? &scan : NULL,
					   .delta = delta.n_heads ? &delta : NULL };

	return ops->scratch(&args);
}

struct dims dims_of(const struct executor_ops *ops, const struct model *model,
		    struct workspace_shape shape, bool casts)
{
	struct dims d = { .tokens = shape.max_tokens, .hidden = model->hidden };

	for (size_t i = 0; i < model->n_layers; i++) {
		dims_of_layer(&d, model, &model->layers[i]);
		dims_of_attention(&d, ops, &model->layers[i]);
		if (model->layers[i].latent)
			d.turning =
				dims_larger(d.turning, dims_larger(model->layers[i].n_heads,
								   model->indexer.n_heads) *
							       model->layers[i].latent->rope_dim);
	}
	d.keys = model->delta.n_key_heads * model->delta.key_dim;
	d.values = model->delta.n_heads * model->delta.value_dim;
	d.value_heads = model->delta.n_heads;
	d.input = dims_larger(dims_larger(d.attended, d.mlp), dims_larger(d.hidden, d.lora));
	d.input = dims_larger(d.input, dims_larger(dims_larger(d.latent, d.joined), d.few));
	d.input = dims_larger(d.input,
			      dims_larger(d.values, model->mamba.n_heads * model->mamba.head_dim));
	d.input = dims_larger(d.input,
			      dims_larger(model->mamba1.n_channels, model->mamba1.step_rank));
	d.input = dims_larger(d.input, streams_widest_input(model));
	d.scratch = dims_larger(d.scratch, scan_scratch(ops, model, d.tokens));
	d.index_pools = model->indexer.pool_size ? d.tokens / model->indexer.pool_size : d.pools;
	d.scratch = dims_larger(d.scratch, index_scratch(ops, model, d.tokens, d.index_pools));
	d.mixes = streams_n_mixes(model);
	d.group = d.tokens * shape.max_group;
	d.grouped = d.experts && ops->load.grouped;
	d.rows = d.grouped ? d.group : d.tokens;
	d.block = d.tokens < HEAD_BLOCK ? d.tokens : HEAD_BLOCK;
	d.panel = ops->portion(PORTION_WEIGHT, model->head.n);
	d.n_panels = d.panel ? (model->head.n + d.panel - 1) / d.panel : 0;
	d.casts = casts;
	d.matrices = forward_matrices(model);
	return d;
}
