/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm with FP8 output; num/norm.h has the order of the sums.
 */
#include "num/norm.h"

#include "backend/matrix.h"
#include "kernels/cpu/cast/cast_transpose.h"

static float canonical_nan(float v)
{
	return f32_is_nan(v) ? f32_from_bits(F32_NAN) : v;
}

static float row_sum(const struct matrix *x, size_t row)
{
	float lanes[NORM_LANES] = { 0 };

	for (size_t col = 0; col < x->cols; col++)
		lanes[col % NORM_LANES] += matrix_at(x, row, col);
	return norm_lanes_sum(lanes);
}

static float row_sum_of_squares(const struct matrix *x, size_t row, float mu)
{
	float lanes[NORM_LANES] = { 0 };

	for (size_t col = 0; col < x->cols; col++) {
		float deviation = matrix_at(x, row, col) - mu;

		lanes[col % NORM_LANES] += deviation * deviation;
	}
	return norm_lanes_sum(lanes);
}

static float mu_of(const struct norm_args *args, size_t row)
{
	return args->kind == NORM_LAYER ? args->mu[row] : 0;
}

static float norm_at(const void *context, size_t row, size_t col)
{
	const struct norm_args *args = context;
	float gamma = matrix_at(&args->gamma, 0, col), y;

	if (args->zero_centered_gamma)
		gamma = 1 + gamma;
	y = norm_apply(matrix_at(&args->x, row, col), mu_of(args, row), args->rsigma[row], gamma);
	return args->beta.data ? y + matrix_at(&args->beta, 0, col) : y;
}

void cpu_norm(const struct norm_args *args, const struct qspec *spec, const struct fp8_out *out)
{
	const struct matrix *x = &args->x;
	struct cast_transpose_source source = { norm_at, args, x->rows, x->cols, DT_F32 };

	for (size_t row = 0; row < x->rows; row++) {
		float sum;

		if (args->kind == NORM_LAYER)
			args->mu[row] = canonical_nan(row_sum(x, row) / (float)x->cols);
		sum = row_sum_of_squares(x, row, mu_of(args, row));
		args->rsigma[row] = canonical_nan(norm_rsigma(sum, x->cols, args->epsilon));
	}
	cast_transpose_write(&source, spec, out);
}
