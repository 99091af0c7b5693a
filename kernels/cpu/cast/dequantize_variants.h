/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of row_dequantize_as() and row_error_as() for each type and format, and their
 * tables, which the including file names DEQUANTIZES and ERRORS.  Included at the end of the file
 * that defines the two.
 */
#define ROW(dtype, source, name, format)                                            \
	static void dequantize_##dtype##_##name(const struct code_row *q, void *y)  \
	{                                                                           \
		row_dequantize_as(q, y, source, format);                            \
	}                                                                           \
	static void error_##dtype##_##name(const struct code_row *q, const void *x, \
					   struct error_stats *stats)               \
	{                                                                           \
		row_error_as(q, x, source, format, stats);                          \
	}

ROW(bf16, SOURCE_BF16, e4m3, FP8_E4M3)
ROW(bf16, SOURCE_BF16, e5m2, FP8_E5M2)
ROW(f16, SOURCE_F16, e4m3, FP8_E4M3)
ROW(f16, SOURCE_F16, e5m2, FP8_E5M2)
ROW(f32, SOURCE_F32, e4m3, FP8_E4M3)
ROW(f32, SOURCE_F32, e5m2, FP8_E5M2)

row_dequantize *const DEQUANTIZES[N_SOURCES][N_FORMATS] = {
	{ dequantize_bf16_e4m3, dequantize_bf16_e5m2 },
	{ dequantize_f16_e4m3, dequantize_f16_e5m2 },
	{ dequantize_f32_e4m3, dequantize_f32_e5m2 },
};

row_error *const ERRORS[N_SOURCES][N_FORMATS] = {
	{ error_bf16_e4m3, error_bf16_e5m2 },
	{ error_f16_e4m3, error_f16_e5m2 },
	{ error_f32_e4m3, error_f32_e5m2 },
};
