/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of backend/compute.h over vectors of 16 floats, compiled once for each set of instructions by the file that
 * includes this one and names them COMPUTE(function).
 *
 * exp: 2^n * p(r) with x = n ln 2 + r, |r| <= ln 2 / 2, ln 2 in two parts (Cody and Waite) and p the Taylor polynomial of
 * degree 7, whose error there is below 2^-26.
 */
#ifndef FP8CONV_KERNELS_CPU_COMPUTE_LOOPS_H
#define FP8CONV_KERNELS_CPU_COMPUTE_LOOPS_H

#include <math.h>
#include <string.h>

#include "backend/compute.h"
#include "num/float16.h"

#define LANES 16

typedef float lanes __attribute__((vector_size(64)));
typedef int32_t lanes_int __attribute__((vector_size(64)));
typedef uint32_t lanes_bits __attribute__((vector_size(64)));
typedef uint16_t lanes_half __attribute__((vector_size(32)));

#define LANE_FN static inline __attribute__((always_inline))

LANE_FN lanes lanes_load(const float *x)
{
	lanes v;

	memcpy(&v, x, sizeof v);
	return v;
}

/* The first n; the others are `rest`. */
LANE_FN lanes lanes_load_some(const float *x, size_t n, float rest)
{
	lanes v;

	for (int i = 0; i < LANES; i++)
		v[i] = rest;
	memcpy(&v, x, n * sizeof *x);
	return v;
}

LANE_FN void lanes_store(float *x, lanes v)
{
	memcpy(x, &v, sizeof v);
}

LANE_FN lanes lanes_all(float x)
{
	lanes v = { 0 };

	return v + x;
}

LANE_FN lanes lanes_choose(lanes_int mask, lanes yes, lanes no)
{
	return (lanes)((mask & (lanes_int)yes) | (~mask & (lanes_int)no));
}

LANE_FN float lanes_sum(lanes v)
{
	for (int step = LANES / 2; step; step /= 2)
		for (int i = 0; i < step; i++)
			v[i] += v[i + step];
	return v[0];
}

LANE_FN float lanes_max(lanes v)
{
	float most = v[0];

	for (int i = 1; i < LANES; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

/* exp(x); 0 below -87.3, inf above 88.7, NaN for NaN. */
LANE_FN lanes lanes_exp(lanes x)
{
	lanes_int low = x < -87.3f, high = x > 88.72f;
	lanes clamped = lanes_choose(low | high, lanes_all(0), x);
	lanes shifted = clamped * 1.44269504f + 12582912.0f; /* to the nearest integer, in the low bits */
	lanes n = shifted - 12582912.0f;
	lanes r = clamped - n * 0.693145752f - n * 1.42860677e-6f;
	lanes p = lanes_all(1.0f / 5040);
	lanes_int power = (lanes_int)(lanes_bits)shifted << 23;

	p = p * r + 1.0f / 720;
	p = p * r + 1.0f / 120;
	p = p * r + 1.0f / 24;
	p = p * r + 1.0f / 6;
	p = p * r + 0.5f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	p = (lanes)((lanes_int)p + power);
	p = lanes_choose(low, lanes_all(0), p);
	p = lanes_choose(high, lanes_all(INFINITY), p);
	return lanes_choose(x == x, p, x);
}

/* 1 - 2 / (exp(2x) + 1). */
LANE_FN lanes lanes_tanh(lanes x)
{
	return 1.0f - 2.0f / (lanes_exp(2.0f * x) + 1.0f);
}

LANE_FN lanes lanes_round_bf16(lanes x)
{
	lanes_bits bits = (lanes_bits)x;
	lanes_bits rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;

	return lanes_choose(x == x, (lanes)rounded, lanes_all(NAN));
}

/* The 16 values from i on of n, zeros behind the last. */
LANE_FN lanes lanes_at(const float *x, size_t i, size_t n)
{
	return n - i >= LANES ? lanes_load(x + i) : lanes_load_some(x + i, n - i, 0);
}

LANE_FN void lanes_put(float *y, size_t i, size_t n, lanes v)
{
	if (n - i >= LANES)
		lanes_store(y + i, v);
	else
		memcpy(y + i, &v, (n - i) * sizeof *y);
}

static float COMPUTE(amax)(const float *x, size_t n, uint64_t *n_nonfinite)
{
	lanes_bits most = { 0 };
	lanes_int nonfinite = { 0 };
	uint32_t largest = 0;

	for (size_t i = 0; i < n; i += LANES) {
		lanes_bits magnitude = (lanes_bits)lanes_at(x, i, n) & 0x7FFFFFFF;
		lanes_int larger = (magnitude > most) & (magnitude <= 0x7F800000);

		most = (lanes_bits)lanes_choose(larger, (lanes)magnitude, (lanes)most);
		nonfinite -= magnitude >= 0x7F800000;
	}
	for (int l = 0; l < LANES; l++) {
		largest = most[l] > largest ? most[l] : largest;
		*n_nonfinite += (uint32_t)nonfinite[l];
	}
	return f32_from_bits(largest);
}

static void COMPUTE(histogram)(const float *x, size_t n, uint64_t *counts)
{
	for (size_t i = 0; i < n; i++)
		counts[2 * ((f32_bits(x[i]) & 0x7FFFFFFF) >> 20)]++;
}

static void COMPUTE(round_bf16)(const float *x, size_t n, uint16_t *y)
{
	for (size_t i = 0; i < n; i += LANES) {
		lanes_bits bits = (lanes_bits)lanes_round_bf16(lanes_at(x, i, n)) >> 16;
		lanes_half half = __builtin_convertvector(bits, lanes_half);

		memcpy(y + i, &half, (n - i < LANES ? n - i : LANES) * sizeof *y);
	}
}

static void COMPUTE(round_bf16_f32)(const float *x, size_t n, float *y)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(y, i, n, lanes_round_bf16(lanes_at(x, i, n)));
}

static void COMPUTE(add)(float *x, const float *y, size_t n)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_at(x, i, n) + lanes_at(y, i, n));
}

static void COMPUTE(add_scaled)(float *x, const float *y, float factor, size_t n)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_at(x, i, n) + factor * lanes_at(y, i, n));
}

static void COMPUTE(add_row)(float *x, const float *row, size_t n_rows, size_t n_cols)
{
	for (size_t r = 0; r < n_rows; r++)
		COMPUTE(add)(x + r * n_cols, row, n_cols);
}

static void COMPUTE(rms_norm)(const float *x, size_t x_stride, const float *weight, float offset, float eps,
			      size_t n_rows, size_t n_cols, float *y, size_t y_stride)
{
	for (size_t r = 0; r < n_rows; r++, x += x_stride, y += y_stride) {
		lanes squares = { 0 };
		float factor;

		for (size_t i = 0; i < n_cols; i += LANES) {
			lanes v = lanes_at(x, i, n_cols);

			squares += v * v;
		}
		factor = 1.0f / sqrtf(lanes_sum(squares) / (float)n_cols + eps);
		for (size_t i = 0; i < n_cols; i += LANES)
			lanes_put(y, i, n_cols,
				  lanes_at(x, i, n_cols) * factor * (offset + lanes_at(weight, i, n_cols)));
	}
}

static void COMPUTE(rope)(float *x, size_t n_heads, size_t head_dim, const float *cosines, const float *sines, size_t n)
{
	size_t half = n / 2;

	for (size_t h = 0; h < n_heads; h++, x += head_dim) {
		for (size_t i = 0; i < half; i += LANES) {
			lanes a = lanes_at(x, i, half), b = lanes_at(x + half, i, half);
			lanes c = lanes_at(cosines, i, half), s = lanes_at(sines, i, half);

			lanes_put(x, i, half, a * c - b * s);
			lanes_put(x + half, i, half, b * c + a * s);
		}
	}
}

static void COMPUTE(softmax)(float *x, size_t n, const struct softmax *how)
{
	lanes most = lanes_all(-INFINITY), sum = { 0 };
	float highest, total;

	for (size_t i = 0; i < n; i += LANES) {
		lanes v = n - i >= LANES ? lanes_load(x + i) : lanes_load_some(x + i, n - i, -INFINITY);

		if (how->softcap > 0) {
			v = how->softcap * lanes_tanh(v / how->softcap);
			lanes_put(x, i, n, v);
		}
		if (n - i < LANES)
			v = lanes_load_some(x + i, n - i, -INFINITY);
		most = lanes_choose(v > most, v, most);
	}
	highest = lanes_max(most);
	if (how->sink && *how->sink > highest)
		highest = *how->sink;
	for (size_t i = 0; i < n; i += LANES) {
		lanes v = n - i >= LANES ? lanes_load(x + i) : lanes_load_some(x + i, n - i, -INFINITY);

		v = lanes_exp(v - highest);
		sum += v;
		lanes_put(x, i, n, v);
	}
	total = lanes_sum(sum);
	if (how->sink)
		total += lanes_exp(lanes_all(*how->sink - highest))[0];
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_at(x, i, n) / total);
}

LANE_FN lanes lanes_silu(lanes x)
{
	return x / (1.0f + lanes_exp(-x));
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
LANE_FN lanes lanes_gelu_tanh(lanes x)
{
	return 0.5f * x * (1.0f + lanes_tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}

static void COMPUTE(gate)(enum activation activation, const float *gate, const float *up, size_t n, float *y)
{
	for (size_t i = 0; i < n; i += LANES) {
		lanes g = lanes_at(gate, i, n);

		g = activation == ACT_SILU ? lanes_silu(g) : lanes_gelu_tanh(g);
		lanes_put(y, i, n, g * lanes_at(up, i, n));
	}
}

static float COMPUTE(log_sum_exp)(const float *x, size_t n)
{
	lanes most = lanes_all(-INFINITY), sum = { 0 };
	float highest;

	for (size_t i = 0; i < n; i += LANES) {
		lanes v = n - i >= LANES ? lanes_load(x + i) : lanes_load_some(x + i, n - i, -INFINITY);

		most = lanes_choose(v > most, v, most);
	}
	highest = lanes_max(most);
	for (size_t i = 0; i < n; i += LANES) {
		lanes v = n - i >= LANES ? lanes_load(x + i) : lanes_load_some(x + i, n - i, -INFINITY);

		sum += lanes_exp(v - highest);
	}
	return highest + logf(lanes_sum(sum));
}

/* The row, whose usable() is the file's. */
#define COMPUTE_ROW(title)                                                                                        \
	{                                                                                                         \
		.name = (title), .usable = COMPUTE(usable), .amax = COMPUTE(amax), .histogram = COMPUTE(histogram), \
		.round_bf16 = COMPUTE(round_bf16), .round_bf16_f32 = COMPUTE(round_bf16_f32), .add = COMPUTE(add),  \
		.add_scaled = COMPUTE(add_scaled), .add_row = COMPUTE(add_row), .rms_norm = COMPUTE(rms_norm),      \
		.rope = COMPUTE(rope), .softmax = COMPUTE(softmax), .gate = COMPUTE(gate),                          \
		.log_sum_exp = COMPUTE(log_sum_exp),                                                                \
	}

#endif
