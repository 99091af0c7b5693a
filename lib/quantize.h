/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack of matrices through a quantizer, and FP8 back to values, on the threads of a context.
 */
#ifndef FP8CONV_LIB_QUANTIZE_H
#define FP8CONV_LIB_QUANTIZE_H

#include "lib/context.h"
#include "lib/tensor.h"

/* Writes the copies in *out.  q has spec, scale and amax; its usage and order are set from *out. */
int quantize_stack(struct fp8conv_context *context, struct quantizer *q,
		   const struct fp8conv_tensor *x, struct fp8conv_quantized *out, struct err *err);

/* Writes the values of a stack of FP8 matrices (lib/dequantize.c). */
int dequantize_stack(struct fp8conv_context *context, const struct fp8conv_quantized *q,
		     const struct fp8conv_tensor *y, struct err *err);

/* Sets amax[i] to that of matrix i. */
int amax_stack(const struct fp8conv_context *context, const struct stack *x, float *amax,
	       struct err *err);

/* Returns the threads of a call that reads or writes the stack: a small one has no other. */
int stack_threads(const struct fp8conv_context *context, const struct stack *stack);

/* Returns the rows of a band: whole tiles (tile_rows may be WHOLE, for those whose amax is known),
 * so many that the band suits the backend. */
size_t band_rows(const struct fp8conv_context *context, size_t tile_rows, size_t row_size);

#endif
