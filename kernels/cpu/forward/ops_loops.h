/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of ops.h over vectors of floats, compiled once for each instruction set by the
 * file that includes this one, which names them CPU_OP(function).
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_OPS_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_OPS_LOOPS_H

#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/attention_loops.h"
#include "kernels/cpu/forward/compensate_loops.h"
#include "kernels/cpu/forward/channel_loops.h"
#include "kernels/cpu/forward/delta_loops.h"
#include "kernels/cpu/forward/scan_loops.h"
#include "kernels/cpu/forward/lanes.h"

/* Returns the largest of the bits of |x|. */
LANE_FN uint32_t largest_magnitude(const float *x, size_t n)
{
	lanes_bits max[4] = { { 0 } };
	size_t i = 0;

	for (; n - i >= 4 * LANES; i += 4 * LANES)
		UNROLL for (size_t j = 0; j < 4; j++) max[j] = lanes_larger_bits(
			(lanes_bits)lanes_load(x + i + j * LANES) & 0x7FFFFFFF, max[j]);
	for (; i < n; i += LANES)
		max[0] = lanes_larger_bits((lanes_bits)lanes_at(x, i, n) & 0x7FFFFFFF, max[0]);
	max[0] = lanes_larger_bits(lanes_larger_bits(max[0], max[1]),
				   lanes_larger_bits(max[2], max[3]));
	return lanes_largest_bits(max[0]);
}

static float CPU_OP(amax)(const float *x, size_t n, uint64_t *n_nonfinite)
{
	uint32_t largest = largest_magnitude(x, n);

	if (largest < F32_INF)
		return f32_from_bits(largest);
	largest = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t magnitude = f32_magnitude(x[i]);

		*n_nonfinite += magnitude >= F32_INF;
		if (magnitude > largest && magnitude <= F32_INF)
			largest = magnitude;
	}
	return f32_from_bits(largest);
}

static void CPU_OP(histogram)(const float *x, size_t n, uint64_t *counts)
{
	for (size_t i = 0; i < n; i++)
		counts[2 * (f32_magnitude(x[i]) >> 20)]++;
}

static void CPU_OP(round_bf16)(const float *x, size_t n, uint16_t *y)
{
	for (size_t i = 0; i < n; i += LANES) {
		lanes_bits bits = (lanes_bits)lanes_round_bf16(lanes_at(x, i, n)) >> 16;
		lanes_half half = __builtin_convertvector(bits, lanes_half);

		memcpy(y + i, &half, (n - i < LANES ? n - i : LANES) * sizeof *y);
	}
}

static void CPU_OP(round_bf16_f32)(const float *x, size_t n, float *y)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(y, i, n, lanes_round_bf16(lanes_at(x, i, n)));
}

static float CPU_OP(round_amax)(float *x, size_t n, uint64_t *n_nonfinite)
{
	lanes_bits max = { 0 };
	uint32_t largest;

	for (size_t i = 0; i < n; i += LANES) {
		lanes rounded = lanes_round_bf16(lanes_at(x, i, n));

		lanes_put(x, i, n, rounded);
		max = lanes_larger_bits((lanes_bits)rounded & 0x7FFFFFFF, max);
	}
	largest = lanes_largest_bits(max);
	return largest < F32_INF ? f32_from_bits(largest) : CPU_OP(amax)(x, n, n_nonfinite);
}

static void CPU_OP(scale)(float *x, float factor, size_t n)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, factor * lanes_at(x, i, n));
}

static void CPU_OP(add)(float *x, const float *y, size_t n)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_at(x, i, n) + lanes_at(y, i, n));
}

static void CPU_OP(add_scaled)(float *x, const float *y, float factor, size_t n)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_at(x, i, n) + factor * lanes_at(y, i, n));
}

static void CPU_OP(add_row)(float *x, const float *row, size_t n_rows, size_t n_cols)
{
	for (size_t r = 0; r < n_rows; r++)
		CPU_OP(add)(x + r * n_cols, row, n_cols);
}

/* Returns the 16 weights from i on; zeros without weights. */
LANE_FN lanes weight_at(const float *weight, size_t i, size_t n)
{
	return weight ? lanes_at(weight, i, n) : lanes_all(0);
}

LANE_FN float mean_of(const float *x, size_t n)
{
	struct lane_sums sum = { 0 };

	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++) sum.part[j] +=
			lanes_at(x, i + j * LANES, n);
	return lanes_sum(sum) / (float)n;
}

LANE_FN float squares_of(const float *x, size_t n, float mean)
{
	struct lane_sums sum = { 0 };

	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++)
		{
			lanes v = lanes_at_or(x, i + j * LANES, n, mean) - mean;

			sum.part[j] += v * v;
		}
	return lanes_sum(sum);
}

static void CPU_OP(rms_norm)(const struct rms_norm_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++) {
		const float *x = a->x.data + r * a->x.stride;
		float *y = a->y.data + r * a->y.stride;
		float mean = a->centered ? mean_of(x, a->n_cols) : 0, factor;

		factor = 1.0f / sqrtf(squares_of(x, a->n_cols, mean) / (float)a->n_cols + a->eps);
		for (size_t i = 0; i < a->n_cols; i += LANES)
			lanes_put(y, i, a->n_cols,
				  (lanes_at(x, i, a->n_cols) - mean) * factor *
					  (a->offset + weight_at(a->weight, i, a->n_cols)));
	}
}

static void CPU_OP(rope)(float *x, size_t n_heads, size_t head_dim, const float *cosines,
			 const float *sines, size_t n)
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

LANE_FN float largest(const float *x, size_t n)
{
	lanes max = lanes_all(-INFINITY);

	for (size_t i = 0; i < n; i += LANES)
		max = lanes_larger(lanes_at_or(x, i, n, -INFINITY), max);
	return lanes_max(max);
}

static float CPU_OP(log_sum_exp)(const float *x, size_t n)
{
	struct lane_sums sum = { 0 };
	float highest = largest(x, n);

	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++) sum.part[j] +=
			lanes_exp(lanes_at_or(x, i + j * LANES, n, -INFINITY) - highest);
	return highest + logf(lanes_sum(sum));
}

static void CPU_OP(softmax)(float *x, size_t n)
{
	float all = CPU_OP(log_sum_exp)(x, n);

	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_exp(lanes_at(x, i, n) - all));
}

static void CPU_OP(activate)(enum activation activation, const float *x, size_t n, float *y)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(y, i, n, lanes_activation(activation, lanes_at(x, i, n)));
}

static void CPU_OP(gate)(enum activation activation, const float *gate, const float *up, size_t n,
			 float *y)
{
	for (size_t i = 0; i < n; i += LANES) {
		lanes g = lanes_activation(activation, lanes_at(gate, i, n));

		lanes_put(y, i, n, g * lanes_at(up, i, n));
	}
}

/* Loads interleaved gate and up, clamped; values after the last are 0. */
LANE_FN void lanes_pairs(const float *x, size_t i, size_t n, float clamp, lanes *gate, lanes *up)
{
	*gate = *up = lanes_all(0);
	for (size_t j = 0; j < LANES && i + j < n; j++) {
		(*gate)[j] = fminf(x[2 * (i + j)], clamp);
		(*up)[j] = fmaxf(fminf(x[2 * (i + j) + 1], clamp), -clamp);
	}
}

static void CPU_OP(gate_interleaved)(const struct gate_interleaved_args *args)
{
	for (size_t i = 0; i < args->n; i += LANES) {
		lanes gate, up;

		lanes_pairs(args->x, i, args->n, args->clamp, &gate, &up);
		lanes_put(args->y, i, args->n,
			  (up + 1.0f) * gate / (1.0f + lanes_exp(-args->alpha * gate)));
	}
}

static void CPU_OP(softcap)(float *x, float cap, size_t n)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, cap * lanes_tanh(lanes_at(x, i, n) / cap));
}

/* Returns the first place of the value in n values; n where it is not there, as with NaN. */
LANE_FN uint32_t place_of(const float *x, size_t n, float value)
{
	uint32_t i = 0;

	while (i < n && x[i] != value)
		i++;
	return i;
}

static void CPU_OP(divergence)(const float *p, const float *q, size_t n,
			       struct divergence_sums *sums)
{
	struct double_sums sum_p = { 0 }, sum_q = { 0 }, cross_p = { 0 }, cross_q = { 0 };

	sums->max_p = largest(p, n);
	sums->max_q = largest(q, n);
	sums->top_p = place_of(p, n, sums->max_p);
	sums->top_q = place_of(q, n, sums->max_q);
	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++)
		{
			size_t at = i + j * LANES;
			lanes difference = lanes_at(p, at, n) - lanes_at(q, at, n);
			lanes of_p = lanes_exp(lanes_at_or(p, at, n, -INFINITY) - sums->max_p);
			lanes of_q = lanes_exp(lanes_at_or(q, at, n, -INFINITY) - sums->max_q);

			sum_p.part[j] += lanes_widen(of_p);
			sum_q.part[j] += lanes_widen(of_q);
			cross_p.part[j] += lanes_widen(of_p) * lanes_widen(difference);
			cross_q.part[j] += lanes_widen(of_q) * lanes_widen(-difference);
		}
	sums->sum_p = lanes_sum_double(sum_p);
	sums->sum_q = lanes_sum_double(sum_q);
	sums->cross_p = lanes_sum_double(cross_p);
	sums->cross_q = lanes_sum_double(cross_q);
}

/* The row of this instruction set; the including file defines its usable(). */
#define CPU_OPS_ROW(title)                                                                  \
	{                                                                                   \
		.host = { .name = (title),                                                  \
			  .usable = CPU_OP(usable),                                         \
			  .round_bf16 = CPU_OP(round_bf16),                                 \
			  .round_bf16_f32 = CPU_OP(round_bf16_f32),                         \
			  .factor_diagonal = CPU_OP(factor_diagonal),                       \
			  .factor_rows = CPU_OP(factor_rows),                               \
			  .factor_unit = CPU_OP(factor_unit),                               \
			  .round_rows = CPU_OP(round_rows) },                               \
		.amax = CPU_OP(amax), .histogram = CPU_OP(histogram),                       \
		.round_amax = CPU_OP(round_amax), .add = CPU_OP(add),                       \
		.add_scaled = CPU_OP(add_scaled), .add_row = CPU_OP(add_row),               \
		.rms_norm = CPU_OP(rms_norm), .rope = CPU_OP(rope), .gate = CPU_OP(gate),   \
		.activate = CPU_OP(activate), .scale = CPU_OP(scale),                       \
		.gate_interleaved = CPU_OP(gate_interleaved), .softcap = CPU_OP(softcap),   \
		.log_sum_exp = CPU_OP(log_sum_exp), .softmax = CPU_OP(softmax),             \
		.divergence = CPU_OP(divergence), .attention_pack = CPU_OP(attention_pack), \
		.attend = CPU_OP(attend), .scan = CPU_OP(scan),                             \
		.scan_channels = CPU_OP(scan_channels), .convolve = CPU_OP(convolve),       \
		.delta_gates = CPU_OP(delta_gates), .delta = CPU_OP(delta),                 \
	}

#endif
