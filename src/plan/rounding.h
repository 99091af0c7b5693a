/* SPDX-License-Identifier: Apache-2.0
 *
 * Compensated rounding in a plan: what it asks for, and what the manifest records of it.
 */
#ifndef FP8CONV_PLAN_ROUNDING_H
#define FP8CONV_PLAN_ROUNDING_H

#include <jansson.h>

#include "plan/quantize.h"

/* Plans compensated rounding where params ask for it; releases that plan; returns what decides its
 * codes, for the manifest. */
int rounding_plan(struct plan *plan, const struct quantize_params *params, struct err *err);
void rounding_release(struct plan *plan);
json_t *rounding_identity(const struct plan *plan);

/* Returns a shrink as a person writes it: 0.3, which fp32 does not hold; with as many digits as
 * differ from every other fp32. */
json_t *rounding_shrink_json(float shrink);

#endif
