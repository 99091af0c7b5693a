/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys are as in transformers 5.23 (configuration_bamba.py and others).  A size has no
 * default: every checkpoint states it.
 */
#include "model/mamba.h"

#include <math.h>
#include <string.h>

#include "model/steps.h"

#define MAX_SIZE  65536
#define MAX_WIDTH 64 /* of a convolution; models have 4 */

/* Reads heads * head_dim: by itself, or as a multiple of hidden_size. */
static int read_inner(const struct model *model, const json_t *facts, size_t *inner,
		      struct err *err)
{
	const struct mamba_keys *keys = model->arch->mamba;
	const json_t *value = json_object_get(facts, keys->inner ? keys->inner : "");
	size_t expand = 0;

	if (value && !json_is_null(value))
		return fact_size(facts, keys->inner, MAX_SIZE, inner, err);
	if (fact_size(facts, keys->expand, MAX_SIZE, &expand, err))
		return -1;
	*inner = expand * model->hidden;
	return 0;
}

/* Reads head_dim, which may be "auto" or missing where expand is known, and agrees with it. */
static int read_head_dim(struct model *model, const json_t *facts, struct err *err)
{
	const struct mamba_keys *keys = model->arch->mamba;
	const json_t *value = json_object_get(facts, keys->head_dim);
	struct mamba *mamba = &model->mamba;
	bool stated = !keys->expand || (value && !json_is_string(value));
	size_t inner = 0;

	if (stated && fact_size(facts, keys->head_dim, MAX_SIZE, &mamba->head_dim, err))
		return -1;
	if (!keys->expand)
		return 0;
	if (read_inner(model, facts, &inner, err))
		return -1;
	if (!stated)
		mamba->head_dim = inner / mamba->n_heads;
	if (mamba->head_dim && mamba->head_dim * mamba->n_heads == inner)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: '%s' is %zu, of '%s' %zu each, which does not make the inner "
		       "size of Mamba-2, %zu",
		       keys->n_heads, mamba->n_heads, keys->head_dim, mamba->head_dim, inner);
}

/* Reads a limit of the steps.  transformers writes infinity as an object, Python as a word, which
 * the reader of JSON turns into null. */
static bool read_limit(const json_t *value, double *limit)
{
	const json_t *word = json_object_get(value, "__float__");

	if (json_is_null(value) ||
	    (json_is_string(word) && !strcmp(json_string_value(word), "Infinity")))
		*limit = INFINITY;
	else
		*limit = json_is_number(value) ? json_number_value(value) : NAN;
	return *limit >= 0;
}

static int read_limits(struct model *model, const json_t *facts, struct err *err)
{
	const struct mamba_keys *keys = model->arch->mamba;
	const json_t *limits = json_object_get(facts, keys->limits ? keys->limits : "");
	const json_t *first = json_object_get(facts, keys->step_min ? keys->step_min : "");
	double min = keys->default_min, max = INFINITY;

	if (limits &&
	    (json_array_size(limits) != 2 || !read_limit(json_array_get(limits, 0), &min) ||
	     !read_limit(json_array_get(limits, 1), &max) || min > max))
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' is not two numbers, the larger one last",
			       keys->limits);
	if (first && (!read_limit(first, &min) || isinf(min)))
		return err_set(err, ERR_INPUT, "config.json: '%s' is not a number from 0 on",
			       keys->step_min);
	model->mamba.step_min = (float)min;
	model->mamba.step_max = (float)max;
	return 0;
}

/* Every layer has Mamba-2, but for those in a list of layers with attention. */
static int read_layers(struct model *model, const json_t *facts, struct err *err)
{
	const char *key = model->arch->mamba->layers;
	const json_t *list = json_object_get(facts, key ? key : ""), *value;
	size_t i;

	for (i = 0; i < model->n_layers; i++)
		model->layers[i].mixer =
			model->arch->mamba->beside_attention ? MIXER_BOTH : MIXER_MAMBA;
	if (list && !json_is_null(list) && !json_is_array(list))
		return err_set(err, ERR_INPUT, "config.json: '%s' is not a list of layers", key);
	json_array_foreach(list, i, value)
	{
		if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		    json_integer_value(value) >= (json_int_t)model->n_layers)
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' names a layer that is none of %zu", key,
				       model->n_layers);
		model->layers[json_integer_value(value)].mixer = MIXER_ATTENTION;
	}
	return 0;
}

/* Reads true or false; *flag stays where the key is missing. */
static int read_flag(const json_t *facts, const char *key, bool *flag, struct err *err)
{
	const json_t *value = json_object_get(facts, key ? key : "");

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return err_set(err, ERR_INPUT, "config.json: '%s' is not true or false", key);
	*flag = json_is_true(value);
	return 0;
}

/* transformers' defaults where an architecture has the keys: no norm, else the norm first. */
static int read_norm(struct model *model, const json_t *facts, struct err *err)
{
	const struct mamba_keys *keys = model->arch->mamba;
	struct mamba *mamba = &model->mamba;

	mamba->has_norm = !keys->has_norm;
	mamba->norm_first = keys->norm_first != NULL;
	if (read_flag(facts, keys->has_norm, &mamba->has_norm, err))
		return -1;
	return read_flag(facts, keys->norm_first, &mamba->norm_first, err);
}

static bool has_silu(const struct model *model, const json_t *facts)
{
	const char *key = model->arch->mamba->activation;
	const json_t *value = json_object_get(facts, key ? key : "");

	if (!key)
		return model->activation == ACT_SILU;
	return !value || (json_is_string(value) && !strcmp(json_string_value(value), "silu"));
}

int mamba_configure(struct model *model, const json_t *facts, struct err *err)
{
	const struct mamba_keys *keys = model->arch->mamba;
	struct mamba *mamba = &model->mamba;

	if (fact_size(facts, keys->n_heads, MAX_SIZE, &mamba->n_heads, err) ||
	    fact_size(facts, keys->n_groups, MAX_SIZE, &mamba->n_groups, err) ||
	    fact_size(facts, keys->state_size, MODEL_MAX_STATE, &mamba->state_size, err) ||
	    fact_size(facts, keys->conv_width, MAX_WIDTH, &mamba->conv_width, err) ||
	    read_head_dim(model, facts, err))
		return -1;
	if (mamba->n_heads % mamba->n_groups)
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' is %zu, not a multiple of '%s', %zu",
			       keys->n_heads, mamba->n_heads, keys->n_groups, mamba->n_groups);
	if (!has_silu(model, facts))
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' is not silu, the only activation of Mamba-2 that "
			       "is supported",
			       keys->activation ? keys->activation : "hidden_act");
	if (read_norm(model, facts, err) || read_limits(model, facts, err))
		return -1;
	return read_layers(model, facts, err);
}

/* --- Mamba-1; the keys are as in transformers 5.23 (configuration_jamba.py) --- */

/* Reads the rank of the steps: a number, or "auto" for a 16th of hidden_size. */
static int read_rank(struct model *model, const json_t *facts, struct err *err)
{
	static const char key[] = "mamba_dt_rank";
	const char *word = json_string_value(json_object_get(facts, key));

	if (!word || strcmp(word, "auto") != 0)
		return fact_size(facts, key, MAX_SIZE, &model->mamba1.step_rank, err);
	model->mamba1.step_rank = (model->hidden + 15) / 16;
	return 0;
}

/* One layer of each period has attention. */
static int read_periods(struct model *model, const json_t *facts, struct err *err)
{
	size_t offset = fact_count(facts, "attn_layer_offset", 0), period;

	if (fact_size(facts, "attn_layer_period", MAX_SIZE, &period, err))
		return -1;
	if (offset >= period)
		return err_set(err, ERR_INPUT,
			       "config.json: 'attn_layer_offset' is %zu, not below "
			       "'attn_layer_period', %zu",
			       offset, period);
	for (size_t i = 0; i < model->n_layers; i++)
		model->layers[i].mixer = i % period == offset ? MIXER_ATTENTION : MIXER_MAMBA1;
	return 0;
}

int mamba1_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct mamba1 *mamba = &model->mamba1;
	size_t expand;

	if (fact_size(facts, "mamba_d_state", MODEL_MAX_CHANNEL_STATE, &mamba->state_size, err) ||
	    fact_size(facts, "mamba_d_conv", MAX_WIDTH, &mamba->conv_width, err) ||
	    fact_size(facts, "mamba_expand", MAX_SIZE, &expand, err) ||
	    read_rank(model, facts, err))
		return -1;
	mamba->n_channels = expand * model->hidden;
	if (model->activation != ACT_SILU)
		return err_set(err, ERR_INPUT,
			       "config.json: 'hidden_act' is not silu, the only activation of "
			       "Mamba-1 that is supported");
	return read_periods(model, facts, err);
}
