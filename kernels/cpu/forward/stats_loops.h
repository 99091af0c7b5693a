/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics of values, and rounding them to bf16, compiled once for each instruction set, as
 * ops_loops.h is.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_STATS_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_STATS_LOOPS_H

#include "backend/executor_args.h"
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

/* Returns max |x|; ignores NaN, counts inf.  Adds the number of NaN and inf to *n_nonfinite. */
static float magnitudes(const float *x, size_t n, uint64_t *n_nonfinite)
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

static void stats_raise(struct value_stats *stats, float amax)
{
	stats->amax = amax > stats->amax ? amax : stats->amax;
}

/* Adds x to *stats; NULL: none. */
static void stats_add(struct value_stats *stats, const float *x, size_t n)
{
	if (stats)
		stats_raise(stats, magnitudes(x, n, &stats->n_nonfinite));
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

/* Rounds x in place, and returns magnitudes() of it. */
static float round_magnitudes(float *x, size_t n, uint64_t *n_nonfinite)
{
	lanes_bits max = { 0 };
	uint32_t largest;

	for (size_t i = 0; i < n; i += LANES) {
		lanes rounded = lanes_round_bf16(lanes_at(x, i, n));

		lanes_put(x, i, n, rounded);
		max = lanes_larger_bits((lanes_bits)rounded & 0x7FFFFFFF, max);
	}
	largest = lanes_largest_bits(max);
	return largest < F32_INF ? f32_from_bits(largest) : magnitudes(x, n, n_nonfinite);
}

/* Rounds y in place, and writes its codes from element `first` on. */
static void rounded_put(const struct rounded_out *rounded, float *y, size_t first, size_t n)
{
	if (!rounded->stats)
		return;
	stats_raise(rounded->stats, round_magnitudes(y, n, &rounded->stats->n_nonfinite));
	if (rounded->codes)
		CPU_OP(round_bf16)(y, n, rounded->codes + first);
}

/* Returns a slot of a row's segment; NULL: none. */
LANE_FN struct value_stats *slot_of(const struct row_stats *rows, size_t row, size_t slot)
{
	return slot == NO_SLOT ? NULL : rows->stats[rows->segments[row]] + slot;
}

/* Adds y, row r of n values, to *stats, if there are any; rounded before with `round`, and written
 * to codes. */
static void row_put(bool round, struct value_stats *stats, uint16_t *codes, float *y, size_t r,
		    size_t n)
{
	struct value_stats unused = { 0 };
	const struct rounded_out out = { stats ? stats : &unused, codes };

	if (round)
		rounded_put(&out, y, r * n, n);
	else
		stats_add(stats, y, n);
}

#endif
