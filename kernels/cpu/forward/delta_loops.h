/* SPDX-License-Identifier: Apache-2.0
 *
 * The causal convolution, and the gates and the scan of gated DeltaNet (ops.h), compiled once for
 * each instruction set, as ops_loops.h is.
 *
 * Products do the work of the scan, chunk by chunk (chunk.h); value heads of one key head share the
 * products of keys and queries.  Within a chunk, d is the solution of a triangular system.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_DELTA_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_DELTA_LOOPS_H

#include "kernels/cpu/forward/chunk.h"

static void CPU_OP(convolve)(const struct convolve_args *a)
{
	for (size_t t = 0; t < a->n_tokens; t++) {
		size_t first = t + 1 < a->width ? a->width - 1 - t : 0; /* row of the weight */

		for (size_t c = 0; c < a->n_cols; c += LANES) {
			lanes sum = a->bias ? lanes_at(a->bias, c, a->n_cols) : lanes_all(0);

			for (size_t i = first; i < a->width; i++)
				sum += lanes_at(a->weight.data + i * a->weight.stride, c,
						a->n_cols) *
				       lanes_at(a->x.data + (t + 1 + i - a->width) * a->x.stride, c,
						a->n_cols);
			lanes_put(a->y.data + t * a->y.stride, c, a->n_cols,
				  lanes_activation(a->activation, sum));
		}
	}
}

static void CPU_OP(delta_gates)(const struct delta_gates_args *args)
{
	size_t n = args->n_heads;

	for (size_t t = 0; t < args->n_tokens; t++) {
		float *a = args->a + t * n, *b = args->b + t * n;

		for (size_t i = 0; i < n; i += LANES) {
			lanes step =
				lanes_softplus(lanes_at(a, i, n) + lanes_at(args->dt_bias, i, n));

			lanes_put(a, i, n,
				  lanes_exp(-lanes_exp(lanes_at(args->a_log, i, n)) * step));
			lanes_put(b, i, n, lanes_sigmoid(lanes_at(b, i, n)));
		}
	}
}

/* What the chunks of the value heads of a key head share, for all tokens. */
struct delta_group {
	const struct delta_args *args;
	struct rows_in q, k;
	float *keys;	 /* (chunks, key_dim, SCAN_CHUNK): transposed */
	float *k_scores; /* (chunks, SCAN_CHUNK, SCAN_CHUNK): k(t) k(s) */
	float *q_scores; /* likewise: q(t) k(s) */
};

static void delta_group(const struct delta_group *group)
{
	const struct delta_args *a = group->args;

	for (size_t t = 0; t < a->n_tokens; t += SCAN_CHUNK) {
		struct chunk chunk = chunk_at(t, a->n_tokens);
		float *keys = group->keys + t * a->key_dim;

		chunk_transpose(keys, group->k, chunk, a->key_dim);
		chunk_scores(group->k_scores + t * SCAN_CHUNK, group->k, keys, chunk, a->key_dim);
		chunk_scores(group->q_scores + t * SCAN_CHUNK, group->q, keys, chunk, a->key_dim);
	}
}

/* Computes d of the chunk's tokens as panel->x: b (v - what k reads of the state before the chunk
 * and of the d before the token).  The former is in panel->x, the latter is weighed by `before`. */
static void delta_solve(const struct chunk_panel *panel, const float *before, size_t n)
{
	size_t width = chunk_padded(panel->n);
	struct tiled rows = { .a_stride = SCAN_CHUNK,
			      .b = panel->x,
			      .b_stride = SCAN_PANEL,
			      .c_stride = SCAN_PANEL,
			      .add = true };

	for (size_t row = 0; row < n; row += TILE_ROWS) {
		size_t end = n - row < TILE_ROWS ? n : row + TILE_ROWS;

		rows.a = before + row * SCAN_CHUNK;
		rows.c = panel->x + row * SCAN_PANEL;
		rows.k = row;
		tiles(&rows, end - row, width);
		for (size_t t = row + 1; t < end; t++)
			for (size_t s = row; s < t; s++)
				for (size_t i = 0; i < width; i += LANES) {
					float *x = panel->x + t * SCAN_PANEL + i;

					lanes_store(x,
						    lanes_load(x) +
							    before[t * SCAN_CHUNK + s] *
								    lanes_load(panel->x +
									       s * SCAN_PANEL + i));
				}
	}
}

/* The arguments of delta_solve(): panel->x of the chunk, and before[t][s] = -b k(t) k(s), decayed
 * from s to t. */
static void delta_changes(const struct delta_group *group, const struct chunk_panel *panel,
			  size_t head, struct chunk chunk, float *before)
{
	const struct delta_args *a = group->args;

	chunk_decay(before, group->k_scores + chunk.first * SCAN_CHUNK, panel->decays, chunk.n);
	chunk_read(panel, group->k, chunk, a->key_dim, panel->x);
	for (size_t i = 0; i < chunk.n; i++) {
		size_t at = (chunk.first + i) * a->n_heads + head;
		const float *v = a->v + at * a->value_dim + panel->col;
		float *x = panel->x + i * SCAN_PANEL, rate = a->b[at];

		for (size_t s = 0; s < i; s += LANES)
			lanes_store(before + i * SCAN_CHUNK + s,
				    -rate * lanes_load(before + i * SCAN_CHUNK + s));
		for (size_t col = 0; col < panel->n; col += LANES)
			lanes_store(x + col,
				    rate * (lanes_at(v, col, panel->n) - lanes_load(x + col)));
	}
}

/* All tokens of some columns of a head. */
static void delta_panel(const struct delta_group *group, const struct chunk_panel *panel,
			size_t head)
{
	const struct delta_args *a = group->args;
	float before[SCAN_CHUNK * SCAN_CHUNK];

	memset(panel->state, 0, a->key_dim * SCAN_PANEL * sizeof *panel->state);
	for (size_t t = 0; t < a->n_tokens; t += SCAN_CHUNK) {
		struct chunk chunk = chunk_at(t, a->n_tokens);
		float *y = a->y + (t * a->n_heads + head) * a->value_dim + panel->col;

		chunk_decays(panel->decays, a->a + t * a->n_heads + head, a->n_heads, chunk.n);
		delta_changes(group, panel, head, chunk, before);
		delta_solve(panel, before, chunk.n);
		chunk_decay(panel->between, group->q_scores + t * SCAN_CHUNK, panel->decays,
			    chunk.n);
		chunk_read(panel, group->q, chunk, a->key_dim, panel->y);
		chunk_add(panel, chunk.n);
		for (size_t i = 0; i < chunk.n; i++)
			memcpy(y + i * a->n_heads * a->value_dim, panel->y + i * SCAN_PANEL,
			       panel->n * sizeof *y);
		chunk_leave(panel, group->keys + t * a->key_dim, chunk.n, a->key_dim);
	}
}

static void CPU_OP(delta)(const struct delta_args *args)
{
	size_t n_padded = chunk_tokens(args->n_tokens), heads = args->n_heads / args->n_key_heads;
	float *work = args->scratch, between[SCAN_CHUNK * SCAN_CHUNK];
	struct chunk_decays decays;
	struct delta_group group = { .args = args,
				     .q = { .stride = args->n_key_heads * args->key_dim },
				     .k = { .stride = args->n_key_heads * args->key_dim },
				     .k_scores = work,
				     .q_scores = work + n_padded * SCAN_CHUNK,
				     .keys = work + 2 * n_padded * SCAN_CHUNK };
	struct chunk_panel panel = { .x = group.keys + n_padded * args->key_dim,
				     .between = between,
				     .decays = &decays };

	panel.y = panel.x + SCAN_CHUNK * SCAN_PANEL;
	panel.state = panel.y + SCAN_CHUNK * SCAN_PANEL;
	for (size_t head = 0; head < args->n_heads; head++) {
		group.q.data = args->q + head / heads * args->key_dim;
		group.k.data = args->k + head / heads * args->key_dim;
		if (head % heads == 0)
			delta_group(&group);
		for (panel.col = 0; panel.col < args->value_dim; panel.col += SCAN_PANEL) {
			size_t left = args->value_dim - panel.col;

			panel.n = left < SCAN_PANEL ? left : SCAN_PANEL;
			delta_panel(&group, &panel, head);
		}
	}
}

#endif
