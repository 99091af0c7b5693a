/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a model by role: found by the names of its architecture and checked against
 * config.json.  No tensor of a layer may be left over.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/steps.h"

static int find_latent_attention(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	const struct latent *latent = layer->latent;
	size_t q = layer->n_heads * layer->head_dim, hidden = model->hidden;
	bool gated = model->gates == GATES_HEADS, low_rank = latent->q_lora_rank;
	const struct expected expected[] = {
		{ LINEAR_HEAD_GATE, layer->n_heads, hidden, gated },
		{ LINEAR_Q, q, hidden, !low_rank },
		{ LINEAR_Q_A, latent->q_lora_rank, hidden, low_rank },
		{ LINEAR_Q_B, q, latent->q_lora_rank, low_rank },
		{ LINEAR_KV_A, latent->kv_lora_rank + latent->rope_dim, hidden, 1 },
		{ LINEAR_KV_B, layer->n_heads * (latent->nope_dim + layer->value_dim),
		  latent->kv_lora_rank, 1 },
		{ LINEAR_O, hidden, layer->n_heads * layer->value_dim, 1 },
	};

	return search_linears(search, prefix, layer, expected, COUNT(expected));
}

/* The matrices of the layer's indexer, which multiply its input, or compressed queries. */
static int find_indexer(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	const struct indexer *indexer = &model->indexer;
	size_t q = indexer->n_heads * indexer->head_dim, hidden = model->hidden;
	const struct expected expected[] = {
		{ LINEAR_INDEX_Q, q, layer->latent ? layer->latent->q_lora_rank : 0,
		  *search_linear_name(search, LINEAR_INDEX_Q) != 0 },
		{ LINEAR_INDEX_Q_HIDDEN, indexer->n_joined ? indexer->n_joined : q, hidden,
		  *search_linear_name(search, LINEAR_INDEX_Q_HIDDEN) != 0 },
		{ LINEAR_INDEX_K, indexer->head_dim, hidden, !indexer->n_joined },
		{ LINEAR_INDEX_GATE, indexer->head_dim, hidden,
		  *search_linear_name(search, LINEAR_INDEX_GATE) != 0 },
		{ LINEAR_INDEX_WEIGHTS, indexer->n_heads, hidden,
		  *search_linear_name(search, LINEAR_INDEX_WEIGHTS) != 0 },
	};

	if (layer->keys != KEYS_CHOSEN)
		return 0;
	return search_linears(search, prefix, layer, expected, COUNT(expected));
}

/* Queries through fewer values, one head that is key and value, pools of it, and a matrix of the
 * output whose rows belong to groups of heads. */
static int find_shared_head(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	const struct indexer *indexer = &model->indexer;
	size_t q = layer->n_heads * layer->head_dim, hidden = model->hidden;
	size_t halves = layer->pools_overlap ? 2 : 1, pool = halves * layer->head_dim;
	size_t rank = model->latent.q_lora_rank, joined = model->o_groups * model->o_rank;
	const struct expected expected[] = {
		{ LINEAR_Q_A, rank, hidden, 1 },
		{ LINEAR_Q_B, q, rank, 1 },
		{ LINEAR_K, layer->head_dim, hidden, 1 },
		{ LINEAR_O, joined, q / model->o_groups, 1 },
		{ LINEAR_O_JOIN, hidden, joined, 1 },
		{ LINEAR_POOL, pool, hidden, 1 },
		{ LINEAR_POOL_GATE, pool, hidden, 1 },
		{ LINEAR_INDEX_Q, indexer->n_heads * indexer->head_dim, rank, 1 },
		{ LINEAR_INDEX_K, 2 * indexer->head_dim, hidden, 1 },
		{ LINEAR_INDEX_GATE, 2 * indexer->head_dim, hidden, 1 },
		{ LINEAR_INDEX_WEIGHTS, indexer->n_heads, hidden, 1 },
	};
	size_t n = !layer->pool_size ? 5 : layer->keys != KEYS_CHOSEN ? 7 : COUNT(expected);

	layer->linear[LINEAR_O].n_parts = model->o_groups;
	return search_linears(search, prefix, layer, expected, n);
}

static int check_no_values(const struct search *search, const char *prefix)
{
	char *name = xasprintf("%s%s.weight", prefix, search_linear_name(search, LINEAR_V));
	bool found = checkpoint_find(search->model->checkpoint, name);
	int rc = found ? err_set(search->err, ERR_INPUT,
				 "tensor '%s' has no effect by config.json, where "
				 "'attention_k_eq_v' is true: correct one of them",
				 name)
		       : 0;

	free(name);
	return rc;
}

static int find_attention(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	size_t q = layer->n_heads * layer->head_dim, k = layer->n_kv_heads * layer->head_dim,
	       v = layer->n_kv_heads * layer->value_dim, out = layer->n_heads * layer->value_dim,
	       hidden = model->hidden, gate = model->arch->gated_attention ? q : 0;
	/* releases have matrices of k and v also where they are not used */
	bool keys = !layer->kv_source, values = keys && !layer->keys_are_values;
	bool by_values = model->gates == GATES_VALUES;
	const struct expected expected[] = {
		{ by_values ? LINEAR_VALUE_GATE : LINEAR_HEAD_GATE,
		  by_values ? out : layer->n_heads, hidden, 1 },
		{ LINEAR_QKV, q + k + v, hidden, 0 },
		{ LINEAR_Q, q + gate, hidden, UNLESS(LINEAR_QKV) },
		{ LINEAR_O, hidden, out, 1 },
		{ LINEAR_K, k, hidden, keys ? UNLESS(LINEAR_QKV) : 0 },
		{ LINEAR_V, v, hidden, values ? UNLESS(LINEAR_QKV) : 0 },
	};
	size_t first = model->gates == GATES_NONE ? 1 : 0;
	size_t n_less = layer->keys_are_values ? 1 : 0; /* without v */

	if (model->arch->positions.turns_back)
		return find_shared_head(search, prefix, layer);
	if (find_indexer(search, prefix, layer) || search_distances(search, prefix, layer))
		return -1;
	if (layer->latent)
		return find_latent_attention(search, prefix, layer);
	if (layer->keys_are_values && check_no_values(search, prefix))
		return -1;
	return search_linears(search, prefix, layer, expected + first,
			      COUNT(expected) - first - n_less);
}

/* The router of a layer, if it has one: its tensor is (experts, hidden), or transposed. */
static int find_router(struct search *search, const char *prefix, struct linear_ref *router)
{
	const char *name = search_linear_name(search, LINEAR_ROUTER);
	size_t hidden = search->model->hidden;

	if (!search->model->arch->experts.have_images)
		return search_linear(search, prefix, name, 0, hidden, router);
	if (search_linear(search, prefix, name, hidden, 0, router))
		return -1;
	if (router->weight) {
		router->n = router->k;
		router->k = hidden;
		router->slice = (struct slice){ .row_stride = 1, .col_stride = router->n };
	}
	return 0;
}

/* Fails where mlp_layer_types says something else of a layer than its tensors. */
static int check_mlp_type(const struct search *search, const struct layer_ref *layer)
{
	bool has_experts = layer->linear[LINEAR_ROUTER].weight != NULL;

	if (!layer->mlp_type || has_experts == (strcmp(layer->mlp_type, "dense") != 0))
		return 0;
	return err_set(search->err, ERR_INPUT,
		       "config.json: '%s' has '%s' for layer %zu, which has %s",
		       search->model->mlp_types_key, layer->mlp_type,
		       (size_t)(layer - search->model->layers),
		       has_experts ? "experts" : "no router of experts");
}

static int find_mlp(struct search *search, const char *prefix, struct layer_ref *layer)
{
	size_t hidden = search->model->hidden;
	const struct expected expected[] = {
		{ LINEAR_GATE, 0, hidden, 0 },	      { LINEAR_UP, 0, hidden, 0 },
		{ LINEAR_GATE_UP, 0, hidden, 0 },     { LINEAR_DOWN, hidden, 0, 0 },
		{ LINEAR_SHARED_GATE, 0, hidden, 0 }, { LINEAR_SHARED_UP, 0, hidden, 0 },
		{ LINEAR_SHARED_DOWN, hidden, 0, 0 }, { LINEAR_SHARED_ROUTER, 1, hidden, 0 },
		{ LINEAR_LATENT_IN, 0, hidden, 0 },   { LINEAR_LATENT_OUT, hidden, 0, 0 },
	};
	static const enum linear_role fused[] = { LINEAR_GATE_UP, LINEAR_DOWN };
	static const enum linear_role apart[] = { LINEAR_UP, LINEAR_DOWN, LINEAR_GATE };
	size_t n_apart = search->model->activation == ACT_SRELU ? 2 : 3;
	struct linear_ref *l = layer->linear;

	if (search_linears(search, prefix, layer, expected, COUNT(expected)) ||
	    find_router(search, prefix, &l[LINEAR_ROUTER]) || check_mlp_type(search, layer))
		return -1;
	if (l[LINEAR_ROUTER].weight && search_experts(search, prefix, layer))
		return -1;
	if (l[LINEAR_ROUTER].weight && !l[LINEAR_DOWN].weight)
		return 0;
	if (l[LINEAR_GATE_UP].weight ? search_need(search, prefix, layer, fused, COUNT(fused))
				     : search_need(search, prefix, layer, apart, n_apart))
		return -1;
	layer->width = l[LINEAR_DOWN].k;
	if (l[LINEAR_GATE_UP].weight)
		return search_check_matrix(l[LINEAR_GATE_UP].weight, 2 * layer->width, hidden,
					   search->err);
	if (n_apart == 3 &&
	    search_check_matrix(l[LINEAR_GATE].weight, layer->width, hidden, search->err))
		return -1;
	return search_check_matrix(l[LINEAR_UP].weight, layer->width, hidden, search->err);
}

/* Kimi Delta Attention. */
static int find_kda(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct delta *delta = &search->model->delta;
	size_t n = delta->n_heads * delta->key_dim, hidden = search->model->hidden;
	bool low_rank = *search_linear_name(search, LINEAR_DELTA_F_A);
	const struct expected expected[] = {
		{ LINEAR_DELTA_Q, n, hidden, 1 },
		{ LINEAR_DELTA_K, n, hidden, 1 },
		{ LINEAR_DELTA_V, n, hidden, 1 },
		{ LINEAR_DELTA_B, delta->n_heads, hidden, 1 },
		{ LINEAR_DELTA_OUT, hidden, n, 1 },
		{ LINEAR_DELTA_F_A, delta->key_dim, hidden, low_rank },
		{ LINEAR_DELTA_F_B, n, delta->key_dim, low_rank },
		{ LINEAR_DELTA_G_A, delta->key_dim, hidden, low_rank },
		{ LINEAR_DELTA_G_B, n, delta->key_dim, low_rank },
		{ LINEAR_DELTA_A, n, hidden, !low_rank },
		{ LINEAR_DELTA_Z, n, hidden, !low_rank },
	};

	return search_linears(search, prefix, layer, expected, COUNT(expected));
}

static int find_delta(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct delta *delta = &search->model->delta;
	size_t keys = delta->n_key_heads * delta->key_dim, hidden = search->model->hidden;
	size_t values = delta->n_heads * delta->value_dim;
	const struct expected expected[] = {
		{ LINEAR_DELTA_QKVZ, 2 * keys + 2 * values, hidden, 0 },
		{ LINEAR_DELTA_BA, 2 * delta->n_heads, hidden, BESIDE(LINEAR_DELTA_QKVZ) },
		{ LINEAR_DELTA_QKV, 2 * keys + values, hidden, UNLESS(LINEAR_DELTA_QKVZ) },
		{ LINEAR_DELTA_Z, values, hidden, UNLESS(LINEAR_DELTA_QKVZ) },
		{ LINEAR_DELTA_B, delta->n_heads, hidden, UNLESS(LINEAR_DELTA_QKVZ) },
		{ LINEAR_DELTA_A, delta->n_heads, hidden, UNLESS(LINEAR_DELTA_QKVZ) },
		{ LINEAR_DELTA_OUT, hidden, values, 1 },
	};

	if (*search_linear_name(search, LINEAR_DELTA_Q))
		return find_kda(search, prefix, layer);
	return search_linears(search, prefix, layer, expected, COUNT(expected));
}

static int find_mamba(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct mamba *mamba = &search->model->mamba;
	size_t inner = mamba->n_heads * mamba->head_dim, hidden = search->model->hidden;
	const struct expected expected[] = {
		{ LINEAR_MAMBA_IN,
		  2 * inner + 2 * mamba->n_groups * mamba->state_size + mamba->n_heads, hidden, 1 },
		{ LINEAR_MAMBA_OUT, hidden, inner, 1 },
	};

	return search_linears(search, prefix, layer, expected, COUNT(expected));
}

static int find_mamba1(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct mamba1 *mamba = &search->model->mamba1;
	size_t n = mamba->n_channels, hidden = search->model->hidden;
	const struct expected expected[] = {
		{ LINEAR_MAMBA_IN, 2 * n, hidden, 1 },
		{ LINEAR_MAMBA_X, mamba->step_rank + 2 * mamba->state_size, n, 1 },
		{ LINEAR_MAMBA_STEP, n, mamba->step_rank, 1 },
		{ LINEAR_MAMBA_OUT, hidden, n, 1 },
	};

	if (search_linears(search, prefix, layer, expected, COUNT(expected)))
		return -1;
	if (!layer->linear[LINEAR_MAMBA_STEP].bias)
		return search_missing(search, prefix, search_linear_name(search, LINEAR_MAMBA_STEP),
				      ".bias");
	return 0;
}

static int find_conv(struct search *search, const char *prefix, struct layer_ref *layer)
{
	size_t hidden = search->model->hidden;
	const struct expected expected[] = {
		{ LINEAR_CONV_IN, 3 * hidden, hidden, 1 },
		{ LINEAR_CONV_OUT, hidden, hidden, 1 },
	};

	return search_linears(search, prefix, layer, expected, COUNT(expected));
}

static int find_both(struct search *search, const char *prefix, struct layer_ref *layer)
{
	if (find_attention(search, prefix, layer))
		return -1;
	return find_mamba(search, prefix, layer);
}

static int find_nothing(struct search *search, const char *prefix, struct layer_ref *layer)
{
	(void)search, (void)prefix, (void)layer;
	return 0;
}

/* How each mixer is found, and its last matrix, which lies below the mixer's module. */
static const struct {
	int (*find)(struct search *search, const char *prefix, struct layer_ref *layer);
	enum linear_role out;
} mixers[N_MIXERS] = {
	[MIXER_ATTENTION] = { find_attention, LINEAR_O },
	[MIXER_DELTA] = { find_delta, LINEAR_DELTA_OUT },
	[MIXER_MAMBA] = { find_mamba, LINEAR_MAMBA_OUT },
	[MIXER_BOTH] = { find_both, LINEAR_O },
	[MIXER_MAMBA1] = { find_mamba1, LINEAR_MAMBA_OUT },
	[MIXER_CONV] = { find_conv, LINEAR_CONV_OUT },
	[MIXER_NONE] = { find_nothing, LINEAR_DOWN },
};

static int find_mixer(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const char *out = search_linear_name(search, mixers[layer->mixer].out);

	layer->mixer_module = xasprintf("%s%.*s", prefix, (int)(strrchr(out, '.') - out), out);
	return mixers[layer->mixer].find(search, prefix, layer);
}

/* What all inputs of layers are made of, which the first layer has. */
static int find_layer_inputs(struct search *search, struct model *model)
{
	const char *body = model->place->body, *table = model->arch->layer_embedding;
	const char *norm = search_vector_name(search, VECTOR_NORM_LAYER_INPUTS);
	struct layer_ref *first = &model->layers[0];
	size_t dim = model->layer_input_dim, n = model->n_layers * dim;
	const struct expected expected[] = { { LINEAR_LAYER_INPUTS, n, model->hidden, 1 } };

	if (!dim)
		return 0;
	model->layer_embedding = search_tensor(search, body, table, ".weight");
	if (!model->layer_embedding)
		return search_missing(search, body, table, ".weight");
	first->vector[VECTOR_NORM_LAYER_INPUTS] = search_tensor(search, body, norm, "");
	if (!first->vector[VECTOR_NORM_LAYER_INPUTS])
		return search_missing(search, body, norm, "");
	if (search_linears(search, body, first, expected, 1) ||
	    search_check_vector(first->vector[VECTOR_NORM_LAYER_INPUTS], dim, search->err))
		return -1;
	return search_check_matrix(model->layer_embedding, model->layer_vocab_size, n, search->err);
}

/* The gate of a layer's own input, and the matrix behind it. */
static int find_layer_input(struct search *search, const char *prefix, struct layer_ref *layer)
{
	size_t hidden = search->model->hidden, dim = search->model->layer_input_dim;
	const struct expected expected[] = {
		{ LINEAR_LAYER_GATE, dim, hidden, dim > 0 },
		{ LINEAR_LAYER_OUT, hidden, dim, dim > 0 },
	};
	const struct tensor_ref *gate;

	if (search_linears(search, prefix, layer, expected, COUNT(expected)))
		return -1;
	gate = layer->linear[LINEAR_LAYER_GATE].weight;
	if (gate && !dim)
		return err_set(search->err, ERR_INPUT,
			       "tensor '%s' has no effect by config.json, where "
			       "'hidden_size_per_layer_input' is 0: correct one of them",
			       gate->tensor->name);
	return 0;
}

static int find_layer(struct search *search, size_t i)
{
	struct layer_ref *layer = &search->model->layers[i];
	char *prefix = xasprintf("%slayers.%zu.", search->model->place->body, i);
	int rc = -1;

	if (!find_mixer(search, prefix, layer) &&
	    !(layer->has_mlp && find_mlp(search, prefix, layer)) &&
	    !find_layer_input(search, prefix, layer) &&
	    !search_layer_streams(search, prefix, layer) && !search_ngrams(search, prefix, layer))
		rc = search_vectors(search, prefix, layer);
	free(prefix);
	return rc;
}

/* Where the language model is in the names of the checkpoint: alone, or beside towers. */
static const struct model_place places[] = {
	{ "model.", "lm_head" },
	{ "backbone.", "lm_head" },
	{ "model.language_model.", "lm_head" },
	{ "language_model.model.", "language_model.lm_head" },
	{ "thinker.model.", "thinker.lm_head" },
	{ "model.llm.", "model.llm.unembed" },
	{ "", "head" },
};

/* Finds the place by the embedding; where there is none, the first place is as good as others. */
static const struct model_place *find_place(const struct checkpoint *checkpoint,
					    const char *embedding)
{
	for (size_t i = 0; i < COUNT(places); i++) {
		char *name = xasprintf("%s%s.weight", places[i].body, embedding);
		bool found = checkpoint_find(checkpoint, name);

		free(name);
		if (found)
			return &places[i];
	}
	return &places[0];
}

/* Finds the head, or takes the embedding.  Of a head whose last rows are padding, with or without
 * those, it has the others. */
static int find_head(struct search *search, struct model *model, bool tied)
{
	const char *name = model->place->head;
	size_t n = model->unpadded_vocab_size;
	struct linear_ref *head = &model->head;

	if (search_linear(search, "", name, 0, model->hidden, head))
		return -1;
	if (head->weight && head->n != n &&
	    search_check_matrix(head->weight, model->vocab_size, model->hidden, search->err))
		return -1;
	if (head->weight && head->n > n)
		head->n = n;
	if (head->weight)
		return 0;
	if (!tied)
		return search_missing(search, "", name, ".weight");
	model->head =
		(struct linear_ref){ .module = xstrdup(name),
				     .weight = model->embedding,
				     .n = model->vocab_size,
				     .k = model->hidden,
				     .slice = { .row_stride = model->hidden, .col_stride = 1 } };
	return 0;
}

int model_find_tensors(struct model *model, const struct model_config *config, struct err *err)
{
	const struct arch *arch = model->arch;
	struct search search = { .model = model, .config = config, .err = err };
	const char *embedding = arch->embedding ? arch->embedding : "embed_tokens";
	const char *norm = arch->norm ? arch->norm : "norm", *body;

	model->place = find_place(model->checkpoint, embedding);
	body = model->place->body;
	model->embedding = search_tensor(&search, body, embedding, ".weight");
	model->norm = *norm ? search_tensor(&search, body, norm, ".weight") : NULL;
	if (!model->embedding)
		return search_missing(&search, body, embedding, ".weight");
	if (*norm && !model->norm)
		return search_missing(&search, body, norm, ".weight");
	if (arch->embedding_norm && *arch->embedding_norm) {
		model->embedding_norm =
			search_tensor(&search, body, arch->embedding_norm, ".weight");
		if (!model->embedding_norm)
			return search_missing(&search, body, arch->embedding_norm, ".weight");
		if (search_check_vector(model->embedding_norm, model->hidden, err))
			return -1;
	}
	if (search_check_matrix(model->embedding, model->vocab_size, model->hidden, err) ||
	    (model->norm && search_check_vector(model->norm, model->hidden, err)) ||
	    find_head(&search, model,
		      config->tie_is_stated ? config->tie_word_embeddings : arch->tied) ||
	    find_layer_inputs(&search, model) || search_streams(&search, model))
		return -1;
	search.n_found = 0;
	for (size_t i = 0; i < model->n_layers; i++) {
		model->layers[i].expert_width =
			model->arch->clamped ? model_config_expert_width(config) : 0;
		if (find_layer(&search, i))
			return -1;
	}
	return search_check_leftovers(&search);
}
