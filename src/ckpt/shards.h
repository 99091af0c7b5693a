/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a checkpoint, as the rules at checkpoint_open() find them.
 */
#ifndef FP8CONV_CKPT_SHARDS_H
#define FP8CONV_CKPT_SHARDS_H

#include "ckpt/checkpoint.h"

/* Opens the shards at checkpoint->path and reads config.json: sets directory, shards, has_index,
 * config, and with a list of defects the index's total.  On failure the caller releases the
 * checkpoint. */
int shards_open(struct checkpoint *checkpoint, int n_threads, struct defects *defects,
		struct err *err);

/* Adds an opened file, which the checkpoint takes over, under the base name of its path. */
void shards_add(struct checkpoint *checkpoint, const char *path, const struct st_file *file);

#endif
