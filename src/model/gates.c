/* SPDX-License-Identifier: Apache-2.0
 *
 * The gates of attention's output, by the names of an architecture and by config.json: one for each
 * head, or one for each value.  Where a row has both under one name, config.json decides.
 *
 * And the limits of gated values of each layer: of experts, and of the dense mlp and the shared
 * expert.
 *
 * Source: transformers 5.23, configuration_laguna.py, modeling_step3p7.py.
 */
#include <stdio.h>
#include <math.h>
#include <string.h>

#include "model/facts.h"
#include "model/steps.h"

static bool is_named(const struct model *model, enum linear_role role)
{
	const char *name = model->arch->linear[role];

	return name && *name;
}

/* Returns the gates that `gating` asks for; GATES_NONE: its value is unknown. */
static enum gates gates_of(const json_t *gating)
{
	const char *text = json_is_string(gating) ? json_string_value(gating) : "";

	if (json_is_true(gating) || !strcmp(text, "per-head"))
		return GATES_HEADS;
	return strcmp(text, "per-element") != 0 ? GATES_NONE : GATES_VALUES;
}

int model_configure_gates(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *gating = json_object_get(facts, "gating");
	bool heads = is_named(model, LINEAR_HEAD_GATE), values = is_named(model, LINEAR_VALUE_GATE);

	model->gates = heads ? GATES_HEADS : values ? GATES_VALUES : GATES_NONE;
	if (!gating)
		return 0;
	model->gates = gates_of(gating);
	if (model->gates != GATES_NONE)
		return 0;
	return fact_refuse("gating", gating,
			   "which is not supported (supported: true, \"per-head\", "
			   "\"per-element\")",
			   err);
}

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
	const json_t *all = json_object_get(facts, "swiglu_limit");

	model->limits_first = json_is_number(all) && !model->arch->clamped;
	for (size_t i = 0; model->limits_first && i < model->n_layers; i++)
		model->layers[i].limit = model->layers[i].expert_limit =
			(float)json_number_value(all);
	if (model->limits_first && !(json_number_value(all) > 0))
		return fact_refuse("swiglu_limit", all, "which is not above 0", err);
	for (size_t k = 0; k < COUNT(keys); k++) {
		const json_t *list = json_object_get(facts, keys[k]);

		if (json_is_array(list) && json_array_size(list) &&
		    json_array_size(list) < model->n_layers)
			return fact_refuse_length(keys[k], json_array_size(list), model->n_layers,
						  err);
		for (size_t i = 0; json_array_size(list) && i < model->n_layers; i++) {
			struct layer_ref *layer = &model->layers[i];

			if (read_limit(keys[k], i, json_array_get(list, i),
				       k ? &layer->limit : &layer->expert_limit, err))
				return -1;
		}
	}
	return 0;
}
