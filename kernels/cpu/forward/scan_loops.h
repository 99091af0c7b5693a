/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan of Mamba-2 (ops.h), compiled once for each instruction set, as ops_loops.h is.
 *
 * Vectors hold rows of a state, so that the sums of S c need no sum over a vector.  SCAN_PANEL rows
 * go through all tokens together: with a state of 128 they have 8 KiB and stay in L1.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_SCAN_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_SCAN_LOOPS_H

#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/tile_vector.h"
#include "kernels/cpu/forward/vec16.h"

#define SCAN_VECTORS (SCAN_PANEL / TILE_LANES)
#define UNROLL16     _Pragma("GCC unroll 16")

/* Some rows of the state of one head. */
struct scan_panel {
	const struct scan_args *args;
	const float *steps, *decays; /* (n_tokens, n_heads), of this head on */
	float *state;		     /* (state_size, SCAN_PANEL) */
	size_t head, row;
};

/* What one token gives a panel. */
struct scan_token {
	const float *b, *c; /* (state_size) */
	const float *x;	    /* (SCAN_PANEL): times the step */
	float decay;
};

/* steps and decays (n_tokens, n_heads). */
LANE_FN void scan_steps(const struct scan_args *a, float *steps, float *decays)
{
	size_t n = a->n_heads;

	for (size_t t = 0; t < a->n_tokens; t++, steps += n, decays += n) {
		const float *from = a->steps.data + t * a->steps.stride;

		for (size_t i = 0; i < n; i += LANES) {
			lanes d =
				lanes_softplus(lanes_at(from, i, n) + lanes_at(a->step_bias, i, n));

			d = lanes_choose(d < a->step_min, lanes_all(a->step_min), d);
			d = lanes_choose(d > a->step_max, lanes_all(a->step_max), d);
			lanes_put(steps, i, n, d);
			lanes_put(decays, i, n,
				  lanes_exp(d * -lanes_exp(lanes_at(a->a_log, i, n))));
		}
	}
}

/* Lanes that are computed together: as many as registers have room for their sums. */
#if TILE_LANES == 16
#define SCAN_LANES 16
#else
#define SCAN_LANES 4
#endif

/* The element n of each row: its new state; adds S c to the sum. */
LANE_FN void scan_element(const struct scan_panel *p, size_t n, const struct scan_token *token,
			  tile_vector *sum)
{
	float *state = p->state + n * SCAN_PANEL;
	tile_vector b = tile_all(token->b[n]), c = tile_all(token->c[n]);

	UNROLL for (size_t i = 0; i < SCAN_VECTORS; i++)
	{
		tile_vector s =
			tile_multiply_add(tile_all(token->decay), tile_load(state + i * TILE_LANES),
					  tile_load(token->x + i * TILE_LANES) * b);

		tile_store(state + i * TILE_LANES, s);
		sum[i] = tile_multiply_add(s, c, sum[i]);
	}
}

/* Computes the sums of SCAN_LANES lanes from `first` on, for SCAN_PANEL rows. */
LANE_FN void scan_lanes(const struct scan_panel *p, size_t first, const struct scan_token *token,
			float (*sums)[SCAN_PANEL])
{
	tile_vector sum[SCAN_LANES][SCAN_VECTORS] = { { { 0 } } };
	size_t n = first;

	for (; n + SCAN_LANES <= p->args->state_size; n += LANES)
		UNROLL16 for (size_t i = 0; i < SCAN_LANES; i++)
			scan_element(p, n + i, token, sum[i]);
	UNROLL16 for (size_t i = 0; i < SCAN_LANES; i++) if (n + i < p->args->state_size)
		scan_element(p, n + i, token, sum[i]);
	UNROLL16 for (size_t i = 0; i < SCAN_LANES; i++)
		UNROLL for (size_t j = 0; j < SCAN_VECTORS; j++)
			tile_store(sums[first + i] + j * TILE_LANES, sum[i][j]);
}

LANE_FN void scan_panel_token(const struct scan_panel *p, size_t t)
{
	const struct scan_args *a = p->args;
	size_t group = p->head / (a->n_heads / a->n_groups) * a->state_size;
	size_t col = p->head * a->head_dim;
	lanes x = lanes_at(a->x.data + t * a->x.stride + col, p->row, a->head_dim);
	float scaled[LANES], sums[LANES][SCAN_PANEL];
	const struct scan_token token = { .b = a->b.data + t * a->b.stride + group,
					  .c = a->c.data + t * a->c.stride + group,
					  .x = scaled,
					  .decay = p->decays[t * a->n_heads] };

	lanes_store(scaled, p->steps[t * a->n_heads] * x);
	for (size_t lane = 0; lane < LANES; lane += SCAN_LANES)
		scan_lanes(p, lane, &token, sums);
	for (size_t apart = LANES / 2; apart > 0; apart /= 2)
		for (size_t lane = 0; lane < apart; lane++)
			lanes_store(sums[lane],
				    lanes_load(sums[lane]) + lanes_load(sums[lane + apart]));
	lanes_put(a->y.data + t * a->y.stride + col, p->row, a->head_dim,
		  lanes_load(sums[0]) + a->skip[p->head] * x);
}

static void CPU_OP(scan)(const struct scan_args *args)
{
	size_t n = args->n_tokens * args->n_heads;
	float *state = args->scratch, *steps = state + SCAN_PANEL * args->state_size;

	scan_steps(args, steps, steps + n);
	for (size_t head = 0; head < args->n_heads; head++) {
		for (size_t row = 0; row < args->head_dim; row += SCAN_PANEL) {
			const struct scan_panel panel = { .args = args,
							  .steps = steps + head,
							  .decays = steps + n + head,
							  .state = state,
							  .head = head,
							  .row = row };

			memset(state, 0, SCAN_PANEL * args->state_size * sizeof *state);
			for (size_t t = 0; t < args->n_tokens; t++)
				scan_panel_token(&panel, t);
		}
	}
}

#endif
