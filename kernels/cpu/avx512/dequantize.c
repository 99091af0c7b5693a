/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes back to values, 32 at a time.  Both formats are read as fp16: an E5M2 code is its upper
 * byte; a shifted E4M3 code is its upper byte for a value 2^8 too small.  fp16 to fp32 is exact.
 * Then one product and one rounding.
 *
 * Dequantize moves 1 byte in and 2 out per bf16 value; error 1 and 2 bytes in.  CFLAGS: -mavx512f
 * -mavx512bw -mavx512vl -mavx512dq
 */
#include "kernels/cpu/avx512/avx512.h"

#include "num/bits.h"

/* Multiplies the first n of 32 codes from p on by scale_inv. */
INLINE void products(const uint8_t *p, size_t n, enum fp8_format format, __m512 scale_inv,
		     __m512 *a, __m512 *b)
{
	__m512i code =
		_mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(first32(n), p)); /* the sign goes up */
	__m512i half = _mm512_slli_epi16(code, 8);

	if (format == FP8_E4M3) {
		const __m512i magnitude = _mm512_set1_epi16(0x7F);
		__mmask32 is_nan =
			_mm512_cmpeq_epi16_mask(_mm512_and_si512(code, magnitude), magnitude);

		half = _mm512_and_si512(_mm512_slli_epi16(code, 7),
					_mm512_set1_epi16((short)0xBF80));
		half = _mm512_mask_mov_epi16(half, is_nan, _mm512_set1_epi16(0x7E00));
	}
	*a = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
	*b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
	if (format == FP8_E4M3) {
		*a = _mm512_mul_ps(*a, _mm512_set1_ps(256.0f));
		*b = _mm512_mul_ps(*b, _mm512_set1_ps(256.0f));
	}
	*a = _mm512_mul_ps(*a, scale_inv);
	*b = _mm512_mul_ps(*b, scale_inv);
}

/* Replaces every NaN by the only one in use (num/float16.h). */
INLINE __m512 canonical_nan(__m512 v)
{
	return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q),
				  _mm512_castsi512_ps(_mm512_set1_epi32(F32_NAN)));
}

/* A canonical NaN survives the addition. */
INLINE __m256i bf16_round(__m512 v)
{
	__m512i bits = _mm512_castps_si512(v);
	__m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));

	bits = _mm512_add_epi32(bits, _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7FFF)));
	return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
}

INLINE void store16(char *y, size_t n, __m512 v, int to)
{
	v = canonical_nan(v);
	if (to == SOURCE_F32)
		_mm512_mask_storeu_ps(y, first16(n), v);
	else if (to == SOURCE_BF16)
		_mm256_mask_storeu_epi16(y, first16(n), bf16_round(v));
	else
		_mm256_mask_storeu_epi16(
			y, first16(n),
			_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE void row_dequantize_as(const struct code_row *q, void *y, int to, enum fp8_format format)
{
	const struct code_row row = *q;
	const size_t size = to == SOURCE_F32 ? 4 : 2;
	char *at = y;

	for (size_t begin = 0, tile = 0; begin < row.n; begin += row.tile_cols, tile++) {
		__m512 scale_inv = _mm512_set1_ps(row.scale_inv[tile]);
		size_t end = row.n - begin < row.tile_cols ? row.n : begin + row.tile_cols;

		for (size_t i = begin; i < end; i += 32) {
			__m512 a, b;

			products(row.codes + i, end - i, format, scale_inv, &a, &b);
			store16(at + i * size, end - i, a, to);
			if (end - i > 16)
				store16(at + (i + 16) * size, end - i - 16, b, to);
		}
	}
}

INLINE __m512 load16(const char *x, size_t n, int source)
{
	if (source == SOURCE_F32)
		return _mm512_maskz_loadu_ps(first16(n), x);
	if (source == SOURCE_F16)
		return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first16(n), x));
	return _mm512_castsi512_ps(_mm512_slli_epi32(
		_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first16(n), x)), 16));
}

struct sqnr_sums {
	__m512d signal, noise;
};

INLINE void sums_add8(struct sqnr_sums *sums, __m256 x, __m256 back)
{
	__m512d v = _mm512_cvtps_pd(x);
	__m512d difference = _mm512_sub_pd(v, _mm512_cvtps_pd(back));

	sums->signal = _mm512_add_pd(sums->signal, _mm512_mul_pd(v, v));
	sums->noise = _mm512_add_pd(sums->noise, _mm512_mul_pd(difference, difference));
}

/* Adds the first n of 16 values and their dequantized codes to the sums; ignores values that are
 * not finite. */
INLINE void sums_add16(struct sqnr_sums *sums, __m512 x, __m512 back, size_t n)
{
	enum { INF_NAN = 0x99 }; /* of fpclass */
	__mmask16 counts = first16(n) & (__mmask16)~_mm512_fpclass_ps_mask(x, INF_NAN);

	x = _mm512_maskz_mov_ps(counts, x);
	back = _mm512_maskz_mov_ps(counts, back);
	sums_add8(sums, _mm512_castps512_ps256(x), _mm512_castps512_ps256(back));
	sums_add8(sums, _mm512_extractf32x8_ps(x, 1), _mm512_extractf32x8_ps(back, 1));
}

INLINE void row_error_as(const struct code_row *q, const void *x, int source,
			 enum fp8_format format, struct error_stats *stats)
{
	const size_t size = source == SOURCE_F32 ? 4 : 2;
	struct sqnr_sums sums = { _mm512_setzero_pd(), _mm512_setzero_pd() };
	const char *at = x;

	for (size_t begin = 0, tile = 0; begin < q->n; begin += q->tile_cols, tile++) {
		__m512 scale_inv = _mm512_set1_ps(q->scale_inv[tile]);
		size_t end = q->n - begin < q->tile_cols ? q->n : begin + q->tile_cols;

		for (size_t i = begin; i < end; i += 32) {
			__m512 a, b;

			products(q->codes + i, end - i, format, scale_inv, &a, &b);
			sums_add16(&sums, load16(at + i * size, end - i, source), a, end - i);
			if (end - i > 16)
				sums_add16(&sums,
					   load16(at + (i + 16) * size, end - i - 16, source), b,
					   end - i - 16);
		}
	}
	stats->signal += _mm512_reduce_add_pd(sums.signal);
	stats->noise += _mm512_reduce_add_pd(sums.noise);
}

#define DEQUANTIZES avx512_dequantizes
#define ERRORS	    avx512_errors
#include "kernels/cpu/cast/dequantize_variants.h"
