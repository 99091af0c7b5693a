/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention of long sequences by products of fp16 (tensor cores), as in FlashAttention-2
 * (arXiv 2307.08691): scores stay in registers, and a query keeps the largest score and the sum of
 * exponentials that it has seen.
 *
 * Queries, keys, values and shares have the 11 bits of fp16.  Each query, and the keys and the
 * values of each head, are scaled by a power of two, so that none of them overflows.  The sum of
 * the shares is that of the rounded ones.
 *
 * Two kernels prepare keys and values: amaxes of pieces of a head, then fp16 in tiles without gaps.
 * In the third a warp has 16 queries, and a lane the sums of two of them: rows lane / 4 and 8 more,
 * of the columns 2 (lane % 4) and the next of each 8 (PTX, mma.m16n8k16).  Rows in shared memory
 * are 4 words longer than a multiple of 32, so that the lanes of a warp read different banks.
 */
#include <math.h>

#include "kernels/gpu/forward/attention.h"
#include "kernels/gpu/forward/float4_rows.h"
#include "kernels/gpu/forward/softcap.h"
#include "kernels/gpu/reduce.h"

#define ATTEND_WARPS   4
#define ATTEND_THREADS (32 * ATTEND_WARPS)
#define WARP_QUERIES   16
#define QUERIES	       (ATTEND_WARPS * WARP_QUERIES)
#define KEYS	       64  /* of a tile */
#define PIECE	       256 /* tokens of an amax */
#define LOG2_E	       1.44269504f

/* Of a product: features or keys, and the columns of its result; two fp16 are a word. */
#define DEPTH 16
#define WIDTH 8

/* Keys and values of all heads as fp16, in the scratch. */
struct halves {
	size_t n_tokens;    /* whole tiles; those that do not exist are 0 */
	size_t dim, values; /* as a kernel takes them; columns that do not exist are 0 */
	size_t n_pieces;
	uint16_t *k;	/* (n_kv_heads, n_tokens, dim) */
	uint16_t *v;	/* (n_kv_heads, values, n_tokens) */
	unsigned *amax; /* (2, n_kv_heads, n_pieces): of k, of v, as bits */
};

/* A power of two: the largest magnitude times it is in [2^14, 2^15). */
struct shift {
	float to, back;
};

static __device__ inline struct shift shift_of(unsigned amax)
{
	unsigned exponent = amax >> 23;

	exponent = exponent < 30 ? 30 : exponent > 254 ? 254 : exponent;
	return { f32_from_bits((268 - exponent) << 23), f32_from_bits((exponent - 14) << 23) };
}

/* Returns that of the keys of a head, or of its values. */
static __device__ inline struct shift shift_of_head(const struct halves *h, size_t head,
						    size_t n_heads, bool values)
{
	const unsigned *amax = h->amax + ((values ? n_heads : 0) + head) * h->n_pieces;
	unsigned max = 0;

	for (size_t i = 0; i < h->n_pieces; i++)
		max = max_of(max, amax[i]);
	return shift_of(max);
}

/* A block has a piece of a head's keys, or of its values. */
static __global__ void halves_amax(struct attention_args a, struct halves h, bool aligned_k,
				   bool aligned_v)
{
	size_t piece = blockIdx.x % h.n_pieces, head = blockIdx.x / h.n_pieces % a.n_kv_heads;
	bool values = blockIdx.x / h.n_pieces >= a.n_kv_heads;
	size_t cols = values ? a.value_dim : a.head_dim, n_across = (cols + 3) / 4;
	const float *from = (values ? a.v : a.k) + head * cols;
	unsigned max = 0;

	for (size_t i = threadIdx.x; i < PIECE * n_across; i += THREADS) {
		size_t token = piece * PIECE + i / n_across, col = i % n_across * 4;
		int n = token < a.n_tokens ? fours_left(col, cols) : 0;
		float4 x = fours_load(from + token * a.n_kv_heads * cols + col, n,
				      values ? aligned_v : aligned_k);

		max = max_of(max, max_of(max_of(magnitude_bits(x.x), magnitude_bits(x.y)),
					 max_of(magnitude_bits(x.z), magnitude_bits(x.w))));
	}
	max = block_max(max);
	if (threadIdx.x == 0)
		h.amax[blockIdx.x] = max;
}

static __device__ inline uint2 halves_of(float4 x, float by)
{
	return { gpu_f16x2(x.x * by, x.y * by), gpu_f16x2(x.z * by, x.w * by) };
}

/* Writes the keys of a tile. */
static __device__ inline void keys_put(const struct attention_args *a, const struct halves *h,
				       size_t head, size_t first, bool aligned)
{
	float by = shift_of_head(h, head, a->n_kv_heads, false).to;
	unsigned n_across = (unsigned)h->dim / 4;

	for (unsigned i = threadIdx.x; i < KEYS * n_across; i += THREADS) {
		size_t token = first + i / n_across, col = i % n_across * 4;
		const float *from = a->k + (token * a->n_kv_heads + head) * a->head_dim + col;
		int n = token < a->n_tokens ? fours_left(col, a->head_dim) : 0;
		uint16_t *to = h->k + (head * h->n_tokens + token) * h->dim + col;

		*reinterpret_cast<uint2 *>(to) = halves_of(fours_load(from, n, aligned), by);
	}
}

/* Writes the values of a tile, two tokens in a word. */
static __device__ inline void values_put(const struct attention_args *a, const struct halves *h,
					 size_t head, size_t first, bool aligned)
{
	float by = shift_of_head(h, head, a->n_kv_heads, true).to;
	size_t stride = a->n_kv_heads * a->value_dim;

	for (unsigned i = threadIdx.x; i < KEYS / 2 * (unsigned)h->values / 4; i += THREADS) {
		size_t token = first + i % (KEYS / 2) * 2, col = i / (KEYS / 2) * 4;
		const float *from = a->v + token * stride + head * a->value_dim + col;
		int n = fours_left(col, a->value_dim);
		float4 x = fours_load(from, token < a->n_tokens ? n : 0, aligned);
		float4 y = fours_load(from + stride, token + 1 < a->n_tokens ? n : 0, aligned);
		unsigned *to = reinterpret_cast<unsigned *>(
			h->v + (head * h->values + col) * h->n_tokens + token);
		size_t next = h->n_tokens / 2;

		to[0] = gpu_f16x2(x.x * by, y.x * by);
		to[next] = gpu_f16x2(x.y * by, y.y * by);
		to[2 * next] = gpu_f16x2(x.z * by, y.z * by);
		to[3 * next] = gpu_f16x2(x.w * by, y.w * by);
	}
}

/* A block has a tile of a head. */
static __global__ void halves_put(struct attention_args a, struct halves h, bool aligned_k,
				  bool aligned_v)
{
	size_t n_tiles = h.n_tokens / KEYS, head = blockIdx.x / n_tiles;
	size_t first = blockIdx.x % n_tiles * KEYS;

	keys_put(&a, &h, head, first, aligned_k);
	values_put(&a, &h, head, first, aligned_v);
}

/* A tile in shared memory. */
template <int dim, int values> struct key_tile {
	unsigned key[KEYS][dim / 2 + 4];
	unsigned value[values][KEYS / 2 + 4];
};

/* Room for every tile. */
static __device__ inline void *tile_room()
{
	__shared__ float4 room[sizeof(struct key_tile<192, 128>) / sizeof(float4)];

	return room;
}

/* Begins to copy n rows of n_words words. */
template <int n, int n_words>
static __device__ inline void rows_begin(unsigned (*to)[n_words + 4], const uint16_t *from,
					 size_t stride)
{
	const int n_across = n_words / 4;

	GPU_UNROLL
	for (unsigned i = threadIdx.x; i < n * n_across; i += ATTEND_THREADS)
		gpu_copy_begin(&to[i / n_across][i % n_across * 4],
			       from + i / n_across * stride + i % n_across * 8);
	gpu_copies_end();
}

template <int dim, int values> struct attention {
	static constexpr int N_STEPS = dim / DEPTH, N_KEYS = KEYS / WIDTH, N_COLS = values / WIDTH;

	unsigned query[N_STEPS][4];
	float score[N_KEYS][4], sum[N_COLS][4];
	/* of the two queries: what scores are multiplied by; the largest one; the sum of the
	 * lane's shares */
	float back[2], most[2], total[2];

	/* Loads queries from `first` on, times factor. */
	__device__ void queries_load(const struct attention_args *a, size_t head, size_t first,
				     float factor)
	{
		size_t row = first + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;

		GPU_UNROLL
		for (int half = 0; half < 2; half++) {
			size_t token = row + half * 8;
			const float *q = a->q + (token * a->n_heads + head) * a->head_dim;
			float x[N_STEPS * 4];
			struct shift shift;
			unsigned max = 0;

			GPU_UNROLL
			for (int i = 0; i < N_STEPS * 4; i++) {
				size_t f = col + i / 2 * WIDTH + i % 2;

				x[i] = token < a->n_tokens && f < a->head_dim ? factor * q[f] : 0;
				max = max_of(max, magnitude_bits(x[i]));
			}
			shift = shift_of(lanes_max(max, 4));
			back[half] = shift.back;
			GPU_UNROLL
			for (int i = 0; i < N_STEPS * 2; i++)
				query[i / 2][half + i % 2 * 2] =
					gpu_f16x2(shift.to * x[2 * i], shift.to * x[2 * i + 1]);
		}
	}

	/* score = q k, times what the shifts took.  Products that follow each other add to
	 * different sums, so that none waits for the one before. */
	__device__ void multiply(const struct key_tile<dim, values> *tile)
	{
		unsigned row = threadIdx.x % 32 / 4, col = threadIdx.x % 4;

		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 4; i++)
			score[i / 4][i % 4] = 0;
		GPU_UNROLL
		for (int s = 0; s < N_STEPS; s++) {
			GPU_UNROLL
			for (int n = 0; n < N_KEYS; n++) {
				const unsigned *k = &tile->key[n * WIDTH + row][s * 8 + col];
				const unsigned key[2] = { k[0], k[4] };

				gpu_mma_f16(score[n], query[s], key);
			}
		}
		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 4; i++)
			score[i / 4][i % 4] *= back[i / 2 % 2];
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
			unsigned share = gpu_f16x2(gpu_exp2(score[n][2 * half] - base),
						   gpu_exp2(score[n][2 * half + 1] - base));

			total[half] += gpu_f16_to_f32((uint16_t)share) +
				       gpu_f16_to_f32((uint16_t)(share >> 16));
			score[n][half] = f32_from_bits(share); /* its place now */
		}
	}

	/* sum += shares v: the shares lie as the rows of a left matrix do. */
	__device__ void mix(const struct key_tile<dim, values> *tile)
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

				gpu_mma_f16(sum[n], shares, right);
			}
		}
	}

	/* Returns what sums are multiplied by in the end.  sink: in the base of 2. */
	__device__ float factor_of_sums(int half, float sink)
	{
		float all = total[half], max = larger(sink, most[half]), shrink;

		all += shuffle_xor(all, 1);
		all += shuffle_xor(all, 2);
		if (sink == -INFINITY)
			return 1.0f / all;
		shrink = gpu_exp2(most[half] - max);
		return shrink / (all * shrink + gpu_exp2(sink - max));
	}

	/* Writes sums, divided by that of the shares, to columns from `col` on. */
	__device__ void store(const struct attention_args *a, size_t head, size_t first, size_t col,
			      float v_back)
	{
		size_t row = first + threadIdx.x % 32 / 4, at = col + threadIdx.x % 4 * 2;
		float sink = a->sinks ? LOG2_E * a->sinks[head] : -INFINITY;

		GPU_UNROLL
		for (int half = 0; half < 2; half++) {
			size_t token = row + half * 8;
			float *y = a->y + (token * a->n_heads + head) * a->value_dim;
			float factor = v_back * factor_of_sums(half, sink);

			GPU_UNROLL
			for (int i = 0; i < N_COLS * 2; i++) {
				size_t c = at + i / 2 * WIDTH + i % 2;

				if (token < a->n_tokens && c < a->value_dim)
					y[c] = factor * sum[i / 2][2 * half + i % 2];
			}
		}
	}
};

/* Blocks of a multiprocessor: as many as have registers. */
static constexpr int blocks_for(int dim)
{
	return dim <= 64 ? 4 : dim <= 128 ? 3 : 2;
}

/* A block has 64 queries of a head, the last of the sequence first: they take the longest. */
template <int dim, int values>
static __global__ void __launch_bounds__(ATTEND_THREADS, blocks_for(dim))
	attend_f16(struct attention_args a, struct halves h)
{
	auto *tile = static_cast<struct key_tile<dim, values> *>(tile_room());
	struct attention<dim, values> own = {
	};
	size_t n_across = h.values / values, i = blockIdx.x / n_across;
	size_t head = i % a.n_heads, kv_head = head / (a.n_heads / a.n_kv_heads);
	size_t col = blockIdx.x % n_across * values;
	size_t first = ((a.n_tokens - 1) / QUERIES - i / a.n_heads) * QUERIES;
	size_t end = first + QUERIES < a.n_tokens ? first + QUERIES : a.n_tokens;
	size_t query = first + threadIdx.x / 32 * WARP_QUERIES, begin;
	int window = (int)(a.window && a.window < a.n_tokens ? a.window : a.n_tokens);
	const uint16_t *k = h.k + kv_head * h.n_tokens * dim;
	const uint16_t *v = h.v + (kv_head * h.values + col) * h.n_tokens;
	float k_back = shift_of_head(&h, kv_head, a.n_kv_heads, false).back;

	own.queries_load(&a, head, query, a.softcap > 0 ? a.scale : LOG2_E * a.scale);
	for (int half = 0; half < 2; half++) {
		own.back[half] *= k_back;
		own.most[half] = -INFINITY;
	}
	begin = attention_first_key(&a, first) / KEYS * KEYS;
	rows_begin<KEYS, dim / 2>(tile->key, k + begin * dim, dim);
	for (size_t key = begin; key < end; key += KEYS) {
		bool seen =
			key < query + WARP_QUERIES && key + KEYS > attention_first_key(&a, query);

		rows_begin<values, KEYS / 2>(tile->value, v + key, h.n_tokens);
		gpu_copies_wait<1>(); /* all but the last: the keys are there */
		__syncthreads();
		if (seen)
			own.multiply(tile);
		__syncthreads(); /* all threads have read the keys */
		if (key + KEYS < end)
			rows_begin<KEYS, dim / 2>(tile->key, k + (key + KEYS) * dim, dim);
		if (seen && a.softcap > 0)
			own.cap(a.softcap);
		if (seen && (key + KEYS > query + 1 ||
			     key < attention_first_key(&a, query + WARP_QUERIES - 1)))
			own.hide((int)query - (int)key, window);
		if (seen) {
			own.exponentiate(0);
			own.exponentiate(1);
		}
		if (key + KEYS < end)
			gpu_copies_wait<1>();
		else
			gpu_copies_wait<0>();
		__syncthreads();
		if (seen)
			own.mix(tile);
		__syncthreads(); /* all threads have read the values */
	}
	own.store(&a, head, query, col, shift_of_head(&h, kv_head, a.n_kv_heads, true).back);
}

/* The columns that a kernel takes; 0: none takes so many.  One of 192 features or more takes 128
 * values at a time, or 64 with 256 features. */
static size_t dim_of(size_t n)
{
	return n <= 64 ? 64 : n <= 128 ? 128 : n <= 192 ? 192 : n <= 256 ? 256 : 0;
}

static struct halves halves_of_args(const struct attention_args *a)
{
	struct halves h = {};
	size_t values;

	h.n_tokens = (a->n_tokens + KEYS - 1) / KEYS * KEYS;
	h.n_pieces = (a->n_tokens + PIECE - 1) / PIECE;
	h.dim = dim_of(a->head_dim);
	values = h.dim == 64 || h.dim == 256 ? 64 : 128;
	h.values = (a->value_dim + values - 1) / values * values;
	h.k = static_cast<uint16_t *>(a->scratch);
	h.v = h.k + a->n_kv_heads * h.n_tokens * h.dim;
	h.amax = reinterpret_cast<unsigned *>(h.v + a->n_kv_heads * h.n_tokens * h.values);
	return h;
}

uint64_t attention_f16_scratch(const struct attention_args *args)
{
	struct attention_args nowhere = *args;
	struct halves h;

	if (!dim_of(args->head_dim))
		return 0;
	nowhere.scratch = NULL;
	h = halves_of_args(&nowhere);
	return args->n_kv_heads * (h.n_tokens * (h.dim + h.values) * sizeof(uint16_t) +
				   2 * h.n_pieces * sizeof(unsigned));
}

bool attention_is_f16(const struct attention_args *args)
{
	return args->f16 && args->n_tokens > ATTENTION_MOST_EXACT && dim_of(args->head_dim);
}

template <int dim, int values>
static void launch(struct device_stream *stream, const struct attention_args *a,
		   const struct halves &h)
{
	size_t n_blocks = (a->n_tokens + QUERIES - 1) / QUERIES * a->n_heads * (h.values / values);

	GPU_LAUNCH((attend_f16<dim, values>), n_blocks, ATTEND_THREADS,
		   device_stream_native(stream), *a, h);
	device_launched(stream, "attend_f16");
}

void attend_by_f16(struct device_stream *stream, const struct attention_args *args)
{
	const struct halves h = halves_of_args(args);
	bool aligned_k = fours_aligned(args->k, args->head_dim);
	bool aligned_v = fours_aligned(args->v, args->value_dim);
	void *native = device_stream_native(stream);

	GPU_LAUNCH(halves_amax, 2 * args->n_kv_heads * h.n_pieces, THREADS, native, *args, h,
		   aligned_k, aligned_v);
	device_launched(stream, "halves_amax");
	if (device_stream_stopped(stream))
		return;
	GPU_LAUNCH(halves_put, args->n_kv_heads * h.n_tokens / KEYS, THREADS, native, *args, h,
		   aligned_k, aligned_v);
	device_launched(stream, "halves_put");
	if (device_stream_stopped(stream))
		return;
	if (h.dim == 64)
		launch<64, 64>(stream, args, h);
	else if (h.dim == 128)
		launch<128, 128>(stream, args, h);
	else if (h.dim == 192)
		launch<192, 128>(stream, args, h);
	else
		launch<256, 64>(stream, args, h);
}
