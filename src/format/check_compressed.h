/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of compressed-tensors, as its loaders read it: vLLM 0.32 and SGLang 0.5.23
 * (CompressedTensorsConfig), transformers 5.24 with compressed-tensors 0.20 (QuantizationConfig,
 * QuantizationScheme, QuantizationArgs).
 */
#ifndef FP8CONV_FORMAT_CHECK_COMPRESSED_H
#define FP8CONV_FORMAT_CHECK_COMPRESSED_H

#include "format/member.h"

/* Reports what these loaders refuse or misread. */
void check_compressed_tensors(const struct config_check *check);

#endif
