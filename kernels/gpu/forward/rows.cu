/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that copy, reorder or rotate rows, and add no elements of a row.
 */
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"

/* Returns the row of x that becomes a row of y. */
static __device__ inline size_t row_of(const struct copy_args &a, size_t row)
{
	return a.rows ? a.rows[row] : quotient(row, a.repeat);
}

struct copy_rows {
	struct copy_args a;

	__device__ void operator()(const struct fours &at) const
	{
		const float *from = a.x.data + row_of(a, at.row) * a.x.stride + at.col;

		fours_store(a.y.data + at.row * a.y.stride + at.col,
			    fours_load(from, at.n, at.aligned), at.n, at.aligned);
	}
};

/* The columns of the launch are pairs. */
struct copy_pairs {
	struct copy_args a;

	__device__ void operator()(const struct fours &at) const
	{
		const float *from = a.x.data + row_of(a, at.row) * a.x.stride + 2 * at.col;
		float *to = a.y.data + at.row * a.y.stride + at.col;
		float4 low = fours_load(from, fours_left(0, 2 * (size_t)at.n), at.aligned);
		float4 high = fours_load(from + 4, fours_left(4, 2 * (size_t)at.n), at.aligned);

		fours_store(to, { low.x, low.z, high.x, high.z }, at.n, at.aligned);
		fours_store(to + a.n_cols / 2, { low.y, low.w, high.y, high.w }, at.n, at.aligned);
	}
};

void gpu_copy(struct device_stream *stream, const struct copy_args *args)
{
	bool aligned = rows_aligned(args->y) && rows_aligned(args->x);
	size_t half = args->n_cols / 2;

	if (args->pairs)
		fours_launch(stream, "copy_pairs", copy_pairs{ *args }, args->n_rows, half,
			     aligned && fours_aligned(args->y.data, half));
	else
		fours_launch(stream, "copy", copy_rows{ *args }, args->n_rows, args->n_cols,
			     aligned);
}

/* A row of the launch is a head of a token; its columns are pairs. */
struct rotate_pairs {
	struct rope_args a;

	__device__ void operator()(const struct fours &at) const
	{
		size_t token = quotient(at.row, a.n_heads), head = at.row - token * a.n_heads;
		size_t half = a.rope_dim / 2;
		float *x = a.x.data + token * a.x.stride + head * a.head_dim + at.col;
		float4 u = fours_load(x, at.n, at.aligned);
		float4 v = fours_load(x + half, at.n, at.aligned);
		float4 c = fours_load(a.cosines + token * half + at.col, at.n, at.aligned);
		float4 s = fours_load(a.sines + token * half + at.col, at.n, at.aligned);

		fours_store(x,
			    { u.x * c.x - v.x * s.x, u.y * c.y - v.y * s.y, u.z * c.z - v.z * s.z,
			      u.w * c.w - v.w * s.w },
			    at.n, at.aligned);
		fours_store(x + half,
			    { v.x * c.x + u.x * s.x, v.y * c.y + u.y * s.y, v.z * c.z + u.z * s.z,
			      v.w * c.w + u.w * s.w },
			    at.n, at.aligned);
	}
};

/* The same with the statistics of all values before and after. */
struct rope_observed {
	struct rope_args a;
	struct value_stats *stats[2];

	struct loaded {
		float *x;
		float4 u, v, c, s;
	};

	__device__ struct loaded load(const struct fours &at) const
	{
		size_t token = quotient(at.row, a.n_heads), head = at.row - token * a.n_heads;
		size_t half = a.rope_dim / 2;
		float *x = a.x.data + token * a.x.stride + head * a.head_dim + at.col;

		return { x, fours_load(x, at.n, at.aligned), fours_load(x + half, at.n, at.aligned),
			 fours_load(a.cosines + token * half + at.col, at.n, at.aligned),
			 fours_load(a.sines + token * half + at.col, at.n, at.aligned) };
	}

	__device__ void finish(const struct fours &at, const struct loaded &in,
			       struct magnitudes *found) const
	{
		float4 u = in.u, v = in.v, c = in.c, s = in.s;
		float4 first = { u.x * c.x - v.x * s.x, u.y * c.y - v.y * s.y,
				 u.z * c.z - v.z * s.z, u.w * c.w - v.w * s.w };
		float4 second = { v.x * c.x + u.x * s.x, v.y * c.y + u.y * s.y,
				  v.z * c.z + u.z * s.z, v.w * c.w + u.w * s.w };

		found[0].add(u, at.n);
		found[0].add(v, at.n);
		found[1].add(first, at.n);
		found[1].add(second, at.n);
		fours_store(in.x, first, at.n, at.aligned);
		fours_store(in.x + a.rope_dim / 2, second, at.n, at.aligned);
	}
};

void gpu_rope(struct device_stream *stream, const struct rope_args *args)
{
	size_t half = args->rope_dim / 2;
	bool aligned = rows_aligned(args->x) && fours_aligned(args->x.data, args->head_dim) &&
		       fours_aligned(args->cosines, half) && fours_aligned(args->sines, half);

	if (args->before || args->after)
		observed_launch<2>(stream, "rope_observed",
				   rope_observed{ *args, { args->before, args->after } },
				   args->n_tokens * args->n_heads, half, aligned);
	else
		fours_launch(stream, "rope", rotate_pairs{ *args }, args->n_tokens * args->n_heads,
			     half, aligned);
}
