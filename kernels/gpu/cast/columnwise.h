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
	/* Of each column's tiles: the amax, then the factor, as bits. */
	unsigned of_tile[MAX_COLUMN_TILES][REGION];
};

static __device__ inline struct turning *turning_memory(void)
{
	__shared__ struct turning turning;

	return &turning;
}

/* Returns the amax of rows k .. k + n - 1 of the thread in its column c. */
static __device__ inline unsigned column_max(const struct region *r, int k, int n, int c)
{
	unsigned max = 0;

	GPU_UNROLL
	for (int i = k; i < k + n; i++)
		max = max_of(max, magnitude_bits(r->v[i][c]));
	return max;
}

/* Computes the amax of the tiles of TILE_ROWS rows of each column, as bits: in registers, then of
 * the two rows of a warp, where each half takes half of the columns, then by atomics of warps. */
template <int TILE_ROWS>
static __device__ inline void column_maxima(const struct region *r,
					    unsigned max[MAX_COLUMN_TILES][REGION])
{
	const int n = TILE_ROWS / ROW_STEP, half = GROUP / 2;
	bool upper = threadIdx.x & ROW_LANES;
	unsigned col = threadIdx.x % ROW_LANES * GROUP + (upper ? half : 0);

	for (unsigned i = threadIdx.x; i < MAX_COLUMN_TILES * REGION; i += THREADS)
		max[i / REGION][i % REGION] = 0;
	__syncthreads();
	GPU_UNROLL
	for (int i = 0; i < REGION / TILE_ROWS * half; i++) {
		int tile = i / half, c = i % half;
		unsigned low = column_max(r, tile * n, n, c);
		unsigned high = column_max(r, tile * n, n, c + half);
		unsigned of_other = __shfl_xor_sync(GPU_ALL_LANES, upper ? low : high, ROW_LANES);

		atomicMax(&max[tile][col + c], max_of(upper ? high : low, of_other));
	}
	__syncthreads();
}

/* The rows of a tile of a column in a region. */
template <enum granule G> static __device__ constexpr int column_tile_rows(void)
{
	return G == ROW_32 ? 32 : REGION;
}

/* Computes the factor of each tile of the columns once, in the place of its amax, and writes its
 * scale_inv. */
template <enum granule G>
static __device__ inline void column_factors(const struct cast_args *a,
					     unsigned of_tile[MAX_COLUMN_TILES][REGION])
{
	const int tile_rows = column_tile_rows<G>();
	size_t n_across = (a->cols + REGION - 1) / REGION;
	size_t row0 = blockIdx.x / n_across * REGION, col0 = blockIdx.x % n_across * REGION;

	for (unsigned i = threadIdx.x; i < REGION / tile_rows * REGION; i += THREADS) {
		size_t col = col0 + i % REGION, row = row0 + i / REGION * tile_rows;
		unsigned *at = &of_tile[i / REGION][i % REGION];
		struct scaling s;

		if (col >= a->cols || row >= a->rows)
			continue;
		s = tile_scaling(a, G == EACH_ROW ? a->amax_turned[col] : f32_from_bits(*at));
		*at = f32_bits(s.factor);
		if (G != EACH_ROW || row0 == 0)
			scale_inv_put(&a->out.columnwise, a->spec.scale_type, col,
				      tile_index(row, granule_tile<G>().cols), s);
	}
	__syncthreads();
}

/* Returns the factor of the thread's row k in its column c. */
template <enum granule G>
static __device__ inline float
column_factor(int k, int c, const unsigned of_tile[MAX_COLUMN_TILES][REGION], struct scaling whole)
{
	unsigned col = threadIdx.x % ROW_LANES * GROUP + c;

	if (G == ONE || G == SQUARE)
		return whole.factor;
	return f32_from_bits(of_tile[k * ROW_STEP / column_tile_rows<G>()][col]);
}

/* Writes the codes of the thread to shared memory. */
template <enum granule G, enum fp8_format F, bool DIVIDE>
static __device__ inline void columns_cast(const struct region *r,
					   const unsigned of_tile[MAX_COLUMN_TILES][REGION],
					   struct scaling whole, uint8_t *turned)
{
	unsigned col = threadIdx.x % ROW_LANES * GROUP, row = threadIdx.x / ROW_LANES;

	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k += 2) {
		uint8_t *low = turned + turned_at(col, row + k * ROW_STEP);
		uint8_t *high = turned + turned_at(col, row + (k + 1) * ROW_STEP);

		GPU_UNROLL
		for (int c = 0; c < GROUP; c++) {
			float factor = column_factor<G>(k, c, of_tile, whole);
			struct pair pair = pair_scale<DIVIDE>(factor, r->v[k][c], r->v[k + 1][c]);
			uint16_t codes = gpu_fp8x2(F, pair.low, pair.high);

			/* The order of pieces is the same in all columns of a thread. */
			low[c * REGION] = (uint8_t)codes;
			high[c * REGION] = (uint8_t)(codes >> 8);
		}
	}
}

/* Writes the codes of the thread where the elements are: the codes of MX are not transposed, so
 * that nothing goes through shared memory but the factors. */
template <enum granule G, enum fp8_format F, bool DIVIDE>
static __device__ inline void columns_in_place(const struct region *r, const struct cast_args *a,
					       const unsigned of_tile[MAX_COLUMN_TILES][REGION],
					       struct scaling whole)
{
	const struct fp8_copy *copy = &a->out.columnwise;
	uint8_t *first = copy->codes + r->col + r->row * copy->col_stride;
	size_t step = ROW_STEP * copy->col_stride;
	bool packed = r->n_cols == GROUP && ((uintptr_t)first | step) % GROUP == 0;

	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		uint8_t *to = first + (size_t)k * step;
		unsigned codes[GROUP / 2];
		uint2 all;

		GPU_UNROLL
		for (int c = 0; c < GROUP; c += 2) {
			float low = column_factor<G>(k, c, of_tile, whole);
			float high = column_factor<G>(k, c + 1, of_tile, whole);

			codes[c / 2] = gpu_fp8x2(F, pair_scale<DIVIDE>(low, r->v[k][c], 0).low,
						 pair_scale<DIVIDE>(high, r->v[k][c + 1], 0).low);
		}
		all = { codes[0] | codes[1] << 16, codes[2] | codes[3] << 16 };
		if (!region_has(r, k))
			continue;
		if (packed)
			gpu_store_once(reinterpret_cast<uint2 *>(to), all);
		else
			codes_write(to, 1, all, r->n_cols);
	}
}

/* Counts the elements of a copy that is written first; one of them for each call, as it is rare. */
template <enum granule G>
static __device__ inline void columns_count(const struct region *r, const struct cast_args *a,
					    const unsigned of_tile[MAX_COLUMN_TILES][REGION],
					    struct scaling whole, struct counts *counts)
{
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		GPU_UNROLL
		for (int c = 0; c < GROUP; c++) {
			struct element_group one = {};

			one.v[0] = r->v[k][c];
			if (region_has(r, k) && c < r->n_cols)
				counts->n += group_count(&a->spec, one,
							 column_factor<G>(k, c, of_tile, whole), 1);
		}
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
			gpu_store_once(reinterpret_cast<uint4 *>(to),
				       *reinterpret_cast<const uint4 *>(from));
			continue;
		}
		for (unsigned j = 0; j < 16 && row + j < a->rows; j++)
			to[j * copy->col_stride] = from[j];
	}
}

/* IN_PLACE: the copy is not transposed. */
template <enum granule G, enum fp8_format F, bool IN_PLACE>
static __device__ void columnwise_write(const struct region *r, const struct cast_args *a,
					struct scaling whole, struct counts *counts)
{
	struct turning *turning = turning_memory();
	uint8_t *codes = reinterpret_cast<uint8_t *>(turning->codes);

	if (G == ROW_128 || G == ROW_32)
		column_maxima<column_tile_rows<G>()>(r, turning->of_tile);
	if (G == ONE || G == SQUARE) {
		if (r->n_cols && region_has(r, 0))
			scale_inv_write(&a->out.columnwise, &a->spec, granule_tile<G>(), r->col,
					r->row, whole);
	} else {
		column_factors<G>(a, turning->of_tile);
	}
	if (counts->wanted)
		columns_count<G>(r, a, turning->of_tile, whole, counts);
	if (IN_PLACE) {
		if (spec_divides(&a->spec))
			columns_in_place<G, F, true>(r, a, turning->of_tile, whole);
		else
			columns_in_place<G, F, false>(r, a, turning->of_tile, whole);
		return;
	}
	if (spec_divides(&a->spec))
		columns_cast<G, F, true>(r, turning->of_tile, whole, codes);
	else
		columns_cast<G, F, false>(r, turning->of_tile, whole, codes);
	__syncthreads();
	columns_store(a, codes);
}

#endif
