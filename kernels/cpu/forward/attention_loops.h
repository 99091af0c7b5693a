/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, head by head, compiled once for each instruction set, as ops_loops.h is.
 *
 * Both products of F32 consist of tiles (tiles.h), which take one panel of keys or values after the
 * other; a panel has 16 KiB for heads of 64 and stays in L1 for all queries.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_ATTENTION_LOOPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_ATTENTION_LOOPS_H

#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/tiles.h"
#include "kernels/cpu/forward/lanes.h"

#define PANEL ATTENTION_PANEL

/* Replaces x, scaled and capped, by exp(x - max), and returns the sum.  After the last x there is
 * room for 16 in all, which become 0. */
static float softmax_row(float *x, size_t n, const struct softmax *how)
{
	lanes maxima = lanes_all(-INFINITY);
	struct lane_sums sum = { 0 };
	float max, total;

	for (size_t i = n; i % SUM_LANES; i++)
		x[i] = -INFINITY;
	for (size_t i = 0; i < n; i += LANES) {
		lanes v = how->scale * lanes_load(x + i);

		if (how->softcap > 0)
			v = lanes_choose(v > -INFINITY, how->softcap * lanes_tanh(v / how->softcap),
					 v);
		if (how->bias)
			v = v + lanes_load(how->bias + i);
		lanes_store(x + i, v);
		maxima = lanes_larger(v, maxima);
	}
	max = lanes_max(maxima);
	if (how->sink && *how->sink > max)
		max = *how->sink;
	for (size_t i = 0; i < n; i += SUM_LANES)
		UNROLL for (size_t j = 0; j < SUM_PARTS; j++)
		{
			float *at = x + i + j * LANES;
			lanes v = lanes_exp(lanes_load(at) - max);

			sum.part[j] += v;
			lanes_store(at, v);
		}
	total = lanes_sum(sum);
	if (how->sink)
		total += lanes_exp(lanes_all(*how->sink - max))[0];
	return total;
}

/* Packs keys, panel by panel: (head_dim, PANEL). */
static void pack_keys(const struct attention *a, struct rows_in k)
{
	for (size_t first = 0; first < a->n_keys; first += PANEL) {
		size_t n = a->n_keys - first < PANEL ? a->n_keys - first : PANEL;
		float *panel = a->keys + first * a->head_dim;

		memset(panel, 0, PANEL * a->head_dim * sizeof *panel);
		for (size_t t = 0; t < n; t++)
			for (size_t d = 0; d < a->head_dim; d++)
				panel[d * PANEL + t] = k.data[(first + t) * k.stride + d];
	}
}

static void pack_f32(const struct attention *a, struct rows_in k, struct rows_in v)
{
	size_t stride = attention_value_stride(a->value_dim);

	pack_keys(a, k);
	for (size_t t = 0; t < a->n_keys; t++) {
		memset(a->values + t * stride, 0, stride * sizeof *a->values);
		memcpy(a->values + t * stride, v.data + t * v.stride,
		       a->value_dim * sizeof *v.data);
	}
}

/* Computes the scores of queries and a panel of keys. */
static void score_panel(const struct attention *a, const struct query_block *b, size_t panel)
{
	size_t stride = attention_score_stride(a->n_keys);

	for (size_t row = 0; row < b->n; row += TILE_ROWS) {
		struct queries queries = attention_queries(a, b, row, TILE_ROWS);
		size_t n_cols = queries.end < panel + PANEL
					? attention_value_stride(queries.end - panel)
					: PANEL;
		const struct tiled product = { .a = b->q.data + row * b->q.stride,
					       .a_stride = b->q.stride,
					       .b = a->keys + panel * a->head_dim,
					       .b_stride = PANEL,
					       .c = a->scores + row * stride + panel,
					       .c_stride = stride,
					       .k = a->head_dim };

		if (attention_needs(a, b, &queries, panel, PANEL))
			tiles(&product, queries.n, n_cols);
	}
}

/* Adds the products of the scores and a panel of values. */
static void value_panel(const struct attention *a, const struct query_block *b, size_t panel)
{
	size_t stride = attention_score_stride(a->n_keys);
	size_t value_stride = attention_value_stride(a->value_dim);

	for (size_t row = 0; row < b->n; row += TILE_ROWS) {
		struct queries queries = attention_queries(a, b, row, TILE_ROWS);
		size_t begin = queries.begin > panel ? queries.begin : panel;
		size_t end = queries.end < panel + PANEL ? queries.end : panel + PANEL;
		const struct tiled product = { .a = a->scores + row * stride + begin,
					       .a_stride = stride,
					       .b = a->values + begin * value_stride,
					       .b_stride = value_stride,
					       .c = a->attn_out + row * value_stride,
					       .c_stride = value_stride,
					       .k = end - begin,
					       .add = true };

		if (attention_needs(a, b, &queries, panel, PANEL))
			tiles(&product, queries.n, value_stride);
	}
}

/* Returns the first panel of a block. */
static size_t first_panel(const struct attention *a, const struct query_block *b)
{
	return attention_first_key(a, b->first) / PANEL * PANEL;
}

static void score_f32(const struct attention *a, const struct query_block *b)
{
	for (size_t panel = first_panel(a, b); panel < b->first + b->n; panel += PANEL)
		score_panel(a, b, panel);
}

/* The exponential of a key is 0 if only another query of the tile attends to it. */
static void mix_f32(const struct attention *a, const struct query_block *b)
{
	size_t stride = attention_score_stride(a->n_keys);

	for (size_t row = 0; row < b->n; row++) {
		struct queries tile = attention_queries(a, b, row - row % TILE_ROWS, TILE_ROWS);
		size_t begin = attention_first_key(a, b->first + row), end = b->first + row + 1;
		float *scores = a->scores + row * stride;

		memset(scores + tile.begin, 0, (begin - tile.begin) * sizeof *scores);
		memset(scores + end, 0, (tile.end - end) * sizeof *scores);
	}
	memset(a->attn_out, 0, b->n * attention_value_stride(a->value_dim) * sizeof *a->attn_out);
	for (size_t panel = first_panel(a, b); panel < b->first + b->n; panel += PANEL)
		value_panel(a, b, panel);
}

static const struct attention_products attention_by_f32 = { pack_f32, score_f32, mix_f32 };

/* Returns how the products are computed. */
static const struct attention_products *products_for(const struct attention_args *args)
{
	const struct attention_products *tiles = NULL;

#ifdef __AVX512F__
	if (args->f16 && args->n_tokens > ATTENTION_MOST_EXACT)
		tiles = attention_by_tiles();
#endif
	(void)args;
	return tiles ? tiles : &attention_by_f32;
}

/* Hides scores of keys outside of the set, up to `end`; and some before `begin`, and behind `end`
 * to whole vectors. */
static void hide_keys(const uint32_t *set, size_t begin, size_t end, float *scores)
{
	lanes_bits places = { 0 };

	for (unsigned i = 0; i < LANES; i++)
		places[i] = i;
	for (size_t s = begin / LANES * LANES; s < end; s += LANES) {
		lanes_bits bits = (lanes_bits){ 0 } + (set[s / 32] >> s % 32);

		lanes_store(scores + s, lanes_choose((bits >> places & 1) != 0,
						     lanes_load(scores + s), lanes_all(-INFINITY)));
	}
}

/* Writes the biases of a query and its keys from `begin` on.  Returns them. */
static const float *distance_row(const struct distance_biases *how, size_t query, size_t begin)
{
	const float *weights = how->weights + query * how->stride;
	size_t n = query + 1 - begin, near = n < how->extent ? n : how->extent;

	memset(how->row, 0, attention_bias_row(n) * sizeof *how->row);
	for (size_t d = 0; d < near; d += LANES) {
		lanes sum = lanes_all(0);

		for (size_t i = 0; i < how->n_profiles; i++)
			sum = lanes_multiply_add(
				lanes_all(weights[i]),
				lanes_at(how->profiles + i * how->extent, d, how->extent), sum);
		for (size_t i = 0; i < LANES && d + i < near; i++)
			how->row[n - 1 - (d + i)] = sum[i];
	}
	return how->row;
}

/* Replaces scores by exponentials.  Writes the sums to totals. */
static void softmax_rows(const struct attention *a, const struct query_block *b, float *totals)
{
	size_t stride = attention_score_stride(a->n_keys);
	struct softmax softmax = a->softmax;

	for (size_t row = 0; row < b->n; row++) {
		size_t begin = attention_first_key(a, b->first + row), end = b->first + row + 1;
		float *scores = a->scores + row * stride;

		for (size_t i = 0; i < a->value_dim; i += LANES)
			__builtin_prefetch(b->y.data + row * b->y.stride + i, 1);
		if (a->sets)
			hide_keys(attention_set(a, b, row), begin, end, scores);
		if (a->distances.weights)
			softmax.bias = distance_row(&a->distances, b->first + row, begin);
		totals[row] = softmax_row(scores + begin, end - begin, &softmax);
	}
}

static void attend_block(const struct attention *a, const struct attention_products *products,
			 const struct query_block *b)
{
	size_t value_stride = attention_value_stride(a->value_dim);
	float totals[ATTENTION_QUERIES];

	products->score(a, b);
	softmax_rows(a, b, totals);
	products->mix(a, b);
	for (size_t row = 0; row < b->n; row++) {
		float factor = 1.0f / totals[row];

		for (size_t i = 0; i < a->value_dim; i += LANES)
			lanes_put(b->y.data + row * b->y.stride, i, a->value_dim,
				  factor * lanes_load(a->attn_out + row * value_stride + i));
	}
}

/* Runs all queries of the heads that share one head of keys and values. */
static void attend_group(const struct attention_args *args, struct attention *attention,
			 size_t group)
{
	size_t q = args->n_heads * args->head_dim, k = args->n_kv_heads * args->head_dim;
	size_t v = args->n_kv_heads * args->value_dim, y = args->n_heads * args->value_dim;
	size_t n_heads = args->n_heads / args->n_kv_heads;
	const struct attention_products *products = products_for(args);

	products->pack(attention, (struct rows_in){ args->k + group * args->head_dim, k },
		       (struct rows_in){ args->v + group * args->value_dim, v });
	for (size_t head = group * n_heads; head < (group + 1) * n_heads; head++) {
		if (args->sets)
			attention->sets = args->sets + head / (args->n_heads / args->n_sets) *
							       args->n_tokens *
							       KEY_WORDS(attention->n_keys);
		attention->softmax =
			(struct softmax){ args->scale, args->softcap,
					  args->sinks ? args->sinks + head : NULL, NULL };
		if (args->distances.weights)
			attention->distances.weights =
				args->distances.weights + head * args->distances.n_profiles;
		for (size_t first = 0; first < args->n_tokens; first += ATTENTION_QUERIES) {
			const struct query_block block = {
				.first = args->n_before + first,
				.n = args->n_tokens - first < ATTENTION_QUERIES
					     ? args->n_tokens - first
					     : ATTENTION_QUERIES,
				.q = { args->q + first * q + head * args->head_dim, q },
				.y = { args->y + first * y + head * args->value_dim, y },
			};

			attend_block(attention, products, &block);
		}
	}
}

static void CPU_OP(attention)(const struct attention_args *args)
{
	struct attention_scratch scratch = attention_scratch_of(args);
	struct attention attention = { .n_keys = attention_n_keys(args),
				       .n_before = args->n_before,
				       .head_dim = args->head_dim,
				       .value_dim = args->value_dim,
				       .window = args->window,
				       .distances = { .profiles = args->distances.profiles,
						      .stride = args->n_heads *
								args->distances.n_profiles,
						      .n_profiles = args->distances.n_profiles,
						      .extent = args->distances.extent },
				       .keys = args->scratch };

	attention.values = attention.keys + scratch.keys;
	attention.queries = attention.values + scratch.values;
	attention.scores = attention.queries + scratch.queries;
	attention.attn_out = attention.scores + scratch.scores;
	attention.distances.row = attention.attn_out + scratch.attn_out;
	attention.steps = (void *)(attention.distances.row + scratch.biases);
	for (size_t group = 0; group < args->n_kv_heads; group++)
		attend_group(args, &attention, group);
}

#endif
