/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that the ranks of a training save with torch's HuggingFaceStorageWriter
 * (save_distributed=True), which save_pretrained(distributed_checkpoint=True) of transformers
 * calls: "shard-00002-model-00001-of-00004.safetensors" has rank 2's slices of the tensors of file
 * 1.  The header says where in its tensor each slice begins, and nothing says how large the tensor
 * is.
 *
 * Source: torch 2.15, distributed/checkpoint/hf_storage.py and _hf_utils.py.
 */
#ifndef FP8CONV_CKPT_SLICES_H
#define FP8CONV_CKPT_SLICES_H

#include "ckpt/checkpoint.h"

/* Is it the name of a rank's file? */
bool slices_is_name(const char *name);

/* Opens the files of a directory that have such names as shards "model-00001-of-00004.safetensors";
 * names: of its files.  ERR_INPUT for slices that are missing, overlap, or differ in type. */
int slices_open(struct checkpoint *checkpoint, const struct listing *names, struct err *err);

/* ERR_INPUT where config.json shows that the file of a rank is missing: the tensors of the others
 * may look whole, and are too small.  A model has a tensor with a row for each word. */
int slices_check_rows(const struct checkpoint *checkpoint, struct err *err);

#endif
