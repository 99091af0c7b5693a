/* SPDX-License-Identifier: Apache-2.0
 *
 * The multipliers of config.json.  The keys are as in transformers 5.23
 * (configuration_granitemoehybrid.py, configuration_falcon_h1.py, configuration_cohere2.py).
 */
#include <math.h>

#include "model/steps.h"

/* Sets the factor where the architecture reads the key. */
static int read_factor(const json_t *facts, const char *key, float *factor, struct err *err)
{
	const json_t *value = json_object_get(facts, key);

	if (!value)
		return 0;
	*factor = (float)json_number_value(value);
	if (!json_is_number(value) || !isfinite(*factor))
		return err_set(err, ERR_INPUT, "config.json: '%s' is not a finite number", key);
	return 0;
}

/* Reads a list of n factors; null and a missing list are factors of 1. */
static int read_factors(const json_t *facts, const char *key, float *factors, size_t n,
			struct err *err)
{
	const json_t *list = json_object_get(facts, key);

	for (size_t i = 0; i < n; i++)
		factors[i] = 1;
	if (!list || json_is_null(list))
		return 0;
	for (size_t i = 0; i < n; i++) {
		const json_t *value = json_array_get(list, i);

		factors[i] = (float)json_number_value(value);
		if (json_array_size(list) != n || !json_is_number(value) || !isfinite(factors[i]))
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' is not a list of %zu finite numbers", key,
				       n);
	}
	return 0;
}

int model_read_multipliers(struct model *model, const json_t *facts, struct err *err)
{
	struct multipliers *m = &model->multipliers;
	float scaling = 1, divisor = 1, mlp[2];
	const struct {
		const char *key;
		float *factor;
		bool null_is_one;
	} keys[] = {
		{ "attention_in_multiplier", &m->attention_in, false },
		{ "attention_multiplier", &model->attention_scale, false },
		{ "attention_out_multiplier", &m->attention_out, false },
		{ "attention_value_scale", &m->value, true },
		{ "embedding_multiplier", &model->embedding_scale, false },
		{ "key_multiplier", &m->key, false },
		{ "lm_head_multiplier", &m->logits, false },
		{ "logit_scale", &m->logits, false },
		{ "logits_mup_width_multiplier", &divisor, false },
		{ "logits_scaling", &scaling, false },
		{ "output_multiplier", &m->logits, false },
		{ "qk_scale_factor", &m->query, false },
		{ "residual_multiplier", &m->residual, false },
		{ "ssm_in_multiplier", &m->mamba_in, false },
		{ "ssm_out_multiplier", &m->mamba_out, false },
	};

	*m = (struct multipliers){ .residual = 1,
				   .logits = 1,
				   .head_in = 1,
				   .query = 1,
				   .key = 1,
				   .value = 1,
				   .attention_in = 1,
				   .attention_out = 1,
				   .mamba_in = 1,
				   .mamba_out = 1 };
	for (size_t i = 0; i < COUNT(keys); i++)
		if (!(keys[i].null_is_one && json_is_null(json_object_get(facts, keys[i].key))) &&
		    read_factor(facts, keys[i].key, keys[i].factor, err))
			return -1;
	if (!(fabsf(scaling) > 0))
		return err_set(err, ERR_INPUT, "config.json: 'logits_scaling' is 0, a divisor");
	if (!(fabsf(divisor) > 0))
		return err_set(err, ERR_INPUT,
			       "config.json: 'logits_mup_width_multiplier' is 0, a divisor");
	if (read_factors(facts, "ssm_multipliers", m->mamba_columns, N_MAMBA_COLUMNS, err) ||
	    read_factors(facts, "mlp_multipliers", mlp, COUNT(mlp), err))
		return -1;
	m->head_in /= divisor;
	m->logits /= scaling;
	m->gate = mlp[0];
	m->down = mlp[1];
	return 0;
}
