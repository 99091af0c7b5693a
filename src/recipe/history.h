/* SPDX-License-Identifier: Apache-2.0
 *
 * The amax history and the scales of the slots of a recipe state, and their update at the end of a
 * step (num/history.h).
 */
#ifndef FP8CONV_RECIPE_HISTORY_H
#define FP8CONV_RECIPE_HISTORY_H

#include <stddef.h>

#include "num/history.h"

/* A zeroed struct is one of no slots. */
struct history {
	size_t len; /* steps, >= 1 */
	size_t n_slots;
	float *amax;  /* (len, n_slots): row 0 is being filled, row 1 is the oldest */
	float *scale; /* (n_slots): what the casts of this step multiply by */
};

/* amax 0, scales 1. */
void history_init(struct history *history, size_t len, size_t n_slots);
void history_release(struct history *history);

/* The end of a step for one slot.  reduced: amax[slot] of row 0 after the reduction over ranks.
 * spec: its format and margin. */
void history_update(struct history *history, size_t slot, float reduced, const struct qspec *spec,
		    enum amax_algo algo);

#endif
