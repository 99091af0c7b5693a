/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of an executor between products, compiled once for each instruction set by the
 * file that includes this one, which names them CPU_OP(operation).  Statistics are added row by
 * row, while a row is in the nearest cache.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_OPS_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_OPS_LOOPS_H

#include <stdlib.h>

#include "base/mem.h"
#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/attention_loops.h"
#include "kernels/cpu/forward/channel_loops.h"
#include "kernels/cpu/forward/compensate_loops.h"
#include "kernels/cpu/forward/delta_loops.h"
#include "kernels/cpu/forward/expert_loops.h"
#include "kernels/cpu/forward/key_loops.h"
#include "kernels/cpu/forward/scan_loops.h"
#include "kernels/cpu/forward/stats_loops.h"
#include "num/fp8.h"

static void CPU_OP(measure)(const struct measure_args *a)
{
	stats_add(a->stats, a->x, a->n);
	for (size_t i = 0; a->counts && i < a->n; i++)
		a->counts[2 * (f32_magnitude(a->x[i]) >> 20)]++;
}

#define PIECE 4096 /* values that stay in the nearest cache */

LANE_FN size_t piece_of(size_t left)
{
	return left < PIECE ? left : PIECE;
}

static void CPU_OP(round)(const struct round_args *a)
{
	float piece[PIECE] = { 0 };

	if (!a->rounded.stats)
		CPU_OP(round_bf16)(a->x, a->n, a->rounded.codes);
	for (size_t i = 0; a->rounded.stats && i < a->n; i += PIECE) {
		size_t n = piece_of(a->n - i);
		float *y = a->y ? a->y + i : piece;

		if (y != a->x + i)
			memcpy(y, a->x + i, n * sizeof *y);
		rounded_put(&a->rounded, y, i, n);
	}
}

static void CPU_OP(scale)(const struct scale_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++) {
		float *x = a->x.data + r * a->x.stride;
		float factor = a->factors ? a->factors[r] : a->factor;

		for (size_t i = 0; i < a->n_cols; i += LANES)
			lanes_put(x, i, a->n_cols, factor * lanes_at(x, i, a->n_cols));
	}
}

static void add_values(float *x, const float *y, size_t n)
{
	for (size_t i = 0; i < n; i += LANES)
		lanes_put(x, i, n, lanes_at(x, i, n) + lanes_at(y, i, n));
}

static void CPU_OP(add)(const struct add_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++)
		for (size_t i = 0; i < a->n; i += PIECE) {
			size_t n = piece_of(a->n - i);

			stats_add(a->y_stats, a->y + i, n);
			add_values(a->x + r * a->n + i, a->y + i, n);
		}
}

/* Moves the elements of pairs half a row apart. */
static void copy_pairs(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		y[i] = x[2 * i];
		y[i + n / 2] = x[2 * i + 1];
	}
}

static void CPU_OP(copy)(const struct copy_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++) {
		size_t row = a->rows ? a->rows[r] : r / a->repeat;
		const float *x = a->x.data + row * a->x.stride;
		float *y = a->y.data + r * a->y.stride;

		if (a->pairs)
			copy_pairs(y, x, a->n_cols);
		else
			memcpy(y, x, a->n_cols * sizeof *y);
	}
}

static void CPU_OP(round_e4m3)(const struct round_e4m3_args *a)
{
	for (size_t i = 0; i < a->n_rows * a->n_heads * a->head_dim; i++) {
		float scale = a->scales[i / a->head_dim % a->n_heads];

		a->x[i] = fp8_e4m3_to_f32(fp8_e4m3_from_f32(a->x[i] / scale)) * scale;
	}
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

/* Returns a row for results that are not written; NULL if they are. */
static float *row_for(const struct rows_out *y, size_t n_cols)
{
	return y->data ? NULL : xcalloc(n_cols, sizeof(float));
}

static void norm_row(const struct rms_norm_args *a, const float *x, float *y)
{
	float mean = a->centered ? mean_of(x, a->n_cols) : 0;
	float factor = 1.0f / sqrtf(squares_of(x, a->n_cols, mean) / (float)a->n_cols + a->eps);

	for (size_t i = 0; i < a->n_cols; i += LANES)
		lanes_put(y, i, a->n_cols,
			  (lanes_at(x, i, a->n_cols) - mean) * factor *
				  (a->offset + weight_at(a->weight, i, a->n_cols)));
}

static void CPU_OP(rms_norm)(const struct rms_norm_args *a)
{
	float *row = row_for(&a->y, a->n_cols);
	size_t n = a->n_cols;

	for (size_t r = 0; r < a->n_rows; r++) {
		float *y = row ? row : a->y.data + r * a->y.stride;

		if (a->sum)
			CPU_OP(add)
		(&(const struct add_args){ .x = a->sum + r * a->x.stride,
					   .y = a->add + r * n,
					   .n_rows = 1,
					   .n = n,
					   .y_stats = a->add_stats });
		norm_row(a, a->x.data + r * a->x.stride, y);
		rounded_put(&a->rounded, y, r * n, n);
	}
	free(row);
}

/* Rotates adjacent pairs of a head. */
static void rope_adjacent(float *x, const float *cosines, const float *sines, float sign, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float u = x[2 * i], v = x[2 * i + 1], s = sign * sines[i];

		x[2 * i] = u * cosines[i] - v * s;
		x[2 * i + 1] = v * cosines[i] + u * s;
	}
}

static void rope_token(const struct rope_args *a, size_t token)
{
	size_t half = a->rope_dim / 2;
	const float *cosines = a->cosines + token * half, *sines = a->sines + token * half;
	float *x = a->x.data + token * a->x.stride, sign = a->back ? -1 : 1;

	for (size_t h = 0; h < a->n_heads; h++, x += a->head_dim) {
		if (a->adjacent) {
			rope_adjacent(x, cosines, sines, sign, half);
			continue;
		}
		for (size_t i = 0; i < half; i += LANES) {
			lanes u = lanes_at(x, i, half), v = lanes_at(x + half, i, half);
			lanes c = lanes_at(cosines, i, half), s = sign * lanes_at(sines, i, half);

			lanes_put(x, i, half, u * c - v * s);
			lanes_put(x + half, i, half, v * c + u * s);
		}
	}
}

static void CPU_OP(rope)(const struct rope_args *a)
{
	size_t n = a->n_heads * a->head_dim;

	for (size_t t = 0; t < a->n_tokens; t++) {
		const float *x = a->x.data + t * a->x.stride;

		stats_add(a->before, x, n);
		rope_token(a, t);
		stats_add(a->after, x, n);
	}
}

#define MOST_PRODUCTS MIX_PRODUCTS(MIX_MAX_STREAMS)

/* Writes the products of 1 or 2 tokens: (n_tokens, MOST_PRODUCTS). */
LANE_FN void streams_products(const struct mix_streams_args *a, size_t token, size_t n_tokens,
			      float *m)
{
	size_t n = a->n_streams * a->n_cols, i = 0;
	size_t n_products = a->weights ? MIX_PRODUCTS(a->n_streams) : a->n_streams;
	const float *x = a->streams + token * n;

	for (; i + DOTS <= n_products; i += DOTS)
		dots(x, n_tokens, a->fn + i * n, n, m + i, MOST_PRODUCTS);
	for (; i < n_products; i++)
		for (size_t t = 0; t < n_tokens; t++)
			m[t * MOST_PRODUCTS + i] = dot(a->fn + i * n, x + t * n, n);
}

/* Makes the weights of a token from its products, and the sum of its vectors. */
static void streams_begin(const struct mix_streams_args *a, size_t token, float *m)
{
	size_t n = a->n_streams, n_values = n * a->n_cols, n_weights = n + n * n;
	const float *x = a->streams + token * n_values;
	float factor = 1.0f / sqrtf(squares_of(x, n_values, 0) / (float)n_values + a->norm_eps);
	float pre[MIX_MAX_STREAMS];

	for (size_t i = 0; i < (a->weights ? MIX_PRODUCTS(n) : n); i++)
		m[i] *= factor;
	routing_mix(a, m, pre, a->weights ? a->weights + token * n_weights : NULL);
	for (size_t c = 0; c < a->n_cols; c += LANES) {
		lanes sum = pre[0] * lanes_at(x, c, a->n_cols);

		for (size_t j = 1; j < n; j++)
			sum += pre[j] * lanes_at(x + j * a->n_cols, c, a->n_cols);
		lanes_put(a->y + token * a->n_cols, c, a->n_cols, sum);
	}
}

/* Two tokens share what is read of fn. */
static void streams_begin_all(const struct mix_streams_args *a)
{
	float m[2][MOST_PRODUCTS];
	size_t t = 0;

	for (; t + 2 <= a->n_tokens; t += 2) {
		streams_products(a, t, 2, m[0]);
		streams_begin(a, t, m[0]);
		streams_begin(a, t + 1, m[1]);
	}
	if (t < a->n_tokens) {
		streams_products(a, t, 1, m[0]);
		streams_begin(a, t, m[0]);
	}
}

/* Mixes the vectors of a token with what a block returns. */
static void streams_end(const struct mix_streams_args *a, size_t token)
{
	size_t n = a->n_streams, n_mixed = a->n_rounds ? n : 0;
	const float *post = a->weights + token * (n + n * n_mixed), *mix = post + n;
	float *x = a->streams + token * n * a->n_cols;
	lanes in[MIX_MAX_STREAMS];

	for (size_t c = 0; c < a->n_cols; c += LANES) {
		lanes y = lanes_at(a->y + token * a->n_cols, c, a->n_cols);

		for (size_t i = 0; i < n; i++)
			in[i] = lanes_at(x + i * a->n_cols, c, a->n_cols);
		for (size_t j = 0; j < n; j++) {
			lanes sum = post[j] * y;

			if (!n_mixed)
				sum += in[j];
			for (size_t i = 0; i < n_mixed; i++)
				sum += mix[i * n + j] * in[i];
			lanes_put(x + j * a->n_cols, c, a->n_cols, sum);
		}
	}
}

/* Gives each vector of a token the value, as far as it agrees with its key. */
static void streams_gate(const struct mix_streams_args *a, size_t token)
{
	size_t first = token * a->n_streams * a->n_cols;

	for (size_t j = 0; j < a->n_streams; j++) {
		float *x = a->streams + first + j * a->n_cols;
		float gate = routing_root_gate(dot(a->keys + first + j * a->n_cols, x, a->n_cols),
					       a->n_cols);

		for (size_t c = 0; c < a->n_cols; c += LANES)
			lanes_put(x, c, a->n_cols,
				  gate * lanes_at(a->y + token * a->n_cols, c, a->n_cols));
	}
}

static void CPU_OP(mix_streams)(const struct mix_streams_args *a)
{
	if (a->fn && !a->keys)
		streams_begin_all(a);
	else
		for (size_t t = 0; t < a->n_tokens; t++)
			(a->keys ? streams_gate : streams_end)(a, t);
}

/* y = activation(x), by rows. */
static void activate(const struct gate_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++) {
		const float *x = a->gate.data + r * a->gate.stride;
		float *y = a->y.data + r * a->y.stride;

		for (size_t i = 0; i < a->n_cols; i += LANES)
			lanes_put(y, i, a->n_cols,
				  lanes_activation(a->activation, lanes_at(x, i, a->n_cols)));
	}
}

/* Adds a row of gate or up to its stats. */
LANE_FN void gate_stats(const struct gate_args *a, struct value_stats *stats, size_t slot,
			const float *x, size_t r)
{
	stats_add(a->rows.stats ? slot_of(&a->rows, r, slot) : stats, x, a->n_cols);
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

static void gate_pairs(const struct gate_args *a)
{
	size_t n = a->n_rows * a->n_cols;

	for (size_t i = 0; i < n; i += LANES) {
		lanes gate, up;

		lanes_pairs(a->gate.data, i, n, a->clamp, &gate, &up);
		lanes_put(a->y.data, i, n,
			  (up + 1.0f) * gate / (1.0f + lanes_exp(-a->alpha * gate)));
	}
}

static void CPU_OP(gate)(const struct gate_args *a)
{
	float *row = row_for(&a->y, a->n_cols);
	size_t n = a->n_cols;

	if (a->pairs)
		gate_pairs(a);
	else if (!a->up.data)
		activate(a);
	for (size_t r = 0; a->up.data && r < a->n_rows; r++) {
		const float *gate = a->gate.data + r * a->gate.stride;
		const float *up = a->up.data + r * a->up.stride;
		float *y = row ? row : a->y.data + r * a->y.stride;

		gate_stats(a, a->gate_stats, a->gate_slot, gate, r);
		gate_stats(a, a->up_stats, a->up_slot, up, r);
		for (size_t i = 0; i < n; i += LANES) {
			float first = a->limits_first ? a->limit : 0;
			lanes g = lanes_activation(a->activation,
						   lanes_at_most(lanes_at(gate, i, n), first));

			lanes_put(y, i, n,
				  lanes_at_most(g, a->limit) *
					  lanes_within(lanes_at(up, i, n), a->limit));
		}
		if (a->rows.stats)
			row_put(a->round, slot_of(&a->rows, r, a->y_slot), a->rounded.codes, y, r,
				n);
		else
			rounded_put(&a->rounded, y, r * n, n);
	}
	free(row);
}

static void CPU_OP(cross_entropy)(const struct cross_entropy_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++) {
		float *row = a->logits + r * a->n_cols;
		size_t label = a->labels[r];

		for (size_t i = 0; a->softcap > 0 && i < a->n_cols; i += LANES)
			lanes_put(row, i, a->n_cols,
				  a->softcap *
					  lanes_tanh(lanes_at(row, i, a->n_cols) / a->softcap));
		a->log_sums[r] = log_sum_exp(row, a->n_cols);
		if (label >= a->first && label - a->first < a->n_cols)
			a->label_logits[r] = row[label - a->first];
	}
}

/* Returns the first place of the value in n values; n where it is not there, as with NaN. */
LANE_FN uint32_t place_of(const float *x, size_t n, float value)
{
	uint32_t i = 0;

	while (i < n && x[i] != value)
		i++;
	return i;
}

static void divergence_row(const float *p, const float *q, size_t n, struct divergence_sums *sums)
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

static void CPU_OP(divergence)(const struct divergence_args *a)
{
	size_t n = a->n_cols;

	for (size_t r = 0; n && r < a->n_rows; r++) {
		divergence_row(a->p + r * n, a->q + r * n, n, &a->sums[r]);
		a->sums[r].top_p += (uint32_t)a->first;
		a->sums[r].top_q += (uint32_t)a->first;
	}
}

/* The members of executor_ops: the loops above, which need no stream. */
#define CPU_MEMBER(op)                                                   \
	static void CPU_OP(op##_member)(struct executor_stream * stream, \
					const struct op##_args *args)    \
	{                                                                \
		(void)stream;                                            \
		CPU_OP(op)(args);                                        \
	}
EXECUTOR_OPERATIONS(CPU_MEMBER)

static void CPU_OP(operations)(struct executor_ops *ops)
{
#define CPU_SET(op) ops->op = CPU_OP(op##_member);
	EXECUTOR_OPERATIONS(CPU_SET)
}

/* The row of this instruction set; the including file defines its usable(). */
#define CPU_OPS_ROW(title)                                                                      \
	{                                                                                       \
		.name = (title), .usable = CPU_OP(usable), .operations = CPU_OP(operations),    \
		.round_bf16 = CPU_OP(round_bf16), .round_bf16_f32 = CPU_OP(round_bf16_f32),     \
		.factor_diagonal = CPU_OP(factor_diagonal), .factor_rows = CPU_OP(factor_rows), \
		.factor_unit = CPU_OP(factor_unit), .round_rows = CPU_OP(round_rows),           \
	}

#endif
