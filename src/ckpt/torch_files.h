/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of torch.save(), one file or several with a *.bin.index.json, and of
 * torch.distributed.checkpoint (.metadata with .distcp files), as shards.  They are
 * pickles: read only where the user names one, and nothing in them is called (torch/pickle.h).
 */
#ifndef FP8CONV_CKPT_TORCH_FILES_H
#define FP8CONV_CKPT_TORCH_FILES_H

#include "base/progress.h"
#include "ckpt/checkpoint.h"

/* Is it the name of a file of torch.save(), or of its index? */
bool torch_files_is_name(const char *path);

/* Returns the path of the file to open in a directory, or of its index; the caller frees it.  NULL
 * with ERR_INPUT where there is none, or several. */
char *torch_files_find(const struct io *io, const char *directory, struct err *err);

/* Opens the file, or the files of an index, as shards "model-00001-of-00002.safetensors" or
 * model.safetensors. */
int torch_files_open(struct checkpoint *checkpoint, const char *path, struct err *err);

/* Reads all files of torch.save() of a checkpoint, and compares the CRC-32 of their members.
 * ERR_INPUT with both; ERR_INTERRUPTED after a signal in stop. */
int torch_files_check(const struct checkpoint *checkpoint, const atomic_int *stop, struct err *err);

#endif
