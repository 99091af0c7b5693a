/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints without files, for tests of what is decided from headers: one line a tensor, "NAME
 * TYPE DIM DIM", a line
 * "/" where the next shard begins.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_MEMORY_CHECKPOINT_H
#define FP8CONV_TESTS_UNIT_SUPPORT_MEMORY_CHECKPOINT_H

#include "ckpt/checkpoint.h"

/* Fills *checkpoint as if it had been opened, to be released by memory_checkpoint_release() alone.
 * config: the text of config.json, or NULL.  A line of tensors that says no name and type ends the
 * program. */
void memory_checkpoint_init(struct checkpoint *checkpoint, const char *config, const char *tensors);
void memory_checkpoint_release(struct checkpoint *checkpoint);

#endif
