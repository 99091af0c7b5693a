/* SPDX-License-Identifier: Apache-2.0
 *
 * From the elements of a region or a strip to the codes and scale_inv of the wanted copies, in the
 * kernel that reads the elements.
 *
 * A copy is quantized along its rows; the columnwise one is that of the transpose.  Its codes are
 * transposed in shared memory, so that both copies are written in whole lines.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_CAST_KERNELS_H
#define FP8CONV_KERNELS_GPU_CAST_CAST_KERNELS_H

#include "kernels/gpu/cast/amax.h"
#include "num/scale.h"
#include "num/scale_grid.h"
#include "kernels/gpu/cast/row_tile.h"

struct write_args {
	size_t rows, cols;
	struct qspec spec;
	float limit;	    /* scale_limit() */
	struct fp8_out out; /* stats is ignored */
	/* of each tile of the rowwise copy, or the scales for ARITH_GIVEN; NULL if a region holds
	 * its tiles */
	const float *amax;
	const float *amax_turned; /* of the columnwise copy */
	unsigned long long *counts;
};

/* Only the copy that is written first counts. */
struct counts {
	bool wanted;
	unsigned n; /* of the thread: nonfinite | saturated << 16 */
};

static __device__ GPU_CALL unsigned element_count(enum fp8_format format, float v, float scaled)
{
	unsigned magnitude = f32_magnitude(v);
	unsigned saturated =
		magnitude == F32_INF || (magnitude < F32_INF && fp8_saturates(format, scaled));

	return (magnitude >= F32_INF) | saturated << 16;
}

static_assert(N_ROWS == GROUP, "a thread's elements of a column are counted as a group");

/* By value, so that they stay in registers. */
struct group {
	float v[GROUP];
};

/* v[0 .. n-1], and what scaling made of them. */
static __device__ GPU_CALL unsigned group_count(enum fp8_format format, struct group v,
						struct group scaled, int n)
{
	unsigned count = 0;

	for (int i = 0; i < GROUP; i++)
		count += i < n ? element_count(format, v.v[i], scaled.v[i]) : 0;
	return count;
}

/* What is not finite does not become so by scaling, and saturation follows the magnitude: where the
 * largest scaled element is finite and does not saturate, none counts. */
static __device__ inline void count_group(struct counts *counts, enum fp8_format format,
					  const struct group *v, const struct group *scaled, int n)
{
	unsigned max = 0;

	for (int i = 0; i < GROUP; i++)
		max = max_of(max, f32_magnitude(scaled->v[i]));
	if (max >= F32_INF || fp8_saturates(format, f32_from_bits(max)))
		counts->n += group_count(format, *v, *scaled, n);
}

struct pair {
	float low, high;
};

/* A division is long: one copy of it serves all. */
static __device__ GPU_CALL struct pair pair_divide(float factor, float low, float high)
{
	struct scaling s = { factor, true, 0, 0 };

	return { scaling_apply(s, low), scaling_apply(s, high) };
}

static __device__ inline struct pair pair_scale(struct scaling s, float low, float high)
{
	if (s.divide)
		return pair_divide(s.factor, low, high);
	return { scaling_apply(s, low), scaling_apply(s, high) };
}

static __device__ GPU_CALL struct scaling tile_scaling(const struct write_args *a, float amax)
{
	return scaling_from_amax(&a->spec, amax, a->limit);
}

static __device__ GPU_CALL void scale_inv_put(const struct fp8_copy *copy, enum scale_type type,
					      size_t i, size_t j, struct scaling s)
{
	size_t at = scale_index(&copy->grid, i, j);

	if (type == SCALE_E8M0)
		static_cast<uint8_t *>(copy->scale_inv)[at] = s.e8m0;
	else
		static_cast<float *>(copy->scale_inv)[at] = s.scale_inv;
}

/* False: no tile begins at a thread's k-th row of a region.  Known when the kernel is compiled. */
static __device__ inline bool row_may_begin(int k, size_t tile_rows)
{
	return tile_begins((size_t)k * ROW_STEP, tile_rows);
}

/* The thread with the first element of a tile writes its scale_inv. */
static __device__ inline void scale_inv_write(const struct fp8_copy *copy, const struct qspec *spec,
					      struct tile tile, size_t row, size_t col,
					      struct scaling s)
{
	if (tile_begins(row, tile.rows) && tile_begins(col, tile.cols))
		scale_inv_put(copy, spec->scale_type, tile_index(row, tile.rows),
			      tile_index(col, tile.cols), s);
}

static __device__ inline struct scaling scaling_known(const struct write_args *a, const float *amax,
						      size_t i, size_t j, size_t n_across)
{
	return tile_scaling(a, amax[i * n_across + j]);
}

/* Returns the scaling of the region, if it is one tile or part of one.  max: of the region. */
template <enum granule G>
static __device__ struct scaling region_scaling(const struct write_args *a, unsigned max)
{
	struct scaling none = { 1, false, 1, 0 };

	if (G == ONE)
		return scaling_known(a, a->amax, 0, 0, 1);
	if (G == SQUARE)
		return tile_scaling(a, f32_from_bits(max));
	return none;
}

/* --- rowwise --- */

/* Returns the scaling of the thread's row k; all threads of the warp must call it. */
template <enum granule G>
static __device__ struct scaling row_scaling(const struct region *r, const struct write_args *a,
					     int k, struct scaling whole)
{
	if (G == EACH_ROW && region_has(r, k))
		return scaling_known(a, a->amax, r->row + (size_t)k * ROW_STEP, 0, 1);
	if (G == ROW_128)
		return tile_scaling(a, f32_from_bits(lanes_max(group_max(r->v[k]), 128 / GROUP)));
	if (G == ROW_32)
		return tile_scaling(a, f32_from_bits(lanes_max(group_max(r->v[k]), 32 / GROUP)));
	return whole;
}

static __device__ inline uint8_t *rowwise_at(const struct write_args *a, size_t row, size_t col)
{
	const struct fp8_copy *copy = &a->out.rowwise;

	return copy->codes + row * copy->row_stride + col * copy->col_stride;
}

/* Writes the codes of v[0 .. n-1], neighbors in a row, from `to` on. */
static __device__ inline void group_write(const struct write_args *a, uint8_t *to,
					  const float v[GROUP], int n, struct scaling s,
					  struct counts *counts)
{
	size_t col_stride = a->out.rowwise.col_stride;
	struct group group, scaled;
	uint16_t codes[GROUP / 2];

	for (int i = 0; i < GROUP; i += 2) {
		struct pair pair = pair_scale(s, v[i], v[i + 1]);

		group.v[i] = v[i];
		group.v[i + 1] = v[i + 1];
		scaled.v[i] = pair.low;
		scaled.v[i + 1] = pair.high;
		codes[i / 2] = gpu_fp8x2(a->spec.format, pair.low, pair.high);
	}
	count_group(counts, a->spec.format, &group, &scaled, n);
	if (n == GROUP && col_stride == 1 && (uintptr_t)to % GROUP == 0) {
		*reinterpret_cast<uint2 *>(to) = { codes[0] | (unsigned)codes[1] << 16,
						   codes[2] | (unsigned)codes[3] << 16 };
		return;
	}
	for (int i = 0; i < n; i++)
		to[(size_t)i * col_stride] = (uint8_t)(codes[i / 2] >> 8 * (i % 2));
}

/* Tiles may begin anywhere: each element finds its own.  turned: the columnwise copy. */
static __device__ inline void element_write(const struct region *r, const struct write_args *a,
					    int k, int c, bool turned, struct counts *counts)
{
	const struct fp8_copy *copy = turned ? &a->out.columnwise : &a->out.rowwise;
	size_t row = turned ? r->col + c : r->row + (size_t)k * ROW_STEP;
	size_t col = turned ? r->row + (size_t)k * ROW_STEP : r->col + c;
	struct tile tile = a->spec.tile;
	struct scaling s = scaling_known(a, turned ? a->amax_turned : a->amax,
					 tile_index(row, tile.rows), tile_index(col, tile.cols),
					 tile_count(turned ? a->rows : a->cols, tile.cols));
	float scaled = scaling_apply(s, r->v[k][c]);

	if (counts->wanted)
		counts->n += element_count(a->spec.format, r->v[k][c], scaled);
	copy->codes[row * copy->row_stride + col * copy->col_stride] =
		(uint8_t)gpu_fp8x2(a->spec.format, scaled, 0);
	scale_inv_write(copy, &a->spec, tile, row, col, s);
}

static __device__ inline void elements_write(const struct region *r, const struct write_args *a,
					     bool turned, struct counts *counts)
{
	GPU_LOOP
	for (int k = 0; k < N_ROWS; k++) {
		GPU_LOOP
		for (int c = 0; c < GROUP; c++) {
			if (region_has(r, k) && c < r->n_cols)
				element_write(r, a, k, c, turned, counts);
		}
	}
}

template <enum granule G>
static __device__ void rowwise_write(const struct region *r, const struct write_args *a,
				     struct scaling whole, struct counts *counts)
{
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		struct scaling s = row_scaling<G>(r, a, k, whole);
		size_t row = r->row + (size_t)k * ROW_STEP;

		if (!region_has(r, k) || r->n_cols == 0)
			continue;
		group_write(a, rowwise_at(a, row, r->col), r->v[k], r->n_cols, s, counts);
		if (row_may_begin(k, granule_tile<G>().rows))
			scale_inv_write(&a->out.rowwise, &a->spec, granule_tile<G>(), row, r->col,
					s);
	}
}

/* --- columnwise --- */

/* Returns the position of a code in shared memory.  A column of the region has 128 bytes, in pieces
 * of 16 whose order depends on the column, so that neither threads that write columns 8 apart nor
 * threads that read pieces conflict in a bank. */
static __device__ inline unsigned turned_at(unsigned col, unsigned row)
{
	return col * REGION + (row / 16 ^ col / GROUP % 8) * 16 + row % 16;
}

#define MAX_COLUMN_TILES (REGION / 32)

/* The shared memory of a block for the transpose. */
struct turning {
	uint4 codes[REGION * REGION / sizeof(uint4)];
	unsigned max[MAX_COLUMN_TILES][REGION]; /* amax of each column's tiles, as bits */
};

static __device__ inline struct turning *turning_memory(void)
{
	__shared__ struct turning turning;

	return &turning;
}

/* Computes the amax of each column's tiles of tile_rows rows, 128 or 32, as bits. */
static __device__ inline void column_maxima(const struct region *r, int tile_rows,
					    unsigned max[MAX_COLUMN_TILES][REGION])
{
	unsigned col = threadIdx.x % ROW_LANES * GROUP;
	int rows_of_thread = tile_rows / ROW_STEP;

	for (unsigned i = threadIdx.x; i < MAX_COLUMN_TILES * REGION; i += THREADS)
		max[i / REGION][i % REGION] = 0;
	__syncthreads();
	GPU_UNROLL
	for (int c = 0; c < GROUP; c++) {
		GPU_UNROLL
		for (int k = 0; k < N_ROWS; k++)
			atomicMax(&max[k / rows_of_thread][col + c], magnitude_bits(r->v[k][c]));
	}
	__syncthreads();
}

/* Returns the scaling of rows k and k + 1 of the thread, which are in one tile, in its column c. */
template <enum granule G>
static __device__ struct scaling
column_scaling(const struct region *r, const struct write_args *a, int k, int c,
	       const unsigned max[MAX_COLUMN_TILES][REGION], struct scaling whole)
{
	unsigned col = threadIdx.x % ROW_LANES * GROUP + c;

	if (G == EACH_ROW && c < r->n_cols)
		return scaling_known(a, a->amax_turned, r->col + c, 0, 1);
	if (G == ROW_128)
		return tile_scaling(a, f32_from_bits(max[0][col]));
	if (G == ROW_32)
		return tile_scaling(a, f32_from_bits(max[k * ROW_STEP / 32][col]));
	return whole;
}

/* Writes the codes of the thread to shared memory, and its scales to their place. */
template <enum granule G>
static __device__ void columns_cast(const struct region *r, const struct write_args *a,
				    const unsigned max[MAX_COLUMN_TILES][REGION],
				    struct scaling whole, struct counts *counts, uint8_t *turned)
{
	unsigned col = threadIdx.x % ROW_LANES * GROUP, row = threadIdx.x / ROW_LANES;
	int n_rows = region_rows(r);

	GPU_UNROLL
	for (int c = 0; c < GROUP; c++) {
		struct group column, scaled;

		GPU_UNROLL
		for (int k = 0; k < N_ROWS; k += 2) {
			struct scaling s = column_scaling<G>(r, a, k, c, max, whole);
			struct pair pair = pair_scale(s, r->v[k][c], r->v[k + 1][c]);
			uint16_t codes = gpu_fp8x2(a->spec.format, pair.low, pair.high);

			column.v[k] = r->v[k][c];
			column.v[k + 1] = r->v[k + 1][c];
			scaled.v[k] = pair.low;
			scaled.v[k + 1] = pair.high;
			turned[turned_at(col + c, row + k * ROW_STEP)] = (uint8_t)codes;
			turned[turned_at(col + c, row + (k + 1) * ROW_STEP)] =
				(uint8_t)(codes >> 8);
			if (row_may_begin(k, granule_tile<G>().cols) && region_has(r, k) &&
			    c < r->n_cols)
				scale_inv_write(&a->out.columnwise, &a->spec, granule_tile<G>(),
						r->col + c, r->row + (size_t)k * ROW_STEP, s);
		}
		if (counts->wanted)
			count_group(counts, a->spec.format, &column, &scaled,
				    c < r->n_cols ? n_rows : 0);
	}
}

/* Copies the codes from shared memory to the output, 16 codes of a column at once. */
static __device__ inline void columns_store(const struct write_args *a, const uint8_t *turned)
{
	const struct fp8_copy *copy = &a->out.columnwise;
	size_t n_across = (a->cols + REGION - 1) / REGION;
	size_t row0 = blockIdx.x / n_across * REGION, col0 = blockIdx.x % n_across * REGION;

	for (unsigned i = threadIdx.x; i < REGION * REGION / 16; i += THREADS) {
		size_t col = col0 + i / (REGION / 16), row = row0 + i % (REGION / 16) * 16;
		const uint8_t *from = turned + turned_at(i / (REGION / 16), i % (REGION / 16) * 16);
		uint8_t *to = copy->codes + col * copy->row_stride + row * copy->col_stride;

		if (col >= a->cols)
			continue;
		if (row + 16 <= a->rows && copy->col_stride == 1 && (uintptr_t)to % 16 == 0) {
			*reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
			continue;
		}
		for (unsigned j = 0; j < 16 && row + j < a->rows; j++)
			to[j * copy->col_stride] = from[j];
	}
}

template <enum granule G>
static __device__ void columnwise_write(const struct region *r, const struct write_args *a,
					struct scaling whole, struct counts *counts)
{
	struct turning *turning = turning_memory();
	uint8_t *codes = reinterpret_cast<uint8_t *>(turning->codes);

	if (G == ROW_128 || G == ROW_32)
		column_maxima(r, G == ROW_128 ? 128 : 32, turning->max);
	columns_cast<G>(r, a, turning->max, whole, counts, codes);
	__syncthreads();
	columns_store(a, codes);
}

/* --- the kernels --- */

static __device__ inline void counts_put(const struct write_args *a, const struct counts *counts)
{
	count_add(&a->counts[0], counts->n & 0xFFFF);
	count_add(&a->counts[1], counts->n >> 16);
}

/* Two blocks at a time on a multiprocessor: 128 registers of a thread. */
template <typename Source, enum granule G>
static __global__ void __launch_bounds__(THREADS, 2)
	write_region(const __grid_constant__ Source x, const __grid_constant__ struct write_args a)
{
	struct counts counts = { true, 0 };
	struct region r;
	struct scaling whole;
	unsigned max = 0;

	region_load(&r, x, a.rows, a.cols);
	if (G == SQUARE || a.out.amax)
		max = region_max(&r);
	if (a.out.amax)
		amax_raise(a.out.amax, max);
	whole = region_scaling<G>(&a, max);
	if (a.out.rowwise.codes) {
		if (G == ANY)
			elements_write(&r, &a, false, &counts);
		else
			rowwise_write<G>(&r, &a, whole, &counts);
		counts.wanted = false;
	}
	if (a.out.columnwise.codes) {
		if (G == ANY)
			elements_write(&r, &a, true, &counts);
		else
			columnwise_write<G>(&r, &a, whole, &counts);
	}
	counts_put(&a, &counts);
}

/* Writes a rowwise copy whose tiles are strips. */
template <typename Source>
static __global__ void __launch_bounds__(STRIP_LANES_MOST)
	write_strips(const __grid_constant__ Source x, const __grid_constant__ struct strips cut,
		     const __grid_constant__ struct write_args a)
{
	struct counts counts = { true, 0 };
	unsigned of_block = 0;
	struct scaling scaling;
	struct strip s;

	strip_load(&s, x, &cut);
	scaling = tile_scaling(
		&a, f32_from_bits(strip_max(&s, cut.lanes, a.out.amax != NULL, &of_block)));
	if (a.out.amax)
		amax_raise(a.out.amax, of_block);
	GPU_UNROLL
	for (int k = 0; k < STRIP_GROUPS; k++) {
		int n = strip_has(&s, k);

		if (n)
			group_write(&a, rowwise_at(&a, s.row, s.col + (size_t)k * s.step), s.v[k],
				    n, scaling, &counts);
	}
	if (s.left && threadIdx.x % cut.lanes == 0)
		scale_inv_put(&a.out.rowwise, a.spec.scale_type, s.row, s.j, scaling);
	counts_put(&a, &counts);
}

/* Returns the amax of each tile of a copy, in memory of the stream; NULL if the stream has
 * stopped. */
template <typename Source>
static const float *amax_of_tiles(struct device_stream *stream, const Source &x,
				  const struct write_args *a, bool turned)
{
	size_t rows = turned ? a->cols : a->rows, cols = turned ? a->rows : a->cols;
	size_t size = tile_count(rows, a->spec.tile.rows) * tile_count(cols, a->spec.tile.cols) *
		      sizeof(float);
	float *amax = static_cast<float *>(device_take(stream, size));

	if (!amax)
		return NULL;
	device_zero(stream, amax, size);
	amax_launch(stream, x, { a->rows, a->cols, a->spec.tile, turned, amax, NULL });
	return amax;
}

/* Returns false if the tiles are not strips, or their amax is known, or a columnwise copy is wanted
 * too, whose tiles are columns. */
template <typename Source>
static bool strips_launch(struct device_stream *stream, const Source &x, const struct write_args *a)
{
	struct strips cut = strips_of(a->rows, a->cols, a->spec.tile);

	if (!cut.lanes || a->amax || !a->out.rowwise.codes || a->out.columnwise.codes)
		return false;
	GPU_LAUNCH(write_strips<Source>, strips_blocks(&cut), strips_threads(&cut),
		   device_stream_native(stream), x, cut, *a);
	device_launched(stream, "write_strips");
	return true;
}

/* Computes the amax of tiles that are neither strips nor held by a region, then writes.  a->amax is
 * set if it is known; a->amax_turned is not set. */
template <typename Source>
static void write_launch(struct device_stream *stream, const Source &x, struct write_args a)
{
	/* In the order of enum granule. */
	static void (*const kernels[])(Source, struct write_args) = {
		write_region<Source, ONE>,    write_region<Source, EACH_ROW>,
		write_region<Source, SQUARE>, write_region<Source, ROW_128>,
		write_region<Source, ROW_32>, write_region<Source, ANY>,
	};
	enum granule granule = granule_of(a.spec.tile);
	size_t n = region_count(a.rows, a.cols);

	if (a.out.scale) {
		a.amax = a.amax_turned = a.out.scale;
		a.spec.arith = ARITH_GIVEN;
	}
	if ((granule == EACH_ROW || granule == ANY) && strips_launch(stream, x, &a))
		return;
	if (granule == ONE || granule == EACH_ROW || granule == ANY) {
		if (!a.amax && (a.out.rowwise.codes || granule == ONE))
			a.amax = amax_of_tiles(stream, x, &a, false);
		if (!a.amax_turned && a.out.columnwise.codes && granule != ONE)
			a.amax_turned = amax_of_tiles(stream, x, &a, true);
	} else if (a.amax) {
		granule = ANY; /* the regions need not find them */
	}
	if (device_stream_stopped(stream))
		return;
	GPU_LAUNCH(kernels[granule], n, THREADS, device_stream_native(stream), x, a);
	device_launched(stream, "write_region");
}

#endif
