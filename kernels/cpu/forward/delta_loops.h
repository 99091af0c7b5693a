/* SPDX-License-Identifier: Apache-2.0
 *
 * The causal convolution, and the gates and the scan of gated DeltaNet, compiled once for
 * each instruction set, as ops_loops.h is.
 *
 * Products do the work of the scan, chunk by chunk (chunk.h); value heads of one key head share the
 * products of keys and queries.  Within a chunk, d is the solution of a triangular system.  Where
 * decays are of features, the keys of a chunk are decayed from token to token as its products are
 * computed, so that here too no decay is a quotient.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_DELTA_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_DELTA_LOOPS_H

#include "kernels/cpu/forward/chunk.h"

/* A token of a pool: where its values begin, of those that count. */
struct pool_token {
	size_t token, col;
	const float *weight; /* its row; NULL: all count the same */
};

LANE_FN struct pool_token pool_token_at(const struct convolve_args *a, size_t pool, size_t i)
{
	bool before = i + a->pool < a->width;
	size_t place = i % a->pool, col = a->width > a->pool && !before ? a->n_cols : 0;

	return (struct pool_token){ pool * a->pool + i + a->pool - a->width, col,
				    a->gates.data ? a->weight.data + place * a->weight.stride + col
						  : NULL };
}

LANE_FN lanes pool_score(const struct convolve_args *a, const struct pool_token *at, size_t c)
{
	if (!at->weight)
		return lanes_all(0);
	return lanes_at(a->gates.data + at->token * a->gates.stride + at->col, c, a->n_cols) +
	       lanes_at(at->weight, c, a->n_cols);
}

/* The values of a pool from column c on. */
static lanes pool_mean(const struct convolve_args *a, size_t pool, size_t c)
{
	size_t first = pool ? 0 : a->width - a->pool;
	lanes max = lanes_all(-INFINITY), total = lanes_all(0), sum = lanes_all(0);

	for (size_t i = first; i < a->width; i++) {
		const struct pool_token at = pool_token_at(a, pool, i);

		max = lanes_larger(pool_score(a, &at, c), max);
	}
	for (size_t i = first; i < a->width; i++) {
		const struct pool_token at = pool_token_at(a, pool, i);
		const float *x = a->x.data + at.token * a->x.stride + at.col;
		lanes share = lanes_exp(pool_score(a, &at, c) - max);

		total += share;
		sum += share * lanes_at(x, c, a->n_cols);
	}
	return sum / total;
}

static void convolve_pools(const struct convolve_args *a)
{
	for (size_t pool = 0; pool < a->n_tokens / a->pool; pool++)
		for (size_t c = 0; c < a->n_cols; c += LANES)
			lanes_put(a->y.data + pool * a->y.stride, c, a->n_cols,
				  pool_mean(a, pool, c));
}

static void CPU_OP(convolve)(const struct convolve_args *a)
{
	if (a->pool) {
		convolve_pools(a);
		return;
	}
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

/* The decays of the heads from `head` on: n values of a token, of all heads or of the features of
 * one. */
static void delta_decays(const struct delta_args *args, float *a, size_t head, size_t n)
{
	const float *a_log = args->a_log + head, *dt_bias = args->dt_bias + head * args->n_decays;

	for (size_t i = 0; i < n; i += LANES) {
		lanes x = lanes_at(a, i, n) + lanes_at(dt_bias, i, n);
		lanes rate =
			lanes_exp(args->n_decays > 1 ? lanes_all(*a_log) : lanes_at(a_log, i, n));

		lanes_put(a, i, n,
			  lanes_exp(args->lower_bound < 0
					    ? args->lower_bound * lanes_sigmoid(rate * x)
					    : -rate * lanes_softplus(x)));
	}
}

static void delta_gates(const struct delta_args *args)
{
	size_t n = args->n_heads, n_decays = args->n_decays;

	for (size_t t = 0; t < args->n_tokens; t++) {
		float *a = args->a + t * n * n_decays, *b = args->b + t * n;

		if (n_decays == 1)
			delta_decays(args, a, 0, n);
		for (size_t head = 0; n_decays > 1 && head < n; head++)
			delta_decays(args, a + head * n_decays, head, n_decays);
		for (size_t i = 0; i < n; i += LANES)
			lanes_put(b, i, n, lanes_sigmoid(lanes_at(b, i, n)));
	}
}

/* What the chunks of the value heads of a key head share, for all tokens.  Where decays are of
 * features, it is of one value head, and decayed. */
struct delta_group {
	const struct delta_args *args;
	struct rows_in q, k;
	float *keys;	 /* (chunks, key_dim, SCAN_CHUNK): transposed, decayed to the chunk's end */
	float *k_scores; /* (chunks, SCAN_CHUNK, SCAN_CHUNK): k(t) k(s), decayed from s to t */
	float *q_scores; /* likewise: q(t) k(s) */
	/* where decays are of features, else NULL: */
	float *q_begin; /* (tokens, key_dim): q, decayed from before its chunk */
	float *k_begin; /* likewise */
	float *left;	/* (chunks, key_dim): the product of a chunk's decays */
};

/* Returns the queries or keys that read a state from before their chunk. */
LANE_FN struct rows_in delta_reads(const struct delta_group *group, struct rows_in x,
				   const float *begin)
{
	return begin ? (struct rows_in){ begin, group->args->key_dim } : x;
}

static void delta_products(const struct delta_group *group)
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

/* A token and those before it in its chunk. */
struct delta_token {
	const float *q, *k, *decays; /* (n) */
	size_t n;
	float *keys;		    /* (n, SCAN_CHUNK), 0 from this token on */
	float *q_scores, *k_scores; /* (SCAN_CHUNK) */
};

/* Decays the keys to the token, and multiplies them by its key and its query: `vectors`
 * vectors of tokens from s on. */
LANE_FN void delta_token_tile(const struct delta_token *token, size_t s, size_t vectors)
{
	lanes q_sum[TILE_VECTORS] = { { 0 } }, k_sum[TILE_VECTORS] = { { 0 } };

	for (size_t f = 0; f < token->n; f++) {
		lanes decay = lanes_all(token->decays[f]), q = lanes_all(token->q[f]),
		      k = lanes_all(token->k[f]);

		UNROLL for (size_t i = 0; i < vectors; i++)
		{
			float *at = token->keys + f * SCAN_CHUNK + s + i * LANES;
			lanes key = decay * lanes_load(at);

			lanes_store(at, key);
			q_sum[i] = lanes_multiply_add(q, key, q_sum[i]);
			k_sum[i] = lanes_multiply_add(k, key, k_sum[i]);
		}
	}
	UNROLL for (size_t i = 0; i < vectors; i++)
	{
		lanes_store(token->q_scores + s + i * LANES, q_sum[i]);
		lanes_store(token->k_scores + s + i * LANES, k_sum[i]);
	}
}

/* The scores of token t of a chunk with those before it, and with itself. */
static void delta_token_scores(const struct delta_token *token, size_t t)
{
	struct lane_sums own = { 0 };
	size_t s = 0;

	for (; s + TILE_VECTORS * LANES <= t; s += TILE_VECTORS * LANES)
		delta_token_tile(token, s, TILE_VECTORS);
	for (; s < t; s += LANES)
		delta_token_tile(token, s, 1);
	for (size_t f = 0; f < token->n; f += SUM_LANES)
		UNROLL for (size_t i = 0; i < SUM_PARTS; i++) own.part[i] +=
			lanes_at(token->q, f + i * LANES, token->n) *
			lanes_at(token->k, f + i * LANES, token->n);
	token->q_scores[t] = lanes_sum(own);
	for (size_t f = 0; f < token->n; f++)
		token->keys[f * SCAN_CHUNK + t] = token->k[f];
}

/* y = decays x, for n features. */
static void delta_decay(float *y, const float *x, const float *decays, size_t n)
{
	for (size_t f = 0; f < n; f += LANES)
		lanes_put(y, f, n, lanes_at(decays, f, n) * lanes_at(x, f, n));
}

/* The same products, of head `head`, whose decays are of features. */
static void delta_decayed_products(const struct delta_group *group, size_t head)
{
	const struct delta_args *a = group->args;
	size_t n = a->key_dim;

	memset(group->keys, 0, chunk_tokens(a->n_tokens) * n * sizeof *group->keys);
	for (size_t t = 0; t < a->n_tokens; t++) {
		size_t first = t / SCAN_CHUNK * SCAN_CHUNK;
		float *left = group->left + first / SCAN_CHUNK * n;
		const struct delta_token token = {
			.q = group->q.data + t * group->q.stride,
			.k = group->k.data + t * group->k.stride,
			.decays = a->a + (t * a->n_heads + head) * n,
			.n = n,
			.keys = group->keys + first * n,
			.q_scores = group->q_scores + t * SCAN_CHUNK,
			.k_scores = group->k_scores + t * SCAN_CHUNK,
		};

		delta_token_scores(&token, t - first);
		if (t == first)
			memcpy(left, token.decays, n * sizeof *left);
		else
			delta_decay(left, left, token.decays, n);
		delta_decay(group->q_begin + t * n, token.q, left, n);
		delta_decay(group->k_begin + t * n, token.k, left, n);
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
	chunk_read(panel, delta_reads(group, group->k, group->k_begin), chunk, a->key_dim,
		   panel->x);
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

/* What a chunk leaves of the state from before it, by the decays of features. */
static void delta_fade(const struct chunk_panel *panel, const float *left, size_t n_features)
{
	for (size_t f = 0; f < n_features; f++)
		for (size_t i = 0; i < chunk_padded(panel->n); i += LANES) {
			float *x = panel->state + f * SCAN_PANEL + i;

			lanes_store(x, left[f] * lanes_load(x));
		}
}

/* The decays of a chunk in its products: 1 where decays are of features, which are in the keys, the
 * queries and the scores already. */
static void delta_panel_decays(const struct delta_group *group, const struct chunk_panel *panel,
			       struct chunk chunk, size_t head)
{
	static const float one = 1;
	const struct delta_args *a = group->args;

	if (group->left)
		chunk_decays(panel->decays, &one, 0, chunk.n);
	else
		chunk_decays(panel->decays, a->a + chunk.first * a->n_heads + head, a->n_heads,
			     chunk.n);
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

		delta_panel_decays(group, panel, chunk, head);
		delta_changes(group, panel, head, chunk, before);
		delta_solve(panel, before, chunk.n);
		chunk_decay(panel->between, group->q_scores + t * SCAN_CHUNK, panel->decays,
			    chunk.n);
		chunk_read(panel, delta_reads(group, group->q, group->q_begin), chunk, a->key_dim,
			   panel->y);
		chunk_add(panel, chunk.n);
		for (size_t i = 0; i < chunk.n; i++)
			memcpy(y + i * a->n_heads * a->value_dim, panel->y + i * SCAN_PANEL,
			       panel->n * sizeof *y);
		if (group->left)
			delta_fade(panel, group->left + t / SCAN_CHUNK * a->key_dim, a->key_dim);
		chunk_leave(panel, group->keys + t * a->key_dim, chunk.n, a->key_dim);
	}
}

/* Divides the scratch memory.  Returns what is left of it. */
static float *delta_group_init(struct delta_group *group, const struct delta_args *args)
{
	size_t n_padded = chunk_tokens(args->n_tokens), keys = n_padded * args->key_dim;
	float *work = args->scratch;

	*group = (struct delta_group){ .args = args,
				       .q = { .stride = args->n_key_heads * args->key_dim },
				       .k = { .stride = args->n_key_heads * args->key_dim },
				       .k_scores = work,
				       .q_scores = work + n_padded * SCAN_CHUNK,
				       .keys = work + 2 * n_padded * SCAN_CHUNK };
	work = group->keys + keys;
	if (args->n_decays == 1)
		return work;
	group->q_begin = work;
	group->k_begin = work + keys;
	group->left = work + 2 * keys;
	return group->left + keys / SCAN_CHUNK;
}

static void CPU_OP(delta)(const struct delta_args *args)
{
	size_t heads = args->n_heads / args->n_key_heads;
	float between[SCAN_CHUNK * SCAN_CHUNK];
	struct chunk_decays decays;
	struct delta_group group;
	struct chunk_panel panel = { .x = delta_group_init(&group, args),
				     .between = between,
				     .decays = &decays };

	if (args->a_log)
		delta_gates(args);
	panel.y = panel.x + SCAN_CHUNK * SCAN_PANEL;
	panel.state = panel.y + SCAN_CHUNK * SCAN_PANEL;
	for (size_t head = 0; head < args->n_heads; head++) {
		group.q.data = args->q + head / heads * args->key_dim;
		group.k.data = args->k + head / heads * args->key_dim;
		if (group.left)
			delta_decayed_products(&group, head);
		else if (head % heads == 0)
			delta_products(&group);
		for (panel.col = 0; panel.col < args->value_dim; panel.col += SCAN_PANEL) {
			size_t left = args->value_dim - panel.col;

			panel.n = left < SCAN_PANEL ? left : SCAN_PANEL;
			delta_panel(&group, &panel, head);
		}
	}
}

#endif
