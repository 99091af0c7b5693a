/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes, 32 at a time: the arithmetic of avx512/cast.c (which explains it) without masks and
 * without a shift by variable counts on 16 bits, which a multiplication replaces.  Fewer than 32
 * codes go through a buffer.
 *
 * Moves 2 bytes in and 1 out per bf16 value.  CFLAGS: -mavx2 -mf16c
 */
#include "kernels/cpu/avx2/avx2.h"

#include <string.h>

/* The constants of a tile. */
struct tile_scale {
	__m256i subnormal; /* one binade before place 0: larger magnitudes are not 0 */
	__m256i normal;	   /* the place of code 0 if it were normal */
	__m256 factor;
};

/* Adds half of the bits that are shifted out, and 1 if a tie must round up to even. */
INLINE __m256i round_shift(__m256i x, int shift)
{
	__m256i is_odd = _mm256_and_si256(_mm256_srli_epi16(x, shift), _mm256_set1_epi16(1));
	__m256i half = _mm256_set1_epi16((short)((1 << (shift - 1)) - 1));

	return _mm256_srli_epi16(_mm256_add_epi16(x, _mm256_add_epi16(is_odd, half)), shift);
}

/* Converts 16 bf16 bit patterns to codes without signs.  place: their distances from s.normal, 0 if
 * they are below it. */
INLINE __m256i round_any(__m256i h, __m256i place, struct tile_scale s, int shift)
{
	/* 2^(exponent - 1) for the binades of the subnormals, which multiplies the significand. */
	const __m256i powers = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 1, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	__m256i magnitude = _mm256_and_si256(h, _mm256_set1_epi16(0x7FFF));
	__m256i exponent = _mm256_srli_epi16(_mm256_subs_epu16(magnitude, s.subnormal), 7);
	__m256i significand = _mm256_or_si256(_mm256_and_si256(h, _mm256_set1_epi16(0x7F)),
					      _mm256_set1_epi16(0x80));
	__m256i subnormal = _mm256_mullo_epi16(significand, _mm256_shuffle_epi8(powers, exponent));

	/* The first is larger below the normal numbers, the second above. */
	return round_shift(_mm256_max_epu16(subnormal, _mm256_slli_epi16(place, 8 - shift)), 8);
}

/* fp32 to bf16 bits in even and odd 16-bit lanes, rounded to odd. */
INLINE __m256i round_to_odd(__m256 even, __m256 odd)
{
	__m256i e = _mm256_castps_si256(even), o = _mm256_castps_si256(odd);
	__m256i kept = _mm256_blend_epi16(_mm256_srli_epi32(e, 16), o, 0xAA);
	__m256i dropped = _mm256_blend_epi16(e, _mm256_slli_epi32(o, 16), 0xAA);
	__m256i inexact = _mm256_min_epu16(dropped, _mm256_set1_epi16(1));

	return _mm256_or_si256(kept, inexact);
}

INLINE struct tile_scale tile_scale_load(const struct panel_scales *scales, size_t tile,
					 struct cast_params v)
{
	__m256i base = _mm256_set1_epi32((int)scales->base[tile]);
	struct tile_scale s;

	if (v.path != CAST_SHIFT)
		base = _mm256_set1_epi16((short)shift_base(v.format, 127));
	s.subnormal = _mm256_sub_epi16(base, _mm256_set1_epi16(128));
	s.normal = _mm256_add_epi16(base, _mm256_set1_epi16((short)places_of(v.format).normal));
	s.factor = _mm256_set1_ps(scales->factor[tile]);
	return s;
}

/* Loads 16 values from x on.  bf16 stays in order; for other types, value i is in lane 2 * i and
 * value 8 + i in lane 2 * i + 1. */
INLINE __m256i values(const char *x, struct tile_scale s, struct cast_params v)
{
	__m256 a, b;

	if (v.source == SOURCE_BF16) {
		__m256i h = load256(x);

		if (v.path == CAST_SHIFT)
			return h;
		a = _mm256_castsi256_ps(_mm256_slli_epi32(h, 16));
		b = _mm256_castsi256_ps(_mm256_and_si256(h, _mm256_set1_epi32((int)0xFFFF0000)));
	} else if (v.source == SOURCE_F16) {
		a = _mm256_cvtph_ps(_mm_loadu_si128((const void *)x));
		b = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + 16)));
	} else {
		a = _mm256_castsi256_ps(load256(x));
		b = _mm256_castsi256_ps(load256(x + 32));
	}
	if (v.path == CAST_DIVIDE)
		return round_to_odd(_mm256_div_ps(a, s.factor), _mm256_div_ps(b, s.factor));
	return round_to_odd(_mm256_mul_ps(a, s.factor), _mm256_mul_ps(b, s.factor));
}

/* Packs the codes of a and b with the signs of their values, in the order of the source. */
INLINE __m256i pack(__m256i a, __m256i b, __m256i a_codes, __m256i b_codes, int source)
{
	const __m256i halves =
		_mm256_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0, 2, 4, 6,
				 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
	__m256i sign = _mm256_and_si256(_mm256_packs_epi16(a, b), _mm256_set1_epi8((char)0x80));
	__m256i bytes = _mm256_or_si256(sign, _mm256_packus_epi16(a_codes, b_codes));

	if (source == SOURCE_BF16)
		return _mm256_permute4x64_epi64(bytes, 0xD8);
	return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(bytes, halves),
					   _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINE __m256i place16(__m256i h, struct tile_scale s)
{
	return _mm256_subs_epu16(_mm256_and_si256(h, _mm256_set1_epi16(0x7FFF)), s.normal);
}

/* Computes 32 codes of one tile.  *peak: the largest distance from s.normal. */
INLINE __m256i codes32(const char *x, struct tile_scale s, struct cast_params v, __m256i *peak)
{
	const int shift = places_of(v.format).shift;
	__m256i a = values(x, s, v), b = values(x + 16 * source_size(v.source), s, v);
	__m256i at = place16(a, s), bt = place16(b, s);
	__m256i lacks =
		_mm256_subs_epu16(_mm256_set1_epi16(128), _mm256_min_epu16(at, bt)); /* of normal */

	*peak = _mm256_max_epu16(*peak, _mm256_max_epu16(at, bt));
	if (__builtin_expect(_mm256_testz_si256(lacks, lacks), 1))
		return pack(a, b, round_shift(at, shift), round_shift(bt, shift), v.source);
	return pack(a, b, round_any(a, at, s, shift), round_any(b, bt, s, shift), v.source);
}

INLINE void cast32(const struct row *r, size_t i, bool stream, struct tile_scale s,
		   struct cast_params v, __m256i *peak)
{
	__m256i codes;

	/* Not between the two stores of a line: the CPU would write the line in two halves, which
	 * is slower. */
	if (stream && i % 64 == 0)
		row_fetch(r, i * source_size(v.source), 64 * source_size(v.source));
	codes = codes32((const char *)r->x + i * source_size(v.source), s, v, peak);
	if (stream)
		_mm256_stream_si256((void *)(r->codes + i), codes);
	else
		_mm256_storeu_si256((void *)(r->codes + i), codes);
}

/* Computes n < 32 codes. */
INLINE void cast_part(const struct row *r, size_t i, size_t n, struct tile_scale s,
		      struct cast_params v, __m256i *peak)
{
	char x[128] = { 0 }, codes[32];

	memcpy(x, (const char *)r->x + i * source_size(v.source), n * source_size(v.source));
	_mm256_storeu_si256((void *)codes, codes32(x, s, v, peak));
	memcpy(r->codes + i, codes, n);
}

/* Casts elements i to end of one tile, at any alignment. */
INLINE void cast_tile(const struct row *r, size_t i, size_t end, size_t tile, struct cast_params v,
		      __m256i *peak)
{
	struct tile_scale s = tile_scale_load(r->scales, tile, v);
	size_t head = -(uintptr_t)(r->codes + i) & 31;
	bool stream = r->streaming && end - i >= head + 64;

	if (stream && head) {
		cast_part(r, i, head, s, v, peak);
		i += head;
	}
	for (; end - i >= 32; i += 32)
		cast32(r, i, stream, s, v, peak);
	if (i < end)
		cast_part(r, i, end - i, s, v, peak);
}

INLINE bool row_cast_as(const struct row *row, struct cast_params v)
{
	const struct row copy = *row, *r = &copy; /* the stores of codes cannot change it */
	const struct places p = places_of(v.format);
	__m256i peak = _mm256_setzero_si256(),
		limit = _mm256_set1_epi16((short)(p.last - p.normal));
	bool aligned = ((uintptr_t)r->codes & 31) == 0;
	size_t i = 0, tile = 0;

	if (r->tile_cols % 32 == 0 &&
	    (aligned || !r->streaming)) { /* whole tiles that need no buffer */
		for (; r->n - i >= r->tile_cols; tile++) {
			struct tile_scale s = tile_scale_load(r->scales, tile, v);

			for (size_t end = i + r->tile_cols; i < end; i += 32)
				cast32(r, i, r->streaming, s, v, &peak);
		}
	}
	for (; i < r->n; i += r->tile_cols, tile++)
		cast_tile(r, i, r->n - i < r->tile_cols ? r->n : i + r->tile_cols, tile, v, &peak);
	peak = _mm256_subs_epu16(peak, limit);
	return _mm256_testz_si256(peak, peak);
}

#include "kernels/cpu/cast/cast_variants.h"
