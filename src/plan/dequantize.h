/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `dequantize`.
 */
#ifndef FP8CONV_PLAN_DEQUANTIZE_H
#define FP8CONV_PLAN_DEQUANTIZE_H

#include "plan/plan.h"

struct dequantize_params {
	struct convert_params convert;
	const char *dtype; /* "bf16", "f16" or "f32"; NULL: "bf16" */
};

/* Opens the source and makes the plan, from headers alone.  ERR_USAGE if nothing is FP8; ERR_INPUT
 * for FP8 that cannot be read: without a scale, or with one that fits no tiling.  The caller
 * releases plan, also on failure. */
int dequantize_plan_make(struct plan *plan, const struct dequantize_params *params,
			 struct progress *progress, struct err *err);

#endif
