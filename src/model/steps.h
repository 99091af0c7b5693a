/* SPDX-License-Identifier: Apache-2.0
 *
 * The second half of model_open().  Order: model.c reads config.json, model_find_tensors() finds
 * the tensors of each layer, and calls search_experts() for a layer that has a router.
 */
#ifndef FP8CONV_MODEL_STEPS_H
#define FP8CONV_MODEL_STEPS_H

#include "model/config.h"
#include "model/search.h"

/* Finds every tensor of the model by the names of its architecture.  ERR_INPUT for a tensor that is
 * missing, unexpected or of another shape than config.json implies. */
int model_find_tensors(struct model *model, const struct model_config *config, struct err *err);

/* Finds the experts of a layer whose router is already in layer. */
int search_experts(struct search *search, const char *prefix, struct layer_ref *layer);

#endif
