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

/* v[0 .. n-1], and what scaling made of them. */
static __device__ GPU_CALL unsigned group_count(enum fp8_format format, struct group v,
						struct group scaled, int n)
{
	unsigned count = 0;

	for (int i = 0; i < GROUP; i++)
		count += i < n ? element_count(format, v.v[i], scaled.v[i]) : 0;
	return count;
}

/* Scaling makes no finite value of another, and saturation follows the magnitude: where the largest
 * scaled element is finite and does not saturate, none counts. */
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

/* Returns the scaling of the thread's row k; all threads of the warp must call it. */
template <enum granule G>
static __device__ struct scaling row_scaling(const struct region *r, const struct cast_args *a,
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

static __device__ inline uint8_t *rowwise_at(const struct cast_args *a, size_t row, size_t col)
{
	const struct fp8_copy *copy = &a->out.rowwise;

	return copy->codes + row * copy->row_stride + col * copy->col_stride;
}

/* The codes of scaled[], two in each. */
template <enum fp8_format F>
static __device__ inline void group_codes(uint16_t codes[GROUP / 2], const struct group &scaled)
{
	GPU_UNROLL
	for (int i = 0; i < GROUP; i += 2)
		codes[i / 2] = gpu_fp8x2(F, scaled.v[i], scaled.v[i + 1]);
}

/* Scales a group: how is decided once for all of it. */
static __device__ inline void group_scale(struct group *scaled, struct scaling s,
					  const struct group &group)
{
	if (s.divide) {
		GPU_UNROLL
		for (int i = 0; i < GROUP; i += 2) {
			struct pair pair = pair_divide(s.factor, group.v[i], group.v[i + 1]);

			scaled->v[i] = pair.low;
			scaled->v[i + 1] = pair.high;
		}
		return;
	}
	GPU_UNROLL
	for (int i = 0; i < GROUP; i++)
		scaled->v[i] = group.v[i] * s.factor;
}

/* Writes the codes of v[0 .. n-1], neighbors in a row, from `to` on. */
static __device__ inline void group_write(const struct cast_args *a, uint8_t *to,
					  const float v[GROUP], int n, struct scaling s,
					  struct counts *counts)
{
	size_t col_stride = a->out.rowwise.col_stride;
	struct group group, scaled;
	uint16_t codes[GROUP / 2];

	GPU_UNROLL
	for (int i = 0; i < GROUP; i++)
		group.v[i] = v[i];
	group_scale(&scaled, s, group);
	if (a->spec.format == FP8_E4M3)
		group_codes<FP8_E4M3>(codes, scaled);
	else
		group_codes<FP8_E5M2>(codes, scaled);
	count_group(counts, a->spec.format, &group, &scaled, n);
	if (n == GROUP && col_stride == 1 && (uintptr_t)to % GROUP == 0) {
		*reinterpret_cast<uint2 *>(to) = { codes[0] | (unsigned)codes[1] << 16,
						   codes[2] | (unsigned)codes[3] << 16 };
		return;
	}
	GPU_UNROLL /* an index known when compiled keeps codes[] in registers */
		for (int i = 0; i < GROUP; i++)
	{
		if (i < n)
			to[(size_t)i * col_stride] = (uint8_t)(codes[i / 2] >> 8 * (i % 2));
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

template <enum granule G>
static __device__ void rowwise_write(const struct region *r, const struct cast_args *a,
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

#endif
