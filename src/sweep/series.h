/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean of numbers of positions, with a standard error over sequences: sequences are
 * independent, where positions are not.
 */
#ifndef FP8CONV_SWEEP_SERIES_H
#define FP8CONV_SWEEP_SERIES_H

#include <stddef.h>

/* se: NAN for fewer than two sequences. */
struct estimate {
	double value, se;
};

/* Numbers of sequences: n of them, in n_values[i] parts each, whose sum is sums[i]. */
struct series {
	double *sums;
	size_t *n_values;
	size_t n;
};

/* Allocates for up to n sequences. */
struct series series_new(size_t n);
void series_release(struct series *series);

/* Adds a sequence, unless it has no value. */
void series_add(struct series *series, double sum, size_t n);

/* Returns the mean of all values, with the standard error of the mean of the sequences' means. */
struct estimate series_mean(const struct series *series);

#endif
