/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `quantize`.
 */
#ifndef FP8CONV_CONVERT_QUANTIZE_H
#define FP8CONV_CONVERT_QUANTIZE_H

#include "convert/static_scales.h"
#include "convert/convert.h"

struct quantize_params {
	struct convert_params convert;
	const char *recipe; /* names; NULL is the default */
	const char *format;
	const char *target;
	struct recipe_tuning tuning;
	struct static_scales_params calibration;
	struct select_options
		select; /* recipe, rules' recipes and tp included; .recipe is filled by the job */
};

/* Opens the source and decides everything.  Reads headers only (with NONFINITE_SKIP: the quantized
 * tensors too, since what is skipped changes the plan; with a calibration: the history, and 16 MiB
 * of the source at most). */
int quantize_plan_make(struct plan *plan, const struct quantize_params *params,
		       struct progress *progress, struct err *err);

#endif
