/* SPDX-License-Identifier: Apache-2.0
 *
 * A base of angles for each layer, by config.json: 0 where attention does not know positions.
 *
 * Source: transformers 5.23, modular_granite_swa.py, and modeling_muse_glimmer.py, where all other
 * bases are that of rope_parameters.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/fact_types.h"
#include "model/facts.h"
#include "model/steps.h"

static const char key[] = "layer_rope_theta";

/* Returns the facts with another base in their rope. */
static json_t *facts_with(const json_t *facts, const json_t *theta)
{
	static const char *const objects[] = { "rope_parameters", "rope_scaling" };
	json_t *own = json_copy((json_t *)facts);

	json_object_set(own, "rope_theta", (json_t *)theta);
	for (size_t i = 0; i < COUNT(objects); i++) {
		json_t *rope = json_copy(json_object_get(own, objects[i]));

		if (json_object_size(rope)) {
			json_object_set(rope, "rope_theta", (json_t *)theta);
			json_object_set(own, objects[i], rope);
		}
		json_decref(rope);
	}
	return own;
}

/* Gives layer i the rope of that base: the one of a layer before it, or its own. */
static int set_rope(struct model *model, const json_t *facts, const struct rope_use *use, size_t i,
		    struct err *err)
{
	const json_t *list = json_object_get(facts, key), *theta = json_array_get(list, i);
	json_t *own;
	size_t k = 0;
	int rc;

	while (!json_equal(json_array_get(list, k), theta))
		k++;
	model->layers[i].rope = &model->layer_ropes[k];
	if (k < i)
		return 0;
	own = facts_with(facts, theta);
	rc = rope_init(&model->layer_ropes[i], own, use, err);
	json_decref(own);
	return rc;
}

int model_configure_layer_ropes(struct model *model, const json_t *facts,
				const struct rope_use *use, struct err *err)
{
	const json_t *list = json_object_get(facts, key);

	if (!json_is_array(list))
		return 0;
	if (json_array_size(list) != model->n_layers)
		return err_set(err, ERR_INPUT, "config.json has %zu '%s' for %zu layers",
			       json_array_size(list), key, model->n_layers);
	model->layer_ropes = xcalloc(model->n_layers, sizeof *model->layer_ropes);
	for (size_t i = 0; i < model->n_layers; i++) {
		const json_t *theta = json_array_get(list, i);
		char place[60];

		snprintf(place, sizeof place, "%s[%zu]", key, i);
		if (!json_is_number(theta) || json_number_value(theta) < 0)
			return fact_refuse(place, theta, "which is not a number from 0 on", err);
		if (json_number_value(theta) == 0)
			model->layers[i].rope = NULL;
		else if (model->arch->positions.rope_switches)
			model->layers[i].rope = &model->rope;
		else if (set_rope(model, facts, use, i, err))
			return -1;
	}
	return 0;
}

void model_release_layer_ropes(struct model *model)
{
	for (size_t i = 0; model->layer_ropes && i < model->n_layers; i++)
		rope_release(&model->layer_ropes[i]);
	free(model->layer_ropes);
}
