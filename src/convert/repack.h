/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `repack`.
 */
#ifndef FP8CONV_CONVERT_REPACK_H
#define FP8CONV_CONVERT_REPACK_H

#include "convert/convert.h"

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

#endif
