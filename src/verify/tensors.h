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

/* Adds a problem of a tensor of the checkpoint (problem_add()). */
void verify_report(struct verify *verify, enum problem_kind kind, const struct tensor_ref *ref,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same for values found among the n of a tensor, if there are any; what: "are zero". */
void verify_report_values(struct verify *verify, enum problem_kind kind,
			  const struct tensor_ref *ref, const struct finding *finding, uint64_t n,
			  const char *what);

/* Returns "X" for "X.weight", and a copy of other names.  The caller frees it. */
char *verify_module(const char *weight);

#endif
