/* SPDX-License-Identifier: Apache-2.0
 *
 * The multipliers of config.json.  The keys are those of transformers 5.23
 * (configuration_granitemoehybrid.py); each has the default 1.
 */
#include <math.h>

#include "model/steps.h"

static int read_factor(const json_t *facts, const char *key, float *factor, struct err *err)
{
	const json_t *value = json_object_get(facts, key);

	*factor = value ? (float)json_number_value(value) : 1;
	if (value && (!json_is_number(value) || !isfinite(*factor)))
		return err_set(err, ERR_INPUT, "config.json: '%s' is not a finite number", key);
	return 0;
}

static int read_granite(struct model *model, const json_t *facts, struct err *err)
{
	struct multipliers *multipliers = &model->multipliers;
	float logits;

	if (read_factor(facts, "embedding_multiplier", &model->embedding_scale, err) ||
	    read_factor(facts, "attention_multiplier", &model->attention_scale, err) ||
	    read_factor(facts, "residual_multiplier", &multipliers->residual, err) ||
	    read_factor(facts, "logits_scaling", &logits, err))
		return -1;
	if (!(fabsf(logits) > 0))
		return err_set(err, ERR_INPUT, "config.json: 'logits_scaling' is 0, a divisor");
	multipliers->logits = 1 / logits;
	return 0;
}

int model_read_multipliers(struct model *model, const json_t *facts, struct err *err)
{
	model->multipliers = (struct multipliers){ .residual = 1, .logits = 1 };
	switch (model->arch->multipliers) {
	case MULTIPLIERS_GRANITE:
		return read_granite(model, facts, err);
	case MULTIPLIERS_NONE:
		break;
	}
	return 0;
}
