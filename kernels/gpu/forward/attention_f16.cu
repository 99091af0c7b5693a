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
 * Two kernels prepare keys and values (attention_halves.cu).  In the third a warp has 16 or 32
 * queries (attention_queries.h).
 */
#include "kernels/gpu/forward/attention_queries.h"

/* Room for two tiles of every kind. */
static __device__ inline void *tiles_room()
{
	__shared__ float4 room[2 * sizeof(struct key_tile<192, 128>) / sizeof(float4)];

	return room;
}

/* A block has queries of a head, the last of the sequence first: they take the longest.  It copies
 * a tile while it works on the one before. */
template <int dim, int values, bool capped, bool chosen>
static __global__ void __launch_bounds__(ATTEND_THREADS, blocks_for(dim))
	attend_f16(struct attention_args a, struct halves h)
{
	auto *tiles = static_cast<struct key_tile<dim, values> *>(tiles_room());
	struct warp_queries<dim, values, capped, chosen> own;
	const size_t n_queries = own.ALL, n_block = n_queries * ATTEND_WARPS, n_keys = own.KEYS;
	size_t n_across = h.values / values, i = blockIdx.x / n_across;
	size_t head = i % a.n_heads, kv_head = head / (a.n_heads / a.n_kv_heads);
	size_t col = blockIdx.x % n_across * values;
	size_t first = ((a.n_tokens - 1) / n_block - i / a.n_heads) * n_block;
	size_t end = first + n_block < a.n_tokens ? first + n_block : a.n_tokens;
	size_t query = first + threadIdx.x / 32 * n_queries;
	size_t begin = attention_first_key(&a, first) / n_keys * n_keys;
	int window = (int)(a.window && a.window < a.n_tokens ? a.window : a.n_tokens);
	const uint16_t *k = h.k + kv_head * h.n_tokens * dim;
	const uint16_t *v = h.v + (kv_head * h.values + col) * h.n_tokens;

	tile_begin(&tiles[0], k + begin * dim, v + begin, h.n_tokens);
	own.begin(&a, &h, head, query);
	for (size_t key = begin; key < end; key += n_keys) {
		struct key_tile<dim, values> *tile = &tiles[(key - begin) / n_keys % 2];

		gpu_copies_wait<0>();
		__syncthreads(); /* and all threads are done with the other tile */
		if (key + n_keys < end)
			tile_begin(&tiles[(key - begin) / n_keys % 2 ^ 1], k + (key + n_keys) * dim,
				   v + key + n_keys, h.n_tokens);
		if (key >= query + n_queries || key + n_keys <= attention_first_key(&a, query))
			continue; /* none of the warp's queries sees it */
		own.multiply(tile);
		own.share(&a, head, query, key, window);
		own.mix(tile);
	}
	own.store(&a, head, query, col, shift_of_head(&h, kv_head, a.n_kv_heads, true).back);
}

bool attention_is_f16(const struct attention_args *args)
{
	bool both = args->sets && args->softcap > 0; /* no kernel has both */

	return args->f16 && args->n_tokens > ATTENTION_MOST_EXACT && !both && !args->n_before &&
	       !args->distances.weights && attention_f16_cols(args->head_dim);
}

template <int dim, int values>
static void launch(struct device_stream *stream, const struct attention_args *a,
		   const struct halves &h)
{
	const size_t n = queries_for(dim) * HEIGHT * ATTEND_WARPS;
	size_t n_blocks = (a->n_tokens + n - 1) / n * a->n_heads * (h.values / values);
	void *native = device_stream_native(stream);

	if (a->softcap > 0)
		GPU_LAUNCH((attend_f16<dim, values, true, false>), n_blocks, ATTEND_THREADS, native,
			   *a, h);
	else if (a->sets)
		GPU_LAUNCH((attend_f16<dim, values, false, true>), n_blocks, ATTEND_THREADS, native,
			   *a, h);
	else
		GPU_LAUNCH((attend_f16<dim, values, false, false>), n_blocks, ATTEND_THREADS,
			   native, *a, h);
	device_launched(stream, "attend_f16");
}

void attend_by_f16(struct device_stream *stream, const struct attention_args *args)
{
	const struct halves h = halves_of(args);

	halves_make(stream, args, &h);
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
