/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases of scores by distance: their sizes, by config.json, and their tensors.  A layer with a
 * window has them for all keys of the window.
 *
 * Source: transformers 5.23, modeling_inkling.py (InklingRelativeLogits).
 */
#include "model/facts.h"
#include "model/steps.h"

#define MAX_PROFILES 1024
#define MAX_EXTENT   ((size_t)1 << 24)

int distances_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct distances *distances = &model->distances;

	if (!json_object_get(facts, "d_rel"))
		return 0;
	if (fact_size(facts, "d_rel", MAX_PROFILES, &distances->n_profiles, err) ||
	    fact_size(facts, "rel_extent", MAX_EXTENT, &distances->extent, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer_ref *layer = &model->layers[i];

		layer->extent = layer->window ? layer->window : distances->extent;
	}
	return 0;
}

int search_distances(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	const struct expected expected = { LINEAR_DISTANCES,
					   layer->n_heads * model->distances.n_profiles,
					   model->hidden, 1 };

	return layer->extent ? search_linears(search, prefix, layer, &expected, 1) : 0;
}
