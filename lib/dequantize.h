/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack of FP8 matrices as values, on the threads of a context.
 */
#ifndef FP8CONV_LIB_DEQUANTIZE_H
#define FP8CONV_LIB_DEQUANTIZE_H

#include "lib/context.h"

int dequantize_stack(struct fp8conv_context *context, const struct fp8conv_quantized *q,
		     const struct fp8conv_tensor *y, struct err *err);

#endif
