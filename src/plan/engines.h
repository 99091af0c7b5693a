/* SPDX-License-Identifier: Apache-2.0
 *
 * What engines do not load of a plan.
 */
#ifndef FP8CONV_PLAN_ENGINES_H
#define FP8CONV_PLAN_ENGINES_H

#include "plan/plan.h"

/* ERR_USAGE where by a row of the family, or for its blocks, the target does not load a weight or a
 * scale; without a target adds notes of all that engines do not load. */
int plan_engines(struct plan *plan, const struct quantization *quantization, struct err *err);

#endif
