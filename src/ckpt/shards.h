/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a checkpoint, as the rules at checkpoint_open() find them.
 */
#ifndef FP8CONV_CKPT_SHARDS_H
#define FP8CONV_CKPT_SHARDS_H

#include "ckpt/checkpoint.h"

struct shards_request {
	int n_threads;
	bool whole;		 /* refuses an unfinished directory; else opens what it has */
	struct defects *defects; /* NULL: the first defect is an error */
};

/* Opens the shards at checkpoint->path and reads config.json: sets directory, shards, has_index,
 * n_expected, n_found, config, and with a list of defects the index's total.  On failure the caller
 * releases the checkpoint. */
int shards_open(struct checkpoint *checkpoint, const struct shards_request *request,
		struct err *err);

/* Adds an opened file, which the checkpoint takes over, under the base name of its path. */
void shards_add(struct checkpoint *checkpoint, const char *path, const struct st_file *file);

#endif
