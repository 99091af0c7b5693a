/* SPDX-License-Identifier: Apache-2.0
 *
 * Casts matrices to FP8, and computes their amax.  A cast moves 3 bytes for an element of bf16: 2
 * read, 1 written (2 with both copies), and each scale once.  Where the amax must come first, x is
 * read twice: for tensors, for rows of more than 32768 elements, and for channels with a columnwise
 * copy, which are read a third time.
 */
#include "kernels/gpu/cast/cast.h"
#include "kernels/gpu/cast/cast_kernels.h"

void gpu_tile_amax(struct device_stream *stream, const struct matrix *x, struct tile tile,
		   bool transposed, float *amax, unsigned long long *counts)
{
	const struct amax_args a = { x->rows, x->cols, tile, transposed, amax, counts };

	amax_launch(stream, elements_of(x), a);
}

void gpu_cast(struct device_stream *stream, const struct matrix *x, const struct qspec *spec,
	      const float *amax, const struct fp8_out *out, unsigned long long *counts)
{
	struct write_args a = { x->rows, x->cols, *spec, scale_limit(x->dtype, spec->tile),
				*out,	 amax,	  NULL,	 counts };

	write_launch(stream, elements_of(x), a);
}
