/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX2: amax, scales, and the row of the backend.  As in avx512/backend.c, amax is an integer
 * maximum of the bits of |x|.
 *
 * amax moves the source once, 2 bytes per bf16 value.  CFLAGS: -mavx2 -mf16c
 */
#include "kernels/cpu/avx2/avx2.h"

#include <cpuid.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cast/cast_transpose.h"
#include "num/scale.h"

/* The lanes of a tile. */
struct lanes {
	__m256i a, b;
};

INLINE struct lanes lanes_load(const void *from)
{
	return (struct lanes){ load256(from), load256((const char *)from + 32) };
}

INLINE void lanes_store(void *to, struct lanes lanes)
{
	_mm256_storeu_si256(to, lanes.a);
	_mm256_storeu_si256((void *)((char *)to + 32), lanes.b);
}

INLINE __m256i magnitude16(__m256i x)
{
	return _mm256_and_si256(x, _mm256_set1_epi16(0x7FFF));
}

INLINE __m256i magnitude32(__m256i x)
{
	return _mm256_and_si256(x, _mm256_set1_epi32(0x7FFFFFFF));
}

INLINE struct lanes lanes_raise(struct lanes max, struct lanes x, size_t size)
{
	if (size == 2)
		return (struct lanes){ _mm256_max_epu16(max.a, magnitude16(x.a)),
				       _mm256_max_epu16(max.b, magnitude16(x.b)) };
	return (struct lanes){ _mm256_max_epu32(max.a, magnitude32(x.a)),
			       _mm256_max_epu32(max.b, magnitude32(x.b)) };
}

/* Computes one row of tiles whose elements have `size` bytes. */
INLINE void row_amax(const void *x, size_t n, size_t tile_cols, void *lanes, bool fresh,
		     size_t size)
{
	const char *from = x;
	char *to = lanes;

	for (; n; to += LANES_SIZE) {
		size_t n_tile = n < tile_cols ? n : tile_cols, i = 0;
		struct lanes max = { _mm256_setzero_si256(), _mm256_setzero_si256() };

		if (!fresh)
			max = lanes_load(to);
		for (; n_tile * size - i >= LANES_SIZE; i += LANES_SIZE)
			max = lanes_raise(max, lanes_load(from + i), size);
		if (i < n_tile * size) {
			char rest[LANES_SIZE] = { 0 };

			memcpy(rest, from + i, n_tile * size - i);
			max = lanes_raise(max, lanes_load(rest), size);
		}
		lanes_store(to, max);
		from += n_tile * size;
		n -= n_tile;
	}
}

static void row_amax16(const void *x, size_t n, size_t tile_cols, void *lanes, bool fresh)
{
	row_amax(x, n, tile_cols, lanes, fresh, 2);
}

static void row_amax32(const void *x, size_t n, size_t tile_cols, void *lanes, bool fresh)
{
	row_amax(x, n, tile_cols, lanes, fresh, 4);
}

/* Reduces 16 tiles of 32 lanes to one vector of 16 maxima, in order, by folding two vectors into
 * one. */
INLINE __m256i fold1(const char *v)
{
	struct lanes lanes = lanes_load(v);

	return _mm256_max_epu16(magnitude16(lanes.a), magnitude16(lanes.b));
}

INLINE __m256i fold2(const char *v)
{
	__m256i a = fold1(v), b = fold1(v + LANES_SIZE);

	return _mm256_max_epu16(_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
}

INLINE __m256i fold4(const char *v)
{
	__m256i a = fold2(v), b = fold2(v + 2 * LANES_SIZE);

	return _mm256_max_epu16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

INLINE __m256i fold8(const char *v)
{
	__m256i a = fold4(v), b = fold4(v + 4 * LANES_SIZE);

	return _mm256_max_epu16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

static __m256i fold16(const char *v)
{
	__m256i a = fold8(v), b = fold8(v + 8 * LANES_SIZE);

	return _mm256_max_epu16(_mm256_permute2x128_si256(a, b, 0x20),
				_mm256_permute2x128_si256(a, b, 0x31));
}

/* Stores n <= 16 maxima as fp32.  Returns false if one is not finite. */
INLINE bool amax_store(__m256i max, size_t n, float *amax, bool is_bf16)
{
	const __m256i largest = _mm256_set1_epi16(is_bf16 ? 0x7F7F : 0x7BFF);
	__m256i beyond = _mm256_subs_epu16(max, largest);
	__m128i lower = _mm256_castsi256_si128(max), upper = _mm256_extracti128_si256(max, 1);
	__m256 a = _mm256_cvtph_ps(lower), b = _mm256_cvtph_ps(upper);
	float values[16];

	if (is_bf16) {
		a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(lower), 16));
		b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
	}
	_mm256_storeu_ps(values, a);
	_mm256_storeu_ps(values + 8, b);
	memcpy(amax, values, n * sizeof *amax);
	return _mm256_testz_si256(beyond, beyond);
}

INLINE bool lanes_amax16(const void *lanes, size_t n_tiles, float *amax, bool is_bf16)
{
	const char *v = lanes;
	bool finite = true;
	size_t i = 0;

	for (; n_tiles - i >= 16; i += 16)
		finite &= amax_store(fold16(v + i * LANES_SIZE), 16, amax + i, is_bf16);
	if (i < n_tiles) {
		char rest[16 * LANES_SIZE] = { 0 };

		memcpy(rest, v + i * LANES_SIZE, (n_tiles - i) * LANES_SIZE);
		finite &= amax_store(fold16(rest), n_tiles - i, amax + i, is_bf16);
	}
	return finite;
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
	const char *v = lanes;
	bool finite = true;

	for (size_t i = 0; i < n_tiles; i++) {
		struct lanes x = lanes_load(v + i * LANES_SIZE);
		uint32_t max[8], largest = 0;

		_mm256_storeu_si256((void *)max, magnitude32(_mm256_max_epu32(x.a, x.b)));
		for (int lane = 0; lane < 8; lane++)
			largest = max[lane] > largest ? max[lane] : largest;
		amax[i] = f32_from_bits(largest);
		finite = finite && largest < F32_INF;
	}
	return finite;
}

INLINE __m256i set8(uint32_t v)
{
	return _mm256_set1_epi32((int)v);
}

/* e8m0_round_up() for 8 tiles. */
INLINE __m256i code_up(float rcp, __m256 amax)
{
	__m256i bits = _mm256_castps_si256(_mm256_mul_ps(amax, _mm256_set1_ps(rcp)));
	__m256i exponent = _mm256_srli_epi32(bits, 23);
	__m256i is_power = _mm256_cmpeq_epi32(_mm256_and_si256(bits, set8(0x7FFFFF)), set8(0));
	__m256i up = _mm256_andnot_si256(is_power, _mm256_cmpgt_epi32(bits, set8(0x400000)));

	up = _mm256_andnot_si256(_mm256_cmpeq_epi32(exponent, set8(E8M0_MAX)), up);
	exponent = _mm256_sub_epi32(exponent, up);
	exponent = _mm256_blendv_epi8(exponent, set8(E8M0_MAX),
				      _mm256_cmpeq_epi32(bits, set8(F32_INF)));
	return _mm256_min_epi32(exponent, set8(E8M0_NAN));
}

/* Returns 2^(127 - code) as bits, 8 times. */
INLINE __m256i code_factor(__m256i code)
{
	__m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(set8(254), code), 23);

	bits = _mm256_blendv_epi8(bits, set8(0x400000), _mm256_cmpeq_epi32(code, set8(254)));
	return _mm256_blendv_epi8(bits, set8(F32_NAN), _mm256_cmpeq_epi32(code, set8(E8M0_NAN)));
}

/* Computes the scales of 8 MX blocks.  Returns a mask of those for which CAST_SHIFT would not be
 * exact. */
INLINE unsigned scales_mx(const struct qspec *spec, float rcp, __m256 amax,
			  struct panel_scales *scales, size_t i)
{
	__m256 min = _mm256_set1_ps(spec->amax_epsilon);
	__m256 is_zero = _mm256_cmp_ps(amax, _mm256_setzero_ps(), _CMP_EQ_OQ);
	__m256 raised = _mm256_blendv_ps(amax, min, _mm256_cmp_ps(amax, min, _CMP_LT_OQ));
	__m256i code = code_up(rcp, raised), factor = code_factor(code), exponent, unfit;
	__m128i words =
		_mm_packus_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));

	_mm_storel_epi64((void *)(scales->e8m0 + i), _mm_packus_epi16(words, words));
	_mm256_storeu_si256((void *)(scales->factor + i), factor);
	exponent = _mm256_srli_epi32(factor, 23);
	if (scales->amax_exact) /* only zeros: any factor is exact */
		exponent = _mm256_blendv_epi8(exponent, set8(127), _mm256_castps_si256(is_zero));
	unfit = _mm256_or_si256(_mm256_cmpgt_epi32(set8(SHIFT_EXPONENT_MIN), exponent),
				_mm256_cmpgt_epi32(exponent, set8(SHIFT_EXPONENT_MAX)));
	exponent = _mm256_slli_epi32(
		_mm256_sub_epi32(set8((uint32_t)shift_base(spec->format, 0) / 128), exponent), 7);
	_mm256_storeu_si256((void *)(scales->base + i),
			    _mm256_or_si256(exponent, _mm256_slli_epi32(exponent, 16)));
	return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(unfit));
}

static bool avx2_scales(const struct qspec *spec, float limit, const float *amax, size_t n,
			struct panel_scales *scales)
{
	float rcp = e8m0_rcp_max(spec->format) * f32_pow2(spec->margin);
	unsigned unfit = 0;

	if (spec->scale_type != SCALE_E8M0 || spec->mx_rule != MX_UP)
		return panel_scales_scalar(spec, limit, amax, n, scales);
	for (size_t i = 0; i < n; i += 8) {
		float some[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

		memcpy(some, amax + i, (n - i < 8 ? n - i : 8) * sizeof *some);
		unfit |= scales_mx(spec, rcp, _mm256_loadu_ps(some), scales, i);
	}
	return !unfit;
}

static const struct row_ops ops = {
	.row_amax = { row_amax16, row_amax16, row_amax32 },
	.lanes_amax = { lanes_amax_bf16, lanes_amax_f16, lanes_amax_f32 },
	.scales = avx2_scales,
	.casts = avx2_casts,
	.dequantizes = avx2_dequantizes,
	.errors = avx2_errors,
};

#include "kernels/cpu/cast/panel_backend.h"

static const char *avx2_unusable(void)
{
	unsigned eax, ebx, ecx = 0, edx;

	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2"))
		return "the CPU has no AVX2";
	/* clang has no name for it. */
	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_F16C))
		return "the CPU has no F16C";
	return NULL;
}

const struct backend backend_avx2 = {
	.name = "avx2",
	.summary = "AVX2 and F16C",
	.rank = 2,
	.unusable = avx2_unusable,
	PANEL_BACKEND,
	CPU_CAST_TRANSPOSE,
};
