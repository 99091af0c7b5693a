/* SPDX-License-Identifier: Apache-2.0
 *
 * The second half of model_open(), after config.json: tensors.
 */
#ifndef FP8CONV_MODEL_STEPS_H
#define FP8CONV_MODEL_STEPS_H

#include "model/config.h"
#include "model/search.h"

/* Finds every tensor by the names of the architecture, and checks its shape. */
int model_find_tensors(struct model *model, const struct model_config *config, struct err *err);

/* The experts of a layer whose router is found. */
int search_experts(struct search *search, const char *prefix, struct layer_ref *layer);

#endif
