/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations with FP8 output, by the kernels of cast.cu: 4 bytes read for an element of SwiGLU in
 * bf16, 1 written.
 */
#include "kernels/gpu/cast/source.h"

struct gpu_source source_of_activation(const struct activation_args *args)
{
	struct gpu_source source = source_of_elements(&args->x);

	source.kind = SOURCE_ACTIVATION;
	source.activation = { elements_of(&args->up), args->activation, args->up.data != NULL };
	return source;
}

void gpu_activate(struct device_stream *stream, const struct activation_args *args,
		  const struct qspec *spec, const struct fp8_out *out, unsigned long long *counts)
{
	const struct gpu_source source = source_of_activation(args);

	gpu_cast_source(stream, &source,
			{ args->x.rows, args->x.cols, *spec, scale_limit(DT_F32, spec->tile), *out,
			  NULL, NULL, counts });
}
