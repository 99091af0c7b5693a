/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices in FP8: read a panel at a time, quantized as `quantize` does, and put in the place of
 * the unquantized ones as the values of their codes.
 */
#ifndef FP8CONV_SENSITIVITY_REPLACE_H
#define FP8CONV_SENSITIVITY_REPLACE_H

#include "sensitivity/round.h"

/* Replaces the matrices of a group in a stage, by their values in FP8. */
int replace_group(struct round *round, size_t group, struct variant_stage *stage, struct err *err);

/* Returns the bytes that replace_group() needs on the host. */
uint64_t replace_size(const struct sensitivity_plan *plan, int n_threads);

#endif
