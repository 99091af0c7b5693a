/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention of long sequences in one kernel, by products of bf16 (tensor cores): as in
 * FlashAttention-2 (arXiv 2307.08691), scores stay in registers, and a query keeps the largest score
 * and the sum of exponentials that it has seen.
 *
 * q and k are two bf16 each, so that scores have 16 bits (q k = high high + low high + high low);
 * shares and values are one.  The sum of the shares is that of the rounded ones.  So the error of y
 * is at most 3 * 2^-9 of the weighted |v|; rounding y to bf16 may make 2^-9.
 *
 * A warp has 16 queries, and a lane the sums of two of them: rows lane / 4 and 8 more, of the
 * columns 2 (lane % 4) and the next of each 8 (PTX, mma.m16n8k16).  A block goes through the keys
 * in tiles.  Rows in shared memory are 4 words longer than a multiple of 32, or 20 words, so that
 * the lanes of a warp read different banks.
 */
#include <math.h>

#include "kernels/gpu/forward/attention.h"
#include "kernels/gpu/forward/float4_rows.h"
#include "kernels/gpu/forward/softcap.h"
#include "kernels/gpu/reduce.h"

#define ATTEND_WARPS   8
#define ATTEND_THREADS (32 * ATTEND_WARPS)
#define WARP_QUERIES   16
#define QUERIES	       (ATTEND_WARPS * WARP_QUERIES)
#define LOG2_E	       1.44269504f

/* Of features or columns of a product, and of the words that hold them: two bf16. */
#define DEPTH	       16
#define WIDTH	       8
#define PITCH(n_words) ((n_words) + 4)

/* A tile of `keys` keys for at most `dim` features, and `values` columns of values. */
template <int dim, int values, int keys> struct key_tile {
	unsigned high[keys][PITCH(dim / 2)], low[keys][PITCH(dim / 2)]; /* of keys */
	unsigned value[values][PITCH(keys / 2)];			/* columns */
};

/* Room for every tile. */
static __device__ inline void *tile_room()
{
	__shared__ float4 room[sizeof(struct key_tile<256, 128, 32>) / sizeof(float4)];

	return room;
}

/* Two floats as two words of bf16: x + y = high + low but for 2^-17 of them. */
static __device__ inline void split(float x, float y, unsigned *high, unsigned *low)
{
	*high = gpu_bf16x2(x, y);
	*low = gpu_bf16x2(x - f32_from_bits(*high << 16), y - f32_from_bits(*high & 0xFFFF0000));
}

template <int dim, int values, int keys> struct attention {
	static constexpr int N_STEPS = dim / DEPTH, N_KEYS = keys / WIDTH, N_COLS = values / WIDTH;
	typedef struct key_tile<dim, values, keys> tile_type;

	unsigned high[N_STEPS][4], low[N_STEPS][4]; /* queries */
	float score[N_KEYS][4], sum[N_COLS][4];
	float most[2], total[2]; /* of the two queries; total: of the lane's keys */

	/* Queries from `first` on, times factor. */
	__device__ void queries_load(const struct attention_args *a, size_t head, size_t first,
				     float factor)
	{
		size_t row = first + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;

		GPU_UNROLL
		for (int i = 0; i < N_STEPS * 4; i++) {
			size_t query = row + i % 2 * 8, f = col + i / 4 * DEPTH + i / 2 % 2 * 8;
			const float *q = a->q + (query * a->n_heads + head) * a->head_dim + f;
			bool there = query < a->n_tokens;
			float x = there && f < a->head_dim ? factor * q[0] : 0;
			float y = there && f + 1 < a->head_dim ? factor * q[1] : 0;

			split(x, y, &high[i / 4][i % 4], &low[i / 4][i % 4]);
		}
	}

	/* score = q k. */
	__device__ void multiply(const tile_type *tile)
	{
		unsigned row = threadIdx.x % 32 / 4, col = threadIdx.x % 4;

		GPU_UNROLL
		for (int n = 0; n < N_KEYS; n++) {
			GPU_UNROLL
			for (int i = 0; i < 4; i++)
				score[n][i] = 0;
			GPU_UNROLL
			for (int s = 0; s < N_STEPS; s++) {
				const unsigned *h = &tile->high[n * WIDTH + row][s * 8 + col];
				const unsigned *l = &tile->low[n * WIDTH + row][s * 8 + col];
				const unsigned k[2] = { h[0], h[4] }, rest[2] = { l[0], l[4] };

				gpu_mma_bf16(score[n], low[s], k);
				gpu_mma_bf16(score[n], high[s], rest);
				gpu_mma_bf16(score[n], high[s], k);
			}
		}
	}

	/* Caps scores, which then are in the base of 2, as others are. */
	__device__ void cap(float softcap)
	{
		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 4; i++) {
			float v = score[i / 4][i % 4];

			score[i / 4][i % 4] = v > -INFINITY ? LOG2_E * softcapped(v, softcap) : v;
		}
	}

	/* Hides keys that a query does not attend to: all but `window` keys up to its own.
	 * distance: from the tile's first key to the warp's first query. */
	__device__ void hide(int distance, int window)
	{
		int own = distance + (int)(threadIdx.x % 32 / 4) - (int)(threadIdx.x % 4 * 2);

		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 4; i++) {
			int behind = own + i / 2 % 2 * 8 - i / 4 * WIDTH - i % 2;

			if (behind < 0 || behind >= window)
				score[i / 4][i % 4] = -INFINITY;
		}
	}

	/* Turns scores into exponentials relative to the largest score so far, which may grow:
	 * then what was summed shrinks.  half: the first or the second of the lane's queries. */
	__device__ void exponentiate(int half)
	{
		float max = most[half], base, shrink;

		GPU_UNROLL
		for (int n = 0; n < N_KEYS; n++)
			max = larger(score[n][2 * half + 1], larger(score[n][2 * half], max));
		max = lanes_largest(max, 4);
		base = max == -INFINITY ? 0 : max;
		shrink = gpu_exp2(most[half] - base);
		most[half] = max;
		total[half] *= shrink;
		GPU_UNROLL
		for (int n = 0; n < N_COLS; n++) {
			sum[n][2 * half] *= shrink;
			sum[n][2 * half + 1] *= shrink;
		}
		GPU_UNROLL
		for (int n = 0; n < N_KEYS; n++) {
			float x = gpu_exp2(score[n][2 * half] - base);
			float y = gpu_exp2(score[n][2 * half + 1] - base);
			unsigned share = gpu_bf16x2(x, y);

			total[half] +=
				f32_from_bits(share << 16) + f32_from_bits(share & 0xFFFF0000);
			score[n][half] = f32_from_bits(share); /* its place now */
		}
	}

	/* sum += shares v: the shares lie as the rows of a left matrix do. */
	__device__ void mix(const tile_type *tile)
	{
		unsigned row = threadIdx.x % 32 / 4, col = threadIdx.x % 4;

		GPU_UNROLL
		for (int s = 0; s < N_KEYS / 2; s++) {
			const float *first = score[2 * s], *second = score[2 * s + 1];
			const unsigned shares[4] = { f32_bits(first[0]), f32_bits(first[1]),
						     f32_bits(second[0]), f32_bits(second[1]) };

			GPU_UNROLL
			for (int n = 0; n < N_COLS; n++) {
				const unsigned *v = &tile->value[n * WIDTH + row][s * 8 + col];
				const unsigned right[2] = { v[0], v[4] };

				gpu_mma_bf16(sum[n], shares, right);
			}
		}
	}

	/* Divides by the sum of the shares, and writes columns from `col` on. */
	__device__ void store(const struct attention_args *a, size_t head, size_t first, size_t col)
	{
		size_t row = first + threadIdx.x % 32 / 4, at = col + threadIdx.x % 4 * 2;

		GPU_UNROLL
		for (int half = 0; half < 2; half++) {
			size_t query = row + half * 8;
			float *y = a->y + (query * a->n_heads + head) * a->value_dim;
			float factor =
				share_of_sums(half, a->sinks ? LOG2_E * a->sinks[head] : -INFINITY);

			GPU_UNROLL
			for (int i = 0; i < N_COLS * 2; i++) {
				size_t c = at + i / 2 * WIDTH + i % 2;

				if (query < a->n_tokens && c < a->value_dim)
					y[c] = factor * sum[i / 2][2 * half + i % 2];
			}
		}
	}

	/* Returns what sums are multiplied by in the end.  sink: in the base of 2. */
	__device__ float share_of_sums(int half, float sink)
	{
		float all = total[half], max = larger(sink, most[half]), shrink;

		all += shuffle_xor(all, 1);
		all += shuffle_xor(all, 2);
		if (sink == -INFINITY)
			return 1.0f / all;
		shrink = gpu_exp2(most[half] - max);
		return shrink / (all * shrink + gpu_exp2(sink - max));
	}
};

/* Loads keys from `key` on; what does not exist is 0. */
template <int dim, int values, int keys>
static __device__ inline void keys_load(struct key_tile<dim, values, keys> *tile,
					const struct attention_args *a, size_t kv_head, size_t key,
					bool aligned)
{
	unsigned stride = (unsigned)(a->n_kv_heads * a->head_dim);
	const float *from = a->k + key * stride + kv_head * a->head_dim;

	GPU_UNROLL
	for (unsigned i = threadIdx.x; i < keys * dim / 4; i += ATTEND_THREADS) {
		unsigned row = i / (dim / 4), col = i % (dim / 4) * 4;
		int n = key + row < a->n_tokens ? fours_left(col, a->head_dim) : 0;
		float4 v = fours_load(from + row * stride + col, n, aligned);

		split(v.x, v.y, &tile->high[row][col / 2], &tile->low[row][col / 2]);
		split(v.z, v.w, &tile->high[row][col / 2 + 1], &tile->low[row][col / 2 + 1]);
	}
}

/* Loads values of the same tokens, columns from `col` on, two tokens in a word. */
template <int dim, int values, int keys>
static __device__ inline void values_load(struct key_tile<dim, values, keys> *tile,
					  const struct attention_args *a, size_t kv_head,
					  size_t key, size_t col, bool aligned)
{
	unsigned stride = (unsigned)(a->n_kv_heads * a->value_dim);
	const float *from = a->v + key * stride + kv_head * a->value_dim + col;

	GPU_UNROLL
	for (unsigned i = threadIdx.x; i < keys / 2 * (values / 4); i += ATTEND_THREADS) {
		unsigned pair = i / 4 % (keys / 2), c = (i / 4 / (keys / 2) * 4 + i % 4) * 4;
		const float *x = from + 2 * pair * stride + c;
		int n = fours_left(col + c, a->value_dim);
		float4 first = fours_load(x, key + 2 * pair < a->n_tokens ? n : 0, aligned);
		float4 next =
			fours_load(x + stride, key + 2 * pair + 1 < a->n_tokens ? n : 0, aligned);

		tile->value[c][pair] = gpu_bf16x2(first.x, next.x);
		tile->value[c + 1][pair] = gpu_bf16x2(first.y, next.y);
		tile->value[c + 2][pair] = gpu_bf16x2(first.z, next.z);
		tile->value[c + 3][pair] = gpu_bf16x2(first.w, next.w);
	}
}

/* A block has 128 queries of a head, the last of the sequence first: they take the longest. */
template <int dim, int values, int keys>
static __global__ void __launch_bounds__(ATTEND_THREADS, dim <= 64 ? 2 : 1)
	attend_bf16(struct attention_args a, bool aligned_k, bool aligned_v)
{
	auto *tile = static_cast<struct key_tile<dim, values, keys> *>(tile_room());
	struct attention<dim, values, keys> own = {
	};
	size_t n_across = (a.value_dim + values - 1) / values, i = blockIdx.x / n_across;
	size_t head = i % a.n_heads, kv_head = head / (a.n_heads / a.n_kv_heads);
	size_t col = blockIdx.x % n_across * values;
	size_t first = ((a.n_tokens - 1) / QUERIES - i / a.n_heads) * QUERIES;
	size_t end = first + QUERIES < a.n_tokens ? first + QUERIES : a.n_tokens;
	size_t query = first + threadIdx.x / 32 * WARP_QUERIES;
	int window = (int)(a.window && a.window < a.n_tokens ? a.window : a.n_tokens);

	own.most[0] = own.most[1] = -INFINITY;
	own.queries_load(&a, head, query, a.softcap > 0 ? a.scale : LOG2_E * a.scale);
	for (size_t key = attention_first_key(&a, first) / keys * keys; key < end; key += keys) {
		__syncthreads(); /* all threads have read the tile before */
		keys_load(tile, &a, kv_head, key, aligned_k);
		values_load(tile, &a, kv_head, key, col, aligned_v);
		__syncthreads();
		if (key >= query + WARP_QUERIES || key + keys <= attention_first_key(&a, query))
			continue;
		own.multiply(tile);
		if (a.softcap > 0)
			own.cap(a.softcap);
		if (key + keys > query + 1 ||
		    key < attention_first_key(&a, query + WARP_QUERIES - 1))
			own.hide((int)query - (int)key, window);
		own.exponentiate(0);
		own.exponentiate(1);
		own.mix(tile);
	}
	own.store(&a, head, query, col);
}

template <int dim, int values, int keys>
static void launch(struct device_stream *stream, const struct attention_args *a)
{
	size_t n_across = (a->value_dim + values - 1) / values;
	size_t n_blocks = (a->n_tokens + QUERIES - 1) / QUERIES * a->n_heads * n_across;

	GPU_LAUNCH((attend_bf16<dim, values, keys>), n_blocks, ATTEND_THREADS,
		   device_stream_native(stream), *a, fours_aligned(a->k, a->head_dim),
		   fours_aligned(a->v, a->value_dim));
	device_launched(stream, "attend_bf16");
}

bool attention_is_bf16(const struct attention_args *args)
{
	return args->bf16 && args->n_tokens > ATTENTION_MOST_EXACT && args->head_dim <= 256;
}

void attend_by_bf16(struct device_stream *stream, const struct attention_args *args)
{
	if (args->head_dim <= 64 && args->value_dim <= 64)
		launch<64, 64, 32>(stream, args);
	else if (args->head_dim <= 128)
		launch<128, 128, 32>(stream, args);
	else if (args->head_dim <= 192)
		launch<192, 128, 32>(stream, args);
	else
		launch<256, 128, 32>(stream, args);
}
