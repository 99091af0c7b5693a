/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of data files and a tokenizer, for the tests of dataset/: the set-up and tear-down of
 * a group of tests.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_DATA_FOLDER_H
#define FP8CONV_TESTS_UNIT_SUPPORT_DATA_FOLDER_H

#include "dataset/dataset.h"

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

#endif
