/* SPDX-License-Identifier: Apache-2.0
 *
 * The columnwise copy: the codes of the transpose, quantized along its rows.  They are transposed
 * in shared memory, so that this copy too is written in whole lines.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_COLUMNWISE_H
#define FP8CONV_KERNELS_GPU_CAST_COLUMNWISE_H

#include "kernels/gpu/cast/codes.h"

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

/* Computes the amax of the tiles of TILE_ROWS rows of each column, as bits: in registers, then
 * over the two rows of a warp, then one atomic of 16 threads for each column and tile. */
template <int TILE_ROWS>
static __device__ inline void column_maxima(const struct region *r,
					    unsigned max[MAX_COLUMN_TILES][REGION])
{
	const int rows_of_thread = TILE_ROWS / ROW_STEP;
	unsigned col = threadIdx.x % ROW_LANES * GROUP;

	for (unsigned i = threadIdx.x; i < MAX_COLUMN_TILES * REGION; i += THREADS)
		max[i / REGION][i % REGION] = 0;
	__syncthreads();
	GPU_UNROLL
	for (int i = 0; i < REGION / TILE_ROWS * GROUP; i++) {
		int tile = i / GROUP, c = i % GROUP;
		unsigned of_tile = 0;

		GPU_UNROLL
		for (int k = 0; k < rows_of_thread; k++)
			of_tile =
				max_of(of_tile, magnitude_bits(r->v[tile * rows_of_thread + k][c]));
		of_tile = max_of(of_tile, __shfl_xor_sync(GPU_ALL_LANES, of_tile, ROW_LANES));
		if (threadIdx.x % 32 < ROW_LANES)
			atomicMax(&max[tile][col + c], of_tile);
	}
	__syncthreads();
}

/* Returns the scaling of rows k and k + 1 of the thread, which are in one tile, in its column c. */
template <enum granule G>
static __device__ struct scaling
column_scaling(const struct region *r, const struct cast_args *a, int k, int c,
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
static __device__ void columns_cast(const struct region *r, const struct cast_args *a,
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
static __device__ inline void columns_store(const struct cast_args *a, const uint8_t *turned)
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
static __device__ void columnwise_write(const struct region *r, const struct cast_args *a,
					struct scaling whole, struct counts *counts)
{
	struct turning *turning = turning_memory();
	uint8_t *codes = reinterpret_cast<uint8_t *>(turning->codes);

	if (G == ROW_128)
		column_maxima<128>(r, turning->max);
	else if (G == ROW_32)
		column_maxima<32>(r, turning->max);
	columns_cast<G>(r, a, turning->max, whole, counts, codes);
	__syncthreads();
	columns_store(a, codes);
}

#endif
