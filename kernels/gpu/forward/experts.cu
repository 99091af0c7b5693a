/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of several sequences between the products of experts: a block for each row, whose values are
 * added to the stats of the row's segment.
 */
#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/magnitudes.h"

/* 4 bytes read for each element, and 0 to 6 written. */
static __global__ void take_rows(struct take_rows_args a, bool aligned)
{
	size_t row = blockIdx.x, first = row * a.n_cols;
	const float *x = a.x + (a.rows ? a.rows[row] : row) * a.n_cols;
	float factor = a.factors ? a.factors[row] : 1;
	struct value_stats *stats = stats_of(a.stats, row, a.slot);
	struct magnitudes found = {};

	for (size_t col = threadIdx.x * 4; col < a.n_cols; col += THREADS * 4) {
		const struct fours at = { row, col, fours_left(col, a.n_cols), aligned };
		float4 v = fours_load(x + col, at.n, aligned);

		if (a.factors)
			v = fours_each(v, [factor](float w) { return factor * w; });
		values_put(a.round, a.y ? a.y + first + col : NULL,
			   a.codes ? a.codes + first + col : NULL, v, at, &found);
	}
	magnitudes_raise<1>(&found, &stats);
}

void gpu_take_rows(struct device_stream *stream, const struct take_rows_args *args)
{
	const struct rounded_out codes = { NULL, args->codes };
	bool aligned = fours_aligned(args->x, args->n_cols) &&
		       (!args->y || fours_aligned(args->y, args->n_cols)) &&
		       codes_aligned(codes, args->n_cols);

	if (args->n_rows == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(take_rows, args->n_rows, THREADS, device_stream_native(stream), *args, aligned);
	device_launched(stream, "take_rows");
}

/* A row of the launch is a token. */
struct combine {
	struct combine_args a;

	__device__ void operator()(const struct fours &at) const
	{
		float *to = a.y + at.row * a.n_cols + at.col;
		float4 sum = fours_load(to, at.n, at.aligned);
		bool any = false;

		for (size_t i = at.row * a.top_k; i < (at.row + 1) * a.top_k; i++) {
			size_t row = a.places[i] - a.first; /* large if the place is before */
			float weight = a.weights ? a.weights[i] : 1;

			if (row >= a.n_rows)
				continue;
			any = true;
			sum = fours_each(
				sum, fours_load(a.x + row * a.n_cols + at.col, at.n, at.aligned),
				[weight](float v, float w) { return v + weight * w; });
		}
		if (any)
			fours_store(to, sum, at.n, at.aligned);
	}
};

void gpu_combine(struct device_stream *stream, const struct combine_args *args)
{
	if (args->n_rows == 0)
		return;
	fours_launch(stream, "combine", combine{ *args }, args->n_tokens, args->n_cols,
		     fours_aligned(args->y, args->n_cols) && fours_aligned(args->x, args->n_cols));
}
