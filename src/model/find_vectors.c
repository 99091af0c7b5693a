/* SPDX-License-Identifier: Apache-2.0
 *
 * The vectors of a layer by role: which a layer may have, which it must have, and their lengths.
 */
#include <stdio.h>
#include <string.h>

#include "model/steps.h"

/* May the layer have the vector, of a mixer with a convolution or a scan?  All have other ones. */
static bool scan_vector_is_of(const struct layer_ref *layer, int role)
{
	switch (role) {
	case VECTOR_CONV:
		return layer->mixer == MIXER_DELTA || layer->mixer == MIXER_CONV ||
		       layer->mixer == MIXER_MAMBA1 || layer_has_mamba(layer);
	case VECTOR_CONV_Q:
	case VECTOR_CONV_K:
	case VECTOR_CONV_V:
		return layer->mixer == MIXER_DELTA;
	case VECTOR_A_LOG:
		return layer->mixer == MIXER_DELTA || layer->mixer == MIXER_MAMBA1 ||
		       layer_has_mamba(layer);
	case VECTOR_DT_BIAS:
	case VECTOR_NORM_GATED:
		return layer->mixer == MIXER_DELTA || layer_has_mamba(layer);
	case VECTOR_CONV_BIAS:
		return layer->mixer == MIXER_CONV || layer->mixer == MIXER_MAMBA1 ||
		       layer_has_mamba(layer);
	case VECTOR_SKIP:
		return layer->mixer == MIXER_MAMBA1 || layer_has_mamba(layer);
	case VECTOR_NORM_STEP:
	case VECTOR_NORM_B:
	case VECTOR_NORM_C:
		return layer->mixer == MIXER_MAMBA1;
	default:
		return true;
	}
}

/* May the layer have the vector?  The vectors of a mixer belong to layers with that mixer. */
static bool vector_is_of(const struct positions *positions, const struct layer_ref *layer, int role)
{
	switch (role) {
	case VECTOR_NORM_K:
		return layer_has_attention(layer) && !layer->kv_source;
	case VECTOR_SHORT_CONV_K:
	case VECTOR_SHORT_CONV_V:
		return layer_has_attention(layer) && !layer->kv_source;
	case VECTOR_NORM_Q:
	case VECTOR_NORM_Q_A:
	case VECTOR_NORM_KV_A:
	case VECTOR_NORM_K_ROPE:
		return layer_has_attention(layer);
	case VECTOR_DISTANCES:
		return layer->extent > 0;
	case VECTOR_NORM_INDEX_Q:
	case VECTOR_NORM_INDEX_K:
	case VECTOR_NORM_INDEX_K_BIAS:
	case VECTOR_INDEX_PLACES:
		return layer->keys == KEYS_CHOSEN;
	case VECTOR_POOL_PLACES:
	case VECTOR_NORM_POOL:
		return layer->pool_size > 0;
	case VECTOR_SINKS:
		return layer_has_attention(layer) && (layer->window || !positions->window_sinks);
	case VECTOR_NORM_LAYER_INPUTS: /* found with their matrices, which are no layer's alone */
	case VECTOR_NORM_LAST_MIX:
	case VECTOR_NGRAM_HASH: /* found with its table */
		return false;
	case VECTOR_NORM_NGRAM_KEY:
	case VECTOR_NORM_NGRAM_QUERY:
	case VECTOR_NORM_NGRAM_CONV:
	case VECTOR_NGRAM_CONV:
		return layer->ngrams > 0;
	case VECTOR_NORM_LAYER_OUT:
		return layer->linear[LINEAR_LAYER_OUT].weight;
	case VECTOR_NORM_ATTENTION:
	case VECTOR_NORM_ATTENTION_OUT:
	case VECTOR_SHORT_CONV_ATTENTION:
		return layer->mixer != MIXER_NONE;
	case VECTOR_NORM_MLP:
	case VECTOR_NORM_MLP_OUT:
	case VECTOR_SHORT_CONV_MLP:
		return layer->has_mlp;
	case VECTOR_MLP_SCALE:
		return layer->width > 0;
	case VECTOR_NORM_ROUTER:
	case VECTOR_NORM_EXPERTS:
	case VECTOR_NORM_EXPERTS_OUT:
	case VECTOR_NORM_DENSE_OUT:
	case VECTOR_EXPERT_SCALES:
	case VECTOR_ROUTER_SCALE:
		return layer->n_experts > 0;
	case VECTOR_ROUTER_BIAS:
	case VECTOR_ROUTER_TABLE:
		return layer->n_experts > 0 &&
		       layer->routed_by_token == (role == VECTOR_ROUTER_TABLE);
	default:
		return scan_vector_is_of(layer, role);
	}
}

/* The sizes of the vectors of a mixer with a convolution. */
struct scan_sizes {
	size_t n_heads, steps, norm, channels, conv_width;
};

static struct scan_sizes scan_sizes_of(const struct model *model, const struct layer_ref *layer)
{
	const struct delta *delta = &model->delta;
	const struct mamba *mamba = &model->mamba;
	size_t inner = mamba->n_heads * mamba->head_dim;

	if (layer->mixer == MIXER_MAMBA1)
		return (struct scan_sizes){ .n_heads = model->mamba1.n_channels,
					    .channels = model->mamba1.n_channels,
					    .conv_width = model->mamba1.conv_width };
	if (layer->mixer == MIXER_CONV)
		return (struct scan_sizes){ .channels = model->hidden,
					    .conv_width = model->conv_width };
	if (layer->mixer == MIXER_DELTA)
		return (struct scan_sizes){ .n_heads = delta->n_heads,
					    .steps = delta->n_heads * delta->n_decays,
					    .norm = delta->value_dim,
					    .channels = 2 * delta->n_key_heads * delta->key_dim +
							delta->n_heads * delta->value_dim,
					    .conv_width = delta->conv_width };
	return (struct scan_sizes){ .n_heads = mamba->n_heads,
				    .steps = mamba->n_heads,
				    .norm = inner,
				    .channels = inner + 2 * mamba->n_groups * mamba->state_size,
				    .conv_width = mamba->conv_width };
}

/* Returns the length that the vector must have. */
static size_t vector_length(const struct model *model, const struct layer_ref *layer, int role)
{
	switch (role) {
	case VECTOR_NORM_Q:
		return layer->head_dim *
		       (model->arch->head_norms == HEADS_TOGETHER ? layer->n_heads : 1);
	case VECTOR_NORM_K:
		return layer->head_dim *
		       (model->arch->head_norms == HEADS_TOGETHER ? layer->n_kv_heads : 1);
	case VECTOR_NORM_Q_A:
		return layer->latent ? layer->latent->q_lora_rank : model->latent.q_lora_rank;
	case VECTOR_NORM_KV_A:
		return layer->latent->kv_lora_rank;
	case VECTOR_NORM_K_ROPE:
		return layer->latent->rope_dim;
	case VECTOR_NORM_INDEX_Q:
	case VECTOR_NORM_INDEX_K:
	case VECTOR_NORM_INDEX_K_BIAS:
		return model->indexer.head_dim;
	case VECTOR_ROUTER_BIAS:
	case VECTOR_EXPERT_SCALES:
		return layer->linear[LINEAR_ROUTER].n - layer->n_shared_experts;
	case VECTOR_ROUTER_SCALE:
	case VECTOR_MLP_SCALE:
	case VECTOR_LAYER_SCALE:
		return 1;
	case VECTOR_NORM_POOL:
		return layer->head_dim;
	case VECTOR_MIX_ATTENTION_BASE:
	case VECTOR_MIX_MLP_BASE:
		return MODEL_MIXES(model->streams.n);
	case VECTOR_MIX_ATTENTION_SCALE:
	case VECTOR_MIX_MLP_SCALE:
		return 3;
	case VECTOR_NORM_MIX:
	case VECTOR_NORM_MLP_MIX:
	case VECTOR_NORM_NGRAM_KEY:
	case VECTOR_NORM_NGRAM_QUERY:
	case VECTOR_NORM_NGRAM_CONV:
		return model->streams.n * model->hidden;
	case VECTOR_SINKS:
		return layer->n_heads;
	case VECTOR_A_LOG:
	case VECTOR_SKIP:
		return scan_sizes_of(model, layer).n_heads;
	case VECTOR_DT_BIAS:
		return scan_sizes_of(model, layer).steps;
	case VECTOR_NORM_GATED:
		return scan_sizes_of(model, layer).norm;
	case VECTOR_CONV_BIAS:
		return scan_sizes_of(model, layer).channels;
	case VECTOR_NORM_STEP:
		return model->mamba1.step_rank;
	case VECTOR_NORM_B:
	case VECTOR_NORM_C:
		return model->mamba1.state_size;
	default:
		return model->hidden;
	}
}

/* Must the layer have the vector? */
static bool vector_is_needed(const struct model *model, const struct layer_ref *layer, int role)
{
	switch (role) {
	case VECTOR_NORM_Q_A:
		return vector_length(model, layer, role) > 0;
	case VECTOR_NORM_KV_A:
		return layer->latent != NULL;
	case VECTOR_ROUTER_BIAS:
		return layer->n_experts && model->arch->vector[role];
	case VECTOR_NORM_Q:
	case VECTOR_NORM_K:
	case VECTOR_SINKS:
		return model->arch->vector[role] != NULL;
	case VECTOR_CONV_BIAS:
		return false;
	case VECTOR_NORM_GATED:
		return layer->mixer == MIXER_DELTA || model->mamba.has_norm;
	default:
		return true;
	}
}

/* Checks that the weight of a convolution is (channels, 1, width). */
static int check_conv(const struct tensor_ref *ref, const struct scan_sizes *sizes, struct err *err)
{
	const uint64_t shape[] = { sizes->channels, 1, sizes->conv_width };
	char expected[60];

	if (ref->tensor->n_dims == 3 && !memcmp(ref->tensor->shape, shape, sizeof shape))
		return 0;
	snprintf(expected, sizeof expected, "[%zu, 1, %zu]", sizes->channels, sizes->conv_width);
	return search_bad_shape(ref, expected, err);
}

/* Returns the sizes of the convolution of a role: of all channels, or of q, k or v. */
static struct scan_sizes conv_sizes_of(const struct model *model, const struct layer_ref *layer,
				       int role)
{
	const struct delta *delta = &model->delta;
	struct scan_sizes sizes = scan_sizes_of(model, layer);

	if (role == VECTOR_NGRAM_CONV)
		return (struct scan_sizes){ .channels = model->streams.n * model->hidden,
					    .conv_width = model->ngrams.conv_width };
	if (role != VECTOR_CONV)
		sizes.channels = role == VECTOR_CONV_V ? delta->n_heads * delta->value_dim
						       : delta->n_key_heads * delta->key_dim;
	return sizes;
}

/* Kimi Linear: A_log is (1, 1, heads, 1). */
static bool is_vector_of_heads(const struct tensor_ref *ref, size_t n)
{
	const uint64_t shape[] = { 1, 1, n, 1 };

	return ref->tensor->n_dims == 4 && !memcmp(ref->tensor->shape, shape, sizeof shape);
}

/* Checks a vector that has rows.  Returns whether it is one, in *rc how. */
static bool check_rows(const struct search *search, const struct layer_ref *layer, int role,
		       int *rc)
{
	const struct model *model = search->model;
	size_t n = model->streams.n, halves = layer->pools_overlap ? 2 : 1;
	size_t index_pool = layer->pool_size ? layer->pool_size : model->indexer.pool_size;
	const struct {
		int role;
		size_t n_rows, n_cols;
	} rows[] = {
		{ VECTOR_MIX_ATTENTION, MODEL_MIXES(n), n * model->hidden },
		{ VECTOR_MIX_MLP, MODEL_MIXES(n), n * model->hidden },
		{ VECTOR_POOL_PLACES, layer->pool_size, halves * layer->head_dim },
		{ VECTOR_INDEX_PLACES, index_pool, halves * model->indexer.head_dim },
		{ VECTOR_DISTANCES, model->distances.n_profiles, layer->extent },
		{ VECTOR_ROUTER_TABLE, model->vocab_size, model->routing.top_k },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		if (rows[i].role != role)
			continue;
		*rc = search_check_matrix(layer->vector[role], rows[i].n_rows, rows[i].n_cols,
					  search->err);
		return true;
	}
	return false;
}

static int check_vector(const struct search *search, const struct layer_ref *layer, int role)
{
	const struct tensor_ref *ref = layer->vector[role];
	int rc;

	if (check_rows(search, layer, role, &rc))
		return rc;
	if (short_conv_channels(search->model, layer, role)) {
		const struct scan_sizes sizes = {
			.channels = short_conv_channels(search->model, layer, role),
			.conv_width = search->model->short_conv_width,
		};

		return check_conv(ref, &sizes, search->err);
	}
	if (role == VECTOR_CONV || role == VECTOR_CONV_Q || role == VECTOR_CONV_K ||
	    role == VECTOR_CONV_V || role == VECTOR_NGRAM_CONV) {
		const struct scan_sizes sizes = conv_sizes_of(search->model, layer, role);

		return check_conv(ref, &sizes, search->err);
	}
	if (role == VECTOR_A_LOG && layer->mixer == MIXER_DELTA &&
	    is_vector_of_heads(ref, search->model->delta.n_heads))
		return 0;
	if (role == VECTOR_ROUTER_BIAS && ref->tensor->n_dims == 2 &&
	    ref->tensor->shape[0] == (search->model->arch->experts.have_images ? 2 : 1) &&
	    ref->tensor->shape[1] == layer->linear[LINEAR_ROUTER].n)
		return 0; /* ERNIE: the first row of a matrix */
	if (role == VECTOR_A_LOG && layer->mixer == MIXER_MAMBA1)
		return search_check_matrix(ref, search->model->mamba1.n_channels,
					   search->model->mamba1.state_size, search->err);
	return search_check_vector(ref, vector_length(search->model, layer, role), search->err);
}

int search_vectors(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;

	for (int i = 0; i < N_VECTORS; i++) {
		const char *name = search_vector_name(search, (enum vector_role)i);

		if (!*name || !vector_is_of(&model->arch->positions, layer, i))
			continue;
		layer->vector[i] = search_tensor(search, prefix, name, "");
		if (layer->vector[i] && check_vector(search, layer, i))
			return -1;
		if (!layer->vector[i] && vector_is_needed(model, layer, i))
			return search_missing(search, prefix, name, "");
	}
	return 0;
}
