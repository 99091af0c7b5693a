/* SPDX-License-Identifier: Apache-2.0
 *
 * What attention knows of positions, by config.json: the windows of layers, their ropes, and how
 * queries grow.
 * Layers may have a base of angles each, 0 where attention does not know positions: transformers
 * 5.23, modular_granite_swa.py; in modeling_muse_glimmer.py other bases are that of
 * rope_parameters.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/facts.h"
#include "model/steps.h"

#define MAX_FLOOR 1000000000

/* In latent attention all of the rope_dim values are rotated. */
static int check_latent_rope(const struct model *model, struct err *err)
{
	if (model->rope.n && model->rope.n != model->latent.rope_dim)
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding's 'partial_rotary_factor' "
			       "rotates %zu values of a head, not 'qk_rope_head_dim', %zu",
			       model->rope.n, model->latent.rope_dim);
	return 0;
}

/* Mistral 4: the part of a head that is rotated is that of partial_rotary_factor, which must be
 * qk_rope_head_dim. */
static int configure_rope_part(struct model *model, const json_t *facts, struct rope_use *use,
			       struct err *err)
{
	const struct latent *latent = &model->latent;
	json_t *own = json_copy((json_t *)facts);
	int rc;

	use->head_dim = model->head_dim;
	json_object_set_new(own, "partial_rotary_factor",
			    json_real((double)latent->rope_dim / (double)model->head_dim));
	rc = rope_init(&model->rope, own, use, err);
	json_decref(own);
	return rc ? -1 : check_latent_rope(model, err);
}

/* Returns the first layer with a window, or without one; NULL: there is none. */
static const struct layer_ref *find_layer(const struct model *model, bool windowed)
{
	for (size_t i = 0; i < model->n_layers; i++)
		if ((model->layers[i].window > 0) == windowed)
			return &model->layers[i];
	return NULL;
}

/* Returns the values of a head among which those are that turn; layer: of that type, or NULL. */
static size_t turning_dim(const struct model *model, const struct layer_ref *layer)
{
	if (model->latent.kv_lora_rank)
		return layer ? layer->latent->rope_dim : model->latent.rope_dim;
	return layer && model->arch->positions.layer_ropes ? layer->head_dim : model->head_dim;
}

/* Sets *type to that of layers without a window.  ERR_INPUT where there are two with two ropes. */
static int find_full_type(const json_t *facts, const char **type, struct err *err)
{
	static const char full[] = "full_attention", indexed[] = "indexed_attention";
	const json_t *types = json_object_get(facts, "layer_types"), *value;
	const json_t *ropes = json_object_get(facts, "rope_parameters");
	const json_t *a = json_object_get(ropes, full), *b = json_object_get(ropes, indexed);
	size_t n_full = 0, n_indexed = 0, i;

	json_array_foreach(types, i, value)
	{
		const char *of = json_is_string(value) ? json_string_value(value) : "";

		n_full += !strcmp(of, full);
		n_indexed += !strcmp(of, indexed);
	}
	*type = n_indexed ? indexed : full;
	if (!n_full || !n_indexed || a == b || json_equal(a, b))
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: 'rope_parameters' has different ropes for the layer types "
		       "'%s' and '%s', which is not supported",
		       full, indexed);
}

int model_configure_ropes(struct model *model, const json_t *facts, struct err *err)
{
	const struct positions *positions = &model->arch->positions;
	const struct layer_ref *of[] = { find_layer(model, false), find_layer(model, true) };
	struct rope_use full = {
		.head_dim = turning_dim(model, of[0]),
		.alpha = positions->rope_alpha,
		.scales_queries = positions->grown_queries,
		.by_layer_type = positions->layer_ropes,
		.sized = positions->sized_rope,
		.whole = positions->whole_rope,
	};
	struct rope_use sliding;
	json_t *local;
	int rc;

	if (model->latent.kv_lora_rank && !model->latent.rope_dim)
		return 0; /* no value turns */
	if (find_full_type(facts, &full.layer_type, err))
		return -1;
	sliding = full;
	if (model->arch->latents.head_dim_of == HEAD_DIM_OF_HEADS)
		return configure_rope_part(model, facts, &full, err);
	local = json_copy((json_t *)facts);

	if (positions->plain_window_rope)
		json_object_del(local, "rope_scaling");
	sliding.layer_type = "sliding_attention";
	sliding.head_dim = turning_dim(model, of[1]);
	rc = (of[0] || !full.by_layer_type) && rope_init(&model->rope, facts, &full, err);
	if (!rc && model->latent.kv_lora_rank)
		rc = check_latent_rope(model, err);
	if (!rc && (of[1] || !sliding.by_layer_type))
		rc = rope_init(&model->rope_local, local, &sliding, err);
	json_decref(local);
	return rc ? -1 : model_configure_layer_ropes(model, facts, &full, err);
}

/* Reads after how many layers the next one has no window, which only models without layer_types
 * need; 0: there is no such pattern. */
static int read_pattern(const struct model *model, const json_t *facts, size_t *pattern,
			struct err *err)
{
	const char *key = FACT_KEY(facts, "global_attn_every_n_layers", "sliding_window_pattern");
	const json_t *value = json_object_get(facts, key);

	*pattern = model->arch->positions.window_pattern;
	if (!value || json_is_null(value) || json_object_get(facts, "layer_types"))
		return 0;
	*pattern = fact_count(facts, key, 0);
	if (*pattern)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: '%s' is not a number above 0, which is needed without "
		       "'layer_types'",
		       key);
}

/* Whether attention knows positions in a layer with this window; stated: that of config.json. */
static bool rotates(enum rotating_layers rotating, size_t window, size_t stated)
{
	return rotating == ROTATING_ALL || (rotating != ROTATING_NONE && window) ||
	       (rotating == ROTATING_WINDOWS_IF_ANY && !stated);
}

static int configure_queries(struct model *model, const json_t *facts, struct err *err)
{
	float scale = (float)fact_number(facts, "log_scaling_alpha", 0);
	size_t step;

	if (json_is_number(json_object_get(facts, "log_scaling_n_floor"))) {
		if (fact_size(facts, "log_scaling_n_floor", MAX_FLOOR, &step, err))
			return -1;
		for (size_t i = 0; i < model->n_layers; i++) {
			struct layer_ref *layer = &model->layers[i];

			layer->query_scale = layer->window ? 0 : scale;
			layer->query_ratio = true;
			layer->query_floor = step;
			layer->query_shift = 1;
		}
	}
	if (!model->arch->positions.grown_queries)
		return 0;
	if (rope_query_scale(facts, &scale, &step, err))
		return -1;
	for (size_t i = 0; i < model->n_layers; i++) {
		model->layers[i].query_scale = scale;
		model->layers[i].query_floor = step;
	}
	return 0;
}

/* Returns the tokens of a window by its two keys. */
static size_t window_of(const struct positions *positions, const json_t *facts)
{
	size_t size = fact_count(facts, "sliding_window_size", 0);
	size_t window = fact_count(facts, "sliding_window", 0);

	if (positions->excess_window)
		return size ? size + 1 : window;
	return json_is_number(json_object_get(facts, "sliding_window")) ? window : size;
}

/* layer_types names the kind of each layer.  Without it all layers have the window, or the layers
 * in the architecture's pattern, or only those from max_window_layers on. */
int model_configure_windows(struct model *model, const json_t *facts, struct err *err)
{
	const struct positions *positions = &model->arch->positions;
	const json_t *types = json_object_get(facts, "layer_types");
	size_t window = window_of(positions, facts);
	size_t first = fact_count(facts, "max_window_layers", 0);
	size_t pattern;

	if (read_pattern(model, facts, &pattern, err))
		return -1;
	if (json_object_get(facts, "use_sliding_window") && !fact_flag(facts, "use_sliding_window"))
		window = 0;
	else if (json_is_number(json_object_get(facts, "sliding_window")) && !window)
		return err_set(err, ERR_INPUT,
			       "config.json: 'sliding_window' is 0, not a number above 0 or null");
	for (size_t i = 0; i < model->n_layers; i++) {
		const char *type = json_string_value(json_array_get(types, i));
		bool slides = type	? !strcmp(type, "sliding_attention")
			      : pattern ? (i + 1) % pattern != 0
					: i >= first;

		if (positions->last_is_full && i + 1 == model->n_layers)
			slides = false;
		if ((type || positions->layer_ropes) && slides && !window)
			return err_set(
				err, ERR_INPUT,
				"config.json: layer_types[%zu] is 'sliding_attention', but "
				"'sliding_window' is missing, or 'use_sliding_window' is not "
				"true",
				i);
		model->layers[i].window = slides ? window : 0;
		model->layers[i].rope = slides && window ? &model->rope_local : &model->rope;
		if (!rotates(positions->rotating, model->layers[i].window, window))
			model->layers[i].rope = NULL;
	}
	return configure_queries(model, facts, err);
}

static const char bases[] = "layer_rope_theta";

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
	const json_t *list = json_object_get(facts, bases), *theta = json_array_get(list, i);
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
	const json_t *list = json_object_get(facts, bases);

	if (!json_is_array(list))
		return 0;
	if (json_array_size(list) != model->n_layers)
		return fact_refuse_length(bases, json_array_size(list), model->n_layers, err);
	model->layer_ropes = xcalloc(model->n_layers, sizeof *model->layer_ropes);
	for (size_t i = 0; i < model->n_layers; i++) {
		const json_t *theta = json_array_get(list, i);
		char place[60];

		snprintf(place, sizeof place, "%s[%zu]", bases, i);
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
