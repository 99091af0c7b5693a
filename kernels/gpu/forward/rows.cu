/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that copy, reorder, rotate or mix rows.
 */
#include <math.h>

#include "backend/routing.h"
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"
#include "kernels/gpu/reduce.h"

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
struct rotate_adjacent {
	struct rope_args a;

	__device__ void operator()(const struct fours &at) const
	{
		size_t token = quotient(at.row, a.n_heads), head = at.row - token * a.n_heads;
		const float *cosines = a.cosines + token * (a.rope_dim / 2) + at.col;
		const float *sines = a.sines + token * (a.rope_dim / 2) + at.col;
		float *x = a.x.data + token * a.x.stride + head * a.head_dim + 2 * at.col;

		for (int i = 0; i < at.n; i++) {
			float u = x[2 * i], v = x[2 * i + 1], s = a.back ? -sines[i] : sines[i];

			x[2 * i] = u * cosines[i] - v * s;
			x[2 * i + 1] = v * cosines[i] + u * s;
		}
	}
};

/* The same of pairs that are half of the values apart. */
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

		if (a.back)
			s = { -s.x, -s.y, -s.z, -s.w };
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

	if (args->adjacent)
		fours_launch(stream, "rope", rotate_adjacent{ *args },
			     args->n_tokens * args->n_heads, half, false);
	else if (args->before || args->after)
		observed_launch<2>(stream, "rope_observed",
				   rope_observed{ *args, { args->before, args->after } },
				   args->n_tokens * args->n_heads, half, aligned);
	else
		fours_launch(stream, "rope", rotate_pairs{ *args }, args->n_tokens * args->n_heads,
			     half, aligned);
}

#define MIX_GROUPS (THREADS / SUM_LANES)

/* Returns the sum of x y, of n values, to the 16 threads that are its lanes. */
static __device__ inline float dot(const float *x, const float *y, size_t n)
{
	float sum = 0;

	for (size_t i = threadIdx.x % SUM_LANES; i < n; i += SUM_LANES)
		sum += x[i] * y[i];
	return lanes_sum(sum);
}

/* A block for a token: its weights, and the sum of its vectors.  16 threads make a product. */
static __global__ void streams_begin(struct mix_streams_args a)
{
	__shared__ float m[MIX_GROUPS * (MIX_PRODUCTS(MIX_MAX_STREAMS) / MIX_GROUPS + 2)];
	__shared__ float pre[MIX_MAX_STREAMS];
	size_t n = a.n_streams, n_values = n * a.n_cols, token = blockIdx.x;
	size_t n_products = a.weights ? MIX_PRODUCTS(n) : n;
	const float *x = a.streams + token * n_values;
	float *y = a.y + token * a.n_cols;

	/* the last one is the sum of squares; some groups repeat it, so that all threads add */
	for (size_t first = 0; first <= n_products; first += MIX_GROUPS) {
		size_t i = first + threadIdx.x / SUM_LANES;
		float sum = dot(i < n_products ? a.fn + i * n_values : x, x, n_values);

		if (threadIdx.x % SUM_LANES == 0)
			m[i] = sum;
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		float factor = 1.0f / sqrtf(m[n_products] / (float)n_values + a.norm_eps);

		for (size_t i = 0; i < n_products; i++)
			m[i] = factor * m[i];
		routing_mix(&a, m, pre, a.weights ? a.weights + token * (n + n * n) : NULL);
	}
	__syncthreads();
	for (size_t c = threadIdx.x; c < a.n_cols; c += THREADS) {
		float sum = pre[0] * x[c];

		for (size_t j = 1; j < n; j++)
			sum += pre[j] * x[j * a.n_cols + c];
		y[c] = sum;
	}
}

/* A row is a token. */
struct streams_end {
	struct mix_streams_args a;

	__device__ void operator()(const struct fours &at) const
	{
		size_t n = a.n_streams;
		size_t n_mixed = a.n_rounds ? n : 0;
		const float *post = a.weights + at.row * (n + n * n_mixed), *mix = post + n;
		float *x = a.streams + at.row * n * a.n_cols + at.col;
		float4 y = fours_load(a.y + at.row * a.n_cols + at.col, at.n, at.aligned);
		float4 in[MIX_MAX_STREAMS];

		/* all places of `in` are known to the compiler: it stays in registers */
		GPU_UNROLL
		for (size_t i = 0; i < MIX_MAX_STREAMS; i++)
			if (i < n)
				in[i] = fours_load(x + i * a.n_cols, at.n, at.aligned);
		GPU_UNROLL
		for (size_t j = 0; j < MIX_MAX_STREAMS; j++) {
			float4 sum = { 0, 0, 0, 0 };

			if (j >= n)
				break;
			sum = { post[j] * y.x, post[j] * y.y, post[j] * y.z, post[j] * y.w };
			if (!n_mixed)
				sum = { sum.x + in[j].x, sum.y + in[j].y, sum.z + in[j].z,
					sum.w + in[j].w };
			GPU_UNROLL
			for (size_t i = 0; i < MIX_MAX_STREAMS; i++) {
				if (i >= n_mixed)
					break;
				const float c = mix[i * n + j];

				sum = { sum.x + c * in[i].x, sum.y + c * in[i].y,
					sum.z + c * in[i].z, sum.w + c * in[i].w };
			}
			fours_store(x + j * a.n_cols, sum, at.n, at.aligned);
		}
	}
};

/* A block for a token: its gates, and then its vectors.  16 threads make a product. */
static __global__ void streams_gate(struct mix_streams_args a)
{
	__shared__ float gates[MIX_MAX_STREAMS];
	size_t n = a.n_streams, token = blockIdx.x, first_value = token * n * a.n_cols;
	float *x = a.streams + first_value;
	const float *y = a.y + token * a.n_cols;

	/* some groups repeat the last one, so that all threads add */
	for (size_t first = 0; first < n; first += MIX_GROUPS) {
		size_t i = first + threadIdx.x / SUM_LANES, j = i < n ? i : n - 1;
		float sum = dot(a.keys + first_value + j * a.n_cols, x + j * a.n_cols, a.n_cols);

		if (i < n && threadIdx.x % SUM_LANES == 0)
			gates[i] = routing_root_gate(sum, a.n_cols);
	}
	__syncthreads();
	for (size_t c = threadIdx.x; c < a.n_cols; c += THREADS) {
		const float v = y[c]; /* once: for the compiler, x may be y */

		for (size_t j = 0; j < n; j++)
			x[j * a.n_cols + c] = gates[j] * v;
	}
}

void gpu_mix_streams(struct device_stream *stream, const struct mix_streams_args *args)
{
	if (args->n_tokens == 0 || device_stream_stopped(stream))
		return;
	if (args->keys) {
		GPU_LAUNCH(streams_gate, args->n_tokens, THREADS, device_stream_native(stream),
			   *args);
		device_launched(stream, "streams_gate");
		return;
	}
	if (!args->fn) {
		fours_launch(stream, "streams_end", streams_end{ *args }, args->n_tokens,
			     args->n_cols,
			     fours_aligned(args->streams, args->n_cols) &&
				     fours_aligned(args->y, args->n_cols));
		return;
	}
	GPU_LAUNCH(streams_begin, args->n_tokens, THREADS, device_stream_native(stream), *args);
	device_launched(stream, "streams_begin");
}
