/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSNorm and LayerNorm with FP8 output: the kernel that applies the norm also computes codes, amax
 * and scale_inv.
 */
#include "kernels/gpu/cast/norm_source.h"
#include "kernels/gpu/cast/cast_kernels.h"

void gpu_norm(struct device_stream *stream, const struct norm_args *args, const struct qspec *spec,
	      const struct fp8_out *out, unsigned long long *counts)
{
	struct write_args a = { args->x.rows, args->x.cols, *spec, scale_limit(DT_F32, spec->tile),
				*out,	      NULL,	    NULL,  counts };

	write_launch(stream, normed_of(stream, args), a);
}
