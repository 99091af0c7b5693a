/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetics that make FP8 checkpoints: our own, and those of other tools as their files show
 * them (measured on their output).  `verify` tries them to name the one that made a file; none but
 * our own is offered for writing.
 */
#ifndef FP8CONV_VERIFY_ARITHMETIC_H
#define FP8CONV_VERIFY_ARITHMETIC_H

#include "backend/backend.h"

struct arithmetic {
	const char *name; /* "deepseek" */
	const char *who;  /* whose files hold it */
	enum scale_type scale_type;
	bool pow2;
	struct qspec spec; /* of our own ones: format, tile and scale type are the weight's */

	/* Another tool's; NULL: spec says all.  amax: of each tile, in the order of the grid of x.
	 * Codes and scale_inv go to out as quantize() puts them. */
	void (*quantize)(const struct matrix *x, const struct qspec *spec, const float *amax,
			 const struct quant_out *out);
};

extern const struct arithmetic
	arithmetics[]; /* those that are more usual first; ends in an empty row */

#endif
