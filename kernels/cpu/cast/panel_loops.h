/* SPDX-License-Identifier: Apache-2.0
 *
 * Amax and scales of panels, and a backend's functions over them, compiled once for each
 * instruction set by the file that includes this one, which defines fold(), as below, vec_any(): is
 * a bit set? and vec_max16(): the largest of the unsigned 16-bit lanes.
 *
 * The bits of |x| order as the values do, so amax is an integer maximum, which shows a NaN or an
 * inf at the end without extra work.  amax moves the source once, 2 bytes per bf16 value.
 */
#ifndef FP8CONV_KERNELS_CPU_CAST_PANEL_LOOPS_H
#define FP8CONV_KERNELS_CPU_CAST_PANEL_LOOPS_H

#include "kernels/cpu/cast/cast_transpose.h"
#include "kernels/cpu/forward/lanes.h"
#include "num/scale.h"

/* A tile's maxima, in registers. */
#define N_PARTS (LANES_SIZE / sizeof(vec))

INLINE vec vec_load(const void *from)
{
	vec v;

	memcpy(&v, from, sizeof v);
	return v;
}

/* Returns |x| of elements of `size` bytes, as bits. */
INLINE vec magnitude(vec x, size_t size)
{
	return x & (size == 2 ? VEC(set1_epi16)(0x7FFF) : VEC(set1_epi32)(0x7FFFFFFF));
}

INLINE vec larger(vec a, vec b, size_t size)
{
	return size == 2 ? VEC(max_epu16)(a, b) : VEC(max_epu32)(a, b);
}

/* Raises the maxima by elements of `size` bytes. */
INLINE void lanes_raise(vec max[N_PARTS], const char *x, size_t size)
{
	UNROLL for (size_t i = 0; i < N_PARTS; i++) max[i] =
		larger(max[i], magnitude(vec_load(x + i * sizeof *max), size), size);
}

/* Computes one row of tiles whose elements have `size` bytes. */
INLINE void row_amax(const void *x, size_t n, size_t tile_cols, void *maxima, bool fresh,
		     size_t size)
{
	const char *from = x;
	char *to = maxima;

	for (; n; to += LANES_SIZE) {
		size_t n_tile = n < tile_cols ? n : tile_cols, i = 0;
		vec max[N_PARTS], other[N_PARTS] = { { 0 } };

		UNROLL for (size_t part = 0; part < N_PARTS; part++) max[part] =
			fresh ? other[part] : vec_load(to + part * sizeof *max);
		for (; n_tile * size - i >= 4 * LANES_SIZE; i += 4 * LANES_SIZE)
			UNROLL for (size_t k = 0; k < 4; k++)
				lanes_raise(k % 2 ? other : max, from + i + k * LANES_SIZE, size);
		for (; n_tile * size - i >= LANES_SIZE; i += LANES_SIZE)
			lanes_raise(max, from + i, size);
		if (i < n_tile * size) {
			char rest[LANES_SIZE] = { 0 };

			memcpy(rest, from + i, n_tile * size - i);
			lanes_raise(max, rest, size);
		}
		UNROLL for (size_t part = 0; part < N_PARTS; part++)
		{
			max[part] = larger(max[part], other[part], size);
			memcpy(to + part * sizeof *max, &max[part], sizeof *max);
		}
		from += n_tile * size;
		n -= n_tile;
	}
}

static void row_amax16(const void *x, size_t n, size_t tile_cols, void *maxima, bool fresh)
{
	row_amax(x, n, tile_cols, maxima, fresh, 2);
}

static void row_amax32(const void *x, size_t n, size_t tile_cols, void *maxima, bool fresh)
{
	row_amax(x, n, tile_cols, maxima, fresh, 4);
}

/* Folds the lanes of tiles two registers into one, in order: fold1() has those of one tile, fold8()
 * of eight.  The lanes may be the source itself: signs are dropped. */
INLINE vec fold1(const char *v)
{
	vec max = magnitude(vec_load(v), 2);

	UNROLL for (size_t i = 1; i < N_PARTS; i++) max =
		VEC(max_epu16)(max, magnitude(vec_load(v + i * sizeof max), 2));
	return max;
}

INLINE vec fold2(const char *v)
{
	vec a = fold1(v), b = fold1(v + LANES_SIZE);

	return VEC(max_epu16)(VEC(unpacklo_epi16)(a, b), VEC(unpackhi_epi16)(a, b));
}

INLINE vec fold4(const char *v)
{
	vec a = fold2(v), b = fold2(v + 2 * LANES_SIZE);

	return VEC(max_epu16)(VEC(unpacklo_epi32)(a, b), VEC(unpackhi_epi32)(a, b));
}

INLINE vec fold8(const char *v)
{
	vec a = fold4(v), b = fold4(v + 4 * LANES_SIZE);

	return VEC(max_epu16)(VEC(unpacklo_epi64)(a, b), VEC(unpackhi_epi64)(a, b));
}

/* Stores the maxima of FOLDED tiles as fp32. */
INLINE void maxima_store(vec max, float *amax, bool is_bf16)
{
	UNROLL for (int i = 0; i < 2; i++)
	{
		vec_half half = vec_part(max, i);
		lanes v = (lanes)VEC(cvtph_ps)(half);

		if (is_bf16)
			v = (lanes)VEC(slli_epi32)(VEC(cvtepu16_epi32)(half), 16);
		lanes_store(amax + i * LANES, v);
	}
}

INLINE bool lanes_amax16(const char *v, size_t n_tiles, float *amax, bool is_bf16)
{
	const uint16_t inf = is_bf16 ? 0x7F80 : 0x7C00;
	vec most = { 0 };
	bool finite = true;
	size_t i = 0;

	for (; n_tiles - i >= FOLDED; i += FOLDED) {
		vec of = fold(v + i * LANES_SIZE);

		maxima_store(of, amax + i, is_bf16);
		most = VEC(max_epu16)(most, of);
	}
	for (; i < n_tiles; i++) {
		uint16_t of = vec_max16(fold1(v + i * LANES_SIZE));

		amax[i] = is_bf16 ? bf16_to_f32(of) : f16_to_f32(of);
		finite = finite && of < inf;
	}
	return finite && !vec_any(VEC(subs_epu16)(most, VEC(set1_epi16)((short)(inf - 1))));
}

static bool lanes_amax_bf16(const void *maxima, size_t n_tiles, float *amax)
{
	return lanes_amax16(maxima, n_tiles, amax, true);
}

static bool lanes_amax_f16(const void *maxima, size_t n_tiles, float *amax)
{
	return lanes_amax16(maxima, n_tiles, amax, false);
}

static bool lanes_amax_f32(const void *maxima, size_t n_tiles, float *amax)
{
	const char *v = maxima;
	bool finite = true;

	for (size_t i = 0; i < n_tiles; i++, v += LANES_SIZE) {
		lanes_bits max = { 0 };
		uint32_t largest;

		UNROLL for (size_t part = 0; part < N_PARTS; part++) max =
			lanes_larger_bits(max, (lanes_bits)vec_load(v + part * sizeof max));
		largest = lanes_largest_bits(max);
		amax[i] = f32_from_bits(largest);
		finite = finite && largest < F32_INF;
	}
	return finite;
}

/* scale_from_amax() of each value.  deepseek and deepgemm need no vectors: they have few tiles for
 * each matrix, or powers of two. */
INLINE lanes scale_f32(const struct qspec *spec, float limit, lanes amax, lanes *scale_inv)
{
	const lanes one = lanes_all(1), inf = lanes_all(f32_from_bits(F32_INF));
	lanes_int counts = (amax > 0.0f) & (amax < inf);
	lanes scale = scale_fmax(spec) / amax;

	scale = lanes_choose(scale == inf, lanes_all(limit), scale);
	scale = lanes_larger(scale, lanes_all(F32_MIN));
	if (spec->pow2)
		scale = (lanes)((lanes_bits)scale & 0xFF800000);
	scale = lanes_choose(counts, scale, one);
	*scale_inv = one / scale;
	return scale;
}

/* e8m0_round_up() of each value: the exponent of the next power of two, but 0 up to 2^-127, and
 * E8M0_MAX for inf. */
INLINE lanes_bits code_up(lanes v)
{
	lanes_bits bits = (lanes_bits)v & 0x7FFFFFFF, exponent = (bits + 0x7FFFFF) >> 23;

	exponent += (lanes_bits)(exponent > E8M0_MAX);
	return exponent & (lanes_bits)(bits > 0x400000);
}

/* Returns 2^(127 - code). */
INLINE lanes code_factor(lanes_bits code)
{
	lanes_bits bits = (254 - code) << 23;

	bits |= (lanes_bits)(code == E8M0_MAX) & 0x400000;
	return lanes_choose(code == E8M0_NAN, lanes_all(f32_from_bits(F32_NAN)), (lanes)bits);
}

static bool scales_all(const struct qspec *spec, float limit, const float *amax, size_t n,
		       struct panel_scales *scales)
{
	float rcp = e8m0_rcp_max(spec->format) * f32_pow2(spec->margin), min = spec->amax_epsilon;
	bool e8m0 = spec->scale_type == SCALE_E8M0;
	lanes_int unfit = { 0 };

	if (e8m0 ? spec->mx_rule != MX_UP : !spec->pow2 && spec->arith != ARITH_TE)
		return panel_scales_scalar(spec, limit, amax, n, scales);
	if (!e8m0 && spec->arith == ARITH_DEEPGEMM && min < DEEPGEMM_AMAX_MIN)
		min = DEEPGEMM_AMAX_MIN;
	for (size_t i = 0; i < n; i += LANES) {
		lanes a = lanes_at_or(amax, i, n, 1), raised, factor, scale_inv;
		lanes_int exponent;

		raised = lanes_larger(lanes_all(min), a);
		if (e8m0) {
			lanes_bits code = code_up(raised * rcp);
			lanes_bytes bytes = __builtin_convertvector(code, lanes_bytes);

			memcpy(scales->e8m0 + i, &bytes, sizeof bytes);
			factor = code_factor(code);
		} else {
			factor = scale_f32(spec, limit, raised, &scale_inv);
			lanes_store(scales->scale_inv + i, scale_inv);
		}
		lanes_store(scales->factor + i, factor);
		exponent = (lanes_int)((lanes_bits)factor >> 23);
		if (scales->amax_exact) /* only zeros: any factor is exact */
			exponent = (lanes_int)lanes_choose(a == 0.0f, (lanes)(exponent * 0 + 127),
							   (lanes)exponent);
		unfit |= (lanes_bits)(exponent - SHIFT_EXPONENT_MIN) >
			 SHIFT_EXPONENT_MAX - SHIFT_EXPONENT_MIN;
		exponent = (shift_base(spec->format, 0) / 128 - exponent) << 7;
		exponent |= exponent << 16;
		memcpy(scales->base + i, &exponent, sizeof exponent);
	}
	return (e8m0 || spec->pow2) && !vec_any((vec)unfit);
}

static const struct row_ops ops = {
	.row_amax = { row_amax16, row_amax16, row_amax32 },
	.lanes_amax = { lanes_amax_bf16, lanes_amax_f16, lanes_amax_f32 },
	.scales = scales_all,
	.casts = ISA(casts),
	.dequantizes = ISA(dequantizes),
	.errors = ISA(errors),
};

static void rows_amax(const struct matrix *x, struct tile tile, float *amax, size_t amax_stride,
		      uint64_t *n_nonfinite)
{
	panel_amax(&ops, x, tile, amax, amax_stride, n_nonfinite);
}

static void rows_cast(const struct matrix *x, const struct qspec *spec, const float *amax,
		      size_t amax_stride, const struct quant_out *out)
{
	panel_quantize(&ops, x, spec, amax, amax_stride, out);
}

static void rows_dequantize(const struct quant_in *q, enum dtype dtype, void *y, size_t y_stride)
{
	panel_dequantize(&ops, q, dtype, y, y_stride);
}

static void rows_error(const struct matrix *x, const struct quant_in *q, struct error_stats *stats)
{
	panel_error(&ops, x, q, stats);
}

/* The members of a struct backend that these functions fill. */
#define PANEL_BACKEND \
	.amax = rows_amax, .cast = rows_cast, .dequantize = rows_dequantize, .error = rows_error

#endif
