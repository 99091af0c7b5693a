/* SPDX-License-Identifier: Apache-2.0
 *
 * Both kinds of 4-bit elements, all codes.  Values of E2M1 are derived from its three fields;
 * tests/conformance holds them against ml_dtypes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "num/fp4.h"
#include "num/int4.h"

/* (-1)^s 2^(e-1) (1 + m/2), and for e = 0 (-1)^s m/2: the bias is 1. */
static double derived(int code)
{
	int s = code >> 3 & 1, e = code >> 1 & 3, m = code & 1;
	double magnitude = e ? ldexp(1 + m / 2.0, e - 1) : m / 2.0;

	return s ? -magnitude : magnitude;
}

static void codes_of_e2m1_are_sign_exponent_and_mantissa(void **state)
{
	(void)state;
	for (int code = 0; code < 256; code++) {
		float value = fp4_to_f32((uint8_t)code);

		assert_true((double)value == derived(code & 15));
		assert_int_equal(signbit(value) != 0, code >> 3 & 1);
	}
}

static void known_codes_of_e2m1_have_known_values(void **state)
{
	static const float values[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };

	(void)state;
	for (uint8_t code = 0; code < 8; code++)
		assert_true(fp4_to_f32(code) == values[code]);
}

static void codes_of_int4_are_offset_by_8(void **state)
{
	(void)state;
	for (int code = 0; code < 256; code++)
		assert_true(int4_to_f32((uint8_t)code) == (float)(code % 16) - 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_of_e2m1_are_sign_exponent_and_mantissa),
		cmocka_unit_test(known_codes_of_e2m1_have_known_values),
		cmocka_unit_test(codes_of_int4_are_offset_by_8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
