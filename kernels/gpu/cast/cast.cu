/* SPDX-License-Identifier: Apache-2.0
 *
 * Casts matrices to FP8, and computes their amax.  The kernels are cast_region() and cast_strips();
 * they serve norms and activations too (source.h).  A copy is quantized along its rows; the
 * columnwise one is that of the transpose.
 *
 * A cast moves 3 bytes for an element of bf16: 2 read, 1 written (2 with both copies), and each
 * scale once.  Where the amax must come first, x is read twice: for tensors, for rows of more than
 * 32768 elements, and for channels with a columnwise copy, which are read a third time.
 */
#include "kernels/gpu/cast/cast.h"
#include "kernels/gpu/cast/codes.h"
#include "kernels/gpu/cast/columnwise.h"
#include "kernels/gpu/cast/row_tile.h"

static __device__ inline void counts_put(const struct cast_args *a, const struct counts *counts)
{
	count_add(&a->counts[0], counts->n & 0xFFFF);
	count_add(&a->counts[1], counts->n >> 16);
}

/* F is the format of the codes, but for ANY, which looks at it for each element.  IN_PLACE: the
 * columnwise codes are not transposed, as in MX.  Two blocks at a time on a multiprocessor:
 * 128 registers of a thread. */
template <enum granule G, enum fp8_format F, bool IN_PLACE = false>
static __global__ void __launch_bounds__(THREADS, 2)
	cast_region(const __grid_constant__ struct gpu_source x,
		    const __grid_constant__ struct cast_args a)
{
	struct counts counts = { true, 0 };
	struct region r;
	struct scaling whole;
	struct maxima of;
	unsigned max = 0;

	region_load(&r, x, a.rows, a.cols);
	maxima_find(&of, r.v);
	if (G == SQUARE || a.out.amax)
		max = block_max(of.all);
	if (a.out.amax)
		amax_raise(a.out.amax, max);
	whole = region_scaling<G>(&a, max);
	if (a.out.rowwise.codes) {
		if (G == ANY)
			elements_write(&r, &a, false, &counts);
		else
			rowwise_write<G, F>(&r, &a, &of, whole, &counts);
		counts.wanted = false;
	}
	if (a.out.columnwise.codes) {
		if (G == ANY)
			elements_write(&r, &a, true, &counts);
		else
			columnwise_write<G, F, IN_PLACE>(&r, &a, whole, &counts);
	}
	counts_put(&a, &counts);
}

/* Writes a rowwise copy whose tiles are strips. */
template <enum fp8_format F>
static __global__ void __launch_bounds__(STRIP_LANES_MOST)
	cast_strips(const __grid_constant__ struct gpu_source x,
		    const __grid_constant__ struct strips cut,
		    const __grid_constant__ struct cast_args a)
{
	struct counts counts = { true, 0 };
	unsigned of_block = 0;
	struct scaling scaling;
	struct strip s;
	struct maxima max;
	struct writing w;

	strip_load(&s, x, &cut);
	maxima_find(&max, s.v);
	scaling = tile_scaling(
		&a, f32_from_bits(strip_max(max.all, cut.lanes, a.out.amax != NULL, &of_block)));
	if (a.out.amax)
		amax_raise(a.out.amax, of_block);
	GPU_UNROLL
	for (int k = 0; k < STRIP_GROUPS; k++) {
		w.factor[k] = scaling.factor;
		w.n[k] = strip_has(&s, k);
	}
	w.to = rowwise_at(&a, s.row, s.col);
	w.by = { (size_t)s.step * a.out.rowwise.col_stride, s.n_groups };
	w.whole = s.whole;
	if (spec_divides(&a.spec))
		groups_write<F, true>(&a, &w, s.v, &max, &counts);
	else
		groups_write<F, false>(&a, &w, s.v, &max, &counts);
	if (s.left && (threadIdx.x & (cut.lanes - 1)) == 0)
		scale_inv_put(&a.out.rowwise, a.spec.scale_type, s.row, s.j, scaling);
	counts_put(&a, &counts);
}

/* Returns the amax of each tile of a copy, in memory of the stream; NULL if the stream has
 * stopped. */
static const float *amax_of_tiles(struct device_stream *stream, const struct gpu_source &x,
				  const struct cast_args *a, bool turned)
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
static bool strips_launch(struct device_stream *stream, const struct gpu_source &x,
			  const struct cast_args *a)
{
	struct strips cut = strips_of(a->rows, a->cols, a->spec.tile);
	auto kernel = a->spec.format == FP8_E4M3 ? cast_strips<FP8_E4M3> : cast_strips<FP8_E5M2>;

	if (!cut.lanes || a->amax || !a->out.rowwise.codes || a->out.columnwise.codes)
		return false;
	GPU_LAUNCH(kernel, strips_blocks(&cut), strips_threads(&cut), device_stream_native(stream),
		   x, cut, *a);
	device_launched(stream, "cast_strips");
	return true;
}

/* Computes the amax of tiles that are neither strips nor held by a region, then writes.  a->amax is
 * set if it is known; a->amax_turned is not set. */
void gpu_cast_source(struct device_stream *stream, const struct gpu_source *x, struct cast_args a)
{
	/* In the order of enum granule, and of enum fp8_format. */
	static void (*const kernels[][2])(struct gpu_source, struct cast_args) = {
		{ cast_region<ONE, FP8_E4M3>, cast_region<ONE, FP8_E5M2> },
		{ cast_region<EACH_ROW, FP8_E4M3>, cast_region<EACH_ROW, FP8_E5M2> },
		{ cast_region<SQUARE, FP8_E4M3>, cast_region<SQUARE, FP8_E5M2> },
		{ cast_region<ROW_128, FP8_E4M3>, cast_region<ROW_128, FP8_E5M2> },
		{ cast_region<ROW_32, FP8_E4M3>, cast_region<ROW_32, FP8_E5M2> },
		{ cast_region<ANY, FP8_E4M3>, cast_region<ANY, FP8_E4M3> },
	};
	static void (*const in_place[])(struct gpu_source,
					struct cast_args) = { cast_region<ROW_32, FP8_E4M3, true>,
							      cast_region<ROW_32, FP8_E5M2, true> };
	enum granule granule = granule_of(a.spec.tile);
	size_t n = region_count(a.rows, a.cols);
	void (*kernel)(struct gpu_source, struct cast_args);

	if (a.out.scale) {
		a.amax = a.amax_turned = a.out.scale;
		a.spec.arith = ARITH_GIVEN;
	}
	if ((granule == EACH_ROW || granule == ANY) && strips_launch(stream, *x, &a))
		return;
	if (granule == ONE || granule == EACH_ROW || granule == ANY) {
		if (!a.amax && (a.out.rowwise.codes || granule == ONE))
			a.amax = amax_of_tiles(stream, *x, &a, false);
		if (!a.amax_turned && a.out.columnwise.codes && granule != ONE)
			a.amax_turned = amax_of_tiles(stream, *x, &a, true);
	} else if (a.amax) {
		granule = ANY; /* the regions need not find them */
	}
	if (device_stream_stopped(stream))
		return;
	kernel = granule == ROW_32 && a.out.columnwise.codes && a.out.columnwise.row_stride == 1
			 ? in_place[a.spec.format]
			 : kernels[granule][a.spec.format];
	GPU_LAUNCH(kernel, n, THREADS, device_stream_native(stream), *x, a);
	device_launched(stream, "cast_region");
}

void gpu_tile_amax(struct device_stream *stream, const struct matrix *x, struct tile tile,
		   bool transposed, float *amax, unsigned long long *counts)
{
	const struct amax_args a = { x->rows, x->cols, tile, transposed, amax, counts };

	amax_launch(stream, source_of_elements(x), a);
}

void gpu_cast(struct device_stream *stream, const struct matrix *x, const struct qspec *spec,
	      const float *amax, const struct fp8_out *out, unsigned long long *counts)
{
	const struct gpu_source source = source_of_elements(x);

	gpu_cast_source(stream, &source,
			{ x->rows, x->cols, *spec, scale_limit(x->dtype, spec->tile), *out, amax,
			  NULL, counts });
}
