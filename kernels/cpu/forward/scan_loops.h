/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan of Mamba-2, compiled once for each instruction set, as ops_loops.h is.
 *
 * Products do the work, chunk by chunk (chunk.h).  The heads of a group share the products of c and
 * b.  A panel of the state of 128 has 32 KiB, and goes through all tokens.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_SCAN_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_SCAN_LOOPS_H

#include "kernels/cpu/forward/chunk.h"

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

/* What the chunks of a group of heads share, for all tokens. */
struct scan_group {
	const struct scan_args *args;
	float *b;		     /* (chunks, state_size, SCAN_CHUNK): transposed */
	float *scores;		     /* (chunks, SCAN_CHUNK, SCAN_CHUNK): c(t) b(s) */
	const float *steps, *decays; /* (n_tokens, n_heads) */
};

static void scan_group(const struct scan_group *group, size_t col)
{
	const struct scan_args *a = group->args;
	const struct rows_in b = { a->b.data + col, a->b.stride };
	const struct rows_in c = { a->c.data + col, a->c.stride };
	float *to = group->b, *scores = group->scores;

	for (size_t t = 0; t < a->n_tokens; t += SCAN_CHUNK) {
		struct chunk chunk = chunk_at(t, a->n_tokens);

		chunk_transpose(to, b, chunk, a->state_size);
		chunk_scores(scores, c, to, chunk, a->state_size);
		to += a->state_size * SCAN_CHUNK;
		scores += SCAN_CHUNK * SCAN_CHUNK;
	}
}

/* panel->x = the values of a head's tokens, times their steps. */
LANE_FN void scan_inputs(const struct scan_group *group, const struct chunk_panel *panel,
			 size_t head, struct chunk chunk)
{
	const struct scan_args *a = group->args;

	for (size_t i = 0; i < chunk.n; i++) {
		size_t t = chunk.first + i;
		const float *x = a->x.data + t * a->x.stride + head * a->head_dim + panel->col;
		float step = group->steps[t * a->n_heads + head];

		for (size_t col = 0; col < panel->n; col += LANES)
			lanes_store(panel->x + i * SCAN_PANEL + col,
				    step * lanes_at(x, col, panel->n));
	}
}

LANE_FN void scan_outputs(const struct scan_args *a, const struct chunk_panel *panel, size_t head,
			  struct chunk chunk)
{
	size_t first = head * a->head_dim + panel->col;

	for (size_t i = 0; i < chunk.n; i++) {
		const float *x = a->x.data + (chunk.first + i) * a->x.stride + first;
		float *y = a->y.data + (chunk.first + i) * a->y.stride + first;

		for (size_t col = 0; col < panel->n; col += LANES)
			lanes_put(y, col, panel->n,
				  lanes_load(panel->y + i * SCAN_PANEL + col) +
					  a->skip[head] * lanes_at(x, col, panel->n));
	}
}

/* All tokens of some columns of a head. */
static void scan_panel(const struct scan_group *group, const struct chunk_panel *panel, size_t head)
{
	const struct scan_args *a = group->args;
	size_t col = head / (a->n_heads / a->n_groups) * a->state_size;
	const struct rows_in c = { a->c.data + col, a->c.stride };
	const float *b = group->b, *scores = group->scores;

	memset(panel->state, 0, a->state_size * SCAN_PANEL * sizeof *panel->state);
	for (size_t t = 0; t < a->n_tokens; t += SCAN_CHUNK) {
		struct chunk chunk = chunk_at(t, a->n_tokens);

		chunk_decays(panel->decays, group->decays + t * a->n_heads + head, a->n_heads,
			     chunk.n);
		chunk_decay(panel->between, scores, panel->decays, chunk.n);
		scan_inputs(group, panel, head, chunk);
		chunk_read(panel, c, chunk, a->state_size, panel->y);
		chunk_add(panel, chunk.n);
		scan_outputs(a, panel, head, chunk);
		chunk_leave(panel, b, chunk.n, a->state_size);
		b += a->state_size * SCAN_CHUNK;
		scores += SCAN_CHUNK * SCAN_CHUNK;
	}
}

static void CPU_OP(scan)(const struct scan_args *args)
{
	size_t n = args->n_tokens * args->n_heads, heads = args->n_heads / args->n_groups;
	size_t n_padded = chunk_tokens(args->n_tokens);
	float *steps = args->scratch, *b = steps + 2 * n;
	float *scores = b + n_padded * args->state_size;
	float *work = scores + n_padded * SCAN_CHUNK, between[SCAN_CHUNK * SCAN_CHUNK];
	struct chunk_decays decays;
	struct scan_group group = {
		.args = args, .b = b, .scores = scores, .steps = steps, .decays = steps + n
	};
	struct chunk_panel panel = { .x = work,
				     .y = work + SCAN_CHUNK * SCAN_PANEL,
				     .state = work + 2 * SCAN_CHUNK * SCAN_PANEL,
				     .between = between,
				     .decays = &decays };

	if (!n)
		return;
	scan_steps(args, steps, steps + n);
	for (size_t head = 0; head < args->n_heads; head++) {
		if (head % heads == 0)
			scan_group(&group, head / heads * args->state_size);
		for (panel.col = 0; panel.col < args->head_dim; panel.col += SCAN_PANEL) {
			size_t left = args->head_dim - panel.col;

			panel.n = left < SCAN_PANEL ? left : SCAN_PANEL;
			scan_panel(&group, &panel, head);
		}
	}
}

#endif
