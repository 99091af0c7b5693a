/* SPDX-License-Identifier: Apache-2.0
 *
 * What a warp of attention_f16.cu does with its queries and a tile of keys and values.
 *
 * A lane has the sums of rows lane / 4 and 8 more of each 16 queries, of the columns 2 (lane % 4)
 * and the next of each 8 (PTX, mma.m16n8k16).  What is summed may have any order, so that a lane
 * takes 8 adjacent features, or tokens, of each 32: 16 bytes for two products.  The lanes that read
 * at once read different banks of shared memory.
 */
#ifndef FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_QUERIES_H
#define FP8CONV_KERNELS_GPU_FORWARD_ATTENTION_QUERIES_H

#include <math.h>

#include "kernels/gpu/forward/attention_halves.h"
#include "kernels/gpu/forward/attention.h"

#define ATTEND_WARPS   4
#define ATTEND_THREADS (32 * ATTEND_WARPS)
#define LOG2_E	       1.44269504f

/* Of a product: rows and columns of its result; and the features or keys that two products take
 * after each other, of which a lane has 4 words of two fp16. */
#define HEIGHT 16
#define WIDTH  8
#define DEPTHS 32

#define GROUP_COLUMNS 4		  /* products between two that add to the same sum */
#define ONES	      0x3C003C00u /* two fp16 */

/* A tile in shared memory, which has room for two of them. */
template <int dim, int values> struct key_tile {
	static constexpr int KEYS = dim <= 64 ? 64 : 32;

	unsigned key[KEYS][dim / 2];
	unsigned value[values][KEYS / 2];
};

/* Returns word `col` of a row of n_words as it lies: the first 16 words of each 32 change places
 * with the others in odd rows.  Rows of 16 words lie as they are. */
template <int n_words> static __device__ inline unsigned word_at(unsigned row, unsigned col)
{
	return n_words % 32 ? col : col ^ row % 2 * 16;
}

/* Returns the words of this lane of the DEPTHS features or keys number `pair`. */
template <int n_words>
static __device__ inline uint4 words_load(const unsigned (*rows)[n_words], unsigned row,
					  unsigned pair)
{
	unsigned col = word_at<n_words>(row, pair * 16) + threadIdx.x % 4 * 4;

	return *reinterpret_cast<const uint4 *>(&rows[row][col]);
}

/* Begins to copy n rows of n_words words. */
template <int n, int n_words>
static __device__ inline void rows_begin(unsigned (*to)[n_words], const uint16_t *from,
					 size_t stride)
{
	const unsigned n_across = n_words / 4;

	GPU_UNROLL
	for (unsigned k = 0; k < n * n_across / ATTEND_THREADS; k++) {
		unsigned i = k * ATTEND_THREADS + threadIdx.x;
		unsigned row = i / n_across, col = i % n_across;

		gpu_copy_begin(&to[row][word_at<n_words>(row, col * 4)],
			       from + row * stride + col * 8);
	}
}

/* Begins to copy a tile.  k: its keys; v: its first tokens of all columns, n_tokens apart. */
template <int dim, int values>
static __device__ inline void tile_begin(struct key_tile<dim, values> *tile, const uint16_t *k,
					 const uint16_t *v, size_t n_tokens)
{
	const int n = key_tile<dim, values>::KEYS;

	rows_begin<n, dim / 2>(tile->key, k, dim);
	rows_begin<values, n / 2>(tile->value, v, n_tokens);
	gpu_copies_end();
}

/* Returns the token of a tile that column `col` of product n belongs to: a lane's own columns of 4
 * products are 8 adjacent tokens. */
static __device__ inline unsigned token_of(unsigned n, unsigned col)
{
	return n / 4 * DEPTHS + col / 2 * 8 + n % 4 * 2 + col % 2;
}

/* 16 queries of a warp; a lane's are in two halves. */
template <int dim, int values> struct queries {
	static constexpr int N_PAIRS = dim / DEPTHS, N_KEYS = key_tile<dim, values>::KEYS / WIDTH,
			     N_COLS = values / WIDTH;

	unsigned query[2 * N_PAIRS][4];
	/* total: the sums of the shares, each of them twice */
	float score[N_KEYS][4], sum[N_COLS][4], total[4];
	unsigned share[N_KEYS / 2][4]; /* exponentials of scores: left matrices */
	float back[2], most[2];	       /* what scores are multiplied by; the largest one */

	/* Loads queries from `first` on, times factor. */
	__device__ void load(const struct attention_args *a, size_t head, size_t first,
			     float factor)
	{
		size_t row = first + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 8;

		GPU_UNROLL
		for (int half = 0; half < 2; half++) {
			size_t token = row + half * 8;
			const float *q = a->q + (token * a->n_heads + head) * a->head_dim;
			float x[N_PAIRS * 8];
			struct shift shift;
			unsigned max = 0;

			GPU_UNROLL
			for (int i = 0; i < N_PAIRS * 8; i++) {
				size_t f = i / 8 * DEPTHS + col + i % 8;

				x[i] = token < a->n_tokens && f < a->head_dim ? factor * q[f] : 0;
				max = max_of(max, magnitude_bits(x[i]));
			}
			shift = shift_of(lanes_max(max, 4));
			back[half] = shift.back;
			GPU_UNROLL
			for (int i = 0; i < N_PAIRS * 4; i++)
				query[i / 2][half + i % 2 * 2] =
					gpu_f16x2(shift.to * x[2 * i], shift.to * x[2 * i + 1]);
		}
	}

	/* Begins with scores of keys that were multiplied by 1 / k_back, and nothing summed. */
	__device__ void begin(float k_back)
	{
		GPU_UNROLL
		for (int half = 0; half < 2; half++) {
			back[half] *= k_back;
			most[half] = -INFINITY;
		}
		GPU_UNROLL
		for (int i = 0; i < N_COLS * 4; i++)
			sum[i / 4][i % 4] = 0;
		GPU_UNROLL
		for (int i = 0; i < 4; i++)
			total[i] = 0;
	}

	__device__ void scores_begin()
	{
		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 4; i++)
			score[i / 4][i % 4] = 0;
	}

	/* Adds to the scores of keys n what the first half of features `pair` gives, or the second.
	 */
	__device__ void multiply(int n, int pair, int second, uint4 key)
	{
		const unsigned words[2][2] = { { key.x, key.y }, { key.z, key.w } };

		gpu_mma_f16(score[n], query[2 * pair + second], words[second]);
	}

	/* Caps scores, which then are in the base of 2, as others are, and need no factor. */
	__device__ void cap(float softcap)
	{
		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 4; i++) {
			float v = score[i / 4][i % 4] * back[i / 2 % 2];

			score[i / 4][i % 4] = LOG2_E * softcapped(v, softcap);
		}
	}

	/* Hides keys that a query does not attend to: all but `window` keys up to its own.
	 * distance: from the tile's first key to the first query. */
	__device__ void hide(int distance, int window)
	{
		int own = distance + (int)(threadIdx.x % 32 / 4);

		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 4; i++) {
			int behind = own + i / 2 % 2 * 8 -
				     (int)token_of(i / 4, threadIdx.x % 4 * 2 + i % 2);

			if (behind < 0 || behind >= window)
				score[i / 4][i % 4] = -INFINITY;
		}
	}

	/* Hides keys outside of the sets of queries from `first` on.  key: the tile's first one, of
	 * a word. */
	__device__ void hide_others(const struct attention_args *a, size_t head, size_t first,
				    size_t key)
	{
		GPU_UNROLL
		for (int half = 0; half < 2; half++) {
			size_t query = first + threadIdx.x % 32 / 4 + half * 8;
			const uint32_t *set = attention_set(
				a, head, query < a->n_tokens ? query : a->n_tokens - 1);

			GPU_UNROLL
			for (int i = 0; i < N_KEYS * 2; i++) {
				unsigned s = token_of(i / 2, threadIdx.x % 4 * 2 + i % 2);
				size_t word = (key + s) / 32;

				if (word < KEY_WORDS(a->n_tokens) && !(set[word] >> s % 32 & 1))
					score[i / 2][2 * half + i % 2] = -INFINITY;
			}
		}
	}

	/* Returns the largest score of a half, from -INFINITY on; of 4 sums at once, so that none
	 * waits for the one before. */
	__device__ float largest(int half) const
	{
		float max[4];

		GPU_UNROLL
		for (int i = 0; i < 4; i++)
			max[i] = fmaxf(-INFINITY, score[i / 2][2 * half + i % 2]);
		GPU_UNROLL
		for (int i = 4; i < N_KEYS * 2; i++)
			max[i % 4] = fmaxf(max[i % 4], score[i / 2][2 * half + i % 2]);
		return fmaxf(fmaxf(max[0], max[1]), fmaxf(max[2], max[3]));
	}

	/* Turns scores into exponentials relative to the largest score so far, which may grow:
	 * then what was summed shrinks.  are_capped: they need no factor. */
	__device__ void exponentiate(bool are_capped)
	{
		float max[2], base[2], shrink[2], factor[2];

		GPU_UNROLL
		for (int half = 0; half < 2; half++)
			max[half] = largest(half);
		GPU_UNROLL
		for (int step = 2; step > 0; step /= 2) {
			GPU_UNROLL
			for (int half = 0; half < 2; half++)
				max[half] = fmaxf(max[half], shuffle_xor(max[half], step));
		}
		GPU_UNROLL
		for (int half = 0; half < 2; half++) {
			factor[half] = are_capped ? 1 : back[half];
			max[half] = fmaxf(max[half] * factor[half], most[half]);
			base[half] = max[half] == -INFINITY ? 0 : max[half];
			shrink[half] = gpu_exp2(most[half] - base[half]);
			most[half] = max[half];
		}
		GPU_UNROLL
		for (int i = 0; i < N_KEYS * 2; i++) {
			int n = i / 2, half = i % 2;
			float *s = &score[n][2 * half];

			share[n / 2][n % 2 * 2 + half] =
				gpu_f16x2(gpu_exp2(fmaf(s[0], factor[half], -base[half])),
					  gpu_exp2(fmaf(s[1], factor[half], -base[half])));
		}
		if (__ballot_sync(GPU_ALL_LANES, shrink[0] != 1 || shrink[1] != 1))
			shrink_sums(shrink);
	}

	__device__ void shrink_sums(const float shrink[2])
	{
		GPU_UNROLL
		for (int i = 0; i < 4; i++) {
			total[i] *= shrink[i / 2];
			GPU_UNROLL
			for (int n = 0; n < N_COLS; n++)
				sum[n][i] *= shrink[i / 2];
		}
	}

	/* Adds the shares of half of a pair's keys to their sums. */
	__device__ void add_shares(int pair, int second)
	{
		const unsigned ones[2] = { ONES, ONES };

		gpu_mma_f16(total, share[2 * pair + second], ones);
	}

	/* Adds to the sums of columns n these shares times values. */
	__device__ void mix(int n, int pair, int second, uint4 value)
	{
		const unsigned words[2][2] = { { value.x, value.y }, { value.z, value.w } };

		gpu_mma_f16(sum[n], share[2 * pair + second], words[second]);
	}

	/* Returns what sums are multiplied by in the end.  sink: in the base of 2. */
	__device__ float factor_of_sums(int half, float sink)
	{
		float all = total[2 * half], max = larger(sink, most[half]), shrink;

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

/* How many times 16 queries a warp has, and the blocks of a multiprocessor: as registers allow. */
static constexpr int queries_for(int dim)
{
	return dim <= 64 ? 2 : 1;
}

static constexpr int blocks_for(int dim)
{
	return dim > 64 && dim <= 128 ? 3 : 2;
}

/* The queries of a warp, which use what a lane has loaded.  capped: with a softcap; chosen: with
 * sets of keys. */
template <int dim, int values, bool capped, bool chosen> struct warp_queries {
	static constexpr int N = queries_for(dim), ALL = N * HEIGHT,
			     KEYS = key_tile<dim, values>::KEYS;

	struct queries<dim, values> part[N];

	__device__ void begin(const struct attention_args *a, const struct halves *h, size_t head,
			      size_t first)
	{
		size_t kv_head = head / (a->n_heads / a->n_kv_heads);
		float k_back = shift_of_head(h, kv_head, a->n_kv_heads, false).back;

		GPU_UNROLL
		for (int m = 0; m < N; m++) {
			part[m].load(a, head, first + m * HEIGHT,
				     capped ? a->scale : LOG2_E * a->scale);
			part[m].begin(k_back);
		}
	}

	/* score = q k.  Products that follow each other add to different sums, so that none
	 * waits for the one before. */
	__device__ void multiply(const struct key_tile<dim, values> *tile)
	{
		unsigned row = threadIdx.x % 32 / 4;

		GPU_UNROLL
		for (int m = 0; m < N; m++)
			part[m].scores_begin();
		GPU_UNROLL
		for (int i = 0; i < dim / DEPTHS * (KEYS / DEPTHS); i++) {
			int pair = i / (KEYS / DEPTHS), first = i % (KEYS / DEPTHS) * GROUP_COLUMNS;
			uint4 key[GROUP_COLUMNS];

			GPU_UNROLL
			for (int n = 0; n < GROUP_COLUMNS; n++)
				key[n] = words_load<dim / 2>(tile->key, token_of(first + n, row),
							     pair);
			GPU_UNROLL
			for (int j = 0; j < 2 * GROUP_COLUMNS * N; j++) {
				int n = j / N % GROUP_COLUMNS, second = j / N / GROUP_COLUMNS;

				part[j % N].multiply(first + n, pair, second, key[n]);
			}
		}
	}

	/* Turns the scores of keys from `key` on into shares. */
	__device__ void share(const struct attention_args *a, size_t head, size_t query, size_t key,
			      int window)
	{
		bool hides =
			key + KEYS > query + 1 || key < attention_first_key(a, query + ALL - 1);

		GPU_UNROLL
		for (int m = 0; m < N; m++) {
			if (capped)
				part[m].cap(a->softcap);
			if (hides)
				part[m].hide((int)query + m * HEIGHT - (int)key, window);
			if (chosen)
				part[m].hide_others(a, head, query + m * HEIGHT, key);
			part[m].exponentiate(capped);
		}
	}

	/* sum += shares v, in an order as that of multiply(). */
	__device__ void mix(const struct key_tile<dim, values> *tile)
	{
		unsigned row = threadIdx.x % 32 / 4;
		const int n_groups = values / WIDTH / GROUP_COLUMNS;

		GPU_UNROLL
		for (int i = 0; i < KEYS / DEPTHS * n_groups; i++) {
			int pair = i / n_groups, first = i % n_groups * GROUP_COLUMNS;
			uint4 value[GROUP_COLUMNS];

			GPU_UNROLL
			for (int n = 0; n < GROUP_COLUMNS; n++)
				value[n] = words_load<KEYS / 2>(tile->value,
								(first + n) * WIDTH + row, pair);
			GPU_UNROLL
			for (int j = 0; j < 2 * GROUP_COLUMNS * N; j++) {
				int n = j / N % GROUP_COLUMNS, second = j / N / GROUP_COLUMNS;

				if (first == 0 && n == 0)
					part[j % N].add_shares(pair, second);
				part[j % N].mix(first + n, pair, second, value[n]);
			}
		}
	}

	__device__ void store(const struct attention_args *a, size_t head, size_t first, size_t col,
			      float v_back)
	{
		GPU_UNROLL
		for (int m = 0; m < N; m++)
			part[m].store(a, head, first + m * HEIGHT, col, v_back);
	}
};

#endif
