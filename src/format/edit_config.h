/* SPDX-License-Identifier: Apache-2.0
 *
 * Edits of the text of config.json.  Bytes outside of an edit stay.  A function with `out` appends
 * the edited text to it.  All fail with ERR_INPUT where config is not a JSON object.
 */
#ifndef FP8CONV_FORMAT_EDIT_CONFIG_H
#define FP8CONV_FORMAT_EDIT_CONFIG_H

#include "base/buf.h"
#include "base/err.h"

/* Sets "quantization_config" to quantization (JSON text) at the level that has it already (top or
 * text_config), else at the top. */
int config_set_quantization(const struct buf *config, const char *quantization, struct buf *out,
			    struct err *err);

/* Sets member `name` at the top of the text in config to value (JSON text); a new member is the
 * last. */
int config_set_member(struct buf *config, const char *name, const char *value, struct err *err);

/* Removes a member, where it exists, from the top and from text_config of the text in config. */
int config_remove(struct buf *config, const char *name, struct err *err);

/* Removes "quantization_config" and DeepSeek-V4's "expert_dtype" from both levels, and sets each
 * existing "torch_dtype" and "dtype" of these levels that is a string or null to dtype (JSON
 * text). */
int config_set_dequantized(const struct buf *config, const char *dtype, struct buf *out,
			   struct err *err);

#endif
