/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of the values of a checkpoint's tensors, from one reading of every code and scale.
 */
#ifndef FP8CONV_INSPECT_STATS_H
#define FP8CONV_INSPECT_STATS_H

#include "backend/backend.h"
#include "inspect/inspect.h"
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

/* The statistics of one tensor.  Zeroed for tensors other than BF16, F16, F32, and FP8 and low-bit
 * weights with a scale. */
struct tensor_stats {
	bool known;
	/* of the values (codes times scales); ignores NaN, counts inf; 0 of an empty tensor */
	float amax;
	uint64_t n_nonfinite; /* values, or codes, that are NaN or inf */

	/* Of FP8 weights. */
	bool fp8;
	float scale_min, scale_max; /* finite factors of codes; 0: no scale is finite */
	uint64_t n_codes;
	uint64_t n_saturated; /* codes of the largest finite magnitude */
	uint64_t n_zeros;     /* codes of 0 and -0 */
	double signal, noise; /* expected from the codes: SQNR = 10 log10(signal / noise) dB */
};

/* How to read the values. */
struct stats_params {
	const struct backend *backend;
	int n_threads; /* >= 1 */
	struct progress *progress;
	/* by tensor: adds the codes and scales of the FP8 weight to these, which several weights
	 * may share; NULL: not counted, of one or of all */
	struct code_counts *const *counts;
};

/* Sets *stats to an array with one element for each of checkpoint.tensors, which the caller frees.
 * Reads every file once.  ERR_INPUT where a file is truncated or changed; ERR_INTERRUPTED after a
 * signal. */
int inspect_stats(struct inspection *inspection, const struct stats_params *params,
		  struct tensor_stats **stats, struct err *err);

/* Adds what another part of the tensor, or another tensor, has. */
void tensor_stats_add(struct tensor_stats *into, const struct tensor_stats *from);

/* Returns the expected SQNR in dB; NAN for tensors other than FP8 weights and for zeros. */
double tensor_stats_sqnr(const struct tensor_stats *stats);

#endif
