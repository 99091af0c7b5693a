/* SPDX-License-Identifier: Apache-2.0
 *
 * Each group of arrays has a function that lists them with their sizes.  The list serves to
 * allocate them, to free them, and to add up their sizes for the plan.
 */
#include "forward/pass.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "forward/dims.h"

void workspace_add(struct array_list *list, void *place, uint64_t size, bool host)
{
	assert(list->n < MAX_ARRAYS);
	list->array[list->n].place = place;
	list->array[list->n].size = size;
	list->array[list->n++].host = host;
}

static void add(struct array_list *list, void *place, uint64_t size)
{
	workspace_add(list, place, size, false);
}

static void add_host(struct array_list *list, void *place, uint64_t size)
{
	workspace_add(list, place, size, true);
}

static void common_arrays(struct workspace *w, const struct dims *d)
{
	struct array_list *list = &w->arrays;

	add(list, &w->fused_out, d->rows * d->fused * sizeof *w->fused_out);
	add(list, &w->scores,
	    dims_larger(d->block * d->panel, 2 * d->group * (d->experts + d->shared)) *
		    sizeof *w->scores);
	add(list, &w->scratch, d->scratch);
	add(list, &w->token_rows, d->tokens * sizeof *w->token_rows);
	add(list, &w->input.rounded, d->rows * d->input * sizeof *w->input.rounded);
}

static void cast_arrays(struct workspace *w, const struct dims *d)
{
	struct cast_arrays *cast = &w->cast;
	struct array_list *list = &w->arrays;
	uint64_t stats = d->casts * d->matrices * sizeof *cast->stats;
	uint64_t segments = d->grouped ? d->experts * w->shape.max_group : 1;

	cast->n_stats = d->casts * d->matrices;
	add(list, &cast->values, d->casts * d->rows * d->input * sizeof(float));
	add(list, &cast->stats, stats);
	add(list, &cast->scratch, d->casts * segments * sizeof *cast->scratch);
	add(list, &cast->counts, d->casts * sizeof *cast->counts);
	add_host(list, &w->host.cast_stats, stats);
	add_host(list, &w->host.cast_places, cast->n_stats * sizeof *w->host.cast_places);
	add_host(list, &w->host.cast_counts, d->casts * sizeof *w->host.cast_counts);
}

/* The arrays of all sequences of a group, which its first one holds. */
static void own_arrays(struct array_list *list, struct own_arrays *own, const struct dims *d)
{
	uint64_t latent = d->experts ? d->group * d->latent : 0;

	add(list, &own->normed, d->group * d->hidden * sizeof *own->normed);
	add(list, &own->rounded, d->group * d->hidden * sizeof *own->rounded);
	add(list, &own->out, d->group * d->hidden * sizeof *own->out);
	add(list, &own->mixes, d->group * d->mixes * sizeof *own->mixes);
	add(list, &own->latent_in, latent * sizeof *own->latent_in);
	add(list, &own->latent_out, latent * sizeof *own->latent_out);
	add(list, &own->shared_scores, d->experts ? d->group * sizeof *own->shared_scores : 0);
}

static void route_arrays(struct workspace *w, const struct dims *d, const struct model *model)
{
	uint64_t chosen = d->experts ? d->group * model->routing.top_k : 0;
	uint64_t segments = d->experts * w->shape.max_group;
	uint64_t stats = segments * sizeof *w->route.stats;
	struct array_list *list = &w->arrays;

	add(list, &w->route.chosen, chosen * sizeof *w->route.chosen);
	add(list, &w->route.weights, chosen * sizeof *w->route.weights);
	add(list, &w->route.shared_weights, d->group * d->shared * sizeof *w->route.shared_weights);
	add(list, &w->route.counts, segments * sizeof *w->route.counts);
	add(list, &w->route.rows, chosen * sizeof *w->route.rows);
	add(list, &w->route.factors, chosen * sizeof *w->route.factors);
	add(list, &w->route.segments, chosen * sizeof *w->route.segments);
	add(list, &w->route.places, chosen * sizeof *w->route.places);
	add(list, &w->route.stats, stats);
	add_host(list, &w->host.stats, stats);
	add_host(list, &w->host.counts, segments * sizeof *w->host.counts);
	add_host(list, &w->host.chosen, chosen * sizeof *w->host.chosen);
}

static void attention_arrays(struct workspace *w, const struct dims *d)
{
	struct attention_arrays *a = &w->attention;
	struct array_list *list = &w->arrays;
	uint64_t row = d->tokens * sizeof(float);

	add(list, &a->q, row * d->q);
	add(list, &a->k, row * d->k);
	add(list, &a->v, row * d->v);
	add(list, &a->lora, row * d->lora);
	add(list, &a->kv_latent, row * d->lora);
	add(list, &a->k_rope, row * d->lora);
	add(list, &a->kv_expanded, row * d->expanded);
	/* the rope_dim values of queries are here before, what an indexer rotates, and what short
	 * convolutions add */
	add(list, &a->attn_out,
	    row * dims_larger(dims_larger(d->attended, d->turning), d->convolved));
	add(list, &a->distances, row * d->distances);
	add(list, &a->head_gates, row * d->head_gates);
	add(list, &a->part_out, row * d->part);
	add(list, &a->joined, row * d->joined);
	add(list, &a->cosines, row * d->angles);
	add(list, &a->sines, row * d->angles);
	add(list, &a->positions, row);
}

static void index_arrays(struct workspace *w, const struct dims *d, const struct indexer *indexer)
{
	struct index_arrays *index = &w->index;
	struct array_list *list = &w->arrays;
	uint64_t row = d->tokens * sizeof(float), n_words = KEY_WORDS(d->pools + d->tokens);

	add(list, &index->joined, row * indexer->n_joined);
	add(list, &index->q, row * indexer->n_heads * indexer->head_dim);
	add(list, &index->k, row * indexer->head_dim);
	add(list, &index->weights, row * indexer->n_heads);
	add(list, &index->sets, indexer->n_sets * d->tokens * n_words * sizeof *index->sets);
}

static void pool_arrays(struct workspace *w, const struct dims *d)
{
	struct pool_arrays *pool = &w->pool;
	struct array_list *list = &w->arrays;
	uint64_t row = d->tokens * sizeof(float);
	uint64_t keys = d->pools ? (d->pools + d->tokens) * d->k * sizeof(float) : 0;

	add(list, &pool->values, row * d->pooled);
	add(list, &pool->gates, row * d->pooled);
	add(list, &pool->index_values, row * d->index_pooled);
	add(list, &pool->index_gates, row * d->index_pooled);
	add(list, &pool->keys, keys);
	add(list, &pool->key_values, keys);
	add(list, &pool->cosines, d->index_pools * d->angles * sizeof(float));
	add(list, &pool->sines, d->index_pools * d->angles * sizeof(float));
}

static void delta_arrays(struct workspace *w, const struct dims *d, const struct model *model)
{
	struct delta_arrays *delta = &w->delta;
	struct array_list *list = &w->arrays;
	uint64_t row = d->tokens * sizeof(float);

	add(list, &delta->qkv, row * (2 * d->keys + d->values));
	add(list, &delta->ba, row * 2 * d->value_heads);
	add(list, &delta->q, row * d->keys);
	add(list, &delta->k, row * d->keys);
	add(list, &delta->v, row * d->values);
	add(list, &delta->z, row * d->values);
	add(list, &delta->out, row * d->values);
	add(list, &delta->a, row * d->value_heads * model->delta.n_decays);
	add(list, &delta->few_decays, row * d->few);
	add(list, &delta->few_gates, row * d->few);
	add(list, &delta->b, row * d->value_heads);
}

static void mamba_arrays(struct workspace *w, const struct dims *d, const struct model *model)
{
	const struct mamba *mamba = &model->mamba;
	uint64_t inner = mamba->n_heads * mamba->head_dim, row = d->tokens * sizeof(float);
	uint64_t convolved = inner + 2 * mamba->n_groups * mamba->state_size;
	struct array_list *list = &w->arrays;

	add(list, &w->mamba.projected, row * (inner + convolved + mamba->n_heads));
	add(list, &w->mamba.convolved, row * convolved);
	add(list, &w->mamba.scanned, row * inner);
	add(list, &w->mamba.input, mamba->n_heads ? row * d->hidden : 0);
	add(list, &w->mamba.out, mamba->n_heads ? row * d->hidden : 0);
}

static void mamba1_arrays(struct workspace *w, const struct dims *d, const struct mamba1 *mamba)
{
	uint64_t row = d->tokens * sizeof(float), channels = row * mamba->n_channels;
	struct array_list *list = &w->arrays;

	add(list, &w->mamba1.projected, 2 * channels);
	add(list, &w->mamba1.x, channels);
	add(list, &w->mamba1.selected, row * (mamba->step_rank + 2 * mamba->state_size));
	add(list, &w->mamba1.step_input, row * mamba->step_rank);
	add(list, &w->mamba1.steps, channels);
	add(list, &w->mamba1.scanned, channels);
}

static void mlp_arrays(struct workspace *w, const struct dims *d)
{
	uint64_t row = d->experts ? d->rows * sizeof(float) : 0;
	uint64_t expert = row * dims_larger(d->hidden, d->latent);

	add(&w->arrays, &w->mlp.gate, d->rows * d->mlp * sizeof *w->mlp.gate);
	add(&w->arrays, &w->mlp.up, d->rows * d->mlp * sizeof *w->mlp.up);
	add(&w->arrays, &w->mlp.expert_in, expert);
	add(&w->arrays, &w->mlp.expert_out, expert);
}

static void head_arrays(struct workspace *w, const struct dims *d)
{
	struct head_arrays *h = &w->head;

	add(&w->arrays, &h->labels, d->block * sizeof *h->labels);
	add(&w->arrays, &h->log_sums, d->block * d->n_panels * sizeof *h->log_sums);
	add(&w->arrays, &h->label_logits, d->block * sizeof *h->label_logits);
	add(&w->arrays, &h->sums, d->block * sizeof *h->sums);
}

static void host_arrays(struct workspace *w, const struct dims *d)
{
	struct host_arrays *h = &w->host;
	struct array_list *list = &w->arrays;

	add_host(list, &h->cosines, d->tokens * d->angles * sizeof *h->cosines);
	add_host(list, &h->sines, d->tokens * d->angles * sizeof *h->sines);
	add_host(list, &h->positions, d->tokens * sizeof *h->positions);
	add_host(list, &h->labels, d->block * sizeof *h->labels);
	add_host(list, &h->log_sums, d->block * d->n_panels * sizeof *h->log_sums);
	add_host(list, &h->label_logits, d->block * sizeof *h->label_logits);
	add_host(list, &h->sums, d->block * sizeof *h->sums);
	add_host(list, &h->totals, d->block * sizeof *h->totals);
}

/* Lists all arrays; w->ops and w->shape must be set. */
static void list_arrays(struct workspace *w, const struct model *model, bool casts)
{
	const struct dims d = dims_of(w->ops, model, w->shape, casts);

	w->expert_rows = d.rows;
	own_arrays(&w->arrays, &w->group[0], &d);
	route_arrays(w, &d, model);
	common_arrays(w, &d);
	cast_arrays(w, &d);
	attention_arrays(w, &d);
	index_arrays(w, &d, &model->indexer);
	pool_arrays(w, &d);
	streams_list_arrays(w, model, d.tokens);
	delta_arrays(w, &d, model);
	mamba_arrays(w, &d, model);
	mamba1_arrays(w, &d, &model->mamba1);
	mlp_arrays(w, &d);
	head_arrays(w, &d);
	host_arrays(w, &d);
}

uint64_t workspace_size(const struct executor_ops *executor, const struct model *model,
			struct workspace_shape shape, bool casts)
{
	struct workspace workspace = { .ops = executor, .shape = shape };
	uint64_t size = 0;

	list_arrays(&workspace, model, casts);
	for (size_t i = 0; i < workspace.arrays.n; i++)
		size += workspace.arrays.array[i].size;
	return size;
}

static int allocate(struct workspace *workspace, struct err *err)
{
	static const char what[] = "the values of a sequence";
	struct executor *executor = workspace->stream->executor;
	const struct array_list *list = &workspace->arrays;

	for (size_t i = 0; i < list->n; i++) {
		void **place = list->array[i].place;
		uint64_t size = list->array[i].size;
		int rc = 0;

		if (size)
			rc = list->array[i].host
				     ? buffer_alloc(place, size, what, err)
				     : workspace->ops->memory_new(executor, place, size, what, err);
		if (rc)
			return -1;
	}
	return 0;
}

static void own_places(struct workspace *w)
{
	for (size_t i = 0; i < w->cast.n_stats; i++)
		w->host.cast_places[i] = i;
}

/* Does nothing in a forward pass without casts. */
static int cast_stats_clear(struct workspace *w, struct err *err)
{
	if (!w->cast.n_stats)
		return 0;
	w->ops->zero(w->stream, w->cast.stats, w->cast.n_stats * sizeof *w->cast.stats);
	return w->ops->wait(w->stream, err);
}

int workspace_take_cast_stats(struct workspace *w, struct err *err)
{
	struct value_stats *stats = w->host.cast_stats;

	w->ops->fetch(w->stream, stats, w->cast.stats, w->cast.n_stats * sizeof *stats);
	if (cast_stats_clear(w, err))
		return -1;
	for (size_t i = 0; i < w->cast.n_stats; i++)
		stats[i] = stats[w->host.cast_places[i]];
	own_places(w);
	return 0;
}

int workspace_new(struct workspace **result, const struct forward *forward,
		  struct workspace_shape shape, int number, struct err *err)
{
	struct executor *executor = forward->executors[(size_t)number % forward->n_devices];
	struct workspace *workspace = xcalloc(1, sizeof *workspace);

	workspace->ops = executor->ops;
	workspace->number = number;
	workspace->shape = shape;
	workspace->own = &workspace->group[0];
	if (workspace->ops->stream_new(&workspace->stream, executor, err)) {
		free(workspace);
		return -1;
	}
	list_arrays(workspace, forward->model, forward->casts);
	if (allocate(workspace, err) || cast_stats_clear(workspace, err)) {
		workspace_free(workspace);
		return -1;
	}
	own_places(workspace);
	*result = workspace;
	return 0;
}

void workspace_free(struct workspace *workspace)
{
	if (!workspace)
		return;
	for (size_t i = 0; i < workspace->arrays.n; i++) {
		void *memory = *workspace->arrays.array[i].place;

		if (workspace->arrays.array[i].host)
			free(memory);
		else
			workspace->ops->memory_free(workspace->stream->executor, memory);
	}
	workspace->ops->stream_free(workspace->stream);
	free(workspace);
}
