/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `quantize`.
 */
#ifndef FP8CONV_CONVERT_QUANTIZE_H
#define FP8CONV_CONVERT_QUANTIZE_H

#include "convert/static_scales.h"
#include "convert/convert.h"
#include "select/keep_list.h"

/* How codes are chosen: each the nearest to its weight, or so that errors compensate each other. */
enum rounding { ROUNDING_NEAREST, ROUNDING_COMPENSATED };
#define ROUNDING_WORDS "nearest|compensated"

struct quantize_params {
	struct convert_params convert;
	const char *recipe; /* names of recipe, format and target; NULL: the default */
	const char *format;
	const char *target;
	struct recipe_tuning tuning;
	struct static_scales_params calibration;
	struct keep_params keep;
	enum profile_level profile;
	enum rounding rounding;
	struct compensate_params
		compensate; /* data, sizes, shrink, backend; the plan sets the others */
	/* patterns, rules and tp; the plan sets the other members */
	struct select_options select;
};

/* Opens the source and makes the plan.  Reads headers only, with these exceptions: NONFINITE_SKIP
 * reads the tensors to quantize, because skipped ones change the plan; a calibration reads the amax
 * file, and at most 16 MiB of the source.  ERR_USAGE for options that do not fit together or to the
 * source; ERR_INPUT for a source or amax file that cannot be used.  The caller releases plan, also
 * on failure. */
int quantize_plan_make(struct plan *plan, const struct quantize_params *params,
		       struct progress *progress, struct err *err);

#endif
