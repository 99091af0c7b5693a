/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders below $TMPDIR, or /tmp, for tests that write: empty, of data files and a tokenizer, of
 * models.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_FOLDERS_H
#define FP8CONV_TESTS_UNIT_SUPPORT_FOLDERS_H

#include "base/buf.h"
#include "ckpt/checkpoint.h"
#include "dataset/dataset.h"

/* $TMPDIR, or /tmp.  Owned by the environment. */
const char *scratch_parent(void);

/* A new, empty directory below it: the caller frees the path, and removes the directory.  NULL if
 * there can be none. */
char *scratch_new(void);

struct data_folder {
	char *path;
	struct tokenizer *tokenizer;
};

/* A new directory, and the tokenizer of that tokenizer.json.  Returns 0 or -1. */
int data_folder_init(struct data_folder *folder, const char *tokenizer_json);

/* Removes the directory with all that is in it.  Returns 0 or the exit status of rm. */
int data_folder_release(struct data_folder *folder);

/* Writes a file and returns its path, valid until the next call. */
const char *data_folder_put(const struct data_folder *folder, const char *name, const void *bytes,
			    size_t n);

/* Adds the message to out, without the directory in front of names. */
void data_folder_message(const struct data_folder *folder, const char *message, struct buf *out);

/* Adds the sequences to out, as "1 2 3|4 5". */
void data_sequences_list(struct buf *out, const struct dataset *data);

/* Replaces what out holds by the ids, as "4 3"; "-" if there are none. */
void token_ids_list(struct buf *out, const uint32_t *ids, size_t n);

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
