/* SPDX-License-Identifier: Apache-2.0
 *
 * What headers show: each weight with its scales, each scale with its weight, and what engines
 * merge.
 *
 * What the checkpoint must have by its config.json and by its other layers (expect/expect.h).
 * Engines compare the names that they loaded with those that they expect only for models that are
 * not quantized (vLLM's default loader), and start with memory that nothing was loaded into.
 */
#ifndef FP8CONV_VERIFY_TENSORS_H
#define FP8CONV_VERIFY_TENSORS_H

#include "verify/steps.h"

/* Checks names, types and shapes of tensors, and fills verify->weights. */
void verify_tensors(struct verify *verify);

/* Reports layers, tensors, experts and shapes that config.json and the other layers ask for. */
void verify_missing(struct verify *verify);

/* Returns the number of weights of the same tensor from weight w on. */
size_t verify_weight_run(const struct verify *verify, size_t w);

/* Returns the name of the file that has the tensor. */
const char *verify_file(const struct verify *verify, const struct tensor_ref *ref);

/* Returns "X" for "X.weight", and a copy of other names.  The caller frees it. */
char *verify_module(const char *weight);

#endif
