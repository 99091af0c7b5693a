/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of gated values of each layer, by config.json: of experts, and of the dense mlp and
 * the shared expert.
 *
 * Source: transformers 5.23, modeling_step3p7.py.
 */
#include <math.h>
#include <stdio.h>

#include "model/fact_types.h"
#include "model/facts.h"
#include "model/steps.h"

/* Reads the limit of a layer: null and 0 are none. */
static int read_limit(const char *key, size_t i, const json_t *value, float *limit, struct err *err)
{
	double number = json_number_value(value);
	char place[60];

	snprintf(place, sizeof place, "%s[%zu]", key, i);
	if (!json_is_null(value) && !(json_is_number(value) && number >= 0 && number <= 3e38))
		return fact_refuse(place, value, "which is not a number from 0 on, or null", err);
	*limit = (float)number;
	return 0;
}

/* A list may go on for the layers of multi-token prediction. */
int model_configure_limits(struct model *model, const json_t *facts, struct err *err)
{
	static const char *const keys[] = { "swiglu_limits", "swiglu_limits_shared" };

	for (size_t k = 0; k < COUNT(keys); k++) {
		const json_t *list = json_object_get(facts, keys[k]);

		if (json_is_array(list) && json_array_size(list) &&
		    json_array_size(list) < model->n_layers)
			return err_set(err, ERR_INPUT, "config.json has %zu '%s' for %zu layers",
				       json_array_size(list), keys[k], model->n_layers);
		for (size_t i = 0; json_array_size(list) && i < model->n_layers; i++) {
			struct layer_ref *layer = &model->layers[i];

			if (read_limit(keys[k], i, json_array_get(list, i),
				       k ? &layer->limit : &layer->expert_limit, err))
				return -1;
		}
	}
	return 0;
}
