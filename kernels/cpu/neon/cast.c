/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes, 32 at a time: the arithmetic of avx512/cast.c (which explains it) on scales as in
 * avx2/cast.c.  The instructions that narrow to 8 bits round too, and all values stay in order.
 * Fewer than 32 codes go through a buffer.
 *
 * Moves 2 bytes in and 1 out per bf16 value.
 */
#include "kernels/cpu/neon/neon.h"

#include <string.h>

#include "kernels/cpu/forward/lanes.h"

#define N_VECTORS 4 /* of 8 values */
#define N_CODES	  (8 * N_VECTORS)

/* The constants of a tile. */
struct tile_scale {
	uint16x8_t subnormal; /* one binade before place 0: larger magnitudes are not 0 */
	uint16x8_t normal;    /* the place of code 0 if it were normal */
	float32x4_t factor;
};

/* bf16 bit patterns, and their places. */
struct places32 {
	uint16x8_t bits[N_VECTORS];
	uint16x8_t place[N_VECTORS]; /* the distance from tile_scale.normal, 0 if below it */
};

/* Shifts right by 4, 5 or 8 bits to the nearest, and to even in a tie; results have 8 bits.  Where
 * an even result would be rounded up from a tie, 1 is taken away before: 0 gives 2^16 - 1, which
 * rounds to 2^(16 - shift), whose lower 8 bits are 0 again. */
INLINE uint8x8_t round_narrow(uint16x8_t x, int shift)
{
	uint16x8_t is_even = vbicq_u16(vdupq_n_u16(1), x >> shift), below = vsubq_u16(x, is_even);

	if (shift == 4)
		return vrshrn_n_u16(below, 4);
	return shift == 5 ? vrshrn_n_u16(below, 5) : vrshrn_n_u16(below, 8);
}

/* Converts 8 bf16 bit patterns to codes without signs. */
INLINE uint8x8_t round_any(uint16x8_t h, uint16x8_t place, struct tile_scale s, int shift)
{
	/* 2^(exponent - 1) for the binades of the subnormals, which multiplies the significand. */
	const uint8x16_t powers = { 0, 1, 2, 4, 8 };
	uint16x8_t magnitude = vandq_u16(h, vdupq_n_u16(0x7FFF));
	uint16x8_t exponent = vshrq_n_u16(vqsubq_u16(magnitude, s.subnormal), 7);
	uint16x8_t significand = vorrq_u16(vandq_u16(h, vdupq_n_u16(0x7F)), vdupq_n_u16(0x80));
	uint16x8_t power = (uint16x8_t)vqtbl1q_u8(powers, (uint8x16_t)exponent);

	/* The first is larger below the normal numbers, the second above. */
	return round_narrow(vmaxq_u16(vmulq_u16(significand, power), place << (8 - shift)), 8);
}

/* fp32 to bf16 bits, rounded to odd. */
INLINE uint16x8_t round_to_odd(float32x4_t a, float32x4_t b)
{
	uint16x8_t kept = vuzp2q_u16((uint16x8_t)a, (uint16x8_t)b);
	uint16x8_t dropped = vuzp1q_u16((uint16x8_t)a, (uint16x8_t)b);

	return vorrq_u16(kept, vminq_u16(dropped, vdupq_n_u16(1)));
}

INLINE struct tile_scale tile_scale_load(const struct panel_scales *scales, size_t tile,
					 struct cast_params v)
{
	uint16_t base = (uint16_t)(v.path == CAST_SHIFT ? (int)scales->base[tile]
							: shift_base(v.format, 127));

	return (struct tile_scale){
		.subnormal = vdupq_n_u16((uint16_t)(base - 128)),
		.normal = vdupq_n_u16((uint16_t)(base + places_of(v.format).normal)),
		.factor = vdupq_n_f32(scales->factor[tile]),
	};
}

INLINE uint16x8_t load8(const char *x)
{
	return (uint16x8_t)vld1q_u8((const uint8_t *)x);
}

/* Loads 8 values from x on. */
INLINE uint16x8_t values(const char *x, struct tile_scale s, struct cast_params v)
{
	uint16x8_t h = load8(x);
	float32x4_t a, b;

	if (v.path == CAST_SHIFT)
		return h;
	if (v.source == SOURCE_BF16) {
		a = (float32x4_t)vshll_n_u16(vget_low_u16(h), 16);
		b = (float32x4_t)vshll_high_n_u16(h, 16);
	} else if (v.source == SOURCE_F16) {
		a = vcvt_f32_f16(vget_low_f16((float16x8_t)h));
		b = vcvt_high_f32_f16((float16x8_t)h);
	} else {
		a = (float32x4_t)h;
		b = (float32x4_t)load8(x + 16);
	}
	if (v.path == CAST_DIVIDE)
		return round_to_odd(vdivq_f32(a, s.factor), vdivq_f32(b, s.factor));
	return round_to_odd(vmulq_f32(a, s.factor), vmulq_f32(b, s.factor));
}

/* Returns the codes of vectors i and i + 1, with the signs of their values. */
INLINE uint8x16_t codes16(const struct places32 *p, int i, bool any, struct tile_scale s, int shift)
{
	uint8x16_t upper = vuzp2q_u8((uint8x16_t)p->bits[i], (uint8x16_t)p->bits[i + 1]);
	uint8x16_t codes;

	if (any)
		codes = vcombine_u8(round_any(p->bits[i], p->place[i], s, shift),
				    round_any(p->bits[i + 1], p->place[i + 1], s, shift));
	else
		codes = vcombine_u8(round_narrow(p->place[i], shift),
				    round_narrow(p->place[i + 1], shift));
	return vbslq_u8(vdupq_n_u8(0x80), upper, codes);
}

/* Computes N_CODES codes of one tile.  *peak: the largest distance from s.normal. */
INLINE void codes32(const char *x, uint8_t *codes, struct tile_scale s, struct cast_params v,
		    uint16x8_t *peak)
{
	const int shift = places_of(v.format).shift;
	struct places32 p;
	uint16x8_t least = vdupq_n_u16(UINT16_MAX);
	bool any;

	UNROLL for (int i = 0; i < N_VECTORS; i++)
	{
		p.bits[i] = values(x + 8 * i * source_size(v.source), s, v);
		p.place[i] = vqsubq_u16(vandq_u16(p.bits[i], vdupq_n_u16(0x7FFF)), s.normal);
		*peak = vmaxq_u16(*peak, p.place[i]);
		least = vminq_u16(least, p.place[i]);
	}
	any = vminvq_u16(least) < 128;
	if (__builtin_expect(any, 0))
		UNROLL for (int i = 0; i < N_VECTORS; i += 2)
			vst1q_u8(codes + 8 * i, codes16(&p, i, true, s, shift));
	else
		UNROLL for (int i = 0; i < N_VECTORS; i += 2)
			vst1q_u8(codes + 8 * i, codes16(&p, i, false, s, shift));
}

/* Computes n < N_CODES codes. */
INLINE void cast_part(const struct row *r, size_t i, size_t n, struct tile_scale s,
		      struct cast_params v, uint16x8_t *peak)
{
	char x[4 * N_CODES] = { 0 };
	uint8_t codes[N_CODES];

	memcpy(x, (const char *)r->x + i * source_size(v.source), n * source_size(v.source));
	codes32(x, codes, s, v, peak);
	memcpy(r->codes + i, codes, n);
}

INLINE bool row_cast_as(const struct row *row, struct cast_params v)
{
	const struct row copy = *row, *r = &copy; /* the stores of codes cannot change it */
	const struct places p = places_of(v.format);
	const size_t size = source_size(v.source);
	uint16x8_t peak = vdupq_n_u16(0);

	for (size_t i = 0, tile = 0; i < r->n; tile++) {
		struct tile_scale s = tile_scale_load(r->scales, tile, v);
		size_t end = r->n - i < r->tile_cols ? r->n : i + r->tile_cols;

		for (; end - i >= N_CODES; i += N_CODES) {
			if (r->streaming && i % 64 == 0)
				row_fetch(r, i * size, 64 * size);
			codes32((const char *)r->x + i * size, r->codes + i, s, v, &peak);
		}
		if (i < end)
			cast_part(r, i, end - i, s, v, &peak);
		i = end;
	}
	return vmaxvq_u16(peak) <= p.last - p.normal;
}

#include "kernels/cpu/cast/cast_variants.h"
