/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetics that make FP8 checkpoints: fp8conv's, and other tools', measured on their output.
 * `verify` tries them to name the one that made a file.  Conversions use only fp8conv's.
 */
#ifndef FP8CONV_VERIFY_VALUES_ARITHMETIC_H
#define FP8CONV_VERIFY_VALUES_ARITHMETIC_H

#include "backend/backend.h"

struct arithmetic {
	const char *name; /* "deepseek" */
	const char *who;  /* tool or model whose files have it */
	enum scale_type scale_type;
	bool pow2;
	struct qspec spec; /* the weight's format, tile and scale type replace its own */

	/* Quantizes x as another tool does; NULL: the backend quantizes x by spec.  amax: of each
	 * tile, in the order of the grid of x.  Writes codes and scale_inv to out in the layout of
	 * the backend's quantize(). */
	void (*quantize)(const struct arithmetic *arithmetic, const struct matrix *x,
			 const struct qspec *spec, const float *amax, const struct quant_out *out);

	/* of a division: what is in fp32, where others have bf16 */
	bool fp32_stored;   /* the scale in the file */
	bool fp32_divisor;  /* the number that values are divided by */
	bool fp32_quotient; /* the quotient that is cast */
};

/* Returns the scale_inv that it gives a tile of zeros in E4M3. */
float arithmetic_zero_scale(const struct arithmetic *arithmetic);

extern const struct arithmetic arithmetics[]; /* most frequent first; ends in an empty row */

#endif
