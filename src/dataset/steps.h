/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of files share.  dataset_open() lists the files (files.c) and gives each to the
 * reader of its kind: text.c, json.c, array.c.  They append ids and, where these are not to be
 * joined and cut, sequences.
 */
#ifndef FP8CONV_DATASET_STEPS_H
#define FP8CONV_DATASET_STEPS_H

#include <stdbool.h>

#include "ckpt/listing.h"
#include "dataset/dataset.h"
#include "dataset/stream.h"

/* A dataset that is being read. */
struct dataset_reader {
	struct dataset *data;
	const struct dataset_params *params;
	const char *path; /* of the file under way, for messages */
};

/* All files of params->paths; "-" stays. */
int dataset_list(const struct dataset_params *params, struct listing *files, struct err *err);

/* The kind of a file by its name, without .gz and .zst; NULL: another name. */
const char *dataset_extension(const char *path);

/* Tokens that are wanted of joined documents; SIZE_MAX where there is no limit. */
size_t dataset_wanted(const struct dataset_reader *reader);
/* Nothing more needs to be read. */
bool dataset_has_enough(const struct dataset_reader *reader);

/* Appends an id.  ERR_INPUT where the model has none such; the caller says where it stands. */
int dataset_add_id(const struct dataset_reader *reader, int64_t id, struct err *err);

/* Appends a document's tokens.  ERR_INPUT without a tokenizer; the caller says where it stands. */
int dataset_add_text(const struct dataset_reader *reader, const char *text, size_t len,
		     struct err *err);

/* Ids that follow are a document's, or a sequence's.  ERR_INPUT where those before are not. */
int dataset_begin_document(const struct dataset_reader *reader, struct err *err);
int dataset_begin_sequence(const struct dataset_reader *reader, struct err *err);
/* Makes the ids from `begin` on a sequence of its own. */
void dataset_add_sequence(const struct dataset_reader *reader, size_t begin);

/* The readers.  A stream is at its start, after the byte order mark. */
int dataset_read_text(const struct dataset_reader *reader, struct stream *stream, struct err *err);
int dataset_read_lines(const struct dataset_reader *reader, struct stream *stream, struct err *err);
int dataset_read_elements(const struct dataset_reader *reader, struct stream *stream,
			  struct err *err);
int dataset_read_npy(const struct dataset_reader *reader, int fd, struct err *err);
int dataset_read_safetensors(const struct dataset_reader *reader, int fd, struct err *err);

#endif
