/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes back to values, 16 at a time, as in avx512/dequantize.c: read as fp16, one product, one
 * rounding.
 *
 * Dequantize moves 1 byte in and 2 out per bf16 value; error 1 and 2 bytes in.  CFLAGS: -mavx2
 * -mf16c
 */
#include "kernels/cpu/avx2/avx2.h"

#include <string.h>

#include "num/bits.h"

/* Multiplies 16 codes from p on by scale_inv. */
INLINE void products(const uint8_t *p, enum fp8_format format, __m256 scale_inv, __m256 *a,
		     __m256 *b)
{
	__m256i code =
		_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p)); /* the sign goes up */
	__m256i half = _mm256_slli_epi16(code, 8);

	if (format == FP8_E4M3) {
		const __m256i magnitude = _mm256_set1_epi16(0x7F);
		__m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(code, magnitude), magnitude);

		half = _mm256_and_si256(_mm256_slli_epi16(code, 7),
					_mm256_set1_epi16((short)0xBF80));
		half = _mm256_blendv_epi8(half, _mm256_set1_epi16(0x7E00), is_nan);
	}
	*a = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
	*b = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
	if (format == FP8_E4M3) {
		*a = _mm256_mul_ps(*a, _mm256_set1_ps(256.0f));
		*b = _mm256_mul_ps(*b, _mm256_set1_ps(256.0f));
	}
	*a = _mm256_mul_ps(*a, scale_inv);
	*b = _mm256_mul_ps(*b, scale_inv);
}

/* Replaces every NaN by the only one in use (num/float16.h). */
INLINE __m256 canonical_nan(__m256 v)
{
	const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(F32_NAN));

	return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

/* A canonical NaN survives the addition. */
INLINE __m256i bf16_bits(__m256 v)
{
	__m256i bits = _mm256_castps_si256(v);
	__m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

	bits = _mm256_add_epi32(bits, _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7FFF)));
	return _mm256_srli_epi32(bits, 16);
}

INLINE void store16(char *y, __m256 a, __m256 b, int to)
{
	a = canonical_nan(a);
	b = canonical_nan(b);
	if (to == SOURCE_F32) {
		_mm256_storeu_ps((void *)y, a);
		_mm256_storeu_ps((void *)(y + 32), b);
	} else if (to == SOURCE_BF16) {
		__m256i words = _mm256_packus_epi32(bf16_bits(a), bf16_bits(b));

		_mm256_storeu_si256((void *)y, _mm256_permute4x64_epi64(words, 0xD8));
	} else {
		_mm_storeu_si128((void *)y,
				 _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
		_mm_storeu_si128((void *)(y + 16),
				 _mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	}
}

INLINE void row_dequantize_as(const struct code_row *q, void *y, int to, enum fp8_format format)
{
	const struct code_row row = *q;
	const size_t size = source_size(to);
	char *at = y;
	__m256 a, b;

	for (size_t i = 0, tile = 0; i < row.n; tile++) {
		__m256 scale_inv = _mm256_set1_ps(row.scale_inv[tile]);
		size_t end = row.n - i < row.tile_cols ? row.n : i + row.tile_cols;

		for (; end - i >= 16; i += 16) {
			products(row.codes + i, format, scale_inv, &a, &b);
			store16(at + i * size, a, b, to);
		}
		if (i < end) {
			uint8_t codes[16] = { 0 };
			char rest[64];

			memcpy(codes, row.codes + i, end - i);
			products(codes, format, scale_inv, &a, &b);
			store16(rest, a, b, to);
			memcpy(at + i * size, rest, (end - i) * size);
			i = end;
		}
	}
}

INLINE __m256 load8(const char *x, int source)
{
	if (source == SOURCE_F32)
		return _mm256_castsi256_ps(load256(x));
	if (source == SOURCE_F16)
		return _mm256_cvtph_ps(_mm_loadu_si128((const void *)x));
	return _mm256_castsi256_ps(
		_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)x)), 16));
}

struct sqnr_sums {
	__m256d signal, noise;
};

INLINE void sums_add4(struct sqnr_sums *sums, __m128 x, __m128 back)
{
	__m256d v = _mm256_cvtps_pd(x);
	__m256d difference = _mm256_sub_pd(v, _mm256_cvtps_pd(back));

	sums->signal = _mm256_add_pd(sums->signal, _mm256_mul_pd(v, v));
	sums->noise = _mm256_add_pd(sums->noise, _mm256_mul_pd(difference, difference));
}

/* Adds 8 values and their dequantized codes to the sums; ignores values that are not finite. */
INLINE void sums_add8(struct sqnr_sums *sums, __m256 x, __m256 back)
{
	__m256 magnitude = _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF)));
	__m256 inf = _mm256_castsi256_ps(_mm256_set1_epi32(F32_INF));
	__m256 counts = _mm256_cmp_ps(magnitude, inf, _CMP_LT_OQ);

	x = _mm256_and_ps(x, counts);
	back = _mm256_and_ps(back, counts);
	sums_add4(sums, _mm256_castps256_ps128(x), _mm256_castps256_ps128(back));
	sums_add4(sums, _mm256_extractf128_ps(x, 1), _mm256_extractf128_ps(back, 1));
}

INLINE void sums_add16(struct sqnr_sums *sums, const char *x, int source, const uint8_t *codes,
		       enum fp8_format format, __m256 scale_inv)
{
	__m256 a, b;

	products(codes, format, scale_inv, &a, &b);
	sums_add8(sums, load8(x, source), a);
	sums_add8(sums, load8(x + 8 * source_size(source), source), b);
}

INLINE double sum(__m256d v)
{
	double lanes[4];

	_mm256_storeu_pd(lanes, v);
	return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

INLINE void row_error_as(const struct code_row *q, const void *x, int source,
			 enum fp8_format format, struct error_stats *stats)
{
	const size_t size = source_size(source);
	struct sqnr_sums sums = { _mm256_setzero_pd(), _mm256_setzero_pd() };
	const char *at = x;

	for (size_t i = 0, tile = 0; i < q->n; tile++) {
		__m256 scale_inv = _mm256_set1_ps(q->scale_inv[tile]);
		size_t end = q->n - i < q->tile_cols ? q->n : i + q->tile_cols;

		for (; end - i >= 16; i += 16)
			sums_add16(&sums, at + i * size, source, q->codes + i, format, scale_inv);
		if (i < end) {
			uint8_t codes[16] = { 0 };
			char rest[64];

			memset(rest, 0xFF, sizeof rest); /* NaN: does not count */
			memcpy(rest, at + i * size, (end - i) * size);
			memcpy(codes, q->codes + i, end - i);
			sums_add16(&sums, rest, source, codes, format, scale_inv);
			i = end;
		}
	}
	stats->signal += sum(sums.signal);
	stats->noise += sum(sums.noise);
}

#define DEQUANTIZES avx2_dequantizes
#define ERRORS	    avx2_errors
#include "kernels/cpu/cast/dequantize_variants.h"
