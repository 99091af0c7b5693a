/* SPDX-License-Identifier: Apache-2.0
 *
 * The amax history and the scales of the slots of a recipe state, side by side as their update at
 * the end of a step takes them (num/history.h).
 */
#ifndef FP8CONV_QUANTIZER_HISTORY_H
#define FP8CONV_QUANTIZER_HISTORY_H

#include <stddef.h>

#include "num/history.h"

/* A zeroed struct is one of no slots. */
struct history {
	size_t len; /* steps, >= 1 */
	size_t n_slots;
	float *amax;  /* (len, n_slots): row 0 is being filled, row 1 is the oldest */
	float *scale; /* (n_slots): what the casts of this step multiply by */
	float *fmax;  /* (n_slots): scale_fmax() of the slot */
};

/* amax 0, scales 1; fmax is for the caller to fill. */
void history_init(struct history *history, size_t len, size_t n_slots);
void history_release(struct history *history);

/* What backend_delayed_update() takes of it at the end of a step.  reduced: (n_slots), the amaxes
 * of this step, as the reduction left them; they stay the caller's. */
struct delayed_slots history_slots(const struct history *history, const float *reduced,
				   enum amax_algo algo);

#endif
