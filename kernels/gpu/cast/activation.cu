/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations with FP8 output: 4 bytes read for an element of SwiGLU in bf16, 1 written.
 */
#include "kernels/gpu/cast/activation_source.h"
#include "kernels/gpu/cast/cast_kernels.h"

void gpu_activate(struct device_stream *stream, const struct activation_args *args,
		  const struct qspec *spec, const struct fp8_out *out, unsigned long long *counts)
{
	struct write_args a = { args->x.rows, args->x.cols, *spec, scale_limit(DT_F32, spec->tile),
				*out,	      NULL,	    NULL,  counts };

	write_launch(stream, activated_of(args), a);
}
