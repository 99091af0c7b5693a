/* SPDX-License-Identifier: Apache-2.0
 *
 * How often each code of FP8 weights occurs, and each exponent of their scales.
 */
#ifndef FP8CONV_INSPECT_CODE_COUNTS_H
#define FP8CONV_INSPECT_CODE_COUNTS_H

#include "source/source.h"

/* Exponents of positive fp32 numbers, subnormal ones included: 2^-149 to 2^127. */
#define SCALE_EXPONENT_MIN (-149)
#define N_SCALE_EXPONENTS  277

/* Zeroed: empty. */
struct code_counts {
	uint64_t codes[256];
	/* factors of codes, by floor(log2(factor)) - SCALE_EXPONENT_MIN */
	uint64_t scales[N_SCALE_EXPONENTS];
	uint64_t n_other_scales; /* zero, negative or not finite */
};

#define CODE_COUNTS_BUFFER ((size_t)512 << 10) /* bytes that code_counts_scales() needs */

/* Counts the elements of a scale tensor, as factors also where they divide.  ERR_INPUT where the
 * file is truncated. */
int code_counts_scales(struct code_counts *counts, struct source *files,
		       const struct weight_scale *scale, void *buffer, struct err *err);

/* into += from */
void code_counts_add(struct code_counts *into, const struct code_counts *from);

#endif
