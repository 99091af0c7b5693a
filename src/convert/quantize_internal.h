/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of quantize_plan_make().
 */
#ifndef FP8CONV_CONVERT_QUANTIZE_INTERNAL_H
#define FP8CONV_CONVERT_QUANTIZE_INTERNAL_H

#include "convert/plan.h"
#include "convert/quantize.h"

/* quantize_outputs.c: outputs, shards, layouts and totals, from the selection and its specs. */
int quantize_outputs(struct plan *plan, bool preserve, struct err *err);

/* quantize_identity.c: all that decides the output's bytes, for the manifest. */
json_t *quantize_identity(const struct plan *plan, const struct quantize_params *params);

#endif
