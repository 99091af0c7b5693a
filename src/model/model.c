/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a model and reads config.json.
 */
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "model/steps.h"

#define DEFAULT_EPS  1e-6
#define MAX_HEAD_DIM 65536
#define MAX_HEADS    65536

static bool arch_serves(const struct arch *arch, const char *architecture)
{
	for (size_t i = 0; i < sizeof arch->architectures / sizeof *arch->architectures; i++)
		if (arch->architectures[i] && !strcmp(arch->architectures[i], architecture))
			return true;
	return false;
}

static int arch_find(struct model *model, const struct model_config *config, struct err *err)
{
	const char *expected = config->architecture;
	struct buf known = { 0 };

	if (!expected)
		return err_set(err, ERR_INPUT,
			       "config.json of '%s' has no 'architectures', which names the model",
			       model->checkpoint->path);
	for (size_t i = 0; archs[i]; i++) {
		if (arch_serves(archs[i], expected)) {
			model->arch = archs[i];
			buf_release(&known);
			return 0;
		}
		buf_printf(&known, "%s%s", i ? ", " : "", archs[i]->name);
	}
	err_set(err, ERR_INPUT,
		"architecture '%s' in config.json of '%s' is not supported "
		"(supported: %s)%s",
		expected, model->checkpoint->path, known.data, model->advice);
	buf_release(&known);
	return -1;
}

/* Returns the object of the language model in config.json: root or a nested one. */
static const json_t *language_level(const json_t *root)
{
	const json_t *inner = json_object_get(root, "text_config");

	return json_is_object(inner) ? inner : root;
}

static double number(const json_t *config, const char *key, double otherwise)
{
	const json_t *value = json_object_get(config, key);

	return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* Reads a count.  Negative values become 0, values above a billion a billion. */
static size_t count(const json_t *config, const char *key, size_t otherwise)
{
	return (size_t)fmin(fmax(number(config, key, (double)otherwise), 0), 1e9);
}

static int configure_sizes(struct model *model, const struct model_config *config,
			   const json_t *level, struct err *err)
{
	static const enum config_size needed[] = { CONFIG_HIDDEN_SIZE, CONFIG_HEADS,
						   CONFIG_VOCAB_SIZE };
	const uint64_t *size = config->size;

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (model_config_need(config, needed[i], err))
			return -1;
	model->hidden = size[CONFIG_HIDDEN_SIZE];
	model->n_layers = model_count_layers(model->arch, level);
	if (!model->n_layers && model_config_need(config, CONFIG_LAYERS, err))
		return -1;
	if (!model->n_layers)
		model->n_layers = size[CONFIG_LAYERS];
	model->n_heads = size[CONFIG_HEADS];
	model->n_kv_heads = size[CONFIG_KV_HEADS] ? size[CONFIG_KV_HEADS] : model->n_heads;
	model->head_dim =
		size[CONFIG_HEAD_DIM] ? size[CONFIG_HEAD_DIM] : model->hidden / model->n_heads;
	model->value_dim = model->head_dim;
	if (model->head_dim > MAX_HEAD_DIM)
		return err_set(err, ERR_INPUT, "config.json: head_dim %zu exceeds the limit of %d",
			       model->head_dim, MAX_HEAD_DIM);
	if (model->n_heads > MAX_HEADS)
		return err_set(err, ERR_INPUT, "config.json: %zu heads exceed the limit of %d",
			       model->n_heads, MAX_HEADS);
	model->vocab_size = size[CONFIG_VOCAB_SIZE];
	if (model->n_heads % model->n_kv_heads)
		return err_set(
			err, ERR_INPUT,
			"config.json: %zu heads are not a multiple of %zu key and value heads",
			model->n_heads, model->n_kv_heads);
	if (model->n_layers > model->checkpoint->n_tensors)
		return err_set(
			err, ERR_INPUT, "config.json has %zu layers, but '%s' has only %zu tensors",
			model->n_layers, model->checkpoint->path, model->checkpoint->n_tensors);
	return 0;
}

static int configure_activation(struct model *model, const json_t *config, struct err *err)
{
	static const struct {
		const char *name;
		enum activation activation;
	} names[] = { { "silu", ACT_SILU },
		      { "swish", ACT_SILU },
		      { "gelu_pytorch_tanh", ACT_GELU },
		      { "relu2", ACT_SRELU } };
	const json_t *value = json_object_get(config, "hidden_activation");
	const char *name;

	if (!json_is_string(value))
		value = json_object_get(config, "hidden_act");
	if (!json_is_string(value))
		value = json_object_get(config, "mlp_hidden_act");
	name = json_is_string(value) ? json_string_value(value) : "silu";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(names[i].name, name) != 0)
			continue;
		model->activation = names[i].activation;
		return 0;
	}
	return err_set(err, ERR_INPUT,
		       "config.json: hidden_act '%s' is not supported (supported: silu, "
		       "gelu_pytorch_tanh)",
		       name);
}

/* layer_types names the kind of each layer.  Without it all layers have the window, or only those
 * from max_window_layers on. */
static void configure_windows(struct model *model, const json_t *config)
{
	const json_t *types = json_object_get(config, "layer_types");
	size_t window = count(config, "sliding_window", 0);
	size_t first = count(config, "max_window_layers", 0);
	size_t pattern = count(config, "sliding_window_pattern", model->arch->window_pattern);

	if (model->arch->window_by_flag &&
	    !json_is_true(json_object_get(config, "use_sliding_window")))
		window = 0;
	for (size_t i = 0; i < model->n_layers; i++) {
		const json_t *type = json_array_get(types, i);
		bool slides = json_is_string(type)
				      ? !strcmp(json_string_value(type), "sliding_attention")
			      : pattern ? (i + 1) % pattern != 0
					: i >= first;

		model->layers[i].window = slides ? window : 0;
		model->layers[i].rope = slides && window ? &model->rope_local : &model->rope;
	}
}

static void configure_numbers(struct model *model, const json_t *config)
{
	const struct arch *arch = model->arch;
	double head = arch->query_scalar
			      ? number(config, "query_pre_attn_scalar", (double)model->head_dim)
			      : (double)model->head_dim;

	model->norm_eps = (float)number(config, "rms_norm_eps",
					number(config, "layer_norm_epsilon", DEFAULT_EPS));
	model->norm_offset = arch->norm_plus_one ? 1 : 0;
	model->attention_scale = (float)(pow(head, -0.5) * rope_score_scale(config));
	model->attention_softcap = (float)number(config, "attn_logit_softcapping", 0);
	model->logit_softcap = (float)number(config, "final_logit_softcapping", 0);
	model->embedding_scale = arch->scaled_embedding ? sqrtf((float)model->hidden) : 1;
	model->routing.top_k = count(config, "num_experts_per_tok", 0);
	model->routing.norm_top_k =
		arch->norm_top_k || json_is_true(json_object_get(config, "norm_topk_prob"));
	model->routing.sigmoid = arch->sigmoid;
	model->routing.choose_first = arch->choose_first;
	model->clamped = arch->clamped;
	model->clamp = arch->clamped ? (float)number(config, "swiglu_limit", 7) : 0;
	model->routing.n_groups = count(config, "n_group", 0);
	model->routing.top_groups = count(config, "topk_group", 0);
	model->routing.scale = (float)number(config, "routed_scaling_factor", 1);
}

/* Latent attention: a head of q or k has nope_dim plain and rope_dim rotated values. */
static int configure_latent(struct model *model, const json_t *config, struct err *err)
{
	static const char *const keys[] = { "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
					    "v_head_dim" };
	double values[4];

	if (!json_object_get(config, keys[0]))
		return 0;
	for (int i = 0; i < 4; i++) {
		values[i] = number(config, keys[i], 0);
		if (values[i] < 1 || values[i] > MAX_HEAD_DIM)
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' is not a number from 1 to %d", keys[i],
				       MAX_HEAD_DIM);
	}
	model->latent = (struct latent){ .q_lora_rank = count(config, "q_lora_rank", 0),
					 .kv_lora_rank = (size_t)values[0],
					 .nope_dim = (size_t)values[1],
					 .rope_dim = (size_t)values[2] };
	model->head_dim = model->latent.nope_dim + model->latent.rope_dim;
	model->value_dim = (size_t)values[3];
	model->n_kv_heads = model->n_heads;
	return 0;
}

static int configure_ropes(struct model *model, const json_t *config, struct err *err)
{
	size_t rope_dim = model->latent.kv_lora_rank ? model->latent.rope_dim : model->head_dim;
	double part = model->arch->rotary_factor > 0 ? model->arch->rotary_factor : 1;

	if (rope_init(&model->rope, config, "full_attention", rope_dim, part, err))
		return -1;
	return rope_init(&model->rope_local, config, "sliding_attention", rope_dim, part, err);
}

static int configure(struct model *model, const struct model_config *config, const json_t *level,
		     struct err *err)
{
	if (arch_find(model, config, err) || configure_sizes(model, config, level, err) ||
	    configure_activation(model, level, err))
		return -1;
	if (configure_latent(model, level, err) || configure_ropes(model, level, err))
		return -1;
	model->layers = xcalloc(model->n_layers, sizeof *model->layers);
	configure_numbers(model, level);
	configure_windows(model, level);
	if (model_read_multipliers(model, level, err))
		return -1;
	return model_find_mixers(model, level, err);
}

int model_open(struct model *model, const struct checkpoint *checkpoint, const char *advice,
	       struct err *err)
{
	struct model_config config = { 0 };
	json_t *root = NULL;
	int rc = -1;

	*model = (struct model){ .checkpoint = checkpoint, .advice = advice };
	if (checkpoint->config.len == 0)
		return err_set(err, ERR_INPUT, "'%s' has no config.json, which names the model",
			       checkpoint->path);
	if (model_config_read(&config, &checkpoint->config, err))
		goto out;
	root = json_decode_python(
		(struct json_text){ checkpoint->config.data, checkpoint->config.len }, err);
	if (!root || configure(model, &config, language_level(root), err) ||
	    model_find_tensors(model, &config, err))
		goto out;
	rc = 0;
out:
	json_decref(root);
	model_config_release(&config);
	if (rc)
		model_release(model);
	return rc;
}

static void layer_ref_release(struct layer_ref *layer)
{
	free(layer->mixer_module);
	for (int i = 0; i < N_LINEARS; i++)
		free(layer->linear[i].module);
	for (size_t e = 0; e < layer->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			free(layer->experts[e][i].module);
	free(layer->experts);
}

void model_release(struct model *model)
{
	for (size_t i = 0; model->layers && i < model->n_layers; i++)
		layer_ref_release(&model->layers[i]);
	free(model->layers);
	free(model->head.module);
	rope_release(&model->rope);
	rope_release(&model->rope_local);
	*model = (struct model){ 0 };
}
