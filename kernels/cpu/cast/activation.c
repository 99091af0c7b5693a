/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations with FP8 output (num/activation.h).
 */
#include "backend/matrix.h"
#include "kernels/cpu/cast/cast_transpose.h"

static float activation_at(const void *context, size_t row, size_t col)
{
	const struct activation_args *args = context;
	float y = activation_apply(args->activation, matrix_at(&args->x, row, col));

	return args->up.data ? y * matrix_at(&args->up, row, col) : y;
}

void cpu_activate(const struct activation_args *args, const struct qspec *spec,
		  const struct fp8_out *out)
{
	struct cast_transpose_source source = { activation_at, args, args->x.rows, args->x.cols,
						DT_F32 };

	cast_transpose_write(&source, spec, out);
}
