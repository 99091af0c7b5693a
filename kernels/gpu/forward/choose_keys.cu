/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of keys in two kernels, for as many queries at once as have room for their scores:
 * scores in tiles (score_tiles.h), where a block adds the scores of all heads; then a warp for each
 * query, which finds the rank of the last block of keys bit by bit, as on the CPU
 * (kernels/cpu/forward/key_loops.h).
 */
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/score_tiles.h"

#define SPARE	     ((size_t)64 << 20)
#define WARP	     32
#define CHOOSE_WARPS (TILE_THREADS / WARP)

/* Some queries of all sets. */
struct key_chunk {
	struct choose_keys_args a;
	size_t n_sets;
	size_t first, n; /* the queries */
	size_t room;	 /* queries of a set with room: whole tiles */
	size_t stride;	 /* of rows of scores: whole tiles */
	size_t n_key_tiles, n_query_tiles;
	float *scores;	 /* (n_sets, room, stride) */
	uint32_t *ranks; /* (n_sets, room, stride) */
	bool aligned;

	__device__ size_t row(size_t set, size_t query) const
	{
		return (set * room + query) * stride;
	}
};

/* Adds the scores of a head to the total, or takes them for it. */
static __device__ inline void head_add(const struct key_chunk &c, size_t head, size_t query,
				       const float sum[ROWS][4], float total[ROWS][4])
{
	GPU_UNROLL
	for (int i = 0; i < ROWS; i++) {
		size_t at = query + query_at(i);
		float weight = c.a.weights ? 0 : 1;

		if (c.a.weights && at < c.n)
			weight = c.a.weights[(c.first + at) * c.a.n_heads + head];
		GPU_UNROLL
		for (int j = 0; j < 4; j++) {
			float v = sum[i][j];

			total[i][j] = choose_keys_together(&c.a)
					      ? fmaf(weight, v > 0 ? v : 0, total[i][j])
					      : v;
		}
	}
}

static __global__ void choose_scores(struct key_chunk c)
{
	__shared__ float4 q[TILE][PITCH], k[TILE][PITCH];
	const struct choose_keys_args *a = &c.a;
	size_t key = blockIdx.x % c.n_key_tiles * TILE, tile = blockIdx.x / c.n_key_tiles;
	size_t query = tile % c.n_query_tiles * TILE, set = tile / c.n_query_tiles;
	size_t head = set, end = choose_keys_together(a) || !a->n_heads ? a->n_heads : set + 1;
	size_t stride = a->n_heads * a->head_dim;
	const float *keys = a->k + key * a->head_dim;
	float total[ROWS][4] = { { 0 } };

	if (key >= c.first + query + TILE)
		return;
	for (; head < end; head++) {
		const float *queries = a->q + (c.first + query) * stride + head * a->head_dim;
		float sum[ROWS][4] = { { 0 } };

		for (size_t f = 0; f < a->head_dim; f += STEP) {
			__syncthreads(); /* all threads have read the tile before */
			tile_load(q, queries + f, stride, c.n - query, a->head_dim - f, c.aligned);
			tile_load(k, keys + f, a->head_dim, choose_keys_n_keys(a) - key,
				  a->head_dim - f, c.aligned);
			__syncthreads();
			scores_add(sum, q, k);
		}
		head_add(c, head, query, sum, total);
	}
	GPU_UNROLL
	for (int i = 0; i < ROWS; i++) {
		float *scores =
			c.scores + c.row(set, query + query_at(i)) + key + threadIdx.x % SIDE;

		GPU_UNROLL
		for (int j = 0; j < 4; j++)
			scores[j * SIDE] = total[i][j];
	}
}

/* Returns how many of n ranks are at least `rank`, which is not 0, to all lanes of the warp.  After
 * them there are zeros up to whole fours. */
static __device__ inline unsigned count_from(const uint32_t *ranks, size_t n, uint32_t rank)
{
	const uint4 *fours = reinterpret_cast<const uint4 *>(ranks);
	unsigned count = 0;

	for (size_t i = threadIdx.x % WARP; i < (n + 3) / 4; i += WARP) {
		uint4 of = fours[i];

		count += (of.x >= rank) + (of.y >= rank) + (of.z >= rank) + (of.w >= rank);
	}
	for (int step = WARP / 2; step > 0; step /= 2)
		count += __shfl_xor_sync(GPU_ALL_LANES, count, step);
	return count;
}

/* Turns the n ranks into 1 for the n_chosen largest, of equal ones the first, and 0. */
static __device__ inline void mark_chosen(uint32_t *ranks, size_t n, size_t n_chosen)
{
	unsigned lane = threadIdx.x % WARP;
	size_t n_equal = n_chosen;
	uint32_t last = 0;

	for (uint32_t bit = 0x80000000u; bit; bit >>= 1)
		if (count_from(ranks, n, last | bit) >= n_chosen)
			last |= bit;
	if (last < UINT32_MAX)
		n_equal -= count_from(ranks, n, last + 1);
	for (size_t i = 0; i < n; i += WARP) {
		uint32_t rank = i + lane < n ? ranks[i + lane] : 0;
		bool equal = i + lane < n && rank == last;
		unsigned all = __ballot_sync(GPU_ALL_LANES, equal);

		if (i + lane < n)
			ranks[i + lane] = rank > last ||
					  (equal && __popc(all & ((1u << lane) - 1)) < n_equal);
		n_equal -= __popc(all) < n_equal ? __popc(all) : n_equal;
	}
}

/* Whether a query has a token of its set, which has the tokens of pools. */
static __device__ inline bool has_token(const struct choose_keys_args *a, const uint32_t *marks,
					size_t query, size_t token)
{
	size_t pool = token / a->pool_size;

	return token <= query &&
	       (pool >= choose_keys_n_of(a, query) || marks[pool / a->block_size]);
}

/* Whether a query has the key of a bit of its set: of a pool, or of a token. */
static __device__ inline bool has_key(const struct choose_keys_args *a, const uint32_t *marks,
				      size_t query, size_t bit)
{
	size_t token = bit - a->n_pools;

	if (a->of_tokens)
		return has_token(a, marks, query, bit);
	if (bit < choose_keys_n_keys(a))
		return bit < choose_keys_n_of(a, query) && marks[bit / a->block_size];
	return token <= query && (!a->window || token + a->window > query);
}

/* Writes the set of a query by the marks of its blocks. */
static __device__ inline void set_put(const struct choose_keys_args *a, const uint32_t *marks,
				      size_t query, uint32_t *set)
{
	size_t n_bits = choose_keys_n_bits(a);

	for (size_t i = threadIdx.x % WARP; i < KEY_WORDS(n_bits); i += WARP) {
		uint32_t word = 0;

		for (size_t s = i * 32; s < i * 32 + 32 && s < n_bits; s++)
			word |= (uint32_t)has_key(a, marks, query, s) << s % 32;
		set[i] = word;
	}
}

static __global__ void choose_sets(struct key_chunk c)
{
	const struct choose_keys_args *a = &c.a;
	size_t i = (size_t)blockIdx.x * CHOOSE_WARPS + threadIdx.x / WARP;
	size_t set = i / c.n, at = i - set * c.n, query = c.first + at;
	size_t n = choose_keys_n_blocks(a, query);
	uint32_t *ranks = c.ranks + c.row(set, at);

	if (set >= c.n_sets)
		return; /* the whole warp */
	for (size_t block = threadIdx.x % WARP; block < (n + 3) / 4 * 4; block += WARP)
		ranks[block] =
			block < n ? choose_keys_rank(a, c.scores + c.row(set, at), block, query)
				  : 0;
	__syncwarp(); /* lanes read each other's ranks */
	mark_chosen(ranks, n, a->n_chosen < n ? a->n_chosen : n);
	__syncwarp(); /* lanes read each other's marks */
	set_put(a, ranks, query,
		a->sets + (set * a->n_tokens + query) * KEY_WORDS(choose_keys_n_bits(a)));
}

static size_t whole_tiles(size_t n)
{
	return (n + TILE - 1) / TILE * TILE;
}

/* Returns the queries that are computed at once: whole tiles. */
static size_t room_of(const struct choose_keys_args *a)
{
	size_t all = whole_tiles(a->n_tokens), stride = whole_tiles(choose_keys_n_keys(a));
	size_t n = SPARE / (choose_keys_n_sets(a) * stride * sizeof(float)) / TILE * TILE;

	if (n < TILE)
		n = TILE;
	return n < all ? n : all;
}

/* Never less for more tokens, because the scratch of the longest sequence serves shorter ones
 * too. */
uint64_t gpu_choose_keys_scratch(const struct choose_keys_args *args)
{
	uint64_t row =
		choose_keys_n_sets(args) * whole_tiles(choose_keys_n_keys(args)) * sizeof(float);
	uint64_t all = row * whole_tiles(args->n_tokens), some = row * TILE;

	if (some < SPARE)
		some = SPARE;
	return 2 * (some < all ? some : all);
}

static struct key_chunk chunk_of(const struct choose_keys_args *a, size_t first)
{
	struct key_chunk c = {};

	c.a = *a;
	c.n_sets = choose_keys_n_sets(a);
	c.room = room_of(a);
	c.first = first;
	c.n = a->n_tokens - first < c.room ? a->n_tokens - first : c.room;
	c.stride = whole_tiles(choose_keys_n_keys(a));
	c.n_key_tiles = (first + c.n + TILE - 1) / TILE;
	if (c.n_key_tiles > c.stride / TILE)
		c.n_key_tiles = c.stride / TILE;
	c.n_query_tiles = (c.n + TILE - 1) / TILE;
	c.scores = static_cast<float *>(a->scratch);
	c.ranks = reinterpret_cast<uint32_t *>(c.scores + c.n_sets * c.room * c.stride);
	c.aligned = fours_aligned(a->q, a->head_dim) && fours_aligned(a->k, a->head_dim);
	return c;
}

void gpu_choose_keys(struct device_stream *stream, const struct choose_keys_args *args)
{
	size_t n_sets = choose_keys_n_sets(args);
	void *native = device_stream_native(stream);

	if (n_sets == 0)
		return;
	for (size_t first = 0; first < args->n_tokens && !device_stream_stopped(stream);) {
		const struct key_chunk c = chunk_of(args, first);

		GPU_LAUNCH(choose_scores, n_sets * c.n_query_tiles * c.n_key_tiles, TILE_THREADS,
			   native, c);
		device_launched(stream, "choose_scores");
		if (device_stream_stopped(stream))
			return;
		GPU_LAUNCH(choose_sets, (n_sets * c.n + CHOOSE_WARPS - 1) / CHOOSE_WARPS,
			   TILE_THREADS, native, c);
		device_launched(stream, "choose_sets");
		first += c.n;
	}
}
