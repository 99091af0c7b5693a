/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on single elements: one read, one write, and no memory between them.
 */
#include <math.h>

#include "kernels/gpu/activate.h"
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"

struct add_observed {
	float *x;
	const float *y;
	struct value_stats *stats[1];

	struct loaded {
		float4 a, b;
	};

	__device__ struct loaded load(const struct fours &at) const
	{
		return { fours_load(x + at.col, at.n, at.aligned),
			 fours_load(y + at.col, at.n, at.aligned) };
	}

	__device__ void finish(const struct fours &at, const struct loaded &in,
			       struct magnitudes *found) const
	{
		found->add(in.b, at.n);
		fours_store(x + at.col,
			    fours_each(in.a, in.b, [](float v, float w) { return v + w; }), at.n,
			    at.aligned);
	}
};

/* Adds rows without gaps; all rows of y may be the same one. */
struct add {
	float *x;
	size_t x_stride;
	const float *y;

	__device__ void operator()(const struct fours &at) const
	{
		float *to = x + at.row * x_stride + at.col;
		float4 a = fours_load(to, at.n, at.aligned),
		       b = fours_load(y + at.col, at.n, at.aligned);

		fours_store(to, { a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w }, at.n, at.aligned);
	}
};

void gpu_add(struct device_stream *stream, const struct add_args *args)
{
	bool aligned =
		fours_aligned(args->x, args->n_rows > 1 ? args->n : 0) && fours_aligned(args->y, 0);

	if (args->y_stats)
		observed_launch<1>(stream, "add_observed",
				   add_observed{ args->x, args->y, { args->y_stats } }, 1, args->n,
				   aligned);
	else
		fours_launch(stream, "add", add{ args->x, args->n, args->y }, args->n_rows, args->n,
			     aligned);
}

struct gate {
	struct gate_args a;

	__device__ void operator()(const struct fours &at) const
	{
		float4 g =
			fours_load(a.gate.data + at.row * a.gate.stride + at.col, at.n, at.aligned);
		float4 u = fours_load(a.up.data + at.row * a.up.stride + at.col, at.n, at.aligned);

		fours_store(a.y.data + at.row * a.y.stride + at.col, gated(a, g, u), at.n,
			    at.aligned);
	}
};

/* The same with the statistics of gate, up and y, which is rounded: 8 bytes read for each element,
 * and 2 or 6 written. */
struct gate_observed {
	struct gate_args a;
	struct value_stats *stats[3];

	struct loaded {
		float4 gate, up;
	};

	__device__ struct loaded load(const struct fours &at) const
	{
		return { fours_load(a.gate.data + at.row * a.gate.stride + at.col, at.n,
				    at.aligned),
			 fours_load(a.up.data + at.row * a.up.stride + at.col, at.n, at.aligned) };
	}

	__device__ void finish(const struct fours &at, const struct loaded &in,
			       struct magnitudes *found) const
	{
		float *y = a.y.data ? a.y.data + at.row * a.y.stride + at.col : NULL;
		float4 v = gated(a, in.gate, in.up);

		found[0].add(in.gate, at.n);
		found[1].add(in.up, at.n);
		if (a.rounded.stats)
			rounded_store(a.rounded, at.row * a.n_cols + at.col, y, v, at, &found[2]);
		else
			fours_store(y, v, at.n, at.aligned);
	}
};

/* The same with a block for each row, whose values are added to its segment: 8 bytes read for each
 * element, and 2 to 6 written. */
static __global__ void gate_rows(struct gate_args a, bool aligned)
{
	size_t row = blockIdx.x, first = row * a.n_cols;
	struct value_stats *stats[] = { stats_of(a.rows, row, a.gate_slot),
					stats_of(a.rows, row, a.up_slot),
					stats_of(a.rows, row, a.y_slot) };
	struct magnitudes found[3] = {};

	for (size_t col = threadIdx.x * 4; col < a.n_cols; col += THREADS * 4) {
		const struct fours at = { row, col, fours_left(col, a.n_cols), aligned };
		float4 g = fours_load(a.gate.data + row * a.gate.stride + col, at.n, aligned);
		float4 u = fours_load(a.up.data + row * a.up.stride + col, at.n, aligned);

		found[0].add(g, at.n);
		found[1].add(u, at.n);
		values_put(a.round, a.y.data ? a.y.data + row * a.y.stride + col : NULL,
			   a.rounded.codes ? a.rounded.codes + first + col : NULL, gated(a, g, u),
			   at, &found[2]);
	}
	magnitudes_raise<3>(found, stats);
}

/* Without up. */
struct activate_rows {
	struct gate_args a;

	__device__ void operator()(const struct fours &at) const
	{
		float4 in =
			fours_load(a.gate.data + at.row * a.gate.stride + at.col, at.n, at.aligned);
		float v[4] = { in.x, in.y, in.z, in.w };

		activate_each<4>(a.activation, v);
		fours_store(a.y.data + at.row * a.y.stride + at.col, { v[0], v[1], v[2], v[3] },
			    at.n, at.aligned);
	}
};

struct gate_pairs {
	struct gate_args a;

	__device__ float one(float gate, float up) const
	{
		gate = fminf(gate, a.clamp);
		up = fmaxf(fminf(up, a.clamp), -a.clamp);
		return (up + 1) * gate / (1.0f + f32_exp(-a.alpha * gate));
	}

	__device__ void operator()(const struct fours &at) const
	{
		const float *from = a.gate.data + 2 * at.col;
		float4 low = fours_load(from, fours_left(0, 2 * (size_t)at.n), at.aligned);
		float4 high = fours_load(from + 4, fours_left(4, 2 * (size_t)at.n), at.aligned);

		fours_store(a.y.data + at.col,
			    { one(low.x, low.y), one(low.z, low.w), one(high.x, high.y),
			      one(high.z, high.w) },
			    at.n, at.aligned);
	}
};

void gpu_gate(struct device_stream *stream, const struct gate_args *args)
{
	bool aligned = rows_aligned(args->gate) && rows_aligned(args->up) &&
		       (!args->y.data || rows_aligned(args->y)) &&
		       codes_aligned(args->rounded, args->n_cols);

	if (args->n_rows == 0 || device_stream_stopped(stream))
		return;
	if (args->pairs) {
		fours_launch(stream, "gate_pairs", gate_pairs{ *args }, 1,
			     args->n_rows * args->n_cols,
			     fours_aligned(args->gate.data, 0) && fours_aligned(args->y.data, 0));
		return;
	}
	if (!args->up.data) {
		fours_launch(stream, "activate", activate_rows{ *args }, args->n_rows, args->n_cols,
			     aligned);
		return;
	}
	if (args->rows.stats) {
		GPU_LAUNCH(gate_rows, args->n_rows, THREADS, device_stream_native(stream), *args,
			   aligned);
		device_launched(stream, "gate_rows");
		return;
	}
	if (args->gate_stats || args->up_stats || args->rounded.stats)
		observed_launch<3>(
			stream, "gate_observed",
			gate_observed{ *args,
				       { args->gate_stats, args->up_stats, args->rounded.stats } },
			args->n_rows, args->n_cols, aligned);
	else
		fours_launch(stream, "gate", gate{ *args }, args->n_rows, args->n_cols, aligned);
}

struct scale_rows {
	struct scale_args a;

	__device__ void operator()(const struct fours &at) const
	{
		float *to = a.x.data + at.row * a.x.stride + at.col;
		float factor = a.factors ? a.factors[at.row] : a.factor;

		fours_store(to,
			    fours_each(fours_load(to, at.n, at.aligned),
				       [factor](float v) { return factor * v; }),
			    at.n, at.aligned);
	}
};

void gpu_scale(struct device_stream *stream, const struct scale_args *args)
{
	fours_launch(stream, "scale", scale_rows{ *args }, args->n_rows, args->n_cols,
		     rows_aligned(args->x));
}

/* A row is a token; its heads have scales of their own. */
struct round_e4m3 {
	float *x;
	size_t n_cols, head_dim;
	const float *scales;

	__device__ float rounded(float v, size_t col) const
	{
		float scale = scales[(col < n_cols ? col : n_cols - 1) / head_dim];

		return fp8_e4m3_to_f32(fp8_e4m3_from_f32(v / scale)) * scale;
	}

	__device__ void operator()(const struct fours &at) const
	{
		float *to = x + at.row * n_cols + at.col;
		float4 v = fours_load(to, at.n, at.aligned);

		fours_store(to,
			    { rounded(v.x, at.col), rounded(v.y, at.col + 1),
			      rounded(v.z, at.col + 2), rounded(v.w, at.col + 3) },
			    at.n, at.aligned);
	}
};

void gpu_round_e4m3(struct device_stream *stream, const struct round_e4m3_args *args)
{
	size_t n_cols = args->n_heads * args->head_dim;

	fours_launch(stream, "round_e4m3",
		     round_e4m3{ args->x, n_cols, args->head_dim, args->scales }, args->n_rows,
		     n_cols, fours_aligned(args->x, n_cols));
}
