/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes and features of a model, by config.json and the row of its architecture.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/facts.h"
#include "model/steps.h"

#define MAX_HEADS 65536

/* DeepSeek-V3's norms inside of attention ignore rms_norm_eps (transformers, and DeepSeek's own
 * code). */

static int configure_heads(struct model *model, const struct model_config *config,
			   const json_t *facts, struct err *err)
{
	const uint64_t *size = config->size;

	model->n_heads = size[CONFIG_HEADS];
	model->n_kv_heads = size[CONFIG_KV_HEADS] ? size[CONFIG_KV_HEADS] : model->n_heads;
	if (model->arch->positions.turns_back)
		model->n_kv_heads = 1;
	model->head_dim = fact_count(facts, "head_dim", 0);
	if (!model->head_dim)
		model->head_dim = model->hidden / model->n_heads;
	model->value_dim = model->head_dim;
	if (json_object_get(facts, "v_head_dim") &&
	    fact_size(facts, "v_head_dim", MODEL_MAX_HEAD_DIM, &model->value_dim, err))
		return -1;
	if (model->head_dim > MODEL_MAX_HEAD_DIM)
		return err_set(err, ERR_INPUT, "config.json: head_dim %zu exceeds the limit of %d",
			       model->head_dim, MODEL_MAX_HEAD_DIM);
	if (model->n_heads > MAX_HEADS)
		return err_set(err, ERR_INPUT, "config.json: %zu heads exceed the limit of %d",
			       model->n_heads, MAX_HEADS);
	if (model->n_heads % model->n_kv_heads)
		return err_set(
			err, ERR_INPUT,
			"config.json: %zu heads ('num_attention_heads') are not a multiple of %zu "
			"key and value heads ('num_key_value_heads')",
			model->n_heads, model->n_kv_heads);
	return 0;
}

static int configure_sizes(struct model *model, const struct model_config *config,
			   const json_t *facts, struct err *err)
{
	static const enum config_size needed[] = { CONFIG_HIDDEN_SIZE, CONFIG_HEADS,
						   CONFIG_VOCAB_SIZE };
	const uint64_t *size = config->size;

	for (size_t i = 0; i < COUNT(needed); i++)
		if (model_config_need(config, needed[i], err))
			return -1;
	model->hidden = size[CONFIG_HIDDEN_SIZE];
	model->n_layers = model_count_layers(model->arch, facts);
	if (!model->n_layers && model_config_need(config, CONFIG_LAYERS, err))
		return -1;
	if (!model->n_layers)
		model->n_layers = size[CONFIG_LAYERS];
	model->vocab_size = size[CONFIG_VOCAB_SIZE];
	model->unpadded_vocab_size = fact_count(facts, "unpadded_vocab_size", model->vocab_size);
	if (model->unpadded_vocab_size > model->vocab_size)
		model->unpadded_vocab_size = model->vocab_size;
	if (!model->unpadded_vocab_size)
		return err_set(err, ERR_INPUT, "config.json: 'unpadded_vocab_size' is 0");
	model->max_positions = fact_count(facts, "max_position_embeddings", 0);
	if (model->n_layers > model->checkpoint->n_tensors)
		return err_set(
			err, ERR_INPUT, "config.json has %zu layers, but '%s' has only %zu tensors",
			model->n_layers, model->checkpoint->path, model->checkpoint->n_tensors);
	return 0;
}

/* The activation of an mlp with a gate, or of one without. */
static int configure_activation(struct model *model, const json_t *facts, struct err *err)
{
	static const struct {
		const char *name;
		enum activation activation;
		bool gated;
	} names[] = { { "silu", ACT_SILU, true },
		      { "swish", ACT_SILU, true },
		      { "gelu_pytorch_tanh", ACT_GELU, true },
		      { "relu2", ACT_SRELU, false } };
	const char *key = FACT_KEY(facts, "mlp_hidden_act", "hidden_activation", "hidden_act");
	const char *name = json_string_value(json_object_get(facts, key));
	const char *gate = model->arch->linear[LINEAR_GATE];
	bool gated = !gate || *gate;

	for (size_t i = 0; name && i < COUNT(names); i++) {
		if (strcmp(names[i].name, name) != 0 || names[i].gated != gated)
			continue;
		model->activation = names[i].activation;
		return 0;
	}
	return err_set(err, ERR_INPUT, "config.json: %s '%s' is not supported (supported: %s)", key,
		       name ? name : "null", gated ? "silu, gelu_pytorch_tanh" : "relu2");
}

/* Returns the factor of q k^T by the size of a head. */
static float score_scale(const struct arch *arch, const json_t *facts, double head_dim)
{
	if (arch->scores == SCORES_PLAIN)
		return 1;
	if (arch->scores == SCORES_INVERSE)
		return (float)(1 / head_dim);
	return (float)(pow(head_dim, -0.5) *
		       (arch->scores == SCORES_YARN ? rope_score_scale(facts) : 1));
}

/* Sets the factor of each layer, which config.json may state for all. */
static void scale_scores(struct model *model, const json_t *facts)
{
	bool stated = json_is_number(json_object_get(facts, "query_pre_attn_scalar")) ||
		      json_is_number(json_object_get(facts, "attention_multiplier"));

	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];

		layer->attention_scale =
			stated || layer->head_dim == model->head_dim
				? model->attention_scale
				: score_scale(model->arch, facts, (double)layer->head_dim);
	}
}

static int configure_numbers(struct model *model, const json_t *facts, struct err *err)
{
	const struct arch *arch = model->arch;
	double head = fact_number(facts, "query_pre_attn_scalar", (double)model->head_dim);
	const char *key = FACT_KEY(facts, "layer_norm_eps", "layer_norm_epsilon",
				   "layernorm_epsilon", "norm_eps", "rms_norm_eps");
	double eps = fact_number(facts, key, 0);

	if (!(head > 0))
		return err_set(err, ERR_INPUT,
			       "config.json: 'query_pre_attn_scalar' is %g, not above 0", head);
	if (!(eps > 0))
		return err_set(err, ERR_INPUT, "config.json: '%s' is %g, not above 0", key, eps);
	model->norm_eps = (float)eps;
	model->rotated_norm = arch->head_norms == HEADS_PLAIN && fact_flag(facts, "use_qk_norm");
	model->out_norm_eps = (float)fact_number(facts, "post_norm_eps", eps);
	if (!(model->out_norm_eps > 0))
		return err_set(err, ERR_INPUT, "config.json: 'post_norm_eps' is %g, not above 0",
			       (double)model->out_norm_eps);
	model->last_norm_offset = arch->norms == NORMS_PLUS_ONE ? 1 : 0;
	model->norm_offset = arch->norms == NORMS_PLUS_ONE_IN_LAYERS ? 1 : model->last_norm_offset;
	model->attention_scale = score_scale(arch, facts, head);
	model->attention_softcap = (float)fact_number(facts, "attn_logit_softcapping", 0);
	model->logit_softcap = (float)fact_number(facts, "final_logit_softcapping", 0);
	model->embedding_scale = arch->scaled_embedding || fact_flag(facts, "mup_enabled")
					 ? sqrtf((float)model->hidden)
					 : 1;
	return 0;
}

static int configure_layer_inputs(struct model *model, const json_t *facts, struct err *err)
{
	static const char key[] = "hidden_size_per_layer_input";
	size_t n_rows = fact_count(facts, "vocab_size_per_layer_input", 0);

	if (!fact_count(facts, key, 0))
		return 0;
	if (n_rows < model->vocab_size)
		return err_set(err, ERR_INPUT,
			       "config.json: 'vocab_size_per_layer_input' is %zu, less than "
			       "'vocab_size', %zu",
			       n_rows, model->vocab_size);
	model->layer_vocab_size = n_rows;
	return fact_size(facts, key, MODEL_MAX_HEAD_DIM, &model->layer_input_dim, err);
}

int model_configure(struct model *model, const struct model_config *config, const json_t *facts,
		    struct err *err)
{
	if (configure_sizes(model, config, facts, err) ||
	    configure_heads(model, config, facts, err) || configure_activation(model, facts, err) ||
	    configure_layer_inputs(model, facts, err) || latent_configure(model, facts, err))
		return -1;
	model->layers = xcalloc(model->n_layers, sizeof *model->layers);
	if (model_configure_windows(model, facts, err) ||
	    model_configure_heads(model, facts, err) || model_configure_gates(model, facts, err) ||
	    model_configure_limits(model, facts, err) || streams_configure(model, facts, err) ||
	    ngrams_configure(model, facts, err) || model_configure_sharing(model, facts, err) ||
	    model_configure_ropes(model, facts, err) || pools_configure(model, facts, err) ||
	    distances_configure(model, facts, err) || short_conv_configure(model, facts, err) ||
	    indexer_configure(model, facts, err) || configure_numbers(model, facts, err) ||
	    routing_configure(model, facts, err) || model_read_multipliers(model, facts, err))
		return -1;
	scale_scores(model, facts);
	return model_find_mixers(model, facts, err);
}

/* Gemma 4: the mlp of layers that use other layers' keys and values may be twice as wide. */
int model_check_widths(const struct model *model, const struct model_config *config,
		       const json_t *facts, struct err *err)
{
	bool wide = fact_flag(facts, "use_double_wide_mlp");

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];
		size_t times = wide && layer->kv_source ? 2 : 1;

		if (!json_object_get(facts, "use_double_wide_mlp") ||
		    layer->width == times * config->size[CONFIG_INTERMEDIATE_SIZE])
			continue;
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has %zu columns, but 'intermediate_size' and "
			       "'use_double_wide_mlp' of config.json imply %zu",
			       layer->linear[LINEAR_DOWN].weight->tensor->name, layer->width,
			       times * (size_t)config->size[CONFIG_INTERMEDIATE_SIZE]);
	}
	return 0;
}

/* A flag of config.json on tensors that layers have or have not. */
static const struct feature_row {
	const char *key;
	const char *what;
	enum linear_role biased[10]; /* one of these with a bias */
	size_t n_biased;
	bool not_mamba; /* means something else in models with Mamba-2 */
	/* if n_biased is 0: this vector, in layers with that matrix */
	enum vector_role vector;
	enum linear_role of;
} features[] = {
	{ .key = "attention_bias",
	  .what = "a bias",
	  .biased = { LINEAR_Q, LINEAR_K, LINEAR_V, LINEAR_QKV, LINEAR_Q_A, LINEAR_KV_A, LINEAR_O },
	  .n_biased = 7 },
	{ .key = "attention_out_bias", .what = "a bias", .biased = { LINEAR_O }, .n_biased = 1 },
	{ .key = "mlp_bias",
	  .what = "a bias",
	  .biased = { LINEAR_GATE, LINEAR_UP, LINEAR_GATE_UP, LINEAR_DOWN, LINEAR_SHARED_GATE,
		      LINEAR_SHARED_UP, LINEAR_SHARED_DOWN },
	  .n_biased = 7 },
	{ .key = "conv_bias",
	  .what = "a bias",
	  .biased = { LINEAR_CONV_IN, LINEAR_CONV_OUT },
	  .n_biased = 2 },
	{ .key = "conv_bias",
	  .what = "a convolution's bias",
	  .vector = VECTOR_CONV_BIAS,
	  .of = LINEAR_CONV_IN },
	{ .key = "enable_moe_block",
	  .what = "a router",
	  .vector = VECTOR_NORM_ROUTER,
	  .of = LINEAR_GATE },
	{ .key = "mamba_conv_bias",
	  .what = "a convolution's bias",
	  .vector = VECTOR_CONV_BIAS,
	  .of = LINEAR_MAMBA_IN },
	{ .key = "mamba_proj_bias",
	  .what = "a bias",
	  .biased = { LINEAR_MAMBA_IN, LINEAR_MAMBA_OUT },
	  .n_biased = 2 },
	{ .key = "use_bias",
	  .what = "a bias",
	  .biased = { LINEAR_MAMBA_IN, LINEAR_MAMBA_OUT },
	  .n_biased = 2 },
	{ .key = "use_bias",
	  .what = "a bias",
	  .biased = { LINEAR_Q, LINEAR_K, LINEAR_V, LINEAR_O, LINEAR_GATE, LINEAR_UP, LINEAR_DOWN,
		      LINEAR_SHARED_GATE, LINEAR_SHARED_UP, LINEAR_SHARED_DOWN },
	  .n_biased = 10,
	  .not_mamba = true },
	{ .key = "use_conv_bias",
	  .what = "a convolution's bias",
	  .vector = VECTOR_CONV_BIAS,
	  .of = LINEAR_MAMBA_IN },
	{ .key = "use_qk_norm",
	  .what = "a norm of queries",
	  .vector = VECTOR_NORM_Q,
	  .of = LINEAR_Q },
};

/* Returns a tensor of the layer by which it has the feature, or NULL. */
static const struct tensor_ref *feature_tensor(const struct layer_ref *layer,
					       const struct feature_row *row)
{
	const struct tensor_ref *found = row->n_biased ? NULL : layer->vector[row->vector];

	for (size_t i = 0; i < row->n_biased && !found; i++)
		found = layer->linear[row->biased[i]].bias;
	return found;
}

/* Whether the layer has the matrices that the feature is about, and its architecture the vector. */
static bool feature_applies(const struct arch *arch, const struct layer_ref *layer,
			    const struct feature_row *row)
{
	const char *name = row->n_biased ? NULL : arch->vector[row->vector];
	bool applies = !row->n_biased && layer->linear[row->of].weight && !(name && !*name);

	for (size_t i = 0; i < row->n_biased; i++)
		applies = applies || layer->linear[row->biased[i]].weight;
	return applies;
}

int model_check_features(const struct model *model, const json_t *facts, struct err *err)
{
	for (size_t f = 0; f < COUNT(features); f++) {
		const struct feature_row *row = &features[f];
		bool stated = fact_flag(facts, row->key);

		if (row->not_mamba && model->arch->mamba)
			continue;
		for (size_t i = 0; i < model->n_layers && json_object_get(facts, row->key); i++) {
			const struct tensor_ref *found = feature_tensor(&model->layers[i], row);

			if (found && !stated)
				return err_set(err, ERR_INPUT,
					       "tensor '%s' has no effect by config.json, where "
					       "'%s' is not true: correct one of them",
					       found->tensor->name, row->key);
			if (stated && !found &&
			    feature_applies(model->arch, &model->layers[i], row))
				return err_set(err, ERR_INPUT,
					       "config.json: '%s' is true, but layer %zu of '%s' "
					       "has no tensor of %s",
					       row->key, i, model->checkpoint->path, row->what);
		}
	}
	return 0;
}
