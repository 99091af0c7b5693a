/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes, 64 at a time, by integer arithmetic on bf16 bits.  bf16 times a power of two needs no
 * product, which would only move the exponent.  All other values are multiplied as fp32 and reduced
 * to bf16's 8 bits by rounding to odd.  That keeps the information which a second rounding to 4
 * bits needs: above, below or exactly on a tie (Boldo and Melquiond, "When double rounding is odd",
 * 2005).  A bf16 magnitude is its exponent followed by its mantissa, and so is a code: one addition
 * and one shift round a normal number.  If one of the 64 is subnormal, all take a path of twice the
 * length; less than 2 % of the groups of real weights do.  tests/prove covers all 2^32 inputs.
 *
 * Moves 2 bytes in and 1 out per bf16 value.  CFLAGS: -mavx512f -mavx512bw -mavx512vl -mavx512dq
 */
#include "kernels/cpu/avx512/avx512.h"

/* Returns the places of 32 bf16 bit patterns on a scale that begins at base. */
INLINE __m512i place16(__m512i h, __m512i base)
{
	return _mm512_sub_epi16(_mm512_and_si512(h, _mm512_set1_epi16(0x7FFF)), base);
}

/* Adds half of the bits that are shifted out, and 1 if a tie must round up to even. */
INLINE __m512i round_shift(__m512i x, int half, unsigned shift)
{
	__mmask32 is_odd = _mm512_test_epi16_mask(x, _mm512_set1_epi16((short)(1 << shift)));

	x = _mm512_add_epi16(x, _mm512_set1_epi16((short)half));
	x = _mm512_mask_sub_epi16(x, is_odd, x, _mm512_set1_epi16(-1));
	return _mm512_srli_epi16(x, shift);
}

/* Rounds places of normal numbers to codes without signs. */
INLINE __m512i round_normal(__m512i place, const struct places p)
{
	/* The second part moves the place to the scale of codes, where 0 is subnormal. */
	return round_shift(place, (1 << (p.shift - 1)) - 1 - p.normal, (unsigned)p.shift);
}

/* The same for any places h. */
INLINE __m512i round_any(__m512i h, __m512i place, const struct places p)
{
	const __m512i implied = _mm512_set1_epi16(0x80), mantissa = _mm512_set1_epi16(0x7F);
	__mmask32 is_subnormal =
		_mm512_cmplt_epi16_mask(place, _mm512_set1_epi16((short)(p.normal + 128)));
	__m512i significand = _mm512_ternarylogic_epi32(h, mantissa, implied, 0xEA);
	__m512i exponent =
		_mm512_srli_epi16(place, 7); /* of a negative place 256 and more, which leaves 0 */

	return _mm512_mask_mov_epi16(round_normal(place, p), is_subnormal,
				     round_shift(_mm512_sllv_epi16(significand, exponent), 127, 8));
}

/* Rounds fp32 to odd bf16 bits, in even and odd 16-bit lanes. */
INLINE __m512i round_to_odd(__m512 even, __m512 odd)
{
	const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
	__m512i e = _mm512_castps_si512(even), o = _mm512_castps_si512(odd);
	__m512i kept = _mm512_ternarylogic_epi32(upper, o, _mm512_srli_epi32(e, 16), 0xCA);
	__m512i dropped = _mm512_ternarylogic_epi32(upper, _mm512_slli_epi32(o, 16), e, 0xCA);
	__m512i inexact = _mm512_min_epu16(dropped, _mm512_set1_epi16(1));

	return _mm512_or_si512(kept, inexact);
}

struct tile_scale {
	__m512i base;
	__m512 factor;
};

INLINE struct tile_scale tile_scale_load(const struct panel_scales *scales, size_t tile,
					 struct cast_params v)
{
	struct tile_scale s;

	if (v.path == CAST_SHIFT)
		s.base = _mm512_set1_epi32((int)scales->base[tile]);
	else
		s.base = _mm512_set1_epi16((short)shift_base(v.format, 127));
	s.factor = _mm512_set1_ps(scales->factor[tile]);
	return s;
}

/* Loads the values of mask from x[0 .. 31], in the range of the codes.  bf16 stays in order; for
 * other types, value i is in lane 2 * i and value 16 + i in lane 2 * i + 1. */
INLINE __m512i values(const char *x, __mmask32 mask, struct tile_scale s, struct cast_params v)
{
	__mmask16 lower = (__mmask16)mask, upper = (__mmask16)(mask >> 16);
	__m512 a, b;

	if (v.source == SOURCE_BF16) {
		__m512i h = _mm512_maskz_loadu_epi16(mask, x);

		if (v.path == CAST_SHIFT)
			return h;
		a = _mm512_castsi512_ps(_mm512_slli_epi32(h, 16));
		b = _mm512_castsi512_ps(_mm512_and_si512(h, _mm512_set1_epi32((int)0xFFFF0000)));
	} else if (v.source == SOURCE_F16) {
		a = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lower, x));
		b = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(upper, x + 32));
	} else {
		a = _mm512_maskz_loadu_ps(lower, x);
		b = _mm512_maskz_loadu_ps(upper, x + 64);
	}
	if (v.path == CAST_DIVIDE)
		return round_to_odd(_mm512_div_ps(a, s.factor), _mm512_div_ps(b, s.factor));
	return round_to_odd(_mm512_mul_ps(a, s.factor), _mm512_mul_ps(b, s.factor));
}

/* Packs the codes of a and b with the signs of their values, in the order of the source. */
INLINE __m512i pack(__m512i a, __m512i b, __m512i a_codes, __m512i b_codes, int source)
{
	const __m512i sign = _mm512_set1_epi8((char)0x80);
	__m512i bytes = _mm512_ternarylogic_epi32(sign, _mm512_packs_epi16(a, b),
						  _mm512_packus_epi16(a_codes, b_codes), 0xCA);

	if (source == SOURCE_BF16)
		return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), bytes);
	bytes = _mm512_shuffle_epi8(
		bytes, _mm512_set4_epi32(0x0F0D0B09, 0x0E0C0A08, 0x07050301, 0x06040200));
	return _mm512_permutexvar_epi32(
		_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

/* The scales of 64 elements: of the first 32, and of the others. */
struct scale_pair {
	struct tile_scale low, high;
};

/* Computes 64 codes from element i on. */
INLINE __m512i codes64(const struct row *r, size_t i, __mmask64 mask, struct scale_pair s,
		       struct cast_params v, __m512i *peak)
{
	const struct places p = places_of(v.format);
	const char *x = (const char *)r->x + i * source_size(v.source);
	__m512i a = values(x, (__mmask32)mask, s.low, v);
	__m512i b = values(x + 32 * source_size(v.source), (__mmask32)(mask >> 32), s.high, v);
	__m512i at = place16(a, s.low.base), bt = place16(b, s.high.base);
	__mmask32 is_subnormal = _mm512_cmplt_epi16_mask(
		_mm512_min_epi16(at, bt), _mm512_set1_epi16((short)(p.normal + 128)));

	*peak = _mm512_max_epi16(*peak, _mm512_max_epi16(at, bt));
	if (__builtin_expect(is_subnormal != 0, 0))
		return pack(a, b, round_any(a, at, p), round_any(b, bt, p), v.source);
	return pack(a, b, round_normal(at, p), round_normal(bt, p), v.source);
}

/* Casts 64 elements. */
INLINE void cast64(const struct row *r, size_t i, bool stream, struct scale_pair s,
		   struct cast_params v, __m512i *peak)
{
	__m512i codes = codes64(r, i, ~(__mmask64)0, s, v, peak);

	if (stream) {
		row_fetch(r, i * source_size(v.source), 64 * source_size(v.source));
		_mm512_stream_si512((void *)(r->codes + i), codes);
	} else {
		_mm512_storeu_si512((void *)(r->codes + i), codes);
	}
}

INLINE void cast_part(const struct row *r, size_t i, size_t n, struct tile_scale s,
		      struct cast_params v, __m512i *peak)
{
	__mmask64 mask = first64(n);

	_mm512_mask_storeu_epi8(r->codes + i, mask,
				codes64(r, i, mask, (struct scale_pair){ s, s }, v, peak));
}

/* Casts elements i to end of one tile, at any alignment. */
INLINE void cast_tile(const struct row *r, size_t i, size_t end, size_t tile, struct cast_params v,
		      __m512i *peak)
{
	struct tile_scale s = tile_scale_load(r->scales, tile, v);
	size_t head = -(uintptr_t)(r->codes + i) & 63;
	bool stream = r->streaming && end - i >= head + 64;

	if (stream && head) {
		cast_part(r, i, head, s, v, peak);
		i += head;
	}
	for (; end - i >= 64; i += 64)
		cast64(r, i, stream, (struct scale_pair){ s, s }, v, peak);
	if (i < end)
		cast_part(r, i, end - i, s, v, peak);
}

/* Casts the whole tiles that need no masks: MX blocks in pairs, and multiples of 64.  Returns the
 * number of elements. */
INLINE size_t cast_whole_tiles(const struct row *r, bool stream, struct cast_params v,
			       __m512i *peak)
{
	size_t i = 0, tile = 0;

	if (r->tile_cols == 32) {
		for (; r->n - i >= 64; i += 64, tile += 2)
			cast64(r, i, stream,
			       (struct scale_pair){ tile_scale_load(r->scales, tile, v),
						    tile_scale_load(r->scales, tile + 1, v) },
			       v, peak);
	} else if (r->tile_cols % 64 == 0) {
		for (; r->n - i >= r->tile_cols; tile++) {
			struct tile_scale s = tile_scale_load(r->scales, tile, v);

			for (size_t end = i + r->tile_cols; i < end; i += 64)
				cast64(r, i, stream, (struct scale_pair){ s, s }, v, peak);
		}
	}
	return i;
}

INLINE bool row_cast_as(const struct row *row, struct cast_params v)
{
	const struct row copy = *row, *r = &copy; /* the stores of codes cannot change it */
	__m512i peak = _mm512_set1_epi16(INT16_MIN);
	bool aligned = ((uintptr_t)r->codes & 63) == 0;
	size_t i = 0;

	if (aligned || !r->streaming)
		i = cast_whole_tiles(r, r->streaming, v, &peak);
	for (size_t tile = i / r->tile_cols; i < r->n; i += r->tile_cols, tile++)
		cast_tile(r, i, r->n - i < r->tile_cols ? r->n : i + r->tile_cols, tile, v, &peak);
	return !_mm512_cmpgt_epi16_mask(peak, _mm512_set1_epi16((short)places_of(v.format).last));
}

#include "kernels/cpu/cast/cast_variants.h"
