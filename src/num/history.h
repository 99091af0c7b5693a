/* SPDX-License-Identifier: Apache-2.0
 *
 * Delayed scaling: the update of one slot's amax history and scale at the end of a step.  Source:
 * TransformerEngine, recipe/delayed_scaling.cu, kernel_bulk.
 *
 * A history is h[0 .. len-1], len >= 1. h[0] is the running maximum of the current step, h[1] the
 * oldest earlier step, h[len-1] the latest one.
 */
#ifndef FP8CONV_NUM_HISTORY_H
#define FP8CONV_NUM_HISTORY_H

#include "num/scale.h"

enum amax_algo { AMAX_MAX, AMAX_MOST_RECENT };

/* Returns the larger number.  Ignores a NaN; two NaNs give 0. */
NUM_INLINE float amax_max(float a, float b)
{
	a = f32_is_nan(a) ? 0 : a;
	return b > a ? b : a;
}

/* Rolls h, whose elements are stride floats apart. reduced: h[0] after the reduction over ranks.
 * If reduced is 0, h[0] itself counts; if h[0] is 0 too, the step had no values and the history
 * stays unchanged.  Returns the amax that the algorithm chooses, 0 for none. */
NUM_INLINE float history_roll(float *h, size_t stride, size_t len, float reduced,
			      enum amax_algo algo)
{
	float last = reduced != 0 ? reduced : h[0];
	float max = amax_max(last, 0);

	if (last == 0)
		return 0;
	for (size_t i = 1; i < len; i++) {
		max = amax_max(h[i * stride], max);
		h[i * stride] = i + 1 < len ? h[(i + 1) * stride] : last;
	}
	h[0] = 0;
	return algo == AMAX_MAX ? max : last;
}

/* Returns the scale of the next step from that amax; inf, NaN and 0 keep the scale before. */
NUM_INLINE float delayed_scale(float fmax, float amax, float before)
{
	if (!(amax > 0) || f32_is_inf(amax))
		return before;
	return scale_from_amax(amax, fmax, F32_MAX, false);
}

/* For a GEMM that multiplied its output by scale and cast it: sets the scale_inv of its codes, and
 * raises *history (history may be NULL) to amax. amax is that of the output before the scale; a NaN
 * is ignored. */
NUM_INLINE void history_gemm_update(float scale, float amax, float *scale_inv, float *history)
{
	*scale_inv = scaling_given(scale).scale_inv;
	if (history)
		*history = amax_max(*history, amax);
}

/* Slots in arrays, at the end of a step.  There is no scale_inv: the operations that write codes
 * with the new scale write it too. */
struct delayed_slots {
	size_t len, n;
	float *history;	      /* (len, n): row 0 is h[0] of each slot */
	float *scale;	      /* (n): of the ending step, then of the next one */
	const float *fmax;    /* (n): scale_fmax() */
	const float *reduced; /* (n): as in history_roll() */
	enum amax_algo algo;
};

/* Ends the step of all slots: rolls each history and sets scale to that of the next step. */
NUM_INLINE void delayed_slots_update(const struct delayed_slots *s)
{
	for (size_t i = 0; i < s->n; i++) {
		float amax = history_roll(s->history + i, s->n, s->len, s->reduced[i], s->algo);

		s->scale[i] = delayed_scale(s->fmax[i], amax, s->scale[i]);
	}
}

#endif
