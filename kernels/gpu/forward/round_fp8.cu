/* SPDX-License-Identifier: Apache-2.0
 *
 * Values in FP8 and back, in registers: 4 bytes read for each element, and 2 or 4 written.  A tile
 * that lies in x without a gap has as many threads as hold it with 16 elements each; a block has a
 * longer one, with 32, and reads it once more, from the nearest cache, if those are too few.  If
 * the tile is the whole of x, or of a segment, the amax takes a launch of its own, and x is read
 * from memory twice.
 */
#include "kernels/gpu/forward/fp8_fours.h"
#include "kernels/gpu/forward/forward.h"

#define FOURS	    4				  /* of a thread at once */
#define LONG_FOURS  8				  /* of a tile of more than CHUNK elements */
#define SHORT_LANES 8				  /* threads of a tile of at most SHORT elements */
#define SHORT	    (SHORT_LANES * FOURS * 4)	  /* 128 */
#define CHUNK	    ((size_t)THREADS * FOURS * 4) /* elements of a block at once: 4096 */

static __device__ inline struct scaling tile_scaling(const struct fp8_launch *r, unsigned amax)
{
	return scaling_from_amax(&r->a.spec, f32_from_bits(amax),
				 scale_limit(DT_F32, r->a.spec.tile));
}

/* --- tiles of all of x, or of a segment of its rows --- */

/* Calls f(fours of the thread) for what a block has of x: a row, if there are segments, or one of
 * so many equal shares as there are blocks. */
template <typename F> static __device__ inline void each_of_share(const struct fp8_launch &r, F f)
{
	size_t row = r.a.segments ? blockIdx.x : 0, step = r.a.segments ? CHUNK : gridDim.x * CHUNK;

	for (size_t i = r.a.segments ? 0 : blockIdx.x * CHUNK; i < r.n; i += step) {
		size_t at = i + threadIdx.x * 4;
		struct held<FOURS> h;

		h.load(r, row * r.n + at, at < r.n ? r.n - at : 0, THREADS * 4);
		f(h);
	}
}

static __device__ inline struct value_stats *stats_of_block(const struct fp8_launch &r)
{
	return r.a.scratch + (r.a.segments ? r.a.segments[blockIdx.x] : 0);
}

static __global__ void __launch_bounds__(THREADS)
	round_fp8_amax(const __grid_constant__ struct fp8_launch r)
{
	unsigned max = 0;

	each_of_share(
		r, [&max](const struct held<FOURS> &h) { max = max_of(max, found<FOURS>(h).all); });
	max = block_max(max);
	if (threadIdx.x == 0)
		atomicMax(reinterpret_cast<unsigned *>(&stats_of_block(r)->amax), max);
}

/* The scale is as given, or of the amax in the scratch memory. */
template <enum fp8_format F, enum dtype Y>
static __global__ void __launch_bounds__(THREADS, 3)
	round_fp8_whole(const __grid_constant__ struct fp8_launch r)
{
	struct scaling scaling = { r.a.scale, false, r.a.scale_inv, 0 };
	struct counted counted = {};

	if (r.a.spec.arith != ARITH_GIVEN)
		scaling = tile_scaling(&r, f32_bits(stats_of_block(r)->amax));
	each_of_share(r, [&](const struct held<FOURS> &h) {
		held_put<F, Y, FOURS>(r, h, found<FOURS>(h), scaling, &counted);
	});
	counted.raise(r.a.counts);
}

/* --- tiles without a gap --- */

/* The four tiles of 32 elements that SHORT_LANES threads have: each thread computes the scaling of
 * one.  Tiles that do not exist are the first one again, and so have its scaling. */
static __device__ inline scalings<FOURS> quarters_scale(const struct fp8_launch &r,
							struct found<FOURS> found)
{
	unsigned first = threadIdx.x % 32 / SHORT_LANES * SHORT_LANES;
	struct scalings<FOURS> all;
	struct scaling mine;

	lanes_max_each<FOURS, SHORT_LANES>(found.of);
	mine = tile_scaling(&r, found.of[0]);
	GPU_UNROLL
	for (int k = 0; k < FOURS; k++) {
		int lane = (int)first + k * SHORT_LANES / FOURS;

		all.of[k].divide = spec_divides(&r.a.spec);
		all.of[k].factor =
			f32_from_bits(__shfl_sync(GPU_ALL_LANES, f32_bits(mine.factor), lane));
		all.of[k].scale_inv =
			f32_from_bits(__shfl_sync(GPU_ALL_LANES, f32_bits(mine.scale_inv), lane));
	}
	return all;
}

/* QUARTERS: SHORT_LANES threads have four tiles of 32 elements; else one. */
template <enum fp8_format F, enum dtype Y, bool QUARTERS>
static __global__ void __launch_bounds__(THREADS, 3)
	round_fp8_short(const __grid_constant__ struct fp8_launch r)
{
	size_t first = ((size_t)blockIdx.x * THREADS + threadIdx.x) / SHORT_LANES *
		       (QUARTERS ? SHORT : r.n);
	size_t end = first + (QUARTERS ? SHORT : r.n), all = r.n_tiles * r.n;
	size_t at = first + threadIdx.x % SHORT_LANES * 4;
	struct counted counted = {};
	struct held<FOURS> h;

	end = end < all ? end : all;
	h.load(r, at, at < end ? end - at : 0, SHORT_LANES * 4);
	const struct found<FOURS> found(h);

	if (QUARTERS) {
		held_put<F, Y, FOURS>(r, h, found, quarters_scale(r, found), &counted);
	} else {
		unsigned max = lanes_max(found.all, SHORT_LANES);

		held_put<F, Y, FOURS>(r, h, found, tile_scaling(&r, max), &counted);
	}
	counted.raise(r.a.counts);
}

/* Adjacent threads have a tile of at most CHUNK elements; a block has a LONG one, in turns, and
 * loads it again to write it if there is more than one. */
template <enum fp8_format F, enum dtype Y, bool LONG>
static __global__ void __launch_bounds__(THREADS, LONG ? 2 : 3)
	round_fp8_strips(const __grid_constant__ struct fp8_launch r)
{
	const int n_fours = LONG ? LONG_FOURS : FOURS;
	unsigned lanes = LONG ? THREADS : 1U << r.log2_lanes, lane = threadIdx.x & (lanes - 1);
	unsigned max = 0, of_block = 0;
	size_t tile =
		LONG ? blockIdx.x : ((size_t)blockIdx.x * THREADS + threadIdx.x) >> r.log2_lanes;
	size_t n = tile < r.n_tiles ? r.n : 0, at_once = (size_t)n_fours * lanes * 4, i = lane * 4;
	struct counted counted = {};
	struct scaling scaling;
	struct held<n_fours> h;

	do {
		h.load(r, tile * r.n + i, i < n ? n - i : 0, lanes * 4);
		max = max_of(max, found<n_fours>(h).all);
		i += at_once;
	} while (LONG && i < n);
	scaling = tile_scaling(&r, strip_max(max, lanes, false, &of_block));
	i = lane * 4;
	do {
		if (LONG && r.n > at_once)
			h.load(r, tile * r.n + i, n - i, lanes * 4);
		held_put<F, Y, n_fours>(r, h, found<n_fours>(h), scaling, &counted);
		i += at_once;
	} while (LONG && i < n);
	counted.raise(r.a.counts);
}

/* --- tiles of any other kind --- */

/* The elements of a tile; none if there is no such tile. */
struct tile_part {
	size_t row, col, n_rows, n_cols;
};

static __host__ __device__ inline size_t tile_size(size_t begin, size_t tile, size_t n)
{
	return tile == WHOLE || n - begin < tile ? n - begin : tile;
}

static __device__ inline struct tile_part tile_at(const struct fp8_launch &r, size_t i)
{
	size_t down = quotient(i, r.n_across), across = i - down * r.n_across;
	struct tile tile = r.a.spec.tile;
	struct tile_part part = { down * tile.rows, across * tile.cols, 0, 0 };

	if (i >= r.n_tiles)
		return {};
	part.n_rows = tile_size(part.row, tile.rows, r.a.n_rows);
	part.n_cols = tile_size(part.col, tile.cols, r.a.n_cols);
	return part;
}

/* Calls f(position, its values, their number) for each four elements of one of WIDTH threads. */
template <int WIDTH, typename F>
static __device__ inline void each_of_tile(const struct fp8_launch &r, const struct tile_part &part,
					   F f)
{
	size_t n_across = (part.n_cols + 3) / 4;

	for (size_t i = threadIdx.x % WIDTH; i < part.n_rows * n_across; i += WIDTH) {
		size_t row = quotient(i, n_across), col = (i - row * n_across) * 4;
		size_t at = (part.row + row) * r.a.n_cols + part.col + col;
		int n = fours_left(col, part.n_cols);

		f(at, fours_load(r.a.x + at, n, r.aligned), n);
	}
}

/* WIDTH adjacent threads have a tile: a warp, or the block. */
template <int WIDTH>
static __global__ void __launch_bounds__(THREADS)
	round_fp8_tiles(const __grid_constant__ struct fp8_launch r)
{
	size_t tile = ((size_t)blockIdx.x * THREADS + threadIdx.x) / WIDTH;
	const struct tile_part part = tile_at(r, tile);
	struct counted counted = {};
	struct scaling scaling;
	unsigned max = 0;

	each_of_tile<WIDTH>(r, part,
			    [&max](size_t, float4 v, int) { max = max_of(max, four_amax(v)); });
	max = WIDTH > 32 ? block_max(max) : lanes_max(max, WIDTH);
	scaling = tile_scaling(&r, max);
	each_of_tile<WIDTH>(r, part, [&](size_t at, float4 v, int n) {
		counted.add(four_put(&r, at, v, n, scaling));
	});
	counted.raise(r.a.counts);
}

/* --- launches --- */

/* The kernels of a format and a type of y. */
struct kernels {
	void (*whole)(struct fp8_launch), (*quarters)(struct fp8_launch), (*one)(struct fp8_launch),
		(*strips)(struct fp8_launch), (*long_strips)(struct fp8_launch);
};

template <enum fp8_format F, enum dtype Y> static struct kernels kernels_of(void)
{
	return { round_fp8_whole<F, Y>, round_fp8_short<F, Y, true>, round_fp8_short<F, Y, false>,
		 round_fp8_strips<F, Y, false>, round_fp8_strips<F, Y, true> };
}

static struct kernels kernels_for(const struct round_fp8_args *args)
{
	if (args->spec.format == FP8_E4M3)
		return args->dtype == DT_BF16 ? kernels_of<FP8_E4M3, DT_BF16>()
					      : kernels_of<FP8_E4M3, DT_F32>();
	return args->dtype == DT_BF16 ? kernels_of<FP8_E5M2, DT_BF16>()
				      : kernels_of<FP8_E5M2, DT_F32>();
}

static void launch(struct device_stream *stream, void (*kernel)(struct fp8_launch), size_t n_blocks,
		   const struct fp8_launch &r)
{
	GPU_LAUNCH(kernel, n_blocks, THREADS, device_stream_native(stream), r);
	device_launched(stream, "round_fp8");
}

static void whole_launch(struct device_stream *stream, const struct fp8_launch &r, size_t n_blocks,
			 size_t n_amaxes)
{
	if (r.a.spec.arith != ARITH_GIVEN) {
		device_zero(stream, r.a.scratch, n_amaxes * sizeof *r.a.scratch);
		launch(stream, round_fp8_amax, n_blocks, r);
	}
	launch(stream, kernels_for(&r.a).whole, n_blocks, r);
}

/* Of tiles of r.n elements without a gap between or within them. */
static void dense_launch(struct device_stream *stream, struct fp8_launch r)
{
	const struct kernels kernels = kernels_for(&r.a);
	size_t n_threads = r.n_tiles * SHORT_LANES;

	if (r.n == SHORT / FOURS) {
		n_threads = (r.n_tiles + FOURS - 1) / FOURS * SHORT_LANES;
		launch(stream, kernels.quarters, (n_threads + THREADS - 1) / THREADS, r);
	} else if (r.n <= SHORT) {
		launch(stream, kernels.one, (n_threads + THREADS - 1) / THREADS, r);
	} else if (r.n <= CHUNK) {
		while (((size_t)FOURS * 4 << r.log2_lanes) < r.n)
			r.log2_lanes++;
		n_threads = r.n_tiles << r.log2_lanes;
		launch(stream, kernels.strips, (n_threads + THREADS - 1) / THREADS, r);
	} else {
		launch(stream, kernels.long_strips, r.n_tiles, r);
	}
}

/* The threads of a tile have at most 16 elements each, if a warp holds it. */
static void tiles_launch(struct device_stream *stream, const struct fp8_launch &r)
{
	struct tile tile = r.a.spec.tile;
	bool is_short =
		tile_size(0, tile.rows, r.a.n_rows) * tile_size(0, tile.cols, r.a.n_cols) <= 512;
	size_t width = is_short ? 32 : THREADS;

	launch(stream, is_short ? round_fp8_tiles<32> : round_fp8_tiles<THREADS>,
	       (r.n_tiles * width + THREADS - 1) / THREADS, r);
}

/* step: the elements from a tile to the next one in its row. */
static struct fp8_launch rounding_of(const struct round_fp8_args *args, size_t n, size_t step)
{
	struct tile tile = args->spec.tile;
	struct fp8_launch r = {};

	r.a = *args;
	r.n = n;
	r.n_across = tile_count(args->n_cols, tile.cols);
	r.n_tiles = tile_count(args->n_rows, tile.rows) * r.n_across;
	r.aligned = (fours_aligned(args->x, 0) && step % 4 == 0) &&
		    (uintptr_t)args->y % (args->dtype == DT_BF16 ? 8 : 16) == 0;
	return r;
}

void gpu_round_fp8(struct device_stream *stream, const struct round_fp8_args *args)
{
	struct tile tile = args->spec.tile;
	size_t n = args->n_rows * args->n_cols,
	       cols = tile.cols == WHOLE ? args->n_cols : tile.cols;
	size_t n_blocks = (n + CHUNK - 1) / CHUNK;

	if (n == 0 || device_stream_stopped(stream))
		return;
	if (args->segments)
		whole_launch(stream, rounding_of(args, args->n_cols, args->n_cols), args->n_rows,
			     args->n_segments);
	else if (tile.rows == WHOLE && tile.cols == WHOLE)
		whole_launch(stream, rounding_of(args, n, 0),
			     n_blocks < OBSERVED_BLOCKS ? n_blocks : OBSERVED_BLOCKS, 1);
	else if (tile.rows == 1 && args->n_cols % cols == 0)
		dense_launch(stream, rounding_of(args, cols, cols));
	else
		tiles_launch(stream, rounding_of(args, 0, args->n_cols | tile.cols));
}
