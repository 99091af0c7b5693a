/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are copied, sorted or turned, but not summed up.
 */
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/float4_rows.h"

struct copy {
	float *y;
	size_t y_stride;
	const float *x;
	size_t x_stride, repeat;

	__device__ void operator()(const struct fours &at) const
	{
		const float *from = x + quotient(at.row, repeat) * x_stride + at.col;

		fours_store(y + at.row * y_stride + at.col, fours_load(from, at.n, at.aligned),
			    at.n, at.aligned);
	}
};

void gpu_copy_rows(struct device_stream *stream, float *y, size_t y_stride, const float *x,
		   size_t x_stride, size_t repeat, size_t n_rows, size_t n_cols)
{
	fours_launch(stream, "copy", copy{ y, y_stride, x, x_stride, repeat }, n_rows, n_cols,
		     fours_aligned(y, y_stride) && fours_aligned(x, x_stride));
}

/* Columns are pairs. */
struct deinterleave {
	float *y;
	size_t y_stride;
	const float *x;
	size_t x_stride, half;

	__device__ void operator()(const struct fours &at) const
	{
		const float *from = x + at.row * x_stride + 2 * at.col;
		float *to = y + at.row * y_stride + at.col;
		float4 a = fours_load(from, fours_left(0, 2 * (size_t)at.n), at.aligned);
		float4 b = fours_load(from + 4, fours_left(4, 2 * (size_t)at.n), at.aligned);

		fours_store(to, { a.x, a.z, b.x, b.z }, at.n, at.aligned);
		fours_store(to + half, { a.y, a.w, b.y, b.w }, at.n, at.aligned);
	}
};

void gpu_deinterleave(struct device_stream *stream, float *y, size_t y_stride, const float *x,
		      size_t x_stride, size_t n_rows, size_t n_cols)
{
	size_t half = n_cols / 2;

	fours_launch(stream, "deinterleave", deinterleave{ y, y_stride, x, x_stride, half }, n_rows,
		     half,
		     fours_aligned(y, y_stride) && fours_aligned(y, half) &&
			     fours_aligned(x, x_stride));
}

struct gather {
	float *y;
	const float *x;
	const uint32_t *rows;
	size_t stride;

	__device__ void operator()(const struct fours &at) const
	{
		const float *from = x + rows[at.row] * stride + at.col;

		fours_store(y + at.row * stride + at.col, fours_load(from, at.n, at.aligned), at.n,
			    at.aligned);
	}
};

void gpu_gather(struct device_stream *stream, float *y, const float *x, const uint32_t *rows,
		size_t n_rows, size_t n_cols)
{
	fours_launch(stream, "gather", gather{ y, x, rows, n_cols }, n_rows, n_cols,
		     fours_aligned(y, n_cols) && fours_aligned(x, n_cols));
}

struct scatter_add {
	float *y;
	const float *x;
	const uint32_t *rows;
	const float *factors;
	size_t stride;

	__device__ void operator()(const struct fours &at) const
	{
		float *to = y + rows[at.row] * stride + at.col;
		float factor = factors[at.row];
		float4 before = fours_load(to, at.n, at.aligned);
		float4 more = fours_load(x + at.row * stride + at.col, at.n, at.aligned);

		fours_store(to,
			    fours_each(before, more,
				       [factor](float a, float b) { return a + factor * b; }),
			    at.n, at.aligned);
	}
};

void gpu_scatter_add(struct device_stream *stream, float *y, const float *x, const uint32_t *rows,
		     const float *factors, size_t n_rows, size_t n_cols)
{
	fours_launch(stream, "scatter_add", scatter_add{ y, x, rows, factors, n_cols }, n_rows,
		     n_cols, fours_aligned(y, n_cols) && fours_aligned(x, n_cols));
}

/* A row is a head of a token; columns are pairs. */
struct rope {
	float *x;
	size_t x_stride, n_heads, head_dim;
	const float *cosines, *sines;
	size_t half;

	__device__ void operator()(const struct fours &at) const
	{
		size_t token = quotient(at.row, n_heads), head = at.row - token * n_heads;
		float *first = x + token * x_stride + head * head_dim + at.col;
		float4 a = fours_load(first, at.n, at.aligned),
		       b = fours_load(first + half, at.n, at.aligned);
		float4 c = fours_load(cosines + token * half + at.col, at.n, at.aligned);
		float4 s = fours_load(sines + token * half + at.col, at.n, at.aligned);

		fours_store(first,
			    { a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y, a.z * c.z - b.z * s.z,
			      a.w * c.w - b.w * s.w },
			    at.n, at.aligned);
		fours_store(first + half,
			    { b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y, b.z * c.z + a.z * s.z,
			      b.w * c.w + a.w * s.w },
			    at.n, at.aligned);
	}
};

void gpu_rope(struct device_stream *stream, float *x, size_t x_stride, size_t n_tokens,
	      size_t n_heads, size_t head_dim, const float *cosines, const float *sines, size_t n)
{
	size_t half = n / 2;

	fours_launch(stream, "rope", rope{ x, x_stride, n_heads, head_dim, cosines, sines, half },
		     n_tokens * n_heads, half,
		     fours_aligned(x, x_stride) && fours_aligned(x, head_dim) &&
			     fours_aligned(cosines, half) && fours_aligned(sines, half));
}
