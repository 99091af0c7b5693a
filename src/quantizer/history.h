/* SPDX-License-Identifier: Apache-2.0
 *
 * The amax history and the scales of the slots of a recipe state, in arrays by slot as the update
 * at the end of a step needs them (num/history.h).
 */
#ifndef FP8CONV_QUANTIZER_HISTORY_H
#define FP8CONV_QUANTIZER_HISTORY_H

#include <stddef.h>

#include "num/history.h"

/* A zeroed struct has no slots. */
struct history {
	size_t len; /* steps, >= 1 */
	size_t n_slots;
	float *amax;  /* (len, n_slots): row 0 is of the current step, row 1 of the oldest */
	float *scale; /* (n_slots): factors of the casts of this step */
	float *fmax;  /* (n_slots): scale_fmax() of the slot */
};

/* Allocates the arrays with amax 0 and scale 1.  The caller fills fmax, and releases history. */
void history_init(struct history *history, size_t len, size_t n_slots);
void history_release(struct history *history);

/* Returns the argument of delayed_slots_update() at the end of a step.  reduced: (n_slots), the
 * reduced amaxes of this step, which the caller owns.  The result points into history and
 * reduced. */
struct delayed_slots history_slots(const struct history *history, const float *reduced,
				   enum amax_algo algo);

#endif
