/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of latent attention, which layers with a window may have apart: by a per_layer_config,
 * or by keys of a release (swa_q_lora_rank).
 *
 * Source: transformers 5.23, configuration_deepseek_v3.py, configuration_dots3_note.py and
 * configuration_glm5_next.py.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/steps.h"

#define DEEPSEEK_NORM_EPS 1e-6f /* whatever rms_norm_eps is */

/* The sizes of a layer: by the same keys for all layers and in per_layer_config. */
enum { Q_LORA, KV_LORA, NOPE, ROPE, VALUE, HEADS, KV_HEADS, HEAD, N_KEYS };

static const char *const keys[N_KEYS] = {
	"q_lora_rank", "kv_lora_rank",	      "qk_nope_head_dim",    "qk_rope_head_dim",
	"v_head_dim",  "num_attention_heads", "num_key_value_heads", "head_dim",
};

static int read_rope_dim(const struct model *model, const json_t *facts, size_t *rope_dim,
			 struct err *err)
{
	const json_t *value = json_object_get(facts, keys[ROPE]);

	if (!model->arch->latents.without_rope)
		return fact_size(facts, keys[ROPE], MODEL_MAX_HEAD_DIM, rope_dim, err);
	*rope_dim = 0;
	if (!value || json_is_null(value) || json_number_value(value) == 0)
		return 0;
	return fact_refuse(keys[ROPE], value,
			   "which is not supported for this architecture (supported: 0)", err);
}

/* Reads the sizes from facts, which may be of layers with a window alone. */
static int read_sizes(const struct model *model, const json_t *facts, struct latent *latent,
		      size_t *value_dim, struct err *err)
{
	const json_t *q_lora = json_object_get(facts, keys[Q_LORA]);

	if (json_is_number(q_lora) && json_number_value(q_lora) == 0)
		return fact_refuse(keys[Q_LORA], q_lora,
				   "which is no size: give null where queries have no latent", err);
	*latent = (struct latent){
		.q_lora_rank = fact_count(facts, keys[Q_LORA], 0),
		.norm_eps = DEEPSEEK_NORM_EPS,
		.q_scale = 1,
		.kv_scale = 1,
		.interleaved = model->arch->positions.adjacent_pairs ||
			       fact_flag(facts, "rope_interleave"),
	};
	if (fact_size(facts, keys[KV_LORA], MODEL_MAX_HEAD_DIM, &latent->kv_lora_rank, err) ||
	    fact_size(facts, keys[NOPE], MODEL_MAX_HEAD_DIM, &latent->nope_dim, err) ||
	    read_rope_dim(model, facts, &latent->rope_dim, err) ||
	    fact_size(facts, keys[VALUE], MODEL_MAX_HEAD_DIM, value_dim, err))
		return -1;
	if (!model->arch->latents.model_eps)
		return 0;
	if (!latent->q_lora_rank)
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' is missing, which is not supported for this "
			       "architecture",
			       keys[Q_LORA]);
	latent->norm_eps = (float)fact_number(facts, "rms_norm_eps", 0);
	if (!model->arch->latents.scaled)
		return 0;
	latent->q_scale = sqrtf((float)((double)model->hidden / (double)latent->q_lora_rank));
	latent->kv_scale = sqrtf((float)((double)model->hidden / (double)latent->kv_lora_rank));
	return 0;
}

/* Fails where head_dim is not what other sizes imply. */
static int check_head_dim(const struct model *model, const json_t *facts, struct err *err)
{
	const struct latent *latent = &model->latent;
	enum head_dim_of of = model->arch->latents.head_dim_of;
	bool whole = of == HEAD_DIM_OF_HEADS;
	size_t head = latent->rope_dim + (whole ? latent->nope_dim : 0);

	if ((of != HEAD_DIM_OF_ROPE && !whole) || fact_count(facts, keys[HEAD], head) == head)
		return 0;
	return err_set(err, ERR_INPUT, "config.json: '%s' is %zu, but '%s%s' implies %zu",
		       keys[HEAD], fact_count(facts, keys[HEAD], 0),
		       whole ? "qk_nope_head_dim' and '" : "", keys[ROPE], head);
}

int latent_configure(struct model *model, const json_t *facts, struct err *err)
{
	if (!json_object_get(facts, keys[KV_LORA]))
		return 0;
	if (read_sizes(model, facts, &model->latent, &model->value_dim, err))
		return -1;
	model->head_dim = model->latent.nope_dim + model->latent.rope_dim;
	model->n_kv_heads = model->n_heads;
	return check_head_dim(model, facts, err);
}

/* Adds to the facts what a release says of layers with a window. */
static void add_released(const json_t *facts, json_t *own)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		char key[40];

		snprintf(key, sizeof key, "swa_%s", keys[i]);
		if (json_object_get(facts, key))
			json_object_set(own, keys[i], json_object_get(facts, key));
	}
	if (!json_object_get(facts, "swa_qk_rope_head_dim") &&
	    json_object_get(facts, "swa_head_dim"))
		json_object_set_new(own, keys[ROPE],
				    json_real(fact_number(own, keys[HEAD], 0) -
					      fact_number(own, keys[NOPE], 0)));
}

static int check_keys(const char *layer, const json_t *object, struct err *err)
{
	json_t *value;
	const char *key;

	json_object_foreach((json_t *)object, key, value)
	{
		size_t i = 0;

		while (i < N_KEYS && strcmp(keys[i], key) != 0)
			i++;
		if (i == N_KEYS || !json_is_integer(value))
			return err_set(err, ERR_INPUT,
				       "config.json: 'per_layer_config' has the key '%s' for layer "
				       "%s, which is not the number of a size of latent attention",
				       key, layer);
	}
	return 0;
}

/* Adds to the facts what per_layer_config says of layers with a window, of all of them the same. */
static int add_layers(const struct model *model, const json_t *layers, json_t *own, struct err *err)
{
	const json_t *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < model->n_layers; i++) {
		char number[24];
		const json_t *object;

		snprintf(number, sizeof number, "%zu", i);
		object = json_object_get(layers, number);
		n += object != NULL;
		first = first || !model->layers[i].window ? first : object;
		if (!json_equal(object, model->layers[i].window ? first : NULL) &&
		    (object || model->layers[i].window))
			return err_set(err, ERR_INPUT,
				       "config.json: 'per_layer_config' must say the same of all "
				       "layers with a window ('layer_types'), and nothing of "
				       "others, but layer %zu differs",
				       i);
		if (object && check_keys(number, object, err))
			return -1;
	}
	if (n < json_object_size(layers))
		return err_set(err, ERR_INPUT,
			       "config.json: 'per_layer_config' has a layer that is none of %zu",
			       model->n_layers);
	return json_object_update(own, (json_t *)first);
}

/* Checks the sizes of layers with a window, which `own` has, and reads their number of heads. */
static int read_heads(const struct model *model, const json_t *own, size_t *n_heads,
		      struct err *err)
{
	const struct latent *latent = &model->latent_local;
	size_t head = latent->nope_dim + latent->rope_dim;

	*n_heads = fact_count(own, keys[HEADS], model->n_heads);
	if (*n_heads < 1 || *n_heads > MODEL_MAX_HEAD_DIM ||
	    fact_count(own, keys[KV_HEADS], *n_heads) != *n_heads)
		return err_set(err, ERR_INPUT,
			       "config.json: layers with a window have %zu heads ('%s', in "
			       "releases 'swa_%s') and %zu of keys and values ('%s', in releases "
			       "'swa_%s'), which must be the same",
			       *n_heads, keys[HEADS], keys[HEADS],
			       fact_count(own, keys[KV_HEADS], *n_heads), keys[KV_HEADS],
			       keys[KV_HEADS]);
	if (fact_count(own, keys[HEAD], head) == head)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: layers with a window have heads of %zu values ('%s', in "
		       "releases 'swa_%s'), not of %zu ('%s') and %zu ('%s')",
		       fact_count(own, keys[HEAD], 0), keys[HEAD], keys[HEAD], latent->nope_dim,
		       keys[NOPE], latent->rope_dim, keys[ROPE]);
}

/* Sets the sizes of layers with a window. */
static int configure_local(struct model *model, const json_t *facts, size_t *n_heads,
			   size_t *value_dim, struct err *err)
{
	const json_t *layers = json_object_get(facts, "per_layer_config");
	json_t *own = json_copy((json_t *)facts);
	int rc = -1;

	json_object_del(own, keys[HEAD]);
	if (!layers)
		add_released(facts, own);
	if (!layers || !add_layers(model, layers, own, err))
		rc = read_sizes(model, own, &model->latent_local, value_dim, err) ||
		     read_heads(model, own, n_heads, err);
	json_decref(own);
	return rc ? -1 : 0;
}

int latent_configure_layers(struct model *model, const json_t *facts, struct err *err)
{
	size_t n_heads, value_dim;

	if (configure_local(model, facts, &n_heads, &value_dim, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];
		bool local = layer->window > 0;

		layer->latent = local ? &model->latent_local : &model->latent;
		layer->n_heads = local ? n_heads : model->n_heads;
		layer->n_kv_heads = layer->n_heads;
		layer->head_dim = layer->latent->nope_dim + layer->latent->rope_dim;
		layer->value_dim = local ? value_dim : model->value_dim;
		if (layer->n_heads > model->max_kv_heads)
			model->max_kv_heads = layer->n_heads;
	}
	return 0;
}
