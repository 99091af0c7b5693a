/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of row_cast_as() for each variant, and their table.  Included at the end of the
 * file that defines row_cast_as().
 */
#define CAST(name, path, source)                                                       \
	static bool name##_e4m3(const struct row *r)                                   \
	{                                                                              \
		return row_cast_as(r, (struct cast_params){ path, source, FP8_E4M3 }); \
	}                                                                              \
	static bool name##_e5m2(const struct row *r)                                   \
	{                                                                              \
		return row_cast_as(r, (struct cast_params){ path, source, FP8_E5M2 }); \
	}

CAST(cast_bf16_shift, CAST_SHIFT, SOURCE_BF16)
CAST(cast_bf16_multiply, CAST_MULTIPLY, SOURCE_BF16)
CAST(cast_bf16_divide, CAST_DIVIDE, SOURCE_BF16)
CAST(cast_f16_multiply, CAST_MULTIPLY, SOURCE_F16)
CAST(cast_f16_divide, CAST_DIVIDE, SOURCE_F16)
CAST(cast_f32_multiply, CAST_MULTIPLY, SOURCE_F32)
CAST(cast_f32_divide, CAST_DIVIDE, SOURCE_F32)

row_cast *const ISA(casts)[N_CAST_PATHS][N_SOURCES][N_FORMATS] = {
	[CAST_SHIFT] = {
		[SOURCE_BF16] = { cast_bf16_shift_e4m3, cast_bf16_shift_e5m2 },
	},
	[CAST_MULTIPLY] = {
		[SOURCE_BF16] = { cast_bf16_multiply_e4m3, cast_bf16_multiply_e5m2 },
		[SOURCE_F16] = { cast_f16_multiply_e4m3, cast_f16_multiply_e5m2 },
		[SOURCE_F32] = { cast_f32_multiply_e4m3, cast_f32_multiply_e5m2 },
	},
	[CAST_DIVIDE] = {
		[SOURCE_BF16] = { cast_bf16_divide_e4m3, cast_bf16_divide_e5m2 },
		[SOURCE_F16] = { cast_f16_divide_e4m3, cast_f16_divide_e5m2 },
		[SOURCE_F32] = { cast_f32_divide_e4m3, cast_f32_divide_e5m2 },
	},
};
