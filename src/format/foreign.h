/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that other tools pack into integers, told by names and types where no quantization_config
 * tells of them.  Packings that low_bit.h decodes are not among them.
 */
#ifndef FP8CONV_FORMAT_FOREIGN_H
#define FP8CONV_FORMAT_FOREIGN_H

#include "ckpt/checkpoint.h"

/* Returns the tool that packs a weight into such a tensor, for messages, or NULL.  Ask it only of
 * tensors for which low_bit_of() returns NULL. */
const char *foreign_tool(const struct checkpoint *checkpoint, const struct st_tensor *tensor);

#endif
