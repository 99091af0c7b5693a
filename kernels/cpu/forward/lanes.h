/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors as wide as a register of the including file's instruction set, with num/exp.h,
 * num/softplus.h and num/activation.h on them.  Compilers keep wider vectors, which take several
 * registers, in memory.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_LANES_H
#define FP8CONV_KERNELS_CPU_FORWARD_LANES_H

#include <math.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#include "num/activation.h"
#include "num/exp.h"
#include "num/float16.h"
#include "num/softplus.h"

#if defined __AVX512F__
#define LANES 16
#elif defined __AVX2__
#define LANES 8
#else
#define LANES 4
#endif

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_int __attribute__((vector_size(4 * LANES)));
typedef uint32_t lanes_bits __attribute__((vector_size(4 * LANES)));
typedef uint16_t lanes_half __attribute__((vector_size(2 * LANES)));
typedef uint8_t lanes_bytes __attribute__((vector_size(LANES)));
typedef double lanes_double __attribute__((vector_size(8 * LANES)));

/* Sums in 16 lanes (backend/executor.h), whatever the width of a vector: value i is in lane
 * i % 16. */
#define SUM_LANES 16
#define SUM_PARTS (SUM_LANES / LANES)

struct lane_sums {
	lanes part[SUM_PARTS];
};

struct double_sums {
	lanes_double part[SUM_PARTS];
};

/* Compilers keep vectors of an array in registers only if the loops over them are unrolled. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define LANE_FN static inline __attribute__((always_inline))

LANE_FN lanes lanes_load(const float *x)
{
	lanes v;

	memcpy(&v, x, sizeof v);
	return v;
}

LANE_FN lanes lanes_all(float x)
{
	lanes v = { 0 };

	return x - v;
}

/* Returns the first n values of x; the others are `rest`. */
LANE_FN lanes lanes_load_some(const float *x, size_t n, float rest)
{
	lanes v = lanes_all(rest);

#ifdef __AVX512F__
	return (lanes)_mm512_mask_loadu_ps((__m512)v, (__mmask16)((1u << n) - 1), x);
#else
	memcpy(&v, x, n * sizeof *x);
	return v;
#endif
}

LANE_FN void lanes_store(float *x, lanes v)
{
	memcpy(x, &v, sizeof v);
}

/* Returns c + a b, rounded once. */
LANE_FN lanes lanes_multiply_add(lanes a, lanes b, lanes c)
{
#if defined __AVX512F__
	return (lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __FMA__
	return (lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined __aarch64__
	return (lanes)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
	for (int i = 0; i < LANES; i++)
		c[i] = fmaf(a[i], b[i], c[i]);
	return c;
#endif
}

/* Chooses value by value; a mask is -1 or 0. */
LANE_FN lanes lanes_choose(lanes_int mask, lanes yes, lanes no)
{
#if defined __AVX2__ && !defined __AVX512F__
	return (lanes)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
	return (lanes)((mask & (lanes_int)yes) | (~mask & (lanes_int)no));
#endif
}

LANE_FN float lanes_sum(struct lane_sums sums)
{
	lanes v;

	UNROLL for (size_t step = SUM_PARTS / 2; step; step /= 2)
		UNROLL for (size_t i = 0; i < step; i++) sums.part[i] += sums.part[i + step];
	v = sums.part[0];
	for (int step = LANES / 2; step; step /= 2)
		for (int i = 0; i < step; i++)
			v[i] += v[i + step];
	return v[0];
}

LANE_FN lanes_double lanes_widen(lanes v)
{
	return __builtin_convertvector(v, lanes_double);
}

LANE_FN double lanes_sum_double(struct double_sums sums)
{
	lanes_double v;

	UNROLL for (size_t step = SUM_PARTS / 2; step; step /= 2)
		UNROLL for (size_t i = 0; i < step; i++) sums.part[i] += sums.part[i + step];
	v = sums.part[0];
	for (int step = LANES / 2; step; step /= 2)
		for (int i = 0; i < step; i++)
			v[i] += v[i + step];
	return v[0];
}

/* Returns the maximum; v has no NaN. */
LANE_FN float lanes_max(lanes v)
{
#ifdef __AVX512F__
	return _mm512_reduce_max_ps((__m512)v);
#else
	float max = v[0];

	for (int i = 1; i < LANES; i++)
		max = v[i] > max ? v[i] : max;
	return max;
#endif
}

/* Returns a where a > b, else b; so b where a is NaN. */
LANE_FN lanes lanes_larger(lanes a, lanes b)
{
#if defined __AVX512F__
	return (lanes)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __AVX2__
	return (lanes)_mm256_max_ps((__m256)a, (__m256)b);
#else
	return lanes_choose(a > b, a, b);
#endif
}

/* Returns a where a < b, else b. */
LANE_FN lanes lanes_smaller(lanes a, lanes b)
{
#if defined __AVX512F__
	return (lanes)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined __AVX2__
	return (lanes)_mm256_min_ps((__m256)a, (__m256)b);
#else
	return lanes_choose(a < b, a, b);
#endif
}

LANE_FN lanes_bits lanes_larger_bits(lanes_bits a, lanes_bits b)
{
#if defined __AVX512F__
	return (lanes_bits)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif defined __AVX2__
	return (lanes_bits)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
	return (lanes_bits)lanes_choose(a > b, (lanes)a, (lanes)b);
#endif
}

LANE_FN uint32_t lanes_largest_bits(lanes_bits v)
{
	uint32_t largest = 0;

	for (int i = 0; i < LANES; i++)
		largest = v[i] > largest ? v[i] : largest;
	return largest;
}

/* Returns 2^e for normal results. */
LANE_FN lanes lanes_pow2(lanes_int e)
{
	return (lanes)((e + 127) << 23);
}

/* Returns x 2^n, rounded once, for integral n, but 0 where `power` is at most `least`: where the
 * result would underflow to 0 anyway, for which a processor takes 170 times as long.  Multiplies
 * twice, because 2^n may not be a normal number. */
LANE_FN lanes lanes_ldexp(lanes x, lanes n, lanes power, float least)
{
#ifdef __AVX512F__
	return (lanes)_mm512_maskz_scalef_ps(
		_mm512_cmp_ps_mask((__m512)power, (__m512)lanes_all(least), _CMP_NLE_UQ), (__m512)x,
		(__m512)n);
#else
	lanes_int is_least = power <= least;
	lanes kept = lanes_choose(is_least, lanes_all(0), n);
	lanes_int whole = (lanes_int)(kept + 0x1.8p23f) - 0x4B400000, half = whole >> 1;

	return lanes_choose(is_least, lanes_all(0),
			    x * lanes_pow2(half) * lanes_pow2(whole - half));
#endif
}

/* Returns y, but NaN where x is NaN. */
LANE_FN lanes lanes_nan_of(lanes x, lanes y)
{
	lanes nan = lanes_all(f32_from_bits(F32_NAN));

#ifdef __AVX512F__
	return (lanes)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_ORD_Q),
					   (__m512)nan, (__m512)y);
#else
	return lanes_choose(x == x, y, nan);
#endif
}

/* Returns f32_exp() of each value, to the bit: outside its range the clamped x gives 0 or inf. */
LANE_FN lanes lanes_exp(lanes x)
{
	const float least = -104; /* e^-104 is less than half of the least subnormal number */
	lanes clamped = lanes_smaller(lanes_larger(x, lanes_all(least)), lanes_all(89));
	lanes n = clamped * 0x1.715476p0f + 0x1.8p23f - 0x1.8p23f;
	lanes r = clamped - n * 0x1.62e4p-1f, p;

	r = r - n * 0x1.7f7d1cp-20f;
	p = 1.9875691500e-4f * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + r;
	return lanes_nan_of(x, lanes_ldexp(p + 1.0f, n, x, least));
}

/* Returns f32_log1p_unit() of each value, to the bit. */
LANE_FN lanes lanes_log1p_unit(lanes t)
{
	lanes_int halved = t > 0.41421356f;
	lanes f = lanes_choose(halved, (t - 1.0f) * 0.5f, t), z = f * f, p, q;

	p = 7.0376836292e-2f * f - 1.1514610310e-1f;
	p = p * f + 1.1676998740e-1f;
	p = p * f - 1.2420140846e-1f;
	p = p * f + 1.4249322787e-1f;
	p = p * f - 1.6668057665e-1f;
	p = p * f + 2.0000714765e-1f;
	p = p * f - 2.4999993993e-1f;
	p = p * f + 3.3333331174e-1f;
	p = p * f * z;
	q = p - 2.12194440e-4f;
	return lanes_choose(halved, f + (q - 0.5f * z) + 0.693359375f, f + (p - 0.5f * z));
}

/* Returns f32_softplus() of each value, to the bit. */
LANE_FN lanes lanes_softplus(lanes x)
{
	lanes magnitude = (lanes)((lanes_bits)x & 0x7FFFFFFF);
	lanes log = lanes_log1p_unit(lanes_exp(-magnitude));

	return lanes_choose(x > 0.0f, x + log, log);
}

/* tanh(x) = 1 - 2 / (exp(2x) + 1). */
LANE_FN lanes lanes_tanh(lanes x)
{
	return 1.0f - 2.0f / (lanes_exp(2.0f * x) + 1.0f);
}

/* The functions of num/activation.h, to the bit. */
LANE_FN lanes lanes_silu(lanes x)
{
	return x / (1.0f + lanes_exp(-x));
}

LANE_FN lanes lanes_sigmoid(lanes x)
{
	return 1.0f / (1.0f + lanes_exp(-x));
}

LANE_FN lanes lanes_gelu(lanes x)
{
	lanes u = x * (0.79788456f + 0.03567741f * x * x);

	return x / (1.0f + lanes_exp(-2.0f * u));
}

LANE_FN lanes lanes_srelu(lanes x)
{
	return lanes_choose(x <= 0.0f, lanes_all(0), x * x);
}

LANE_FN lanes lanes_activation(enum activation activation, lanes x)
{
	switch (activation) {
	case ACT_SILU:
		return lanes_silu(x);
	case ACT_GELU:
		return lanes_gelu(x);
	case ACT_SIGMOID:
		return lanes_sigmoid(x);
	case ACT_SOFTPLUS:
		return lanes_softplus(x);
	case ACT_NONE:
		return x;
	case ACT_SRELU:
		break;
	}
	return lanes_srelu(x);
}

LANE_FN lanes lanes_at_most(lanes y, float limit)
{
	return limit > 0 ? lanes_choose(y > limit, lanes_all(limit), y) : y;
}

LANE_FN lanes lanes_within(lanes y, float limit)
{
	y = lanes_at_most(y, limit);
	return limit > 0 ? lanes_choose(y < -limit, lanes_all(-limit), y) : y;
}

LANE_FN lanes lanes_round_bf16(lanes x)
{
	lanes_bits bits = (lanes_bits)x;
	lanes_bits rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;

	return lanes_choose(x == x, (lanes)rounded, lanes_all(NAN));
}

/* Returns the values from x[i] on, of n values; `rest` after the last. */
LANE_FN lanes lanes_at_or(const float *x, size_t i, size_t n, float rest)
{
	if (i >= n)
		return lanes_all(rest);
	return n - i >= LANES ? lanes_load(x + i) : lanes_load_some(x + i, n - i, rest);
}

LANE_FN lanes lanes_at(const float *x, size_t i, size_t n)
{
	return lanes_at_or(x, i, n, 0);
}

LANE_FN void lanes_put(float *y, size_t i, size_t n, lanes v)
{
	if (n - i >= LANES)
		lanes_store(y + i, v);
	else
		memcpy(y + i, &v, (n - i) * sizeof *y);
}

/* Returns the sum of x y, of n values, in 16 lanes. */
LANE_FN float dot(const float *x, const float *y, size_t n)
{
	struct lane_sums sum = { 0 };

	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++) sum.part[j] +=
			lanes_at(x, i + j * LANES, n) * lanes_at(y, i + j * LANES, n);
	return lanes_sum(sum);
}

#define DOTS 4 /* rows of y at once, so that no sum waits for another */

/* Writes the sums of x y, of n values each, for n_x <= 2 rows of x and DOTS rows of y, as dot()
 * does.  Rows of sums are `stride` elements apart. */
LANE_FN void dots(const float *x, size_t n_x, const float *y, size_t n, float *sums, size_t stride)
{
	struct lane_sums sum[2][DOTS] = { 0 };

	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++)
			UNROLL for (size_t r = 0; r < DOTS; r++)
		{
			size_t at = i + j * LANES;
			lanes v = lanes_at(y + r * n, at, n);

			UNROLL for (size_t t = 0; t < n_x; t++) sum[t][r].part[j] +=
				v * lanes_at(x + t * n, at, n);
		}
	for (size_t t = 0; t < n_x; t++)
		for (size_t r = 0; r < DOTS; r++)
			sums[t * stride + r] = lanes_sum(sum[t][r]);
}

/* Returns the largest of n values. */
LANE_FN float largest(const float *x, size_t n)
{
	lanes max = lanes_all(-INFINITY);

	for (size_t i = 0; i < n; i += LANES)
		max = lanes_larger(lanes_at_or(x, i, n, -INFINITY), max);
	return lanes_max(max);
}

/* Returns log(sum exp(x)). */
LANE_FN float log_sum_exp(const float *x, size_t n)
{
	struct lane_sums sum = { 0 };
	float highest = largest(x, n);

	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++) sum.part[j] +=
			lanes_exp(lanes_at_or(x, i + j * LANES, n, -INFINITY) - highest);
	return highest + logf(lanes_sum(sum));
}

#endif
