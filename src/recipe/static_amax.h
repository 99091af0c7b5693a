/* SPDX-License-Identifier: Apache-2.0
 *
 * Static scales: the reduction of a history of passes to one amax (fp8conv-recipes(7)).
 *
 * Order: static_choice_read() once; for each tensor static_amax(), then static_scale_inv().
 */
#ifndef FP8CONV_RECIPE_STATIC_AMAX_H
#define FP8CONV_RECIPE_STATIC_AMAX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "num/qspec.h"

enum static_algo { STATIC_MAX, STATIC_MOST_RECENT, STATIC_PERCENTILE, STATIC_MSE };

#define STATIC_ALGOS "max|most-recent|percentile=P|mse"

struct static_choice {
	enum static_algo algo;
	uint32_t share; /* STATIC_PERCENTILE: millionths of a percent, from 1 to 100,000,000 */
};

/* Reads one of STATIC_ALGOS.  P is a percentage with up to 6 decimals, above 0 and at most 100.
 * ERR_USAGE with the option. */
int static_choice_read(struct static_choice *choice, const char *option, const char *text,
		       struct err *err);

/* Whether the algorithm needs a histogram. */
bool static_choice_needs_counts(const struct static_choice *choice);

/* The history of one tensor.  amax[i * amax_stride] is the amax of pass i, from the oldest;
 * counts[b * counts_stride] is the count of bin b (num/amax_bin.h); counts NULL: no histogram. */
struct static_history {
	const float *amax;
	size_t n_passes;
	size_t amax_stride;
	const uint64_t *counts;
	size_t counts_stride;
};

/* Reduces the history to one amax: 0 for a history of zeros, infinity where a pass had infinity.
 * Without counts percentile and mse take the maximum.  spec says how the tensor will be quantized,
 * for the errors of mse. */
float static_amax(const struct static_choice *choice, const struct static_history *history,
		  const struct qspec *spec);

/* What a scale loses of the values that a histogram counts. */
struct static_loss {
	uint64_t n;	      /* values */
	double underflow;     /* of these, values other than zero whose code is zero */
	double overflow;      /* values beyond the largest code: it takes their place */
	double signal, noise; /* of finite values: SQNR = 10 log10(signal / noise) dB */
};

/* Computes the loss by the scale of that amax.  The values of a bin count as spread evenly in it,
 * so that underflow and overflow are off by at most the counts of the two bins at their limits.
 * history has counts. */
void static_loss(const struct static_history *history, const struct qspec *spec, float amax,
		 struct static_loss *loss);

/* Returns the scale_inv of that amax, for inputs and caches, whose codes an engine will write.
 * Source: the rounding of spec (num/scale.h). */
float static_scale_inv(const struct qspec *spec, float amax);

#endif
