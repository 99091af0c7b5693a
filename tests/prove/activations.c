/* SPDX-License-Identifier: Apache-2.0
 *
 * The short activations of GPUs (num/activation_quick.h) against num/activation.h: every fp32
 * within their limit, with each reciprocal that an instruction may return.
 */
#include "prove.h"

#include "num/activation_quick.h"

#define UNIT_BITS 23
#define N_UNITS	  (1u << (32 - UNIT_BITS))

static bool equals_long(enum activation activation, float x, struct counterexample *found)
{
	float divisor, dividend = activation == ACT_SIGMOID ? 1 : x, want;

	if (!(f32_abs(x) <= activation_quick_most(activation)))
		return true;
	divisor = activation_divisor(activation, x);
	if (activation_refuses(activation, divisor))
		return true;
	want = activation_apply(activation, x);
	for (int off = -1; off <= 1; off++) {
		float near = f32_from_bits(f32_bits(1 / divisor) + (uint32_t)off);
		float got = quick_quotient(dividend, divisor, near);

		if (f32_bits(got) != f32_bits(want))
			return refuted(found, "activation %d of %08x: %08x, not %08x",
				       (int)activation, f32_bits(x), f32_bits(got), f32_bits(want));
	}
	return true;
}

static bool unit_of(enum activation activation, unsigned unit, struct counterexample *found)
{
	uint32_t first = (uint32_t)unit << UNIT_BITS;

	for (uint32_t i = 0; i < 1u << UNIT_BITS; i++)
		if (!equals_long(activation, f32_from_bits(first + i), found))
			return false;
	return true;
}

static bool unit_silu(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	(void)backend;
	return unit_of(ACT_SILU, unit, found);
}

static bool unit_gelu(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	(void)backend;
	return unit_of(ACT_GELU, unit, found);
}

static bool unit_sigmoid(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	(void)backend;
	return unit_of(ACT_SIGMOID, unit, found);
}

const struct proof proofs_activations[] = {
	{ "SiLU of fp32 by a reciprocal", N_UNITS, false, unit_silu, NULL },
	{ "GELU of fp32 by a reciprocal", N_UNITS, false, unit_gelu, NULL },
	{ "sigmoid of fp32 by a reciprocal", N_UNITS, false, unit_sigmoid, NULL },
	{ NULL, 0, false, NULL, NULL },
};
