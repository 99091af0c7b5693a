/* SPDX-License-Identifier: Apache-2.0
 *
 * The short activations of GPUs have the bits of num/activation.h: for every number of bf16 and
 * f16, and for a sample of fp32 (`make prove` takes all), with every reciprocal that an instruction
 * may return.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "num/activation_quick.h"
#include "num/float16.h"

/* Compares the three reciprocals of one number.  Returns false where the long way is taken. */
static bool quick_equals_long(enum activation activation, float x)
{
	float divisor, dividend = activation == ACT_SIGMOID ? 1 : x;

	if (!(f32_abs(x) <= activation_quick_most(activation)))
		return false;
	divisor = activation_divisor(activation, x);
	if (activation_refuses(activation, divisor))
		return false;
	for (int off = -1; off <= 1; off++) {
		float near = f32_from_bits(f32_bits(1 / divisor) + (uint32_t)off);

		assert_int_equal(f32_bits(quick_quotient(dividend, divisor, near)),
				 f32_bits(activation_apply(activation, x)));
	}
	return true;
}

static void all_numbers_of_16_bits_have_the_long_way_s_bits(void **state)
{
	/* Numbers within the limit, 80 or 9, of either sign. */
	static const struct {
		enum activation activation;
		int bf16, f16;
	} within[] = {
		{ ACT_SILU, 2 * 0x42A1, 2 * 0x5501 },
		{ ACT_GELU, 2 * 0x4111, 2 * 0x4881 },
		{ ACT_SIGMOID, 2 * 0x42A1, 2 * 0x5501 },
	};

	(void)state;
	for (size_t a = 0; a < sizeof within / sizeof *within; a++) {
		int n_bf16 = 0, n_f16 = 0;

		for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
			n_bf16 += quick_equals_long(within[a].activation,
						    bf16_to_f32((uint16_t)bits));
			n_f16 +=
				quick_equals_long(within[a].activation, f16_to_f32((uint16_t)bits));
		}
		/* Few have the divisor that is refused. */
		assert_in_range(n_bf16, within[a].bf16 - 128, within[a].bf16);
		assert_in_range(n_f16, within[a].f16 - 128, within[a].f16);
	}
}

/* Divisors of sigmoid that are a unit of the last place below a power of two. */
static void divisors_just_below_powers_of_two_are_refused(void **state)
{
	int n = 0;

	(void)state;
	for (uint32_t bits = 0xBF800000; bits < 0xC1000000; bits++) { /* -1 to -8 */
		float divisor = activation_divisor(ACT_SIGMOID, f32_from_bits(bits));

		if ((f32_bits(divisor) & 0x7FFFFF) < 0x7FFFFF)
			continue;
		n += !activation_refuses(ACT_SIGMOID, divisor);
		assert_false(quick_equals_long(ACT_SIGMOID, f32_from_bits(bits)));
	}
	assert_int_equal(n, 0);
}

static void a_sample_of_fp32_has_the_long_way_s_bits(void **state)
{
	static const enum activation all[] = { ACT_SILU, ACT_GELU, ACT_SIGMOID };

	(void)state;
	for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
		int n = 0;

		for (uint32_t bits = 0; bits < UINT32_MAX - 4099; bits += 4099)
			n += quick_equals_long(all[a], f32_from_bits(bits));
		assert_in_range(n, (1 << 19), (1 << 20));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_numbers_of_16_bits_have_the_long_way_s_bits),
		cmocka_unit_test(divisors_just_below_powers_of_two_are_refused),
		cmocka_unit_test(a_sample_of_fp32_has_the_long_way_s_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
