/* SPDX-License-Identifier: Apache-2.0
 *
 * Static scales: which amax stands for a history of passes (fp8conv-recipes(7)).
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

/* Reads one of STATIC_ALGOS; P is a percentage with up to 6 decimals, above 0, up to 100. ERR_USAGE
 * naming the option. */
int static_choice_read(struct static_choice *choice, const char *option, const char *text,
		       struct err *err);

/* Whether it looks at a histogram. */
bool static_choice_needs_counts(const struct static_choice *choice);

/* What is known of one tensor: amax of pass i, the oldest first, is amax[i * amax_stride]; the
 * count of bin b (num/amax_bin.h) is counts[b * counts_stride]; counts NULL: no histogram. */
struct static_history {
	const float *amax;
	size_t n_passes;
	size_t amax_stride;
	const uint64_t *counts;
	size_t counts_stride;
};

/* The amax that stands for the history; 0 where nothing came by, infinity where that was seen.
 * Without counts, percentile and mse take the maximum.  spec: what it will be a scale of. */
float static_amax(const struct static_choice *choice, const struct static_history *history,
		  const struct qspec *spec);

/* The scale_inv of that amax, for inputs and caches: whoever runs the model writes the codes. */
float static_scale_inv(const struct qspec *spec, float amax);

#endif
