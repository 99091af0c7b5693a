/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories of models for tests of how they are opened.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_MODEL_FOLDER_H
#define FP8CONV_TESTS_UNIT_SUPPORT_MODEL_FOLDER_H

#include "ckpt/checkpoint.h"

/* A scratch folder, whose path is the test's state. */
int model_folder_setup(void **state);
int model_folder_teardown(void **state);

/* Returns the path of a name in the folder, whose directories are made.  The caller frees it. */
char *model_folder_place(const char *folder, const char *name);
void model_folder_put(const char *folder, const char *name, const char *text);
void model_folder_link(const char *folder, const char *name, const char *target);

/* Makes a shard whose tensors are the letters of names, one byte each, laid out in that order. */
void model_folder_shard_text(struct buf *out, const char *names);
void model_folder_shard(const char *folder, const char *name, const char *names);

/* Makes a file with tensor a, as torch.distributed.checkpoint writes slices; offsets: JSON. */
void model_folder_slice(const char *folder, const char *name, const char *offsets);

/* Opens a checkpoint that must be right. */
void model_folder_open(struct checkpoint *checkpoint, const char *path);

/* The checkpoint at folder/name (name NULL: folder) has these tensors, by shard and offset. */
void model_folder_tensors(const char *folder, const char *name, const char *names);

/* The path is refused with a message that contains this one. */
void model_folder_refused(const char *path, const char *message);

#endif
