/* SPDX-License-Identifier: Apache-2.0
 *
 * Low-bit weights from headers: every packing, mixtures, and headers that lie.
 * Both kinds of 4-bit elements, all codes.  Values of E2M1 are derived from its three fields;
 * tests/conformance holds them against ml_dtypes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "format/low_bit.h"
#include "num/fp4.h"
#include "num/int4.h"
#include "support/memory_checkpoint.h"

/* Compares the weights, "NAME TYPE SHAPE;", and the number of tensors that describe them. */
static void finds(const char *tensors, const char *expected, size_t n_parts)
{
	struct checkpoint checkpoint;
	struct low_bit low_bit;
	struct buf text = { 0 };
	struct err err;
	size_t n = 0;

	memory_checkpoint_init(&checkpoint, NULL, tensors);
	assert_int_equal(low_bit_find(&low_bit, &checkpoint, &err), 0);
	buf_puts(&text, "");
	for (size_t i = 0; i < checkpoint.n_tensors; i++) {
		const struct low_bit_weight *weight = low_bit_of(&low_bit, i);

		n += low_bit_is_part(&low_bit, i);
		if (!weight || low_bit_is_part(&low_bit, i))
			continue;
		assert_ptr_equal(weight->packed->tensor, checkpoint.tensors[i].tensor);
		assert_int_equal(weight->ref.shard, checkpoint.tensors[i].shard);
		buf_printf(&text, "%s %s ", weight->ref.tensor->name,
			   dtype_name(weight->tensor.dtype));
		st_shape_format(&text, weight->tensor.shape, weight->tensor.n_dims);
		buf_putc(&text, ';');
	}
	assert_string_equal(text.data ? text.data : "", expected);
	assert_int_equal(n, n_parts);
	buf_release(&text);
	low_bit_release(&low_bit);
	memory_checkpoint_release(&checkpoint);
}

static void refuses(const char *tensors, const char *message)
{
	struct checkpoint checkpoint;
	struct low_bit low_bit;
	struct err err = { 0 };

	memory_checkpoint_init(&checkpoint, NULL, tensors);
	assert_int_equal(low_bit_find(&low_bit, &checkpoint, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_string_equal(err.message, message);
	low_bit_release(&low_bit);
	memory_checkpoint_release(&checkpoint);
}

static void every_packing_is_found(void **state)
{
	(void)state;
	/* GPT-OSS */
	finds("m.experts.down_proj_bias BF16 4 64\n"
	      "m.experts.down_proj_blocks U8 4 64 3 16\n"
	      "m.experts.down_proj_scales U8 4 64 3",
	      "m.experts.down_proj MXFP4 [4, 64, 96];", 1);
	/* DeepSeek-V4, beside block FP8 with a scale of the same name */
	finds("a.wq_a.weight F8_E4M3 128 128\n"
	      "a.wq_a.scale F8_E8M0 1 1\n"
	      "a.experts.0.w1.weight I8 64 48\n"
	      "a.experts.0.w1.scale F8_E8M0 64 3",
	      "a.experts.0.w1.weight MXFP4 [64, 96];", 1);
	/* Ling-3 */
	finds("a.gate_proj.weight I8 64 48\n"
	      "a.gate_proj.weight_scale_inv U8 64 3",
	      "a.gate_proj.weight MXFP4 [64, 96];", 1);
	/* Kimi-K3: the scale in another file */
	finds("a.weight_scale U8 64 3\n"
	      "/\n"
	      "a.weight_packed U8 64 48",
	      "a.weight MXFP4 [64, 96];", 1);
	/* Kimi-K2.5 */
	finds("a.weight_packed I32 64 12\n"
	      "a.weight_scale BF16 64 3\n"
	      "a.weight_shape I64 2",
	      "a.weight INT4 [64, 96];", 2);
	/* NVFP4, both */
	finds("a.input_global_scale F32 1\n"
	      "a.weight_global_scale F32 1\n"
	      "a.weight_packed U8 64 24\n"
	      "a.weight_scale F8_E4M3 64 3\n"
	      "b.input_scale F32\n"
	      "b.weight U8 64 24\n"
	      "b.weight_scale F8_E4M3 64 3\n"
	      "b.weight_scale_2 F32",
	      "a.weight NVFP4 [64, 48];b.weight NVFP4 [64, 48];", 6);
}

/* The same names with other types are no low-bit weights. */
static void other_tensors_are_left_alone(void **state)
{
	(void)state;
	finds("a.weight BF16 64 48\n"
	      "a.scale F8_E8M0 64 3\n"
	      "b.weight I8 64 48\n"
	      "b.SCB F32 64\n"
	      "c.weight U8 64 24\n"
	      "c.weight_scale F32 64 3\n"
	      "d.weight F8_E4M3 64 32\n"
	      "d.weight_scale U8 64 1\n"
	      "num_blocks U8 1\n"
	      "e.weight_packed BF16 64 48",
	      "", 0);
}

static void headers_that_lie_are_refused(void **state)
{
	(void)state;
	refuses("a.weight_packed I32 64 12", "low-bit tensor 'a.weight_packed' has no scale "
					     "'a.weight_scale'");
	refuses("m.down_proj_blocks U8 4 64 3 16", "low-bit tensor 'm.down_proj_blocks' has no "
						   "scale 'm.down_proj_scales'");
	/* an odd number of columns */
	refuses("a.weight_packed U8 64 47\n"
		"a.weight_scale U8 64 3",
		"scale 'a.weight_scale' U8 [64, 3] does not fit 'a.weight_packed' U8 [64, 47]: "
		"supported is a scale for each 32 elements of 4 bits in a row");
	/* other rows */
	refuses("a.weight I8 64 48\n"
		"a.scale F8_E8M0 63 3",
		"scale 'a.scale' F8_E8M0 [63, 3] does not fit 'a.weight' I8 [64, 48]: supported is "
		"a scale for each 32 elements of 4 bits in a row");
	/* one scale for each row */
	refuses("a.weight I8 64 48\n"
		"a.scale F8_E8M0 64",
		"scale 'a.scale' F8_E8M0 [64] does not fit 'a.weight' I8 [64, 48]: supported is "
		"a scale for each 32 elements of 4 bits in a row");
	/* 8 bits, groups of 32 */
	refuses("a.weight_packed I32 64 24\n"
		"a.weight_scale BF16 64 3",
		"scale 'a.weight_scale' BF16 [64, 3] does not fit 'a.weight_packed' I32 [64, 24]: "
		"supported is a scale for each 32 elements of 4 bits in a row");
	refuses("m.down_proj_blocks U8 4 64 3 15\n"
		"m.down_proj_scales U8 4 64 3",
		"scale 'm.down_proj_scales' U8 [4, 64, 3] does not fit 'm.down_proj_blocks' U8 "
		"[4, 64, 3, 15]: supported is a scale for each 32 elements of 4 bits in a row");
	refuses("a.weight_packed U8 64 24\n"
		"a.weight_scale F8_E4M3 64 3",
		"low-bit tensor 'a.weight_packed' has no scale 'a.weight_global_scale'");
	refuses("a.weight U8 64 24\n"
		"a.weight_scale F8_E4M3 64 3\n"
		"a.weight_scale_2 F32 3",
		"scale 'a.weight_scale_2' of 'a.weight' is not one F32 number");
	refuses("a.weight_packed I32 64 12\n"
		"a.weight_scale BF16 64 3\n"
		"a.weight_zero_point I32 8 3",
		"low-bit tensor 'a.weight_packed' has 'a.weight_zero_point', which is unsupported: "
		"only symmetric weights in their own order can be read");
	refuses("a.weight_packed I32 64 12\n"
		"a.weight_scale BF16 64 3\n"
		"a.weight_shape I32 3",
		"'a.weight_shape' is not a vector of two I32 or I64 numbers");
	refuses("a.weight_packed I32 0 12\n"
		"a.weight_scale BF16 0 3",
		"scale 'a.weight_scale' BF16 [0, 3] does not fit 'a.weight_packed' I32 [0, 12]: "
		"supported is a scale for each 32 elements of 4 bits in a row");
}

/* Readers that only describe a checkpoint go on. */
static void the_other_weights_are_found_beside_a_broken_one(void **state)
{
	struct checkpoint checkpoint;
	struct low_bit low_bit;
	struct err err;

	(void)state;
	memory_checkpoint_init(&checkpoint, NULL,
			       "a.weight_packed U8 64 48\n"
			       "b.weight_packed U8 64 48\n"
			       "b.weight_scale U8 64 3");
	assert_int_equal(low_bit_find(&low_bit, &checkpoint, &err), -1);
	assert_int_equal(low_bit.n, 1);
	assert_string_equal(low_bit.list[0].ref.tensor->name, "b.weight");
	low_bit_release(&low_bit);
	memory_checkpoint_release(&checkpoint);
}

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
		cmocka_unit_test(every_packing_is_found),
		cmocka_unit_test(other_tensors_are_left_alone),
		cmocka_unit_test(headers_that_lie_are_refused),
		cmocka_unit_test(the_other_weights_are_found_beside_a_broken_one),
		cmocka_unit_test(codes_of_e2m1_are_sign_exponent_and_mantissa),
		cmocka_unit_test(known_codes_of_e2m1_have_known_values),
		cmocka_unit_test(codes_of_int4_are_offset_by_8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
