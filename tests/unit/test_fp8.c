/* SPDX-License-Identifier: Apache-2.0
 *
 * The FP8 casts and their way back; bf16 and fp16 too.  The neighborhood of every rounding
 * boundary there is; all 2^32 inputs are tests/prove's.
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
#include "num/float16.h"
#include "num/fp8.h"

static void known_values_have_known_codes(void **state)
{
	static const struct {
		float v;
		uint8_t e4m3, e5m2;
	} rows[] = {
		{ 0.0f, 0x00, 0x00 },
		{ -0.0f, 0x80, 0x80 },
		{ 1.0f, 0x38, 0x3C },
		{ -1.5f, 0xBC, 0xBE },
		{ 448.0f, 0x7E, 0x5F },
		{ 464.0f, 0x7E, 0x5F },
		{ 480.0f, 0x7E, 0x60 }, /* E5M2: a tie */
		{ 57344.0f, 0x7E, 0x7B },
		{ 61440.0f, 0x7E, 0x7B },
		{ 1e30f, 0x7E, 0x7B },
		{ -1e30f, 0xFE, 0xFB },
		{ INFINITY, 0x7E, 0x7B },
		{ -INFINITY, 0xFE, 0xFB },
		{ NAN, 0x7F, 0x7F },
		{ -NAN, 0x7F, 0x7F },
		{ 0x1p-6f, 0x08, 0x24 },  /* E4M3's smallest normal number */
		{ 0x1p-9f, 0x01, 0x18 },  /* and its smallest of all */
		{ 0x1p-10f, 0x00, 0x14 }, /* a tie, to even */
		{ 0x1.000002p-10f, 0x01, 0x14 },
		{ 0x1p-14f, 0x00, 0x04 },
		{ 0x1p-16f, 0x00, 0x01 },
		{ 0x1p-17f, 0x00, 0x00 },
		{ 0x1.000002p-17f, 0x00, 0x01 },
		{ 0x1p-149f, 0x00, 0x00 },
		{ -0x1p-149f, 0x80, 0x80 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(fp8_e4m3_from_f32(rows[i].v), rows[i].e4m3);
		assert_int_equal(fp8_e5m2_from_f32(rows[i].v), rows[i].e5m2);
	}
}

static void codes_come_back(void **state)
{
	(void)state;
	for (int code = 0; code < 256; code++) {
		float a = fp8_e4m3_to_f32((uint8_t)code), b = fp8_e5m2_to_f32((uint8_t)code);

		if ((code & 0x7F) == 0x7F)
			assert_true(isnan(a));
		else
			assert_int_equal(fp8_e4m3_from_f32(a), code);
		if ((code & 0x7F) > 0x7C)
			assert_true(isnan(b));
		else if ((code & 0x7F) == 0x7C) /* an inf saturates */
			assert_true(isinf(b) && fp8_e5m2_from_f32(b) == code - 1);
		else
			assert_int_equal(fp8_e5m2_from_f32(b), code);
		assert_true(isnan(a) || !!signbit(a) == code >> 7);
	}
	assert_true(fp8_e4m3_to_f32(0x7E) == 448.0f && fp8_e4m3_to_f32(0x01) == 0x1p-9f);
	assert_true(fp8_e5m2_to_f32(0x7B) == 57344.0f && fp8_e5m2_to_f32(0x01) == 0x1p-16f);
}

/* Between two neighbors the middle goes to the even code, one step of fp32 to either side to the
 * nearer. */
static void ties_go_to_the_even_code(void **state)
{
	(void)state;
	for (int format = 0; format < 2; format++) {
		enum fp8_format f = (enum fp8_format)format;

		for (uint8_t code = 0; code < (f == FP8_E4M3 ? 0x7E : 0x7B); code++) {
			float middle = (fp8_to_f32(f, code) + fp8_to_f32(f, code + 1)) / 2;
			uint8_t even = code & 1 ? code + 1 : code;

			assert_int_equal(fp8_from_f32(f, middle), even);
			assert_int_equal(fp8_from_f32(f, -middle), even | 0x80);
			assert_int_equal(fp8_from_f32(f, nextafterf(middle, 0)), code);
			assert_int_equal(fp8_from_f32(f, nextafterf(middle, INFINITY)), code + 1);
			assert_int_equal(fp8_from_f32(f, -nextafterf(middle, INFINITY)),
					 (code + 1) | 0x80);
		}
	}
}

/* Rounds first, then looks. */
static void rounding_comes_before_saturation(void **state)
{
	(void)state;
	assert_false(fp8_saturates(FP8_E4M3, 464.0f));
	assert_true(fp8_saturates(FP8_E4M3, nextafterf(464.0f, INFINITY)));
	assert_true(fp8_saturates(FP8_E4M3, -480.0f));
	assert_true(fp8_saturates(FP8_E4M3, INFINITY));
	assert_false(fp8_saturates(FP8_E4M3, NAN));
	assert_false(fp8_saturates(FP8_E5M2, nextafterf(61440.0f, 0)));
	assert_true(fp8_saturates(FP8_E5M2, 61440.0f));
	assert_false(fp8_saturates(FP8_E5M2, -57344.0f));
}

/* Every bf16 and fp16: to fp32 and back, and the middle to the next one. */
static void every_half_comes_back(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 0x7F80; i++) {
		float v = bf16_to_f32((uint16_t)i), next = bf16_to_f32((uint16_t)(i + 1));
		float middle = f32_from_bits(i << 16 | 0x8000);

		assert_true(v < next);
		assert_int_equal(bf16_from_f32(v), i);
		assert_int_equal(bf16_from_f32(-v), i | 0x8000);
		assert_int_equal(bf16_from_f32(middle), i & 1 ? i + 1 : i);
		assert_int_equal(bf16_from_f32(nextafterf(middle, 0)), i);
		assert_int_equal(bf16_from_f32(nextafterf(middle, INFINITY)), i + 1);
	}
	for (uint32_t i = 0; i < 0x7C00; i++) {
		float v = f16_to_f32((uint16_t)i),
		      next = i == 0x7BFF ? 65536.0f : f16_to_f32((uint16_t)(i + 1));
		float middle = (v + next) / 2;

		assert_true(v < next);
		assert_int_equal(f16_from_f32(v), i);
		assert_int_equal(f16_from_f32(-v), i | 0x8000);
		assert_int_equal(f16_from_f32(middle), i & 1 ? i + 1 : i);
		assert_int_equal(f16_from_f32(nextafterf(middle, 0)), i);
		assert_int_equal(f16_from_f32(nextafterf(middle, INFINITY)), i + 1);
	}
	assert_true(f16_to_f32(1) == 0x1p-24f && f16_to_f32(0x3C00) == 1.0f &&
		    f16_to_f32(0x7BFF) == 65504.0f);
}

static void halves_beyond_numbers_are_inf_or_nan(void **state)
{
	(void)state;
	assert_int_equal(bf16_from_f32(INFINITY), 0x7F80);
	assert_int_equal(bf16_from_f32(F32_MAX), 0x7F80);
	assert_int_equal(bf16_from_f32(-NAN), 0x7FC0);
	assert_int_equal(bf16_from_f32(f32_from_bits(0x7F800001)), 0x7FC0);
	assert_int_equal(f16_from_f32(-INFINITY), 0xFC00);
	assert_int_equal(f16_from_f32(65520.0f), 0x7C00);
	assert_int_equal(f16_from_f32(1e30f), 0x7C00);
	assert_int_equal(f16_from_f32(-NAN), 0x7E00);
	assert_true(isinf(f16_to_f32(0x7C00)) && isnan(f16_to_f32(0xFC01)) &&
		    isnan(bf16_to_f32(0x7F81)));
}

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
		cmocka_unit_test(known_values_have_known_codes),
		cmocka_unit_test(codes_come_back),
		cmocka_unit_test(ties_go_to_the_even_code),
		cmocka_unit_test(rounding_comes_before_saturation),
		cmocka_unit_test(every_half_comes_back),
		cmocka_unit_test(halves_beyond_numbers_are_inf_or_nan),
		cmocka_unit_test(codes_are_powers_of_two),
		cmocka_unit_test(rounding_goes_up),
		cmocka_unit_test(the_three_rules_have_known_codes),
		cmocka_unit_test(a_margin_moves_every_code),
		cmocka_unit_test(the_code_is_the_smallest_that_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
