/* SPDX-License-Identifier: Apache-2.0
 *
 * The causal convolution, and the gates and the scan of gated DeltaNet (ops.h), compiled once for
 * each instruction set, as ops_loops.h is.
 *
 * The columns of a state do not depend on each other: as many as a vector has go through all tokens
 * together.  With keys of 128 they have 8 KiB and stay in L1.  The sums that the next token needs
 * are those of the state that this token leaves behind, so a token reads and writes it once.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_DELTA_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_DELTA_LOOPS_H

#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/tile_vector.h"
#include "kernels/cpu/forward/vec16.h"

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

#define DELTA_CHAINS 4

/* The sums of a token's key and query with some columns of a state, in chains. */
struct delta_sums {
	tile_vector k[DELTA_CHAINS], q[DELTA_CHAINS];
};

/* What a token does to the state, and the key and the query of the next one. */
struct delta_step {
	const float *k;
	tile_vector decay, d;
	const float *next_k, *next_q;
};

/* One feature: the state's row, and the sums in chain `chain`. */
LANE_FN void delta_feature(const struct delta_step *step, size_t i, tile_vector *state,
			   tile_vector *k, tile_vector *q)
{
	tile_vector s = tile_multiply_add(tile_all(step->k[i]), step->d, step->decay * *state);

	*state = s;
	*k = tile_multiply_add(tile_all(step->next_k[i]), s, *k);
	*q = tile_multiply_add(tile_all(step->next_q[i]), s, *q);
}

LANE_FN void delta_update(const struct delta_step *step, size_t key_dim, tile_vector *state,
			  struct delta_sums *sums)
{
	tile_vector k[DELTA_CHAINS] = { { 0 } }, q[DELTA_CHAINS] = { { 0 } };
	size_t whole = key_dim / DELTA_CHAINS * DELTA_CHAINS;

	for (size_t i = 0; i < whole; i += DELTA_CHAINS)
		UNROLL for (size_t j = 0; j < DELTA_CHAINS; j++)
			delta_feature(step, i + j, &state[i + j], &k[j], &q[j]);
	memcpy(sums->k, k, sizeof k);
	memcpy(sums->q, q, sizeof q);
	for (size_t i = whole; i < key_dim; i++)
		delta_feature(step, i, &state[i], &sums->k[i - whole], &sums->q[i - whole]);
}

LANE_FN tile_vector delta_sum(const tile_vector *chains)
{
	return (chains[0] + chains[2]) + (chains[1] + chains[3]);
}

LANE_FN float delta_product(const float *q, const float *k, size_t n)
{
	lanes sum = { 0 };

	for (size_t i = 0; i < n; i += LANES)
		sum += lanes_at(q, i, n) * lanes_at(k, i, n);
	return lanes_sum(sum);
}

/* n <= TILE_LANES columns of a head, from col on, through all tokens. */
static void delta_columns(const struct delta_args *a, size_t head, size_t col, size_t n)
{
	size_t kv_head = head / (a->n_heads / a->n_key_heads) * a->key_dim;
	size_t k_stride = a->n_key_heads * a->key_dim, v_stride = a->n_heads * a->value_dim;
	tile_vector state[DELTA_MAX_KEY_DIM] = { { 0 } };
	struct delta_sums sums = { 0 };

	for (size_t t = 0; t < a->n_tokens; t++) {
		const float *k = a->k + t * k_stride + kv_head, *q = a->q + t * k_stride + kv_head;
		size_t at = t * v_stride + head * a->value_dim + col;
		tile_vector decay = tile_all(a->a[t * a->n_heads + head]), v = { 0 }, d, y;

		memcpy(&v, a->v + at, n * sizeof *a->v);
		d = a->b[t * a->n_heads + head] * (v - decay * delta_sum(sums.k));
		y = decay * delta_sum(sums.q) + delta_product(q, k, a->key_dim) * d;
		memcpy(a->y + at, &y, n * sizeof *a->y);
		if (t + 1 < a->n_tokens)
			delta_update(&(const struct delta_step){ k, decay, d, k + k_stride,
								 q + k_stride },
				     a->key_dim, state, &sums);
	}
}

static void CPU_OP(delta)(const struct delta_args *args)
{
	for (size_t head = 0; head < args->n_heads; head++)
		for (size_t col = 0; col < args->value_dim; col += TILE_LANES)
			delta_columns(args, head, col,
				      args->value_dim - col < TILE_LANES ? args->value_dim - col
									 : TILE_LANES);
}

#endif
