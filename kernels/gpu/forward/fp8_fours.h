/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread of round_fp8.cu has at once: fours of elements, all loaded before the first is
 * used, from values to codes and back to values in registers.  Kernels are made for aligned fours
 * without a NaN, of one format and one type of y; other fours are cast one by one.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_FP8_FOURS_H
#define FP8CONV_KERNELS_GPU_FORWARD_FP8_FOURS_H

#include "kernels/gpu/cast/load.h"
#include "kernels/gpu/cast/pair.h"
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"

/* The arguments of a launch, and how x is cut. */
struct fp8_launch {
	struct round_fp8_args a;
	size_t n;	 /* elements of a tile that lies in x without a gap; of a row of segments */
	size_t n_tiles;	 /* all */
	size_t n_across; /* tiles in a row of them */
	unsigned log2_lanes; /* threads of a tile, where the kernel does not fix it */
	bool aligned;	     /* each four of a tile, in x and y */
};

/* What a thread counts. */
struct counted {
	unsigned n_saturated, n_zeros;

	/* What four_count() returned. */
	__device__ void add(unsigned count)
	{
		n_saturated += count & 0xFFFF;
		n_zeros += count >> 16;
	}

	/* Adds the counts of a warp, all threads of which call it, to *counts, if not NULL. */
	__device__ void raise(struct cast_counts *counts)
	{
		if (!counts || !__ballot_sync(GPU_ALL_LANES, n_saturated | n_zeros))
			return;
		for (int step = 16; step > 0; step /= 2) {
			n_saturated += __shfl_xor_sync(GPU_ALL_LANES, n_saturated, step);
			n_zeros += __shfl_xor_sync(GPU_ALL_LANES, n_zeros, step);
		}
		if (threadIdx.x % 32)
			return;
		count_add(reinterpret_cast<unsigned long long *>(&counts->n_saturated),
			  n_saturated);
		count_add(reinterpret_cast<unsigned long long *>(&counts->n_zeros), n_zeros);
	}
};

/* Of the first n of four values, what of them is rounded, and to which codes: those that saturate |
 * those that are not zero and have a code of zero << 16. */
static __device__ GPU_CALL unsigned four_count(enum fp8_format format, float4 v, float4 scaled,
					       unsigned codes, int n)
{
	const float x[] = { v.x, v.y, v.z, v.w };
	const float to_round[] = { scaled.x, scaled.y, scaled.z, scaled.w };
	unsigned count = 0;

	GPU_UNROLL
	for (int i = 0; i < 4; i++) {
		unsigned is_zero = f32_magnitude(x[i]) && !(codes >> 8 * i & 0x7F);

		if (i < n)
			count += element_count(format, x[i], to_round[i]) >> 16 | is_zero << 16;
	}
	return count;
}

/* Writes the values of up to 4 elements from `at` on, whatever they are.  Returns what
 * four_count() does. */
static __device__ GPU_CALL unsigned four_put(const struct fp8_launch *r, size_t at, float4 v, int n,
					     struct scaling s)
{
	enum fp8_format format = r->a.spec.format;
	float4 scaled = fours_each(v, [s](float x) { return scaling_apply(s, x); });
	uint16_t low = gpu_fp8x2(format, scaled.x, scaled.y);
	uint16_t high = gpu_fp8x2(format, scaled.z, scaled.w);
	float4 y;

	gpu_fp8x2_to_f32(format, low, &y.x, &y.y);
	gpu_fp8x2_to_f32(format, high, &y.z, &y.w);
	y = fours_each(y, [s](float code) {
		float value = code * s.scale_inv;

		return f32_is_nan(value) ? f32_from_bits(F32_NAN) : value;
	});
	if (r->a.dtype == DT_BF16)
		codes_store(static_cast<uint16_t *>(r->a.y) + at, fours_each(y, rounded), n,
			    r->aligned);
	else
		fours_store(static_cast<float *>(r->a.y) + at, y, n, r->aligned);
	return four_count(format, v, scaled, low | (unsigned)high << 16, n);
}

/* N fours of a thread. */
template <int N> struct held {
	float4 v[N];
	size_t at;		/* of the first, in x and y */
	struct group_spread by; /* in elements */
	unsigned left;		/* elements from the first four to the end, at most N * step */
	bool whole;		/* the fours that exist have all their elements, and are aligned */

	/* Returns the elements of four k that exist. */
	__device__ int has(int k) const
	{
		unsigned before = (unsigned)k * (unsigned)by.step;

		return fours_left(before, left);
	}

	/* Loads fours `step` elements apart, of as many elements as `all` says from the first on.
	 * Those that do not exist are 0, or the first four once more. */
	__device__ void load(const struct fp8_launch &r, size_t first, size_t all, unsigned step)
	{
		at = first;
		left = all < N * step ? (unsigned)all : N * step;
		whole = r.aligned && left && left % 4 == 0;
		by = { step, 0 };
		GPU_UNROLL
		for (int k = 0; k < N; k++)
			by.n += (unsigned)k * step < left;
		if (whole) {
			GPU_UNROLL
			for (int k = 0; k < N; k++)
				v[k] = *reinterpret_cast<const float4 *>(r.a.x + at + by.at(k));
			return;
		}
		GPU_UNROLL
		for (int k = 0; k < N; k++)
			v[k] = fours_load(r.a.x + at + (size_t)k * step, has(k), false);
	}
};

/* The amax of each four, and of all of them, as bits. */
template <int N> struct found {
	unsigned of[N], all;
	bool has_nan; /* among the elements; no amax sees it */

	__device__ found(const struct held<N> &h)
	{
		float max = 0;

		GPU_UNROLL
		for (int k = 0; k < N; k++) {
			float four = four_max(h.v[k]);

			of[k] = f32_bits(four);
			max = gpu_max_magnitude(max, four);
		}
		all = f32_bits(max);
		has_nan = f32_is_nan(max);
		if (has_nan)
			find_again(h);
	}

	__device__ void find_again(const struct held<N> &h)
	{
		all = 0;
		GPU_UNROLL
		for (int k = 0; k < N; k++) {
			of[k] = four_amax(h.v[k]);
			all = max_of(all, of[k]);
		}
	}

	/* All fours are of one tile. */
	__device__ void merge(void)
	{
		GPU_UNROLL
		for (int k = 0; k < N; k++)
			of[k] = all;
	}
};

template <bool DIVIDE> static __device__ inline float4 four_scale(float factor, float4 v)
{
	struct pair low = pair_scale<DIVIDE>(factor, v.x, v.y);
	struct pair high = pair_scale<DIVIDE>(factor, v.z, v.w);

	return { low.low, low.high, high.low, high.high };
}

/* Four values that are not NaN, of codes. */
template <enum fp8_format F, enum dtype Y>
static __device__ inline void four_store(void *y, size_t at, unsigned codes, float scale_inv)
{
	float4 v;

	gpu_fp8x2_to_f32(F, (uint16_t)codes, &v.x, &v.y);
	gpu_fp8x2_to_f32(F, (uint16_t)(codes >> 16), &v.z, &v.w);
	v = fours_each(v, [scale_inv](float code) { return code * scale_inv; });
	if (Y == DT_BF16)
		gpu_store(reinterpret_cast<uint2 *>(static_cast<uint16_t *>(y) + at),
			  { gpu_bf16x2(v.x, v.y), gpu_bf16x2(v.z, v.w) });
	else
		gpu_store(reinterpret_cast<float4 *>(static_cast<float *>(y) + at), v);
}

/* The scaling of each four of a thread. */
template <int N> struct scalings {
	struct scaling of[N];
};

/* Casts aligned fours without a NaN, by finite scales that are not zero: no product is a NaN, so
 * that the device's conversions give the bits of num/float16.h.  Rounding keeps the order of
 * magnitudes: where the largest element of a four does not saturate, none does. */
template <enum fp8_format F, enum dtype Y, bool DIVIDE, int N>
static __device__ inline void fours_put(const struct fp8_launch &r, const struct held<N> &h,
					const struct found<N> &found, const struct scalings<N> &s,
					struct counted *counted)
{
	unsigned codes[N], some = 0; /* bit 7 of a byte: a code of zero */

	GPU_UNROLL
	for (int k = 0; k < N; k++) {
		float4 scaled = four_scale<DIVIDE>(s.of[k].factor, h.v[k]);

		codes[k] = gpu_fp8x2(F, scaled.x, scaled.y) |
			   (unsigned)gpu_fp8x2(F, scaled.z, scaled.w) << 16;
		four_store<F, Y>(r.a.y, h.at + h.by.at(k), codes[k], s.of[k].scale_inv);
	}
	if (!r.a.counts)
		return;
	GPU_UNROLL
	for (int k = 0; k < N; k++) {
		float top = f32_from_bits(found.of[k]);

		some |= ~((codes[k] & 0x7F7F7F7F) + 0x7F7F7F7F) & 0x80808080;
		some |= fp8_saturates(F, pair_scale<DIVIDE>(s.of[k].factor, top, top).low);
	}
	if (!some)
		return;
	GPU_UNROLL
	for (int k = 0; k < N; k++)
		counted->add(four_count(F, h.v[k], four_scale<DIVIDE>(s.of[k].factor, h.v[k]),
					codes[k], h.has(k)));
}

template <enum fp8_format F, enum dtype Y, int N>
static __device__ inline void held_put(const struct fp8_launch &r, const struct held<N> &h,
				       const struct found<N> &found, const struct scalings<N> &s,
				       struct counted *counted)
{
	bool quick = h.whole && !found.has_nan;

	GPU_UNROLL
	for (int k = 0; k < N; k++)
		quick &= f32_magnitude(s.of[k].scale_inv) < F32_INF &&
			 f32_magnitude(s.of[k].factor) - 1 < F32_INF - 1;
	if (quick && spec_divides(&r.a.spec)) {
		fours_put<F, Y, true>(r, h, found, s, counted);
	} else if (quick) {
		fours_put<F, Y, false>(r, h, found, s, counted);
	} else {
		GPU_UNROLL
		for (int k = 0; k < N; k++) {
			if (h.has(k))
				counted->add(four_put(&r, h.at + (size_t)k * h.by.step, h.v[k],
						      h.has(k), s.of[k]));
		}
	}
}

/* The same of fours of one tile. */
template <enum fp8_format F, enum dtype Y, int N>
static __device__ inline void held_put(const struct fp8_launch &r, const struct held<N> &h,
				       struct found<N> found, const struct scaling &s,
				       struct counted *counted)
{
	struct scalings<N> all;

	GPU_UNROLL
	for (int k = 0; k < N; k++)
		all.of[k] = s;
	found.merge();
	held_put<F, Y, N>(r, h, found, all, counted);
}

#endif
