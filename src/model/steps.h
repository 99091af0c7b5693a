/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of model_open(): config.json, then tensors.
 */
#ifndef FP8CONV_MODEL_STEPS_H
#define FP8CONV_MODEL_STEPS_H

#include "model/config.h"
#include "model/model.h"

/* Fills in everything but tensors; allocates model->layers, with their windows. */
int model_configure(struct model *model, const struct model_config *config, struct err *err);

/* Finds the tensors. */
int model_find_tensors(struct model *model, const struct model_config *config, struct err *err);

#endif
