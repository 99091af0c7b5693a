/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes back to values, compiled once for each instruction set by the file that includes this one,
 * which defines vec_set_equal16(), vec_to_f16() and store_bf16().  Both formats are read as fp16:
 * an E5M2 code is its upper byte; a shifted E4M3 code is its upper byte for a value 2^8 too small.
 * fp16 to fp32 is exact.  Then one product and one rounding.
 *
 * Dequantize moves 1 byte in and 2 out per bf16 value; error 1 and 2 bytes in.
 */
#ifndef FP8CONV_KERNELS_CPU_CAST_DEQUANTIZE_LOOPS_H
#define FP8CONV_KERNELS_CPU_CAST_DEQUANTIZE_LOOPS_H

#include "kernels/cpu/forward/lanes.h"

#define CODES (2 * LANES) /* at once */

/* The values of CODES codes, in order. */
struct code_values {
	lanes part[2];
};

/* Multiplies CODES codes from p on by scale_inv. */
INLINE struct code_values products(const uint8_t *p, enum fp8_format format, lanes scale_inv)
{
	struct code_values y;
	vec_half codes;
	vec code, half;

	memcpy(&codes, p, sizeof codes);
	code = VEC(cvtepi8_epi16)(codes); /* the sign goes up */
	half = VEC(slli_epi16)(code, 8);
	if (format == FP8_E4M3) {
		half = VEC(slli_epi16)(code, 7) & VEC(set1_epi16)((short)0xBF80);
		half = vec_set_equal16(half, code & VEC(set1_epi16)(0x7F), 0x7F, 0x7E00);
	}
	UNROLL for (int i = 0; i < 2; i++)
	{
		y.part[i] = (lanes)VEC(cvtph_ps)(vec_part(half, i));
		if (format == FP8_E4M3)
			y.part[i] *= 256.0f;
		y.part[i] *= scale_inv;
	}
	return y;
}

/* Rounds to bf16 in the upper halves.  A canonical NaN survives the addition. */
INLINE vec bf16_bits(lanes v)
{
	lanes_bits bits = (lanes_bits)v;

	return (vec)(bits + 0x7FFF + (bits >> 16 & 1));
}

/* Stores the values; every NaN becomes the only one in use (num/float16.h). */
INLINE void values_store(char *y, struct code_values v, int to)
{
	UNROLL for (int i = 0; i < 2; i++) v.part[i] = lanes_nan_of(v.part[i], v.part[i]);
	if (to == SOURCE_BF16) {
		store_bf16(y, bf16_bits(v.part[0]), bf16_bits(v.part[1]));
		return;
	}
	UNROLL for (int i = 0; i < 2; i++)
	{
		vec_half half = vec_to_f16((vec_float)v.part[i]);

		if (to == SOURCE_F32)
			memcpy(y + i * sizeof v.part[i], &v.part[i], sizeof v.part[i]);
		else
			memcpy(y + i * sizeof half, &half, sizeof half);
	}
}

INLINE void row_dequantize_as(const struct code_row *q, void *y, int to, enum fp8_format format)
{
	const struct code_row row = *q;
	const size_t size = source_size(to);
	char *at = y;

	for (size_t i = 0, tile = 0; i < row.n; tile++) {
		lanes scale_inv = lanes_all(row.scale_inv[tile]);
		size_t end = row.n - i < row.tile_cols ? row.n : i + row.tile_cols;

		for (; end - i >= CODES; i += CODES)
			values_store(at + i * size, products(row.codes + i, format, scale_inv), to);
		if (i < end) {
			uint8_t codes[CODES] = { 0 };
			char rest[4 * CODES];

			memcpy(codes, row.codes + i, end - i);
			values_store(rest, products(codes, format, scale_inv), to);
			memcpy(at + i * size, rest, (end - i) * size);
			i = end;
		}
	}
}

INLINE lanes load_values(const char *x, int source)
{
	lanes v;
	vec_half half;

	if (source == SOURCE_F32) {
		memcpy(&v, x, sizeof v);
		return v;
	}
	memcpy(&half, x, sizeof half);
	if (source == SOURCE_F16)
		return (lanes)VEC(cvtph_ps)(half);
	return (lanes)VEC(slli_epi32)(VEC(cvtepu16_epi32)(half), 16);
}

typedef double doubles __attribute__((vector_size(4 * LANES)));

struct sqnr_sums {
	doubles signal, noise;
};

/* Adds LANES values and their dequantized codes to the sums; ignores values that are not finite. */
INLINE void sums_add(struct sqnr_sums *sums, lanes x, lanes back)
{
	vec counts = (vec)(((lanes_int)x & 0x7FFFFFFF) < (int32_t)F32_INF);
	vec values = (vec)x & counts, other = (vec)back & counts;

	UNROLL for (int i = 0; i < 2; i++)
	{
		doubles v = VEC(cvtps_pd)((vec_half_float)vec_part(values, i));
		doubles difference = v - VEC(cvtps_pd)((vec_half_float)vec_part(other, i));

		sums->signal += v * v;
		sums->noise += difference * difference;
	}
}

INLINE void sums_add_codes(struct sqnr_sums *sums, const char *x, int source, const uint8_t *codes,
			   enum fp8_format format, lanes scale_inv)
{
	struct code_values back = products(codes, format, scale_inv);

	UNROLL for (size_t i = 0; i < 2; i++) sums_add(
		sums, load_values(x + i * LANES * source_size(source), source), back.part[i]);
}

INLINE double sum(doubles v)
{
	UNROLL for (int step = LANES / 4; step; step /= 2) for (int i = 0; i < step; i++) v[i] +=
		v[i + step];
	return v[0];
}

INLINE void row_error_as(const struct code_row *q, const void *x, int source,
			 enum fp8_format format, struct error_stats *stats)
{
	const size_t size = source_size(source);
	struct sqnr_sums sums = { 0 };
	const char *at = x;

	for (size_t i = 0, tile = 0; i < q->n; tile++) {
		lanes scale_inv = lanes_all(q->scale_inv[tile]);
		size_t end = q->n - i < q->tile_cols ? q->n : i + q->tile_cols;

		for (; end - i >= CODES; i += CODES)
			sums_add_codes(&sums, at + i * size, source, q->codes + i, format,
				       scale_inv);
		if (i < end) {
			uint8_t codes[CODES] = { 0 };
			char rest[4 * CODES];

			memset(rest, 0xFF, sizeof rest); /* NaN: does not count */
			memcpy(rest, at + i * size, (end - i) * size);
			memcpy(codes, q->codes + i, end - i);
			sums_add_codes(&sums, rest, source, codes, format, scale_inv);
			i = end;
		}
	}
	stats->signal += sum(sums.signal);
	stats->noise += sum(sums.noise);
}

/* The functions for each type and format, and their tables. */
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

row_dequantize *const ISA(dequantizes)[N_SOURCES][N_FORMATS] = {
	{ dequantize_bf16_e4m3, dequantize_bf16_e5m2 },
	{ dequantize_f16_e4m3, dequantize_f16_e5m2 },
	{ dequantize_f32_e4m3, dequantize_f32_e5m2 },
};

row_error *const ISA(errors)[N_SOURCES][N_FORMATS] = {
	{ error_bf16_e4m3, error_bf16_e5m2 },
	{ error_f16_e4m3, error_f16_e5m2 },
	{ error_f32_e4m3, error_f32_e5m2 },
};

#endif
