/* SPDX-License-Identifier: Apache-2.0
 *
 * Delayed scaling: what the end of a step does to one slot's amax history and scale.  Source:
 * TransformerEngine, recipe/delayed_scaling.cu, kernel_bulk.  Pure arithmetic: kernels that give a
 * slot to many threads (kernels/gpu/cast/delayed.cu) roll it in another order, to the same bytes.
 *
 * A history is h[0 .. len-1], len >= 1.  h[0] is the step being filled, a running max; h[1] is the
 * oldest of those before it, h[len-1] the last.
 */
#ifndef FP8CONV_NUM_HISTORY_H
#define FP8CONV_NUM_HISTORY_H

#include "num/scale.h"

enum amax_algo { AMAX_MAX, AMAX_MOST_RECENT };

/* The larger one; a NaN is ignored, and of two the result is 0. */
NUM_INLINE float amax_max(float a, float b)
{
	a = f32_is_nan(a) ? 0 : a;
	return b > a ? b : a;
}

/* Rolls h, whose elements are stride floats apart.  reduced: h[0] after the reduction over ranks;
 * where it is 0, h[0] itself counts, and where that is 0 too, nothing happened and nothing changes.
 * Returns the amax that the algorithm chooses, 0 for none. */
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

/* The scale of the next step from that amax; an inf, a NaN and 0 keep the one before. */
NUM_INLINE float delayed_scale(float fmax, float amax, float before)
{
	if (!(amax > 0) || f32_is_inf(amax))
		return before;
	return scale_from_amax(amax, fmax, F32_MAX, false);
}

/* After a GEMM that multiplied its output by scale, cast it, and took the amax before the scale:
 * the scale_inv of the codes that were just written, and the history (or NULL) raised to amax (NaN
 * ignored). */
NUM_INLINE void history_gemm_update(float scale, float amax, float *scale_inv, float *history)
{
	*scale_inv = scaling_given(scale).scale_inv;
	if (history)
		*history = amax_max(*history, amax);
}

/* Slots that lie side by side, at the end of a step.  There is no scale_inv: the operations that
 * write codes by the new scale write it with them. */
struct delayed_slots {
	size_t len, n;
	float *history;	      /* (len, n): row 0 is h[0] of each slot */
	float *scale;	      /* (n): of the step that ends, then of the next one */
	const float *fmax;    /* (n): scale_fmax() */
	const float *reduced; /* (n): as in history_roll() */
	enum amax_algo algo;
};

NUM_INLINE void delayed_slots_update(const struct delayed_slots *s)
{
	for (size_t i = 0; i < s->n; i++) {
		float amax = history_roll(s->history + i, s->n, s->len, s->reduced[i], s->algo);

		s->scale[i] = delayed_scale(s->fmax[i], amax, s->scale[i]);
	}
}

#endif
