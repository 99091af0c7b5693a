/* SPDX-License-Identifier: Apache-2.0
 *
 * The second half of model_open().  Order: model.c reads config.json and calls model_find_mixers();
 * model_find_tensors() finds the tensors of each layer, and calls search_experts() for a layer that
 * has a router.
 */
#ifndef FP8CONV_MODEL_STEPS_H
#define FP8CONV_MODEL_STEPS_H

#include <jansson.h>

#include "model/config.h"
#include "model/search.h"

/* Returns the number of layers where a list of their kinds states it, as in Nemotron-H; else 0. */
size_t model_count_layers(const struct arch *arch, const json_t *config);

/* Reads from the language model's level of config.json what mixes the tokens of each layer.
 * ERR_INPUT, with the key, for a kind of layer that the architecture does not have, and for sizes
 * that do not fit each other. */
int model_find_mixers(struct model *model, const json_t *config, struct err *err);

/* Reads the factors of a layer's values, of embeddings and of scores.  ERR_INPUT, with the key, for
 * one that is not a finite number. */
int model_read_multipliers(struct model *model, const json_t *config, struct err *err);

/* Finds every tensor of the model by the names of its architecture.  ERR_INPUT for a tensor that is
 * missing, unexpected or of another shape than config.json implies. */
int model_find_tensors(struct model *model, const struct model_config *config, struct err *err);

/* Finds the experts of a layer whose router is already in layer. */
int search_experts(struct search *search, const char *prefix, struct layer_ref *layer);

#endif
