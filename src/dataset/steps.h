/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FP8CONV_DATASET_STEPS_H
#define FP8CONV_DATASET_STEPS_H

#include <stdbool.h>

#include "dataset/dataset.h"

/* A dataset that is being read. */
struct dataset_reader {
	struct dataset *data;
	const struct io *io;
	const char *path;
	const struct tokenizer *tokenizer;
	size_t seq_len, vocab_size, max_sequences;
};

/* Tokens that are wanted of joined documents; SIZE_MAX where there is no limit. */
size_t dataset_wanted(const struct dataset_reader *reader);

/* Appends an id.  ERR_INPUT where the model has none such; the caller says where it stands. */
int dataset_add_id(const struct dataset_reader *reader, int64_t id, struct err *err);

/* Appends a document's tokens.  ERR_INPUT without a tokenizer; the caller says where it stands. */
int dataset_add_text(const struct dataset_reader *reader, const char *text, size_t len,
		     struct err *err);

/* Makes the ids from `begin` on a sequence of its own. */
void dataset_add_sequence(const struct dataset_reader *reader, size_t begin);

/* The formats: 0, with ids and, where they are not to be cut, sequences. */
int dataset_read_txt(const struct dataset_reader *reader, struct err *err);
int dataset_read_jsonl(const struct dataset_reader *reader, struct err *err);
int dataset_read_npy(const struct dataset_reader *reader, struct err *err);
int dataset_read_safetensors(const struct dataset_reader *reader, struct err *err);

#endif
