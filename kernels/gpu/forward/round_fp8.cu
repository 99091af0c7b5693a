/* SPDX-License-Identifier: Apache-2.0
 *
 * Values in FP8 and back, in registers: 4 bytes read for each element, and 2 or 4 written.  The
 * threads of a tile find its amax first, and read it once more from the nearest cache.  If the tile
 * is the whole of x, the amax takes a launch of its own, and x is read from memory twice.
 */
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"
#include "num/scale.h"

/* What a thread counts. */
struct counted {
	unsigned n_saturated, n_zeros;

	/* The first n of four values, and what of them is rounded, to which codes. */
	__device__ void add(float4 v, float4 scaled, unsigned codes, int n, enum fp8_format format)
	{
		const float x[] = { v.x, v.y, v.z, v.w };
		const float to_round[] = { scaled.x, scaled.y, scaled.z, scaled.w };

		GPU_UNROLL
		for (int i = 0; i < 4; i++) {
			unsigned magnitude = f32_magnitude(x[i]);
			bool exists = i < n;

			n_saturated +=
				exists &&
				(magnitude == F32_INF ||
				 (magnitude < F32_INF && fp8_saturates(format, to_round[i])));
			n_zeros += exists && magnitude && !(codes >> 8 * i & 0x7F);
		}
	}

	/* Adds those of a warp, all threads of which call it, to *counts, if not NULL. */
	__device__ void raise(struct cast_counts *counts)
	{
		if (!counts)
			return;
		for (int step = 16; step > 0; step /= 2) {
			n_saturated += __shfl_xor_sync(GPU_ALL_LANES, n_saturated, step);
			n_zeros += __shfl_xor_sync(GPU_ALL_LANES, n_zeros, step);
		}
		if (threadIdx.x % 32)
			return;
		count_add(reinterpret_cast<unsigned long long *>(&counts->n_saturated),
			  n_saturated);
		count_add(reinterpret_cast<unsigned long long *>(&counts->n_zeros), n_zeros);
	}
};

/* The arguments, and whether each four elements are aligned in x and y. */
struct rounding {
	struct round_fp8_args a;
	size_t n_across, n_tiles; /* tiles in a row of them, and all */
	bool aligned;

	/* Writes the values of up to 4 elements from `at` on. */
	__device__ void put(size_t at, float4 v, int n, struct scaling s,
			    struct counted *counted) const
	{
		enum fp8_format format = a.spec.format;
		float4 scaled = fours_each(v, [s](float x) { return scaling_apply(s, x); });
		uint16_t low = gpu_fp8x2(format, scaled.x, scaled.y);
		uint16_t high = gpu_fp8x2(format, scaled.z, scaled.w);
		float4 y;

		if (a.counts)
			counted->add(v, scaled, low | (unsigned)high << 16, n, format);
		gpu_fp8x2_to_f32(format, low, &y.x, &y.y);
		gpu_fp8x2_to_f32(format, high, &y.z, &y.w);
		y = fours_each(y, [s](float code) {
			float value = code * s.scale_inv;

			return f32_is_nan(value) ? f32_from_bits(F32_NAN) : value;
		});
		if (a.dtype == DT_BF16)
			codes_store(static_cast<uint16_t *>(a.y) + at, fours_each(y, rounded), n,
				    aligned);
		else
			fours_store(static_cast<float *>(a.y) + at, y, n, aligned);
	}
};

/* The elements of a tile; none if there is no such tile. */
struct tile_part {
	size_t row, row_end, col, col_end;
};

static __host__ __device__ inline size_t tile_end(size_t begin, size_t tile, size_t n)
{
	return tile == WHOLE || n - begin < tile ? n : begin + tile;
}

static __device__ inline struct tile_part tile_at(const struct rounding &r, size_t i)
{
	size_t down = quotient(i, r.n_across), across = i - down * r.n_across;
	struct tile tile = r.a.spec.tile;
	struct tile_part part = { down * tile.rows, 0, across * tile.cols, 0 };

	if (i >= r.n_tiles)
		return {};
	part.row_end = tile_end(part.row, tile.rows, r.a.n_rows);
	part.col_end = tile_end(part.col, tile.cols, r.a.n_cols);
	return part;
}

/* Calls f(position, its values, their number) for each four elements of one of WIDTH threads. */
template <int WIDTH, typename F>
static __device__ inline void each_of_tile(const struct rounding &r, const struct tile_part &part,
					   F f)
{
	for (size_t row = part.row; row < part.row_end; row++) {
		for (size_t col = part.col + threadIdx.x % WIDTH * 4; col < part.col_end;
		     col += 4 * WIDTH) {
			size_t at = row * r.a.n_cols + col;
			int n = fours_left(col, part.col_end);

			f(at, fours_load(r.a.x + at, n, r.aligned), n);
		}
	}
}

/* WIDTH adjacent threads have a tile: a part of a warp, or the block. */
template <int WIDTH>
static __global__ void __launch_bounds__(THREADS)
	round_fp8_tiles(const __grid_constant__ struct rounding r)
{
	size_t tile = ((size_t)blockIdx.x * THREADS + threadIdx.x) / WIDTH;
	const struct tile_part part = tile_at(r, tile);
	struct counted counted = {};
	struct scaling scaling;
	unsigned max = 0;

	each_of_tile<WIDTH>(r, part, [&max](size_t, float4 v, int) {
		max = max_of(max_of(max, max_of(magnitude_bits(v.x), magnitude_bits(v.y))),
			     max_of(magnitude_bits(v.z), magnitude_bits(v.w)));
	});
	max = WIDTH > 32 ? block_max(max) : lanes_max(max, WIDTH);
	scaling = scaling_from_amax(&r.a.spec, f32_from_bits(max),
				    scale_limit(DT_F32, r.a.spec.tile));
	each_of_tile<WIDTH>(
		r, part, [&](size_t at, float4 v, int n) { r.put(at, v, n, scaling, &counted); });
	counted.raise(r.a.counts);
}

/* One scale for all elements: as given, or of the amax in the scratch memory. */
static __global__ void __launch_bounds__(THREADS)
	round_fp8_whole(const __grid_constant__ struct rounding r)
{
	size_t n = r.a.n_rows * r.a.n_cols;
	struct scaling scaling = { r.a.scale, false, r.a.scale_inv, 0 };
	struct counted counted = {};

	if (r.a.spec.arith != ARITH_GIVEN)
		scaling = scaling_from_amax(&r.a.spec, r.a.scratch->amax,
					    scale_limit(DT_F32, r.a.spec.tile));
	for (size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4; at < n;
	     at += (size_t)gridDim.x * THREADS * 4) {
		int left = fours_left(at, n);

		r.put(at, fours_load(r.a.x + at, left, r.aligned), left, scaling, &counted);
	}
	counted.raise(r.a.counts);
}

static __global__ void __launch_bounds__(THREADS)
	segments_amax(const __grid_constant__ struct round_rows_fp8_args a, bool aligned)
{
	size_t first = (size_t)blockIdx.x * a.cast.n_cols;
	struct value_stats *stats = a.cast.scratch + a.segments[blockIdx.x];
	struct magnitudes found = {};

	for (size_t col = threadIdx.x * 4; col < a.cast.n_cols; col += THREADS * 4) {
		int n = fours_left(col, a.cast.n_cols);

		found.add(fours_load(a.cast.x + first + col, n, aligned), n);
	}
	magnitudes_raise<1>(&found, &stats);
}

/* A block for each row, whose segment's amax is known. */
static __global__ void __launch_bounds__(THREADS)
	round_fp8_rows(const __grid_constant__ struct rounding r, const uint32_t *segments)
{
	size_t first = (size_t)blockIdx.x * r.a.n_cols;
	struct counted counted = {};
	struct scaling scaling =
		scaling_from_amax(&r.a.spec, r.a.scratch[segments[blockIdx.x]].amax,
				  scale_limit(DT_F32, r.a.spec.tile));

	for (size_t col = threadIdx.x * 4; col < r.a.n_cols; col += THREADS * 4) {
		int n = fours_left(col, r.a.n_cols);

		r.put(first + col, fours_load(r.a.x + first + col, n, r.aligned), n, scaling,
		      &counted);
	}
}

static void whole_launch(struct device_stream *stream, const struct rounding &r)
{
	size_t n = r.a.n_rows * r.a.n_cols, n_blocks = (n + 4 * THREADS - 1) / (4 * THREADS);

	if (r.a.spec.arith != ARITH_GIVEN) {
		device_zero(stream, r.a.scratch, sizeof *r.a.scratch);
		gpu_amax(stream, r.a.x, n, r.a.scratch);
	}
	GPU_LAUNCH(round_fp8_whole, n_blocks < OBSERVED_BLOCKS ? n_blocks : OBSERVED_BLOCKS,
		   THREADS, device_stream_native(stream), r);
	device_launched(stream, "round_fp8_whole");
}

/* The threads of a tile have at most 16 elements each, if a warp holds it. */
static void tiles_launch(struct device_stream *stream, const struct rounding &r)
{
	struct tile tile = r.a.spec.tile;
	size_t n = tile_end(0, tile.rows, r.a.n_rows) * tile_end(0, tile.cols, r.a.n_cols);
	unsigned width = n <= 64 ? 8 : n <= 512 ? 32 : THREADS;
	auto kernel = width == 8    ? round_fp8_tiles<8>
		      : width == 32 ? round_fp8_tiles<32>
				    : round_fp8_tiles<THREADS>;

	GPU_LAUNCH(kernel, (r.n_tiles * width + THREADS - 1) / THREADS, THREADS,
		   device_stream_native(stream), r);
	device_launched(stream, "round_fp8_tiles");
}

/* step: the elements from a tile to the next one in its row, or in all rows. */
static struct rounding rounding_of(const struct round_fp8_args *args, size_t row, size_t step)
{
	struct tile tile = args->spec.tile;
	size_t n_across = tile_count(args->n_cols, tile.cols);

	return { *args, n_across, tile_count(args->n_rows, tile.rows) * n_across,
		 fours_aligned(args->x, row) && step % 4 == 0 &&
			 (args->dtype == DT_BF16 ? (uintptr_t)args->y % 8 == 0
						 : fours_aligned((float *)args->y, 0)) };
}

void gpu_round_fp8(struct device_stream *stream, const struct round_fp8_args *args)
{
	struct tile tile = args->spec.tile;
	bool whole = tile.rows == WHOLE && tile.cols == WHOLE;
	const struct rounding r =
		rounding_of(args, whole ? 0 : args->n_cols, tile.cols == WHOLE ? 0 : tile.cols);

	if (args->n_rows == 0 || args->n_cols == 0 || device_stream_stopped(stream))
		return;
	if (whole)
		whole_launch(stream, r);
	else
		tiles_launch(stream, r);
}

void gpu_round_rows_fp8(struct device_stream *stream, const struct round_rows_fp8_args *args)
{
	const struct round_fp8_args *cast = &args->cast;
	const struct rounding r = rounding_of(cast, cast->n_cols, 0);

	if (cast->n_rows == 0 || cast->n_cols == 0 || device_stream_stopped(stream))
		return;
	device_zero(stream, cast->scratch, args->n_segments * sizeof *cast->scratch);
	GPU_LAUNCH(segments_amax, cast->n_rows, THREADS, device_stream_native(stream), *args,
		   r.aligned);
	device_launched(stream, "segments_amax");
	GPU_LAUNCH(round_fp8_rows, cast->n_rows, THREADS, device_stream_native(stream), r,
		   args->segments);
	device_launched(stream, "round_fp8_rows");
}
