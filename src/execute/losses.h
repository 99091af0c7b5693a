/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan loses by rounding, weight by weight, without writing its output: TransformerEngine's
 * debug statistics, of weights.
 */
#ifndef FP8CONV_EXECUTE_LOSSES_H
#define FP8CONV_EXECUTE_LOSSES_H

#include "execute/execute.h"

/* The loss of one quantized weight, over all of its values; zeroed where nothing was rounded. */
struct unit_loss {
	uint64_t n;	    /* values */
	uint64_t underflow; /* values other than zero whose code is zero */
	uint64_t overflow;  /* values beyond the largest code, as in struct quant_stats */
	struct error_stats error;
};

/* Sets *losses to an array with one element for each of plan.selection.units, which the caller
 * frees.  Reads all weights that are quantized.  Else as execute_plan(). */
int execute_losses(const struct plan *plan, const struct convert_params *params,
		   struct progress *progress, struct unit_loss **losses, struct err *err);

#endif
