/* SPDX-License-Identifier: Apache-2.0
 *
 * From the elements that a thread holds to their codes and scale_inv: counts of values that are not
 * finite or saturate, the scale of a tile, and the rowwise copy.  The kernels are in cast.cu.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_CODES_H
#define FP8CONV_KERNELS_GPU_CAST_CODES_H

#include "num/scale.h"
#include "num/scale_grid.h"
#include "kernels/gpu/cast/amax.h"
#include "kernels/gpu/cast/pair.h"

/* Only the copy that is written first counts. */
struct counts {
	bool wanted;
	unsigned n; /* of the thread: nonfinite | saturated << 16 */
};

static_assert(N_ROWS == GROUP, "a thread's elements of a column are counted as a group");

/* v[0 .. n-1], scaled by the factor. */
static __device__ GPU_CALL unsigned group_count(const struct qspec *spec, struct element_group v,
						float factor, int n)
{
	struct scaling s = { factor, spec_divides(spec), 0, 0 };
	unsigned count = 0;

	for (int i = 0; i < n; i++)
		count += element_count(spec->format, v.v[i], scaling_apply(s, v.v[i]));
	return count;
}

/* How a thread's groups become codes: 8 neighbors of a row, N_ROWS times. */
struct writing {
	uint8_t *to;		/* of the first group */
	struct group_spread by; /* in bytes */
	bool whole;		/* the groups that exist have all their elements */
	float factor[N_ROWS];
	int n[N_ROWS]; /* elements that exist */
};

/* Rounding keeps the order of magnitudes, so that the largest element saturates if one does.  Where
 * it does not, and no element is a NaN, none counts. */
template <enum fp8_format F, bool DIVIDE>
static __device__ inline void groups_count(struct counts *counts, const struct cast_args *a,
					   const float v[N_ROWS][GROUP], const struct maxima *max,
					   const struct writing *w)
{
	float top = 0;

	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		float of = f32_from_bits(max->of[k]);

		top = gpu_max_magnitude(top, pair_scale<DIVIDE>(w->factor[k], of, of).low);
	}
	if (!max->has_nan && !f32_is_nan(top) && !fp8_saturates(F, top))
		return;
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		struct element_group group;

		GPU_UNROLL
		for (int i = 0; i < GROUP; i++)
			group.v[i] = v[k][i];
		counts->n += group_count(&a->spec, group, w->factor[k], w->n[k]);
	}
}

static __device__ GPU_CALL struct scaling tile_scaling(const struct cast_args *a, float amax)
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

/* The thread with the first element of a tile writes its scale_inv. */
static __device__ inline void scale_inv_write(const struct fp8_copy *copy, const struct qspec *spec,
					      struct tile tile, size_t row, size_t col,
					      struct scaling s)
{
	if (tile_begins(row, tile.rows) && tile_begins(col, tile.cols))
		scale_inv_put(copy, spec->scale_type, tile_index(row, tile.rows),
			      tile_index(col, tile.cols), s);
}

static __device__ inline struct scaling scaling_known(const struct cast_args *a, const float *amax,
						      size_t i, size_t j, size_t n_across)
{
	return tile_scaling(a, amax[i * n_across + j]);
}

/* Returns the scaling of the region, if it is one tile or part of one.  max: of the region. */
template <enum granule G>
static __device__ struct scaling region_scaling(const struct cast_args *a, unsigned max)
{
	struct scaling none = { 1, false, 1, 0 };

	if (G == ONE)
		return scaling_known(a, a->amax, 0, 0, 1);
	if (G == SQUARE)
		return tile_scaling(a, f32_from_bits(max));
	return none;
}

template <int WIDTH> static __device__ inline int row_of_lane(void)
{
	return threadIdx.x % WIDTH * N_ROWS / WIDTH;
}

/* The factors of a thread's rows, and their scale_inv to its place.  Each of the WIDTH threads that
 * share a tile of one row computes the scaling of some rows.  All threads of the warp must call
 * it. */
template <enum granule G>
static __device__ void row_factors(const struct region *r, const struct cast_args *a,
				   const struct maxima *max, float factor[N_ROWS])
{
	const int width = G == ROW_32 ? 32 / GROUP : ROW_LANES;
	const int held = width < N_ROWS ? N_ROWS / width : 1;
	unsigned lane = threadIdx.x % 32, first = lane / width * width;
	size_t tile_cols = granule_tile<G>().cols, j = tile_index(r->col, tile_cols);
	unsigned of[N_ROWS], mine[held];

	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++)
		of[k] = max->of[k];
	if (G != EACH_ROW)
		lanes_max_each<N_ROWS, width>(of);
	GPU_UNROLL
	for (int i = 0; i < held; i++) {
		size_t row = r->row + (size_t)(row_of_lane<width>() + i) * ROW_STEP;
		bool exists = row < r->rows && (G == EACH_ROW || j * tile_cols < a->cols);
		struct scaling s = { 1, false, 1, 0 };

		if (G != EACH_ROW)
			s = tile_scaling(a, f32_from_bits(of[i]));
		else if (exists)
			s = scaling_known(a, a->amax, row, 0, 1);
		mine[i] = f32_bits(s.factor);
		/* Of threads with the same row the first one writes. */
		if (exists && (lane - first) * N_ROWS % width == 0 &&
		    (G != EACH_ROW || r->col < REGION))
			scale_inv_put(&a->out.rowwise, a->spec.scale_type, row, j, s);
	}
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++)
		factor[k] = f32_from_bits(__shfl_sync(GPU_ALL_LANES, mine[k % held],
						      (int)(first + k * width / N_ROWS)));
}

static __device__ inline uint8_t *rowwise_at(const struct cast_args *a, size_t row, size_t col)
{
	const struct fp8_copy *copy = &a->out.rowwise;

	return copy->codes + row * copy->row_stride + col * copy->col_stride;
}

/* The codes of v[], which are neighbors. */
template <enum fp8_format F, bool DIVIDE>
static __device__ inline uint2 group_codes(const float v[GROUP], float factor)
{
	unsigned codes[GROUP / 2];

	GPU_UNROLL
	for (int i = 0; i < GROUP; i += 2) {
		struct pair pair = pair_scale<DIVIDE>(factor, v[i], v[i + 1]);

		codes[i / 2] = gpu_fp8x2(F, pair.low, pair.high);
	}
	return { codes[0] | codes[1] << 16, codes[2] | codes[3] << 16 };
}

/* Writes n codes; they may be strided. */
static __device__ GPU_CALL void codes_write(uint8_t *to, size_t stride, uint2 codes, int n)
{
	for (int i = 0; i < n; i++)
		to[(size_t)i * stride] = (uint8_t)((i < 4 ? codes.x : codes.y) >> 8 * (i % 4));
}

/* Writes the codes of v[k][0 .. w->n[k]-1], and counts. */
template <enum fp8_format F, bool DIVIDE>
static __device__ inline void groups_write(const struct cast_args *a, const struct writing *w,
					   const float v[N_ROWS][GROUP], const struct maxima *max,
					   struct counts *counts)
{
	size_t col_stride = a->out.rowwise.col_stride;
	bool whole = w->whole && col_stride == 1 && ((uintptr_t)w->to | w->by.step) % GROUP == 0;

	groups_count<F, DIVIDE>(counts, a, v, max, w);
	if (whole) {
		GPU_UNROLL
		for (int k = 0; k < N_ROWS; k++)
			gpu_store_once(reinterpret_cast<uint2 *>(w->to + w->by.at(k)),
				       group_codes<F, DIVIDE>(v[k], w->factor[k]));
		return;
	}
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		if (w->n[k])
			codes_write(w->to + w->by.at(k), col_stride,
				    group_codes<F, DIVIDE>(v[k], w->factor[k]), w->n[k]);
	}
}

/* Tiles may begin anywhere: each element finds its own.  turned: the columnwise copy. */
static __device__ inline void element_write(const struct region *r, const struct cast_args *a,
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

static __device__ inline void elements_write(const struct region *r, const struct cast_args *a,
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

template <enum granule G, enum fp8_format F>
static __device__ void rowwise_write(const struct region *r, const struct cast_args *a,
				     const struct maxima *max, struct scaling whole,
				     struct counts *counts)
{
	struct writing w;

	w.to = rowwise_at(a, r->row, r->col);
	w.by = { ROW_STEP * a->out.rowwise.row_stride, N_ROWS };
	GPU_UNROLL
	for (int k = 0; k < N_ROWS; k++) {
		w.factor[k] = whole.factor;
		w.n[k] = region_has(r, k) ? r->n_cols : 0;
	}
	w.whole = w.n[N_ROWS - 1] == GROUP;
	if (G == ONE || G == SQUARE) {
		if (w.n[0])
			scale_inv_write(&a->out.rowwise, &a->spec, granule_tile<G>(), r->row,
					r->col, whole);
	} else {
		row_factors<G>(r, a, max, w.factor);
	}
	if (spec_divides(&a->spec))
		groups_write<F, true>(a, &w, r->v, max, counts);
	else
		groups_write<F, false>(a, &w, r->v, max, counts);
}

#endif
