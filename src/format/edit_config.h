/* SPDX-License-Identifier: Apache-2.0
 *
 * Edits of config.json's text: every byte that is not edited stays.
 */
#ifndef FP8CONV_FORMAT_EDIT_CONFIG_H
#define FP8CONV_FORMAT_EDIT_CONFIG_H

#include "base/buf.h"
#include "base/err.h"

/* "quantization_config" is set at the level where the file has it already (top or text_config),
 * else at the top. */
int config_set_quantization(const struct buf *config, const char *quantization, struct buf *out,
			    struct err *err);

/* "quantization_config" is removed from both levels, and "torch_dtype" and "dtype" become dtype
 * (JSON text) wherever they stand there as a text or null and say something else. */
int config_set_dequantized(const struct buf *config, const char *dtype, struct buf *out,
			   struct err *err);

#endif
