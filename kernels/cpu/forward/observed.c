/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/forward/observed.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define PIECE 4096 /* values that stay in the nearest cache */

static size_t piece_of(size_t left)
{
	return left < PIECE ? left : PIECE;
}

static void stats_raise(struct value_stats *stats, float amax)
{
	stats->amax = amax > stats->amax ? amax : stats->amax;
}

void observed_amax(const struct cpu_ops *ops, const float *x, size_t n, struct value_stats *stats)
{
	if (stats)
		stats_raise(stats, ops->amax(x, n, &stats->n_nonfinite));
}

/* Rounds y in place, and writes its codes from element `first` on. */
static void rounded_put(const struct cpu_ops *ops, const struct rounded_out *rounded, float *y,
			size_t first, size_t n)
{
	if (!rounded->stats)
		return;
	stats_raise(rounded->stats, ops->round_amax(y, n, &rounded->stats->n_nonfinite));
	if (rounded->codes)
		ops->host.round_bf16(y, n, rounded->codes + first);
}

void observed_round(const struct cpu_ops *ops, const struct round_args *args)
{
	float piece[PIECE] = { 0 };

	for (size_t i = 0; i < args->n; i += PIECE) {
		size_t n = piece_of(args->n - i);
		float *y = args->y ? args->y + i : piece;

		if (y != args->x + i)
			memcpy(y, args->x + i, n * sizeof *y);
		rounded_put(ops, &args->rounded, y, i, n);
	}
}

void observed_add(const struct cpu_ops *ops, const struct add_args *args)
{
	for (size_t i = 0; i < args->n; i += PIECE) {
		size_t n = piece_of(args->n - i);

		observed_amax(ops, args->y + i, n, args->y_stats);
		ops->add(args->x + i, args->y + i, n);
	}
}

/* Returns a row for results that are not written; NULL if they are. */
static float *row_for(const struct rows_out *y, size_t n_cols)
{
	return y->data ? NULL : xcalloc(n_cols, sizeof(float));
}

void observed_gate(const struct cpu_ops *ops, const struct gate_args *args)
{
	float *row = row_for(&args->y, args->n_cols);
	size_t n = args->n_cols;

	for (size_t r = 0; r < args->n_rows; r++) {
		const float *gate = args->gate.data + r * args->gate.stride;
		const float *up = args->up.data + r * args->up.stride;
		float *y = row ? row : args->y.data + r * args->y.stride;

		observed_amax(ops, gate, n, args->gate_stats);
		observed_amax(ops, up, n, args->up_stats);
		ops->gate(args->activation, gate, up, n, y);
		rounded_put(ops, &args->rounded, y, r * n, n);
	}
	free(row);
}

void observed_norm(const struct cpu_ops *ops, const struct rms_norm_args *args)
{
	struct rms_norm_args one = *args;
	size_t n = args->n_cols;
	float *row;

	if (!args->sum && !args->rounded.stats) {
		ops->rms_norm(args);
		return;
	}
	row = row_for(&args->y, n);
	one.n_rows = 1;
	for (size_t r = 0; r < args->n_rows; r++) {
		if (args->sum)
			observed_add(ops,
				     &(const struct add_args){ .x = args->sum + r * args->x.stride,
							       .y = args->add + r * n,
							       .n = n,
							       .y_stats = args->add_stats });
		one.x.data = args->x.data + r * args->x.stride;
		one.y.data = row ? row : args->y.data + r * args->y.stride;
		ops->rms_norm(&one);
		rounded_put(ops, &args->rounded, one.y.data, r * n, n);
	}
	free(row);
}

void observed_rope(const struct cpu_ops *ops, const struct rope_args *args)
{
	size_t half = args->rope_dim / 2, n = args->n_heads * args->head_dim;

	for (size_t t = 0; t < args->n_tokens; t++) {
		float *x = args->x.data + t * args->x.stride;

		observed_amax(ops, x, n, args->before);
		ops->rope(x, args->n_heads, args->head_dim, args->cosines + t * half,
			  args->sines + t * half, args->rope_dim);
		observed_amax(ops, x, n, args->after);
	}
}
