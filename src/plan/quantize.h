/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `quantize`.
 */
#ifndef FP8CONV_PLAN_QUANTIZE_H
#define FP8CONV_PLAN_QUANTIZE_H

#include <jansson.h>

#include "plan/static_scales.h"
#include "plan/plan.h"
#include "select/select.h"

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
	const char *tensors; /* path of a list; NULL: none */
	enum profile_level profile;
	enum rounding rounding;
	/* keeps units for NONFINITE_SKIP: execute_skip_nonfinite(), which reads the weights */
	int (*skip_nonfinite)(struct plan *plan, const struct convert_params *params,
			      struct progress *progress, struct err *err);
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

/* What the files quantize*.c share. */

/* Finds the FP8 weights of the source that keep codes and scales: sets same_codes, and spec.pow2 to
 * what their scales are.  Reads the scales of those that may. */
int quantize_keep(struct plan *plan, const struct quantize_params *params, struct err *err);

/* Makes outputs, shards, layouts and totals, from the selection and its specs. */
int quantize_outputs(struct plan *plan, bool preserve, struct err *err);

/* Returns all options that decide the output's bytes, for the manifest. */
json_t *quantize_identity(const struct plan *plan, const struct quantize_params *params);

#endif
