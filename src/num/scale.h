/* SPDX-License-Identifier: Apache-2.0
 *
 * From the amax of a tile to its scale, its scale_inv and the computation of a code.  One fp32
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
/* With this margin, FMAX * 2^-margin and its reciprocal are still normal numbers. */
#define MARGIN_LIMIT 32

/* The scaling of a tile, from its amax. code = fp8(x * factor), or fp8(x / factor) if divide; the
 * value of a code is code * scale_inv. */
struct scaling {
	float factor;
	bool divide;
	float scale_inv; /* SCALE_F32 */
	uint8_t e8m0;	 /* SCALE_E8M0 */
};

/* Returns the scale that takes the place of an infinite one: the largest number of the input's type
 * for a block, of fp32 for a tensor or channel. */
NUM_INLINE float scale_limit(enum dtype dtype, struct tile tile)
{
	if (tile.cols == WHOLE)
		return F32_MAX;
	return dtype == DT_BF16 ? BF16_MAX : dtype == DT_F16 ? F16_MAX : F32_MAX;
}

/* Returns FMAX * 2^-margin. */
NUM_INLINE float scale_fmax(const struct qspec *spec)
{
	return fp8_max(spec->format) * f32_pow2(-spec->margin);
}

/* Does the amax (inf, 0 or NaN) give no scale, so that it becomes 1? */
NUM_INLINE bool scale_is_one(float amax)
{
	return f32_is_inf(amax) || amax == 0 || f32_is_nan(amax);
}

/* Returns fmax / amax, at least F32_MIN; limit where that is infinite; 1 if scale_is_one(amax). */
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

/* Returns amax / fmax within the range of fp32.  A quotient too small becomes the smallest
 * subnormal number, so that no code divides by zero. */
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

/* The scaling of ARITH_GIVEN, with the scale itself. */
NUM_INLINE struct scaling scaling_given(float scale)
{
	struct scaling s = { scale, false, 1.0f / scale, 0 };

	return s;
}

/* Returns the scaling of a tile with this amax; with ARITH_GIVEN, amax holds the scale. limit:
 * scale_limit(). */
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

/* What is wrong with a scale_inv, by itself. */
enum scale_fault {
	SCALE_SOUND,
	SCALE_INVALID, /* zero, negative, NaN or infinite: no code has a value by it */
	SCALE_LARGE,
	SCALE_SMALL, /* right in a tile of a weight, not in all of them */
};

/* Judges the scale_inv of a weight, an input or a cache by the largest value of its codes, FMAX *
 * scale_inv.  Norms and attention square such values in fp32: where the square overflows, the
 * outputs of a model are infinite or NaN, and where it is zero the values count for nothing. */
NUM_INLINE enum scale_fault scale_fault_of(float scale_inv, enum fp8_format format)
{
	float max = fp8_max(format) * scale_inv, square = max * max;

	if (!(scale_inv > 0) || f32_is_inf(scale_inv))
		return SCALE_INVALID;
	if (f32_is_inf(square))
		return SCALE_LARGE;
	return square == 0 ? SCALE_SMALL : SCALE_SOUND;
}

/* Whether a scale_inv looks like FMAX / amax, by which codes are divided.  It is amax / FMAX, which
 * for an amax between 1e-6 and 1e4 is below these limits, and FMAX / amax between them. */
NUM_INLINE bool scale_looks_inverted(float scale_inv)
{
	return scale_inv > 32.0f && scale_inv < 1e9f;
}

/* Returns x in the range of the codes, before rounding. */
NUM_INLINE float scaling_apply(struct scaling s, float x)
{
	return s.divide ? x / s.factor : x * s.factor;
}

#endif
