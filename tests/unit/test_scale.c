/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales from amaxes, in TransformerEngine's order, and the two other arithmetics.  The wide lists
 * are the golden vectors'; here are the corners by hand, and what must hold for all.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "num/scale.h"

/* clang-format off */
#define BLOCK { 128, 128 }
#define TENSOR { WHOLE, WHOLE }

static const struct {
	struct qspec spec;
	enum dtype dtype;
	float amax, factor, scale_inv;
} known[] = {
	{ { .tile = TENSOR }, DT_BF16, 448.0f, 1.0f, 1.0f },
	{ { .tile = TENSOR }, DT_BF16, 1.0f, 448.0f, 1.0f / 448.0f },
	{ { .tile = TENSOR }, DT_BF16, 0.0f, 1.0f, 1.0f },
	{ { .tile = TENSOR }, DT_BF16, INFINITY, 1.0f, 1.0f },
	{ { .tile = TENSOR }, DT_BF16, NAN, 1.0f, 1.0f },
	{ { .tile = TENSOR, .format = FP8_E5M2 }, DT_BF16, 1.0f, 57344.0f, 1.0f / 57344.0f },
	{ { .tile = TENSOR, .margin = 2 }, DT_BF16, 1.0f, 112.0f, 1.0f / 112.0f },
	{ { .tile = TENSOR, .amax_epsilon = 1.0f }, DT_BF16, 0.0f, 448.0f, 1.0f / 448.0f },
	/* A margin leaves the scale a normal number. */
	{ { .tile = TENSOR, .margin = 32 }, DT_BF16, 0x1p127f, 0x1p-126f, 0x1p126f },
	/* The limit: of fp32 for a tensor and a channel, of the input for a block. */
	{ { .tile = TENSOR }, DT_BF16, 1e-38f, 0x1.fffffep127f, 0x1.000001p-128f },
	{ { .tile = { 1, WHOLE } }, DT_BF16, 1e-38f, 0x1.fffffep127f, 0x1.000001p-128f },
	{ { .tile = BLOCK }, DT_BF16, 1e-38f, 0x1.FEp127f, 1.0f / 0x1.FEp127f },
	{ { .tile = BLOCK }, DT_F16, 1e-38f, 65504.0f, 1.0f / 65504.0f },
	{ { .tile = BLOCK }, DT_F32, 1e-38f, 0x1.fffffep127f, 0x1.000001p-128f },
	/* A power of two is taken after the limit. */
	{ { .tile = BLOCK, .pow2 = true }, DT_BF16, 1e-38f, 0x1p127f, 0x1p-127f },
	{ { .tile = BLOCK, .pow2 = true }, DT_F16, 1e-38f, 32768.0f, 1.0f / 32768.0f },
	{ { .tile = BLOCK, .pow2 = true }, DT_BF16, 1.0f, 256.0f, 1.0f / 256.0f },
	{ { .tile = BLOCK, .pow2 = true }, DT_BF16, 449.0f, 0.5f, 2.0f },
	/* The others. */
	{ { .tile = BLOCK, .arith = ARITH_DEEPSEEK }, DT_BF16, 1.0f, 1.0f / 448.0f, 1.0f / 448.0f },
	{ { .tile = BLOCK, .arith = ARITH_DEEPSEEK }, DT_BF16, 0.0f, 1.0f, 1.0f },
	{ { .tile = BLOCK, .arith = ARITH_DEEPSEEK }, DT_F32, 0x1p-149f, 0x1p-149f, 0x1p-149f },
	{ { .tile = BLOCK, .arith = ARITH_DEEPGEMM }, DT_BF16, 0.0f, 1.0f / (1e-4f / 448.0f),
	  1e-4f / 448.0f },
	{ { .tile = BLOCK, .arith = ARITH_DEEPGEMM }, DT_BF16, 3.0f, 1.0f / (3.0f / 448.0f),
	  3.0f / 448.0f },
};
/* clang-format on */

static void known_scales_round_as_stated(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct scaling s =
			scaling_from_amax(&known[i].spec, known[i].amax,
					  scale_limit(known[i].dtype, known[i].spec.tile));

		if (f32_bits(s.factor) != f32_bits(known[i].factor) ||
		    f32_bits(s.scale_inv) != f32_bits(known[i].scale_inv))
			fail_msg("row %zu: %a and %a", i, (double)s.factor, (double)s.scale_inv);
	}
}

/* FMAX / amax overflows below this. */
static void the_smallest_amax_without_overflow_is_known(void **state)
{
	/* the smallest for which 448 / amax is finite, about 1.31655e-36 */
	float edge = 0x1.c00002p-120f;
	float limit = scale_limit(DT_F32, (struct tile)TENSOR);

	(void)state;
	assert_true(isfinite(448.0f / edge) && isinf(448.0f / nextafterf(edge, 0)));
	assert_true(scale_from_amax(edge, 448.0f, limit, false) == 448.0f / edge);
	assert_true(scale_from_amax(nextafterf(edge, 0), 448.0f, limit, false) == limit);
}

/* With powers of two the three arithmetics agree, save for zero blocks and deepgemm's floor. */
static void powers_agree(void **state)
{
	(void)state;
	for (uint32_t bits = 0x38D1B717; bits < F32_INF; bits += 100003) { /* from 1e-4 on */
		struct qspec spec = { .tile = BLOCK, .pow2 = true };
		struct scaling te = scaling_from_amax(&spec, f32_from_bits(bits), BF16_MAX);

		for (int arith = 0; arith < 3; arith++) {
			struct scaling s;

			spec.arith = (enum scale_arith)arith;
			s = scaling_from_amax(&spec, f32_from_bits(bits), BF16_MAX);
			assert_true(s.factor == te.factor && s.scale_inv == te.scale_inv &&
				    !s.divide);
		}
	}
}

/* The exponent of a power-of-two scale_inv is the MX code of the same amax: numerics, 5.2. */
static void powers_are_mx_codes(void **state)
{
	(void)state;
	for (uint32_t bits = 0x04800000; bits < F32_INF; bits += 9973) {
		struct qspec block = { .tile = BLOCK, .pow2 = true };
		struct qspec mx = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 };
		float amax = f32_from_bits(bits);

		assert_true(scaling_from_amax(&block, amax, BF16_MAX).scale_inv ==
			    e8m0_to_f32(scaling_from_amax(&mx, amax, BF16_MAX).e8m0));
	}
}

/* amax itself never saturates, whatever the scale. */
static void amax_fits(void **state)
{
	(void)state;
	for (int format = 0; format < 2; format++) {
		for (int arith = 0; arith < 6; arith++) {
			struct qspec spec = { .format = (enum fp8_format)format,
					      .tile = BLOCK,
					      .arith = (enum scale_arith)(arith / 2),
					      .pow2 = arith % 2 };

			for (uint32_t bits = 0x00800000; bits < F32_INF; bits += 65537) {
				float amax = f32_from_bits(bits);
				struct scaling s = scaling_from_amax(&spec, amax, BF16_MAX);

				assert_false(fp8_saturates(spec.format, scaling_apply(s, amax)));
			}
		}
	}
}

/* The square of FMAX * scale_inv: 448^2 = 49 * 2^12, so 448 * 2^55 is below 2^64 and 448 * 2^56 is
 * not; (448 * 2^-83)^2 = 49 * 2^-154 > 2^-149 and (448 * 2^-84)^2 = 49 * 2^-156 < 2^-150, the half
 * of the smallest number.  57344 = 7 * 2^13. */
static void scales_beyond_their_squares_are_no_scales(void **state)
{
	static const struct {
		float scale_inv;
		enum fp8_format format;
		enum scale_fault fault;
	} rows[] = {
		{ 0.0f, FP8_E4M3, SCALE_INVALID },
		{ -0.0f, FP8_E4M3, SCALE_INVALID },
		{ -0.01f, FP8_E4M3, SCALE_INVALID },
		{ NAN, FP8_E4M3, SCALE_INVALID },
		{ INFINITY, FP8_E4M3, SCALE_INVALID },
		{ -INFINITY, FP8_E5M2, SCALE_INVALID },
		{ 0x1p55f, FP8_E4M3, SCALE_SOUND },
		{ 0x1p56f, FP8_E4M3, SCALE_LARGE },
		{ 0x1p48f, FP8_E5M2, SCALE_SOUND },
		{ 0x1p49f, FP8_E5M2, SCALE_LARGE },
		{ 0x1p127f, FP8_E4M3, SCALE_LARGE },
		{ 0x1.FFFFFEp127f, FP8_E4M3, SCALE_LARGE },
		{ 1e30f, FP8_E4M3, SCALE_LARGE },
		{ 0x1p-83f, FP8_E4M3, SCALE_SOUND },
		{ 0x1p-84f, FP8_E4M3, SCALE_SMALL },
		{ 1e-42f, FP8_E4M3, SCALE_SMALL },
		{ 0x1p-149f, FP8_E5M2, SCALE_SMALL },
		{ 0x1p-100f, FP8_E4M3, SCALE_SMALL },
		{ 1e-12f / 448.0f, FP8_E4M3, SCALE_SOUND },
		{ 1.0f, FP8_E5M2, SCALE_SOUND },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(scale_fault_of(rows[i].scale_inv, rows[i].format), rows[i].fault);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scales_beyond_their_squares_are_no_scales),
		cmocka_unit_test(known_scales_round_as_stated),
		cmocka_unit_test(the_smallest_amax_without_overflow_is_known),
		cmocka_unit_test(powers_agree),
		cmocka_unit_test(powers_are_mx_codes),
		cmocka_unit_test(amax_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
