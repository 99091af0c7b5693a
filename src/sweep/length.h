/* SPDX-License-Identifier: Apache-2.0
 *
 * How many passes go through a model at once, by what those before took: what is not saved yet is
 * lost with the power, and what is saved often loads the model often.
 */
#ifndef FP8CONV_SWEEP_LENGTH_H
#define FP8CONV_SWEEP_LENGTH_H

#include <stddef.h>

struct sweep_length {
	double (*now)(void);	/* seconds; NULL: sweeps are always of `first` passes */
	size_t first, most;	/* passes: of the first sweep, of any */
	double began;		/* of the sweep under way */
	_Atomic double loading; /* seconds of it that weights took, all threads together */
};

/* The first sweep begins; returns its passes. */
size_t sweep_length_begin(struct sweep_length *length, size_t most);

/* For the moment before weights are loaded, and with its result for that after: n_threads did
 * nothing else meanwhile. */
double sweep_length_now(const struct sweep_length *length);
void sweep_length_loaded(struct sweep_length *length, double since, int n_threads);

/* A sweep of n passes has ended, whose loading was shared by n_threads; the next begins.  Returns
 * its passes: so many that it takes a minute, or that weights take a quarter of it, whichever is
 * longer. */
size_t sweep_length_next(struct sweep_length *length, size_t n, int n_threads);

#endif
