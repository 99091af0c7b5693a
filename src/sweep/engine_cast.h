/* SPDX-License-Identifier: Apache-2.0
 *
 * The casts of an engine that multiplies in FP8: it quantizes the input of every quantized matrix
 * by the granularity of the weight's scales, and multiplies codes.  Here the values of the codes
 * take the place of the input.
 *
 * Source: vLLM's Fp8LinearMethod and CompressedTensorsW8A8Fp8, per_token_group_quant_fp8(),
 * mxfp8_quantize(); SGLang has the same casts.
 */
#ifndef FP8CONV_SWEEP_ENGINE_CAST_H
#define FP8CONV_SWEEP_ENGINE_CAST_H

#include "forward/forward.h"

/* Returns the cast that engines make for inputs of weights with such scales: of a granularity,
 * codes of a format, tiles of so many columns, all scales powers of two or not, and of MX the rule
 * of exponents. */
struct input_cast engine_cast_dynamic(enum granularity granularity, enum fp8_format format,
				      size_t cols, bool pow2, enum mx_rule mx_rule);

/* Makes the cast of a granularity static: with this scale of the whole input, above 0. */
void engine_cast_static(struct input_cast *cast, float scale_inv);

#endif
