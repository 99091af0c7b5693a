/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention in three kernels: scores, their exponentials, and the weighted sums of values,
 * for as many queries of all heads at once as have room for their scores.
 *
 * A block of either product computes 64 x 64 sums, 8 x 4 in each thread (score_tiles.h).  It takes
 * 32 features or tokens at a time into shared memory.  Each sum is a chain of fused multiply-adds
 * in the order of features or tokens.
 *
 * As on the CPU (kernels/cpu/forward/attention_loops.h), four queries share the tokens that at
 * least one of them attends to, with weights of 0 for the others.  So even the sign of a zero and
 * the effect of an inf are the same.
 */
#include <math.h>

#include "kernels/gpu/forward/attention.h"
#include "kernels/gpu/forward/score_tiles.h"
#include "kernels/gpu/reduce.h"

#define TILE_FOURS     (TILE / 4)
#define ATTEND_THREADS TILE_THREADS
#define SPARE	       ((size_t)64 << 20)

/* Some queries of all heads. */
struct query_chunk {
	struct attention_args a;
	size_t first, n;   /* the queries */
	size_t room;	   /* queries of a head with room: whole tiles */
	size_t first_tile; /* of the keys that they attend to */
	size_t n_key_tiles, n_query_tiles;
	size_t stride;		/* of rows of scores: whole tiles */
	float *scores, *totals; /* (n_heads, room, stride), (n_heads, room) */
	bool aligned_qk, aligned_v, aligned_y, aligned_scores;

	__device__ float *row(size_t head, size_t query) const
	{
		return scores + (head * room + query) * stride;
	}

	__device__ size_t kv_head(size_t head) const
	{
		return head / (a.n_heads / a.n_kv_heads);
	}
};

/* The keys that at least one query attends to. */
struct keys {
	size_t begin, end;
};

/* Returns the keys of n queries from `query` on; fewer at the end. */
static __device__ inline struct keys keys_of(const struct attention_args *a, size_t query, size_t n)
{
	size_t end = query + n < a->n_tokens ? query + n : a->n_tokens;

	return { attention_first_key(a, query), a->n_before + end };
}

static __global__ void attend_scores(struct query_chunk c)
{
	__shared__ float4 q[TILE][PITCH], k[TILE][PITCH];
	const struct attention_args *a = &c.a;
	size_t key = (c.first_tile + blockIdx.x % c.n_key_tiles) * TILE,
	       tile = blockIdx.x / c.n_key_tiles;
	size_t query = tile % c.n_query_tiles * TILE, head = tile / c.n_query_tiles;
	size_t q_stride = a->n_heads * a->head_dim, k_stride = a->n_kv_heads * a->head_dim;
	const float *queries = a->q + (c.first + query) * q_stride + head * a->head_dim;
	const float *keys = a->k + key * k_stride + c.kv_head(head) * a->head_dim;
	struct keys seen = keys_of(a, c.first + query, TILE);
	float sum[ROWS][4] = { { 0 } };

	if (key >= seen.end || key + TILE <= seen.begin)
		return;
	for (size_t f = 0; f < a->head_dim; f += STEP) {
		__syncthreads(); /* all threads have read the tile before */
		tile_load(q, queries + f, q_stride, c.n - query, a->head_dim - f, c.aligned_qk);
		tile_load(k, keys + f, k_stride, attention_n_keys(a) - key, a->head_dim - f,
			  c.aligned_qk);
		__syncthreads();
		scores_add(sum, q, k);
	}
	GPU_UNROLL
	for (int i = 0; i < ROWS; i++) {
		float *scores = c.row(head, query + query_at(i)) + key + threadIdx.x % SIDE;

		GPU_UNROLL
		for (int j = 0; j < 4; j++)
			scores[j * SIDE] = sum[i][j];
	}
}

static __device__ inline float score(const struct attention_args *a, float product)
{
	float v = a->scale * product;

	if (a->distances.weights)
		return product; /* it is a score already */
	return a->softcap > 0 && v > -INFINITY ? softcapped(v, a->softcap) : v;
}

/* Replaces the products of a query and its keys by scores with biases by distance. */
static __device__ inline void distances_add(const struct attention_args *a, size_t head,
					    size_t query, struct keys own, float *products)
{
	struct attention_args plain = *a;
	size_t n = a->distances.n_profiles, extent = a->distances.extent;
	const float *weights = a->distances.weights + (query * a->n_heads + head) * n;

	plain.distances.weights = NULL;
	for (size_t s = own.begin + threadIdx.x % SUM_LANES; s < own.end; s += SUM_LANES) {
		float sum = 0;

		for (size_t i = 0; i < n && query - s < extent; i++)
			sum = fmaf(weights[i], a->distances.profiles[i * extent + query - s], sum);
		products[s] = score(&plain, products[s]) + sum;
	}
}

/* Hides the scores of a query's keys outside of its set. */
static __device__ inline void keys_hide(const struct attention_args *a, size_t head, size_t query,
					struct keys own, float *scores)
{
	const uint32_t *set = attention_set(a, head, query);

	for (size_t i = own.begin + threadIdx.x % SUM_LANES; i < own.end; i += SUM_LANES)
		if (!(set[i / 32] >> i % 32 & 1))
			scores[i] = -INFINITY;
}

/* Turns the scores of a query into exponentials, and returns their sum to the 16 threads that are
 * its lanes.  Each reads those that it has hidden. */
static __device__ inline float softmax_row(const struct attention_args *a, float *x, size_t n,
					   const float *sink)
{
	unsigned stream = threadIdx.x % SUM_LANES;
	float max = -INFINITY, sum = 0;

	for (size_t i = stream; i < n; i += SUM_LANES)
		max = larger(score(a, x[i]), max);
	max = lanes_largest(max, SUM_LANES);
	if (sink)
		max = larger(*sink, max);
	for (size_t i = stream; i < n; i += SUM_LANES) {
		x[i] = f32_exp(score(a, x[i]) - max);
		sum += x[i];
	}
	sum = lanes_sum(sum);
	return sink ? sum + f32_exp(*sink - max) : sum;
}

static __device__ inline void zeros(float *x, size_t begin, size_t end)
{
	for (size_t i = begin + threadIdx.x % SUM_LANES; i < end; i += SUM_LANES)
		x[i] = 0;
}

static __global__ void attend_softmax(struct query_chunk c)
{
	const struct attention_args *a = &c.a;
	size_t i = (size_t)blockIdx.x * (ATTEND_THREADS / SUM_LANES) + threadIdx.x / SUM_LANES;
	size_t head = i / c.n, query = i - head * c.n;
	bool exists = head < a->n_heads;
	struct keys own = keys_of(a, c.first + query, 1);
	struct keys shared = keys_of(a, c.first + query - query % TOGETHER, TOGETHER);
	float *x = exists ? c.row(head, query) : NULL, total;

	if (exists && a->sets)
		keys_hide(a, head, c.first + query, own, x);
	if (exists && a->distances.weights)
		distances_add(a, head, c.first + query, own, x);
	total = softmax_row(a, exists ? x + own.begin : NULL, exists ? own.end - own.begin : 0,
			    exists && a->sinks ? &a->sinks[head] : NULL);
	if (!exists)
		return;
	zeros(x, shared.begin, own.begin);
	zeros(x, own.end, shared.end);
	if (threadIdx.x % SUM_LANES == 0)
		c.totals[head * c.room + query] = total;
}

static __device__ inline float4 multiply_add(float a, float4 b, float4 sum)
{
	return { fmaf(a, b.x, sum.x), fmaf(a, b.y, sum.y), fmaf(a, b.z, sum.z),
		 fmaf(a, b.w, sum.w) };
}

/* Adds the weighted values of tokens [begin, end) of a step, in four columns, to queries FIRST to
 * FIRST + N of a thread. */
template <int FIRST, int N>
static __device__ inline void values_add(float4 sum[ROWS], const float4 (*share)[PITCH],
					 const float4 (*value)[TILE_FOURS], unsigned begin,
					 unsigned end)
{
	unsigned col = threadIdx.x % SIDE;

	for (unsigned t = begin; t < end;) {
		if (t % 4 || end - t < 4) {
			GPU_UNROLL
			for (int i = FIRST; i < FIRST + N; i++)
				sum[i] = multiply_add(
					reinterpret_cast<const float *>(share[query_at(i)])[t],
					value[t][col], sum[i]);
			t++;
			continue;
		}
		GPU_UNROLL
		for (int i = FIRST; i < FIRST + N; i++) {
			float4 left = share[query_at(i)][t / 4];

			sum[i] = multiply_add(left.x, value[t][col], sum[i]);
			sum[i] = multiply_add(left.y, value[t + 1][col], sum[i]);
			sum[i] = multiply_add(left.z, value[t + 2][col], sum[i]);
			sum[i] = multiply_add(left.w, value[t + 3][col], sum[i]);
		}
		t += 4;
	}
}

/* Loads STEP rows of values from a token on, and up to TILE columns. */
static __device__ inline void values_load(float4 (*to)[TILE_FOURS], const float *from,
					  size_t stride, size_t n_rows, size_t n_cols, bool aligned)
{
	for (unsigned i = threadIdx.x; i < STEP * TILE_FOURS; i += ATTEND_THREADS) {
		unsigned row = i / TILE_FOURS, col = i % TILE_FOURS;
		int n = row < n_rows ? fours_left(col * 4, n_cols) : 0;

		to[row][col] = fours_load(from + row * stride + col * 4, n, aligned);
	}
}

/* Returns `at` relative to the step that begins at `first`, clipped to the step. */
static __device__ inline unsigned in_step(size_t at, size_t first)
{
	return at <= first ? 0 : at - first < STEP ? (unsigned)(at - first) : STEP;
}

/* Stores four columns of a thread's queries. */
static __device__ inline void mixed_store(const struct query_chunk &c, size_t head, size_t query,
					  size_t col, const float4 sum[ROWS])
{
	GPU_UNROLL
	for (int i = 0; i < ROWS; i++) {
		size_t at = query + query_at(i);

		if (at < c.n) {
			float factor = 1.0f / c.totals[head * c.room + at];
			float *y =
				c.a.y + ((c.first + at) * c.a.n_heads + head) * c.a.value_dim + col;

			fours_store(y, fours_each(sum[i], [factor](float v) { return factor * v; }),
				    fours_left(col, c.a.value_dim), c.aligned_y);
		}
	}
}

static __global__ void attend_mix(struct query_chunk c)
{
	__shared__ float4 share[TILE][PITCH], value[STEP][TILE_FOURS];
	const struct attention_args *a = &c.a;
	size_t n_across = (a->value_dim + TILE - 1) / TILE, tile = blockIdx.x / n_across;
	size_t query = tile % c.n_query_tiles * TILE, head = tile / c.n_query_tiles;
	size_t col = blockIdx.x % n_across * TILE, v_stride = a->n_kv_heads * a->value_dim;
	const float *values = a->v + c.kv_head(head) * a->value_dim + col;
	struct keys all = keys_of(a, c.first + query, TILE);
	struct keys low = keys_of(a, c.first + query + query_at(0), TOGETHER);
	struct keys high = keys_of(a, c.first + query + query_at(TOGETHER), TOGETHER);
	float4 sum[ROWS] = {};

	for (size_t t = all.begin / STEP * STEP; t < all.end; t += STEP) {
		unsigned begin = in_step(low.begin, t), end = in_step(low.end, t);

		__syncthreads(); /* all threads have read the tiles before */
		tile_load(share, c.row(head, query) + t, c.stride, c.n - query, STEP,
			  c.aligned_scores);
		values_load(value, values + t * v_stride, v_stride, attention_n_keys(a) - t,
			    a->value_dim - col, c.aligned_v);
		__syncthreads();
		if (begin == in_step(high.begin, t) && end == in_step(high.end, t)) {
			values_add<0, ROWS>(sum, share, value, begin, end);
		} else {
			values_add<0, TOGETHER>(sum, share, value, begin, end);
			values_add<TOGETHER, TOGETHER>(sum, share, value, in_step(high.begin, t),
						       in_step(high.end, t));
		}
	}
	mixed_store(c, head, query, col + threadIdx.x % SIDE * 4, sum);
}

static size_t whole_tiles(size_t n)
{
	return (n + TILE - 1) / TILE * TILE;
}

/* Returns the bytes of the scores of one query. */
static size_t scores_size(const struct attention_args *a)
{
	return a->n_heads * whole_tiles(attention_n_keys(a)) * sizeof(float);
}

/* Returns the queries that are computed at once: whole tiles.  The totals do not count, so that
 * sizes which are powers of two lose no tile to them. */
static size_t room_of(const struct attention_args *a)
{
	size_t n = SPARE / scores_size(a) / TILE * TILE, all = whole_tiles(a->n_tokens);

	if (n < TILE)
		n = TILE;
	return n < all ? n : all;
}

/* Never less for more tokens, because the scratch of the longest sequence serves shorter ones too:
 * so it has totals for all queries.  It serves both ways of attention. */
uint64_t gpu_attention_scratch(const struct attention_args *args)
{
	size_t n_queries = whole_tiles(args->n_tokens);
	uint64_t all, some = (uint64_t)TILE * scores_size(args), f16 = 0;

	if (args->n_tokens == 0 || args->n_heads == 0)
		return 0;
	all = (uint64_t)n_queries * scores_size(args);
	if (some < SPARE)
		some = SPARE;
	if (args->n_tokens > ATTENTION_MOST_EXACT)
		f16 = attention_f16_scratch(args);
	all = (some < all ? some : all) + args->n_heads * n_queries * sizeof(float);
	return f16 > all ? f16 : all;
}

static struct query_chunk chunk_of(const struct attention_args *a, size_t first, size_t room)
{
	struct query_chunk c = {};

	c.a = *a;
	c.first = first;
	c.n = a->n_tokens - first < room ? a->n_tokens - first : room;
	c.room = room;
	c.first_tile = attention_first_key(a, first) / TILE;
	c.n_key_tiles = (a->n_before + first + c.n + TILE - 1) / TILE - c.first_tile;
	c.n_query_tiles = (c.n + TILE - 1) / TILE;
	c.stride = whole_tiles(attention_n_keys(a));
	c.scores = static_cast<float *>(a->scratch);
	c.totals = c.scores + a->n_heads * room * c.stride;
	c.aligned_qk = fours_aligned(a->q, a->head_dim) && fours_aligned(a->k, a->head_dim);
	c.aligned_v = fours_aligned(a->v, a->value_dim);
	c.aligned_y = fours_aligned(a->y, a->value_dim);
	c.aligned_scores = fours_aligned(c.scores, c.stride);
	return c;
}

static void attend_launch(struct device_stream *stream, const struct query_chunk &c)
{
	size_t n_tiles = c.a.n_heads * c.n_query_tiles, rows = c.a.n_heads * c.n,
	       at_once = ATTEND_THREADS / SUM_LANES;
	void *native = device_stream_native(stream);

	GPU_LAUNCH(attend_scores, n_tiles * c.n_key_tiles, ATTEND_THREADS, native, c);
	device_launched(stream, "attend_scores");
	if (device_stream_stopped(stream))
		return;
	GPU_LAUNCH(attend_softmax, (rows + at_once - 1) / at_once, ATTEND_THREADS, native, c);
	device_launched(stream, "attend_softmax");
	if (device_stream_stopped(stream))
		return;
	GPU_LAUNCH(attend_mix, n_tiles * ((c.a.value_dim + TILE - 1) / TILE), ATTEND_THREADS,
		   native, c);
	device_launched(stream, "attend_mix");
}

void gpu_attention(struct device_stream *stream, const struct attention_args *args)
{
	if (args->n_heads == 0 || args->value_dim == 0 || device_stream_stopped(stream))
		return;
	if (attention_is_f16(args)) {
		attend_by_f16(stream, args);
		return;
	}
	for (size_t first = 0; first < args->n_tokens && !device_stream_stopped(stream);) {
		struct query_chunk c = chunk_of(args, first, room_of(args));

		attend_launch(stream, c);
		first += c.n;
	}
}
