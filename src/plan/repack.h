/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `repack`.
 */
#ifndef FP8CONV_PLAN_REPACK_H
#define FP8CONV_PLAN_REPACK_H

#include "plan/plan.h"

struct repack_params {
	struct convert_params convert;
	const char *format; /* names; NULL: the default of the target, which must be given then */
	const char *target;
	const char *recipe; /* "mxfp8": blocks become MX blocks; NULL: the recipe stays */
};

/* Opens the source and makes the plan, from headers and, for blocks, their scales.  ERR_USAGE, with
 * the reason, if the format cannot represent the same codes; ERR_INPUT for FP8 that cannot be read.
 * The caller releases plan, also on failure. */
int repack_plan_make(struct plan *plan, const struct repack_params *params,
		     struct progress *progress, struct err *err);

/* What the files repack*.c share. */

/* Makes outputs, shards, layouts and totals of units that have recipe and spec. */
int repack_outputs(struct plan *plan, const struct detection *detection, struct err *err);

/* Adds a scale of the source to the outputs of unit u under another name and shape, and in another
 * type if that differs.  change: its values or their number differ too.  ERR_USAGE if the format
 * has another number of elements. */
int repack_scale(struct plan *plan, size_t u, const struct tensor_ref *source,
		 struct scale_decl *decl, bool change, struct err *err);

#endif
