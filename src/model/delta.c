/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated DeltaNet and Kimi Delta Attention in config.json.  The keys are as in transformers 5.23
 * (configuration_qwen3_next.py, configuration_kimi_linear.py, configuration_bailing_hybrid.py,
 * configuration_glm5_next.py).
 */
#include <string.h>

#include "model/facts.h"
#include "model/steps.h"

#define MAX_SIZE   65536
#define SAFE_BOUND (-5.0)

static int check_activation(const struct model *model, struct err *err)
{
	if (model->activation != ACT_SILU)
		return err_set(err, ERR_INPUT,
			       "config.json: 'hidden_act' is not silu, which is not supported with "
			       "layers of linear_attention");
	return 0;
}

/* The activation of gates: output_gate_type where the architecture reads it, else silu. */
static int read_gate(struct delta *delta, const json_t *facts, struct err *err)
{
	static const char key[] = "output_gate_type";
	const json_t *value = json_object_get(facts, key);
	const char *name = json_is_string(value) ? json_string_value(value) : "silu";

	delta->gate = !strcmp(name, "sigmoid") ? ACT_SIGMOID : ACT_SILU;
	if (delta->gate == ACT_SIGMOID || !strcmp(name, "silu"))
		return 0;
	return fact_refuse(key, value, "which is not supported (supported: sigmoid, silu)", err);
}

int delta_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct delta *delta = &model->delta;
	const struct {
		const char *key;
		size_t *size;
	} sizes[] = {
		{ "linear_num_key_heads", &delta->n_key_heads },
		{ "linear_num_value_heads", &delta->n_heads },
		{ "linear_key_head_dim", &delta->key_dim },
		{ "linear_value_head_dim", &delta->value_dim },
		{ "linear_conv_kernel_dim", &delta->conv_width },
	};

	for (size_t i = 0; i < COUNT(sizes); i++)
		if (fact_size(facts, sizes[i].key, MAX_SIZE, sizes[i].size, err))
			return -1;
	delta->n_decays = 1;
	if (read_gate(delta, facts, err))
		return -1;
	if (delta->n_heads % delta->n_key_heads)
		return err_set(err, ERR_INPUT,
			       "config.json: 'linear_num_value_heads' is %zu, not a multiple of "
			       "'linear_num_key_heads', %zu",
			       delta->n_heads, delta->n_key_heads);
	if (delta->key_dim > MODEL_MAX_KEY_DIM)
		return err_set(err, ERR_INPUT,
			       "config.json: 'linear_key_head_dim' %zu exceeds the limit of %d",
			       delta->key_dim, MODEL_MAX_KEY_DIM);
	return check_activation(model, err);
}

/* The members of linear_attn_config, which the releases of Kimi Linear have. */
static const struct arch_facts inner_facts = {
	.keys = {
		{ "full_attn_layers", NULL },
		{ "head_dim", NULL },
		{ "kda_layers", NULL },
		{ "num_heads", NULL },
		{ "short_conv_kernel_size", NULL },
	},
};

/* The same of the releases of GLM-5.3, whose layer_types has the layers. */
static const struct arch_facts bounded_facts = {
	.keys = {
		{ "gate_lower_bound", NULL },
		{ "head_dim", NULL },
		{ "num_heads", NULL },
		{ "safe_gate", "true" },
		{ "short_conv_kernel_size", NULL },
	},
	.ignored = {
		{ "full_attn_layers", NULL },
		{ "kda_layers", NULL },
	},
};

/* Reads a size: of linear_attn_config if that has it, else of the whole. */
static int read_size(const json_t *facts, const json_t *inner, const char *const keys[2],
		     size_t max, size_t *size, struct err *err)
{
	if (!json_object_get(inner, keys[1]))
		return fact_size(facts, keys[0], max, size, err);
	if (fact_size(inner, keys[1], max, size, err))
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' of 'linear_attn_config' is not a number from 1 "
			       "to %zu",
			       keys[1], max);
	return 0;
}

/* Kimi Delta Attention has keys and values of one number and size, and decays of features. */
static void complete_kda(struct delta *delta)
{
	delta->n_key_heads = delta->n_heads;
	delta->value_dim = delta->n_decays = delta->key_dim;
	delta->gate = ACT_SIGMOID;
}

static int read_kda_sizes(struct delta *delta, const json_t *facts, const json_t *inner,
			  struct err *err)
{
	static const char *const heads[] = { "linear_num_heads", "num_heads" },
				 *const dim[] = { "linear_head_dim", "head_dim" },
				 *const conv[] = { "linear_conv_kernel_dim",
						   "short_conv_kernel_size" };

	if (read_size(facts, inner, heads, MAX_SIZE, &delta->n_heads, err) ||
	    read_size(facts, inner, dim, MODEL_MAX_KEY_DIM, &delta->key_dim, err) ||
	    read_size(facts, inner, conv, MAX_SIZE, &delta->conv_width, err))
		return -1;
	complete_kda(delta);
	return 0;
}

/* Gives the mixer to the layers of a list, which counts from 1; counts them. */
static int read_layers(struct model *model, const json_t *inner, const char *key, enum mixer mixer,
		       size_t *n, struct err *err)
{
	const json_t *list = json_object_get(inner, key), *value;
	size_t i;

	json_array_foreach(list, i, value)
	{
		json_int_t layer = json_is_integer(value) ? json_integer_value(value) : 0;

		if (layer < 1 || layer > (json_int_t)model->n_layers)
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' of 'linear_attn_config' has a value "
				       "that is not a layer from 1 to %zu",
				       key, model->n_layers);
		*n += model->layers[layer - 1].mixer == MIXER_NONE;
		model->layers[layer - 1].mixer = mixer;
	}
	return 0;
}

/* The layers by their lists, unless layer_types states them; without lists, attention is in every
 * fourth one but the first. */
static int read_kda_layers(struct model *model, const json_t *facts, const json_t *inner,
			   struct err *err)
{
	bool listed = !json_is_array(json_object_get(facts, "layer_types")) &&
		      json_object_get(inner, "full_attn_layers") &&
		      json_object_get(inner, "kda_layers");
	size_t n = 0;

	for (size_t i = 0; i < model->n_layers; i++)
		model->layers[i].mixer = listed		   ? MIXER_NONE
					 : i && i % 4 == 0 ? MIXER_ATTENTION
							   : MIXER_DELTA;
	if (!listed)
		return 0;
	if (read_layers(model, inner, "full_attn_layers", MIXER_ATTENTION, &n, err) ||
	    read_layers(model, inner, "kda_layers", MIXER_DELTA, &n, err))
		return -1;
	if (n != model->n_layers)
		return err_set(err, ERR_INPUT,
			       "config.json: 'full_attn_layers' and 'kda_layers' of "
			       "'linear_attn_config' name %zu of %zu layers",
			       n, model->n_layers);
	return 0;
}

/* GLM-5.3: reads the bound of the logarithms of decays, which null switches off; but of releases,
 * safe_gate alone does. */
static int read_linear_bound(struct delta *delta, const json_t *facts, const json_t *inner,
			     struct err *err)
{
	const char *key = json_object_get(inner, "gate_lower_bound") ? "gate_lower_bound"
								     : "linear_lower_bound";
	const json_t *value = json_object_get(*key == 'g' ? inner : facts, key);
	double otherwise = fact_flag(inner, "safe_gate") ? SAFE_BOUND : 0;

	if (json_is_number(value) && !(json_number_value(value) < 0))
		return fact_refuse(key, value, "which is not below 0", err);
	delta->lower_bound = (float)(json_is_number(value) ? json_number_value(value) : otherwise);
	return 0;
}

int kda_configure(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *own = json_object_get(facts, "linear_attn_config");
	bool bounded = json_object_get(facts, "linear_lower_bound");
	const struct arch_facts *members = bounded ? &bounded_facts : &inner_facts;
	json_t *inner = json_is_object(own) ? facts_read(own, members, err) : json_object();
	int rc = -1;

	if (inner && !read_kda_sizes(&model->delta, facts, inner, err) &&
	    !(bounded && read_linear_bound(&model->delta, facts, inner, err)) &&
	    !read_kda_layers(model, facts, inner, err))
		rc = check_activation(model, err);
	json_decref(inner);
	return rc;
}

/* Ling 3: reads the bound of the logarithms of decays, where the model has one. */
static int read_bound(struct delta *delta, const json_t *facts, struct err *err)
{
	double bound = fact_number(facts, "kda_lower_bound", 0);

	if (!(bound < 0))
		return err_set(err, ERR_INPUT, "config.json: 'kda_lower_bound' is %g, not below 0",
			       bound);
	delta->lower_bound = fact_flag(facts, "kda_safe_gate") ? (float)bound : 0;
	return 0;
}

/* Returns the key that transformers writes if config.json has it, else that of the releases. */
static const char *first_key(const json_t *facts, const char *written, const char *released)
{
	return json_object_get(facts, written) ? written : released;
}

int ling_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct delta *delta = &model->delta;
	const char *dim = first_key(facts, "linear_head_dim", "head_dim");
	const char *conv = first_key(facts, "linear_conv_kernel_dim", "short_conv_kernel_size");
	size_t group;

	delta->n_heads = model->n_heads;
	if ((json_object_get(facts, "linear_num_heads") &&
	     fact_size(facts, "linear_num_heads", MAX_SIZE, &delta->n_heads, err)) ||
	    fact_size(facts, dim, MODEL_MAX_KEY_DIM, &delta->key_dim, err) ||
	    fact_size(facts, conv, MAX_SIZE, &delta->conv_width, err) ||
	    fact_size(facts, "layer_group_size", MAX_SIZE, &group, err) ||
	    read_bound(delta, facts, err))
		return -1;
	complete_kda(delta);
	for (size_t i = 0; i < model->n_layers; i++)
		model->layers[i].mixer = (i + 1) % group ? MIXER_DELTA : MIXER_ATTENTION;
	return check_activation(model, err);
}
