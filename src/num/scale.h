/* SPDX-License-Identifier: Apache-2.0
 *
 * From the amax of a tile to its scale, its scale_inv, and how a code is computed.  One fp32
 * operation at a time, in TransformerEngine's order (recipe/recipe_common.cuh,
 * compute_scale_from_amax).
 */
#ifndef FP8CONV_NUM_SCALE_H
#define FP8CONV_NUM_SCALE_H

#include "num/dtype.h"
#include "num/e8m0.h"
#include "num/float16.h"
#include "num/fp8.h"
#include "num/qspec.h"

#define DEEPGEMM_AMAX_MIN 1e-4f
/* FMAX * 2^-margin stays a normal number, and so does its reciprocal */
#define MARGIN_LIMIT 32

/* What the amax of a tile decides.  code = fp8(x * factor), or fp8(x / factor); x is code *
 * scale_inv. */
struct scaling {
	float factor;
	bool divide;
	float scale_inv; /* SCALE_F32 */
	uint8_t e8m0;	 /* SCALE_E8M0 */
};

/* The scale may not be larger than this: a block's must fit the input's type, a tensor's or
 * channel's only fp32. */
NUM_INLINE float scale_limit(enum dtype dtype, struct tile tile)
{
	if (tile.cols == WHOLE)
		return F32_MAX;
	return dtype == DT_BF16 ? BF16_MAX : dtype == DT_F16 ? F16_MAX : F32_MAX;
}

/* FMAX, or what the margin leaves of it. */
NUM_INLINE float scale_fmax(const struct qspec *spec)
{
	return fp8_max(spec->format) * f32_pow2(-spec->margin);
}

NUM_INLINE bool scale_is_one(float amax)
{
	return f32_is_inf(amax) || amax == 0 || f32_is_nan(amax);
}

NUM_INLINE float scale_from_amax(float amax, float fmax, float limit, bool pow2)
{
	float scale;

	if (scale_is_one(amax))
		return 1.0f;
	scale = fmax / amax;
	if (f32_is_inf(scale))
		scale = limit;
	if (scale < F32_MIN) /* only with a margin: its reciprocal must stay finite */
		scale = F32_MIN;
	if (pow2) /* rounds down, so scale_inv rounds up: no overflow */
		scale = f32_from_bits(f32_bits(scale) & 0xFF800000);
	return scale;
}

/* amax / fmax, within fp32: where that is too small, its smallest number, so that no code divides
 * by zero. */
NUM_INLINE float scale_inv_from_amax(float amax, float fmax)
{
	float scale_inv = amax / fmax;

	if (f32_is_inf(scale_inv)) /* only with a margin */
		return F32_MAX;
	return scale_inv == 0 ? f32_from_bits(1) : scale_inv;
}

NUM_INLINE struct scaling scaling_f32(const struct qspec *spec, float amax, float limit)
{
	struct scaling s = { 1.0f, false, 1.0f, 0 };

	if (spec->arith == ARITH_DEEPGEMM && amax < DEEPGEMM_AMAX_MIN)
		amax = DEEPGEMM_AMAX_MIN;
	if (scale_is_one(amax))
		return s;
	if (spec->pow2 || spec->arith == ARITH_TE) { /* a power of two is the same in all three */
		s.factor = scale_from_amax(amax, scale_fmax(spec), limit, spec->pow2);
		s.scale_inv = 1.0f / s.factor;
		return s;
	}
	s.scale_inv = scale_inv_from_amax(amax, scale_fmax(spec));
	s.divide = spec->arith == ARITH_DEEPSEEK;
	s.factor = s.divide ? s.scale_inv : 1.0f / s.scale_inv;
	return s;
}

NUM_INLINE struct scaling scaling_e8m0(const struct qspec *spec, float amax)
{
	struct scaling s = { 1.0f, false, 1.0f, 0 };

	s.e8m0 = e8m0_from_amax(amax, spec->format, spec->mx_rule, spec->margin);
	s.factor = e8m0_factor(s.e8m0);
	s.scale_inv = e8m0_to_f32(s.e8m0);
	return s;
}

/* ARITH_GIVEN. */
NUM_INLINE struct scaling scaling_given(float scale)
{
	struct scaling s = { scale, false, 1.0f / scale, 0 };

	return s;
}

/* limit: scale_limit(). */
NUM_INLINE struct scaling scaling_from_amax(const struct qspec *spec, float amax, float limit)
{
	if (spec->arith == ARITH_GIVEN)
		return scaling_given(amax);
	if (amax < spec->amax_epsilon)
		amax = spec->amax_epsilon;
	if (spec->scale_type == SCALE_E8M0)
		return scaling_e8m0(spec, amax);
	return scaling_f32(spec, amax, limit);
}

/* x on the scale of the codes: to be rounded. */
NUM_INLINE float scaling_apply(struct scaling s, float x)
{
	return s.divide ? x / s.factor : x * s.factor;
}

#endif
