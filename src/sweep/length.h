/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses passes per sweep from how long earlier sweeps took.
 * Unsaved passes are lost at a power cut; each save costs a loading of the whole model.
 *
 * Order: sweep_length_begin(); for each sweep, sweep_length_now() and sweep_length_loaded() around
 * each loading; sweep_length_next().
 */
#ifndef FP8CONV_SWEEP_LENGTH_H
#define FP8CONV_SWEEP_LENGTH_H

#include <stddef.h>

struct sweep_length {
	double (*now)(void);	/* seconds; NULL: every sweep has `first` passes */
	size_t first, max;	/* passes of the first sweep, and at most of any */
	size_t step;		/* a multiple of it leaves no thread without a sequence; 0: 1 */
	double began;		/* when the current sweep began */
	_Atomic double loading; /* seconds of loading in it, summed over all threads */
};

/* Begins the first sweep, and returns its passes. */
size_t sweep_length_begin(struct sweep_length *length, size_t max);

/* Returns the time; its result before a loading goes to sweep_length_loaded() after it.  n_threads
 * threads did only this loading meanwhile. */
double sweep_length_now(const struct sweep_length *length);

/* Returns the seconds since the current sweep began; 0 without a clock. */
double sweep_length_taken(const struct sweep_length *length);

void sweep_length_loaded(struct sweep_length *length, double since, int n_threads);

/* Ends a sweep of n passes, whose loading n_threads threads shared, and begins the next one.
 * Returns its passes: as many as take a minute, or as many as make loading a quarter of the sweep,
 * whichever is more, rounded up to a multiple of the step. */
size_t sweep_length_next(struct sweep_length *length, size_t n, int n_threads);

#endif
