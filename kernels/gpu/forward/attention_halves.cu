/* SPDX-License-Identifier: Apache-2.0
 *
 * Two kernels: the amaxes of pieces of a head, then fp16 in tiles without gaps.
 */
#include "kernels/gpu/forward/attention_halves.h"
#include "kernels/gpu/forward/magnitudes.h"

#define TILE  64 /* tokens of a block */
#define PIECE 64 /* tokens of an amax */
#define LOADS 4	 /* of a thread at once */

/* A block has a piece of a head's keys, or of its values.  A thread finds its first four by a
 * division and the others by steps. */
static __global__ void halves_amax(struct attention_args a, struct halves h, bool aligned_k,
				   bool aligned_v)
{
	unsigned n_pieces = (unsigned)h.n_pieces, first = blockIdx.x % n_pieces * PIECE;
	unsigned head = blockIdx.x / n_pieces, n_heads = (unsigned)a.n_kv_heads;
	bool values = head >= n_heads, aligned = values ? aligned_v : aligned_k;
	unsigned cols = (unsigned)(values ? a.value_dim : a.head_dim), n_across = (cols + 3) / 4;
	size_t stride = (size_t)n_heads * cols, left = a.n_tokens - first;
	const float *from =
		(values ? a.v + (size_t)(head - n_heads) * cols : a.k + (size_t)head * cols) +
		first * stride;
	unsigned n_tokens = left < PIECE ? (unsigned)left : PIECE;
	unsigned token = threadIdx.x / n_across, col = threadIdx.x % n_across, max = 0;
	unsigned step = THREADS / n_across, step_cols = THREADS % n_across;

	while (token < n_tokens) {
		float4 x[LOADS];

		GPU_UNROLL
		for (int k = 0; k < LOADS; k++) {
			int n = token < n_tokens ? fours_left(col * 4, cols) : 0;

			x[k] = fours_load(from + token * stride + col * 4, n, aligned);
			token += step;
			col += step_cols;
			if (col >= n_across) {
				col -= n_across;
				token++;
			}
		}
		GPU_UNROLL
		for (int k = 0; k < LOADS; k++)
			max = max_of(max, four_amax(x[k]));
	}
	max = block_max(max);
	if (threadIdx.x == 0)
		h.amax[blockIdx.x] = max;
}

static __device__ inline uint2 four_halves(float4 x, float by)
{
	return { gpu_f16x2(x.x * by, x.y * by), gpu_f16x2(x.z * by, x.w * by) };
}

/* Writes the keys of a tile. */
static __device__ inline void keys_put(const struct attention_args *a, const struct halves *h,
				       size_t head, size_t first, bool aligned)
{
	float by = shift_of_head(h, head, a->n_kv_heads, false).to;
	unsigned n_across = (unsigned)h->dim / 4;

	for (unsigned i = threadIdx.x; i < TILE * n_across; i += THREADS) {
		size_t token = first + i / n_across, col = i % n_across * 4;
		const float *from = a->k + (token * a->n_kv_heads + head) * a->head_dim + col;
		int n = token < a->n_tokens ? fours_left(col, a->head_dim) : 0;
		uint16_t *to = h->k + (head * h->n_tokens + token) * h->dim + col;

		*reinterpret_cast<uint2 *>(to) = four_halves(fours_load(from, n, aligned), by);
	}
}

/* Writes the values of a tile, two tokens in a word. */
static __device__ inline void values_put(const struct attention_args *a, const struct halves *h,
					 size_t head, size_t first, bool aligned)
{
	float by = shift_of_head(h, head, a->n_kv_heads, true).to;
	size_t stride = a->n_kv_heads * a->value_dim;

	for (unsigned i = threadIdx.x; i < TILE / 2 * (unsigned)h->values / 4; i += THREADS) {
		size_t token = first + i % (TILE / 2) * 2, col = i / (TILE / 2) * 4;
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
	size_t n_tiles = h.n_tokens / TILE, head = blockIdx.x / n_tiles;
	size_t first = blockIdx.x % n_tiles * TILE;

	keys_put(&a, &h, head, first, aligned_k);
	values_put(&a, &h, head, first, aligned_v);
}

size_t attention_f16_cols(size_t n)
{
	return n <= 64 ? 64 : n <= 128 ? 128 : n <= 192 ? 192 : n <= 256 ? 256 : 0;
}

/* A kernel of 192 features or more takes 128 values at a time, or 64 with 256 features. */
struct halves halves_of(const struct attention_args *a)
{
	struct halves h = {};
	size_t values;

	h.n_tokens = (a->n_tokens + TILE - 1) / TILE * TILE;
	h.n_pieces = (a->n_tokens + PIECE - 1) / PIECE;
	h.dim = attention_f16_cols(a->head_dim);
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

	if (!attention_f16_cols(args->head_dim))
		return 0;
	nowhere.scratch = NULL;
	h = halves_of(&nowhere);
	return args->n_kv_heads * (h.n_tokens * (h.dim + h.values) * sizeof(uint16_t) +
				   2 * h.n_pieces * sizeof(unsigned));
}

void halves_make(struct device_stream *stream, const struct attention_args *args,
		 const struct halves *halves)
{
	bool aligned_k = fours_aligned(args->k, args->head_dim);
	bool aligned_v = fours_aligned(args->v, args->value_dim);
	void *native = device_stream_native(stream);

	GPU_LAUNCH(halves_amax, 2 * args->n_kv_heads * halves->n_pieces, THREADS, native, *args,
		   *halves, aligned_k, aligned_v);
	device_launched(stream, "halves_amax");
	if (device_stream_stopped(stream))
		return;
	GPU_LAUNCH(halves_put, args->n_kv_heads * halves->n_tokens / TILE, THREADS, native, *args,
		   *halves, aligned_k, aligned_v);
	device_launched(stream, "halves_put");
}
