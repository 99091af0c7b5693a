/* SPDX-License-Identifier: Apache-2.0
 *
 * E8M0 codes: the three rules, and that rounding up gives the smallest code that holds the block.
 * Sampled; all positive floats are tests/prove's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "num/e8m0.h"
#include "num/fp8.h"

static void codes_are_powers_of_two(void **state)
{
	(void)state;
	for (int code = 0; code < 255; code++) {
		assert_true((double)e8m0_to_f32((uint8_t)code) == ldexp(1, code - 127));
		assert_true((double)e8m0_factor((uint8_t)code) == ldexp(1, 127 - code));
	}
	assert_true(isnan(e8m0_to_f32(255)) && isnan(e8m0_factor(255)));
}

static void rounding_goes_up(void **state)
{
	static const struct {
		float v;
		uint8_t code;
	} rows[] = {
		{ 0.0f, 0x00 },
		{ 0x1p-149f, 0x00 },
		{ 0x1p-127f, 0x00 },
		{ 0x1.000004p-127f, 0x01 },
		{ 0x1p-126f, 0x01 },
		{ 0x1.000002p-126f, 0x02 },
		{ 1.0f, 0x7F },
		{ 0x1.000002p0f, 0x80 },
		{ 0x1p127f, 0xFE },
		{ 0x1.fffffep127f, 0xFE },
		{ 0x1.fffffep126f, 0xFE },
		{ INFINITY, 0xFE },
		{ NAN, 0xFF },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(e8m0_round_up(rows[i].v), rows[i].code);
}

static void the_three_rules_have_known_codes(void **state)
{
	static const struct {
		float amax;
		uint8_t e4m3[3], e5m2[3]; /* by enum mx_rule */
	} rows[] = {
		{ 0.0f, { 0, 0, 0 }, { 0, 0, 0 } },
		{ 0x1p-149f, { 0, 0, 0 }, { 0, 0, 0 } },
		{ 448.0f, { 127, 127, 127 }, { 120, 120, 120 } },
		{ 449.0f, { 128, 127, 127 }, { 121, 120, 120 } },
		{ 256.0f, { 127, 127, 127 }, { 120, 120, 120 } },
		{ 255.0f, { 127, 126, 127 }, { 120, 119, 120 } },
		{ 0x1.fp7f,
		  { 127, 126, 127 },
		  { 120, 119, 120 } }, /* the tie of 3 bits, to even: up */
		{ 0x1.effffep7f, { 127, 126, 126 }, { 120, 119, 120 } },
		{ 0x1.ep7f, { 127, 126, 126 }, { 120, 119, 120 } }, /* the tie of 2 bits */
		{ 0x1.dffffep7f, { 127, 126, 126 }, { 120, 119, 119 } },
		{ 0x1.cp7f, { 126, 126, 126 }, { 119, 119, 119 } },
		{ 1.0f, { 119, 119, 119 }, { 112, 112, 112 } },
		{ 0x1.fffffep127f, { 247, 246, 247 }, { 240, 239, 240 } },
		{ INFINITY, { 254, 254, 254 }, { 254, 254, 254 } },
		{ NAN, { 255, 255, 255 }, { 255, 255, 255 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		for (int rule = 0; rule < 3; rule++) {
			assert_int_equal(
				e8m0_from_amax(rows[i].amax, FP8_E4M3, (enum mx_rule)rule, 0),
				rows[i].e4m3[rule]);
			assert_int_equal(
				e8m0_from_amax(rows[i].amax, FP8_E5M2, (enum mx_rule)rule, 0),
				rows[i].e5m2[rule]);
		}
	}
}

/* A margin moves every code up, and brings a subnormal amax back into range. */
static void a_margin_moves_every_code(void **state)
{
	(void)state;
	for (int rule = 0; rule < 3; rule++) {
		enum mx_rule r = (enum mx_rule)rule;

		for (int margin = -8; margin <= 8; margin++)
			assert_int_equal(e8m0_from_amax(300.0f, FP8_E4M3, r, margin),
					 e8m0_from_amax(300.0f, FP8_E4M3, r, 0) + margin);
		assert_int_equal(e8m0_from_amax(0x1p-130f, FP8_E4M3, r, 20), 127 - 130 - 8 + 20);
	}
}

/* The smallest code with FMAX * 2^(code - 127) >= amax. */
static void the_code_is_the_smallest_that_holds(void **state)
{
	(void)state;
	for (int format = 0; format < 2; format++) {
		double fmax = (double)fp8_max((enum fp8_format)format);

		for (uint32_t bits = 1; bits < F32_INF; bits += 1013) {
			double amax = (double)f32_from_bits(bits);
			int code = e8m0_from_amax(f32_from_bits(bits), (enum fp8_format)format,
						  MX_UP, 0);

			assert_true(fmax * ldexp(1, code - 127) >= amax);
			assert_true(code == 0 || fmax * ldexp(1, code - 128) < amax);
		}
	}
	/* The one amax each whose code is one too large. */
	assert_int_equal(e8m0_from_amax(f32_from_bits(0x04600000), FP8_E4M3, MX_UP, 0), 0);
	assert_int_equal(e8m0_from_amax(f32_from_bits(0x04600001), FP8_E4M3, MX_UP, 0), 0);
	assert_int_equal(e8m0_from_amax(f32_from_bits(0x07E00001), FP8_E5M2, MX_UP, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_powers_of_two),
		cmocka_unit_test(rounding_goes_up),
		cmocka_unit_test(the_three_rules_have_known_codes),
		cmocka_unit_test(a_margin_moves_every_code),
		cmocka_unit_test(the_code_is_the_smallest_that_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
