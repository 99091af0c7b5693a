/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX-512: amax, scales, and the row of the backend.  The bits of |x| order as the values do, so
 * amax is an integer maximum, which shows a NaN or an inf at the end without extra work.
 *
 * amax moves the source once, 2 bytes per bf16 value.  CFLAGS: -mavx512f -mavx512bw -mavx512vl
 * -mavx512dq
 */
#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cast/cast_transpose.h"
#include "num/scale.h"

INLINE __m512i magnitude16(__m512i x)
{
	return _mm512_and_si512(x, _mm512_set1_epi16(0x7FFF));
}

INLINE __m512i raise16(__m512i max, __m512i x)
{
	return _mm512_max_epu16(max, magnitude16(x));
}

INLINE __m512i raise32(__m512i max, __m512i x)
{
	return _mm512_max_epu32(max, _mm512_and_si512(x, _mm512_set1_epi32(0x7FFFFFFF)));
}

/* Returns the maximum over n values of 2 bytes; n is a multiple of 128. */
INLINE __m512i tile_max16_unrolled(const char *x, size_t n, __m512i max)
{
	__m512i max2 = _mm512_setzero_si512();

	for (const char *end = x + 2 * n; x < end; x += 256) {
		max = raise16(max, _mm512_loadu_si512(x));
		max2 = raise16(max2, _mm512_loadu_si512(x + 64));
		max = raise16(max, _mm512_loadu_si512(x + 128));
		max2 = raise16(max2, _mm512_loadu_si512(x + 192));
	}
	return _mm512_max_epu16(max, max2);
}

INLINE __m512i tile_max16(const char *x, size_t n, __m512i max)
{
	size_t i = n & ~(size_t)127;

	max = tile_max16_unrolled(x, i, max);
	for (; n - i >= 32; i += 32)
		max = raise16(max, _mm512_loadu_si512(x + 2 * i));
	if (i < n)
		max = raise16(max, _mm512_maskz_loadu_epi16(first32(n - i), x + 2 * i));
	return max;
}

INLINE __m512i tile_max32(const char *x, size_t n, __m512i max)
{
	size_t i = 0;

	for (; n - i >= 16; i += 16)
		max = raise32(max, _mm512_loadu_si512(x + 4 * i));
	if (i < n)
		max = raise32(max, _mm512_maskz_loadu_epi32(first16(n - i), x + 4 * i));
	return max;
}

static void row_amax16(const void *x, size_t n, size_t tile_cols, void *lanes, bool fresh)
{
	const char *from = x;
	char *to = lanes;

	for (; n; to += LANES_SIZE) {
		size_t n_tile = n < tile_cols ? n : tile_cols;
		__m512i max = fresh ? _mm512_setzero_si512() : _mm512_load_si512(to);

		if (n_tile % 128 == 0)
			max = tile_max16_unrolled(from, n_tile, max);
		else
			max = tile_max16(from, n_tile, max);
		_mm512_store_si512(to, max);
		from += 2 * n_tile;
		n -= n_tile;
	}
}

static void row_amax32(const void *x, size_t n, size_t tile_cols, void *lanes, bool fresh)
{
	const char *from = x;
	char *to = lanes;

	for (; n; to += LANES_SIZE) {
		size_t n_tile = n < tile_cols ? n : tile_cols;
		__m512i max = fresh ? _mm512_setzero_si512() : _mm512_load_si512(to);

		_mm512_store_si512(to, tile_max32(from, n_tile, max));
		from += 4 * n_tile;
		n -= n_tile;
	}
}

/* Reduces 32 tiles of 32 lanes to one vector of 32 maxima, in order: five levels of folding two
 * vectors into one, with three instructions each.  The lanes may be the source itself: signs are
 * dropped. */
INLINE __m512i fold2(const __m512i *v)
{
	__m512i a = magnitude16(_mm512_loadu_si512(v));
	__m512i b = magnitude16(_mm512_loadu_si512(v + 1));

	return _mm512_max_epu16(_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b));
}

INLINE __m512i fold4(const __m512i *v)
{
	__m512i a = fold2(v), b = fold2(v + 2);

	return _mm512_max_epu16(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

INLINE __m512i fold8(const __m512i *v)
{
	__m512i a = fold4(v), b = fold4(v + 4);

	return _mm512_max_epu16(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

INLINE __m512i fold_quarters(__m512i a, __m512i b)
{
	return _mm512_max_epu16(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}

static __m512i fold32(const __m512i *v)
{
	return fold_quarters(fold_quarters(fold8(v), fold8(v + 8)),
			     fold_quarters(fold8(v + 16), fold8(v + 24)));
}

INLINE unsigned lanes_max16(__m512i v)
{
	__m256i half = _mm256_max_epu16(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
	__m128i quarter =
		_mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
	/* Uses the instruction for the minimum of eight. */
	__m128i min = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));

	return 0xFFFF ^ (unsigned)_mm_extract_epi16(min, 0);
}

INLINE bool lanes_amax16(const __m512i *lanes, size_t n_tiles, float *amax, bool is_bf16)
{
	const unsigned inf = is_bf16 ? 0x7F80 : 0x7C00;
	unsigned nonfinite = 0;
	size_t i = 0;

	for (; n_tiles - i >= 32; i += 32) {
		__m512i max = fold32(lanes + i);
		__m256i lower = _mm512_castsi512_si256(max),
			upper = _mm512_extracti64x4_epi64(max, 1);
		__m512 a = _mm512_cvtph_ps(lower), b = _mm512_cvtph_ps(upper);

		if (is_bf16) {
			a = _mm512_castsi512_ps(
				_mm512_slli_epi32(_mm512_cvtepu16_epi32(lower), 16));
			b = _mm512_castsi512_ps(
				_mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
		}
		_mm512_storeu_ps(amax + i, a);
		_mm512_storeu_ps(amax + i + 16, b);
		nonfinite |= _mm512_cmpge_epu16_mask(max, _mm512_set1_epi16((short)inf));
	}
	for (; i < n_tiles; i++) {
		unsigned max = lanes_max16(magnitude16(_mm512_loadu_si512(lanes + i)));

		amax[i] = is_bf16 ? bf16_to_f32((uint16_t)max) : f16_to_f32((uint16_t)max);
		nonfinite |= max >= inf;
	}
	return !nonfinite;
}

static bool lanes_amax_bf16(const void *lanes, size_t n_tiles, float *amax)
{
	return lanes_amax16(lanes, n_tiles, amax, true);
}

static bool lanes_amax_f16(const void *lanes, size_t n_tiles, float *amax)
{
	return lanes_amax16(lanes, n_tiles, amax, false);
}

static bool lanes_amax_f32(const void *lanes, size_t n_tiles, float *amax)
{
	const __m512i *v = lanes;
	bool finite = true;

	for (size_t i = 0; i < n_tiles; i++) {
		unsigned max = _mm512_reduce_max_epu32(_mm512_load_si512(v + i));

		amax[i] = f32_from_bits(max);
		finite = finite && max < F32_INF;
	}
	return finite;
}

/* scale_from_amax() for 16 tiles.  deepseek and deepgemm need no vectors: they have few tiles for
 * each matrix, or powers of two. */
INLINE __m512 scale_f32(const struct qspec *spec, float limit, __m512 amax, __m512 *scale_inv)
{
	enum { ZERO_INF_NAN = 0x9F, INF = 0x18 }; /* of fpclass */
	const __m512 one = _mm512_set1_ps(1.0f);
	__mmask16 is_one = _mm512_fpclass_ps_mask(amax, ZERO_INF_NAN);
	__m512 scale = _mm512_div_ps(_mm512_set1_ps(scale_fmax(spec)), amax);

	scale = _mm512_mask_mov_ps(scale, _mm512_fpclass_ps_mask(scale, INF),
				   _mm512_set1_ps(limit));
	scale = _mm512_max_ps(scale, _mm512_set1_ps(F32_MIN));
	if (spec->pow2)
		scale = _mm512_and_ps(scale,
				      _mm512_castsi512_ps(_mm512_set1_epi32((int)0xFF800000)));
	scale = _mm512_mask_mov_ps(scale, is_one, one);
	*scale_inv = _mm512_div_ps(one, scale);
	return scale;
}

/* e8m0_round_up() for 16 tiles. */
INLINE __m512i code_up(const struct qspec *spec, __m512 amax)
{
	float rcp = e8m0_rcp_max(spec->format) * f32_pow2(spec->margin);
	__m512i bits = _mm512_castps_si512(_mm512_mul_ps(amax, _mm512_set1_ps(rcp)));
	__m512i exponent = _mm512_srli_epi32(bits, 23);
	__mmask16 up = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x7FFFFF));

	up &= _mm512_cmpneq_epi32_mask(exponent, _mm512_set1_epi32(E8M0_MAX));
	up &= _mm512_cmpgt_epi32_mask(bits, _mm512_set1_epi32(0x400000));
	exponent = _mm512_mask_add_epi32(exponent, up, exponent, _mm512_set1_epi32(1));
	exponent = _mm512_mask_mov_epi32(exponent,
					 _mm512_cmpeq_epi32_mask(bits, _mm512_set1_epi32(F32_INF)),
					 _mm512_set1_epi32(E8M0_MAX));
	return _mm512_min_epi32(exponent, _mm512_set1_epi32(E8M0_NAN));
}

/* Returns 2^(127 - code), 16 times. */
INLINE __m512 code_factor(__m512i code)
{
	__m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(254), code), 23);
	__mmask16 is_nan = _mm512_cmpeq_epi32_mask(code, _mm512_set1_epi32(E8M0_NAN));

	bits = _mm512_mask_mov_epi32(bits, _mm512_cmpeq_epi32_mask(code, _mm512_set1_epi32(254)),
				     _mm512_set1_epi32(0x400000));
	return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, is_nan, _mm512_set1_epi32(F32_NAN)));
}

static bool avx512_scales(const struct qspec *spec, float limit, const float *amax, size_t n,
			  struct panel_scales *scales)
{
	bool e8m0 = spec->scale_type == SCALE_E8M0;
	float min = spec->amax_epsilon;
	__mmask16 unfit = 0;

	if (e8m0 ? spec->mx_rule != MX_UP : !spec->pow2 && spec->arith != ARITH_TE)
		return panel_scales_scalar(spec, limit, amax, n, scales);
	if (!e8m0 && spec->arith == ARITH_DEEPGEMM && min < DEEPGEMM_AMAX_MIN)
		min = DEEPGEMM_AMAX_MIN;
	for (size_t i = 0; i < n; i += 16) {
		__mmask16 mask = first16(n - i);
		__m512 a = _mm512_maskz_loadu_ps(mask, amax + i), factor, scale_inv;
		__mmask16 is_zero = _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_EQ_OQ);
		__m512i exponent;

		a = _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(a, _mm512_set1_ps(min), _CMP_LT_OQ),
				       _mm512_set1_ps(min));
		if (e8m0) {
			__m512i code = code_up(spec, a);

			_mm_storeu_si128((void *)(scales->e8m0 + i), _mm512_cvtepi32_epi8(code));
			factor = code_factor(code);
		} else {
			factor = scale_f32(spec, limit, a, &scale_inv);
			_mm512_storeu_ps(scales->scale_inv + i, scale_inv);
		}
		_mm512_storeu_ps(scales->factor + i, factor);
		exponent = _mm512_srli_epi32(_mm512_castps_si512(factor), 23);
		if (scales->amax_exact) /* only zeros: any factor is exact */
			exponent = _mm512_mask_mov_epi32(exponent, is_zero, _mm512_set1_epi32(127));
		unfit |= mask &
			 (_mm512_cmplt_epi32_mask(exponent, _mm512_set1_epi32(SHIFT_EXPONENT_MIN)) |
			  _mm512_cmpgt_epi32_mask(exponent, _mm512_set1_epi32(SHIFT_EXPONENT_MAX)));
		exponent = _mm512_slli_epi32(
			_mm512_sub_epi32(_mm512_set1_epi32(shift_base(spec->format, 0) / 128),
					 exponent),
			7);
		_mm512_storeu_si512(scales->base + i,
				    _mm512_or_si512(exponent, _mm512_slli_epi32(exponent, 16)));
	}
	return (e8m0 || spec->pow2) && !unfit;
}

static const struct row_ops ops = {
	.row_amax = { row_amax16, row_amax16, row_amax32 },
	.lanes_amax = { lanes_amax_bf16, lanes_amax_f16, lanes_amax_f32 },
	.scales = avx512_scales,
	.casts = avx512_casts,
	.dequantizes = avx512_dequantizes,
	.errors = avx512_errors,
};

#include "kernels/cpu/cast/panel_backend.h"

static const char *avx512_unusable(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx512f"))
		return "the CPU has no AVX-512";
	if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
	    !__builtin_cpu_supports("avx512dq"))
		return "the CPU's AVX-512 has no BW, VL and DQ";
	return NULL;
}

const struct backend backend_avx512 = {
	.name = "avx512",
	.summary = "AVX-512 F, BW, VL and DQ",
	.rank = 3,
	.unusable = avx512_unusable,
	PANEL_BACKEND,
	CPU_CAST_TRANSPOSE,
};
