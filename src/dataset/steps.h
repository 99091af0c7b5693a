/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the readers of files share.  dataset_open() lists the files (files.c) and gives
 * each to the reader of its kind: text.c, json.c, array.c.
 *
 * Order, for each document or sequence of a file: dataset_begin_document() or
 * dataset_begin_sequence(); dataset_add_text() or dataset_add_id(); for sequences
 * dataset_add_sequence().  dataset_open() joins and cuts ids that belong to no sequence.
 */
#ifndef FP8CONV_DATASET_STEPS_H
#define FP8CONV_DATASET_STEPS_H

#include <stdbool.h>

#include "ckpt/listing.h"
#include "dataset/dataset.h"
#include "dataset/stream.h"

#define MAX_SEQUENCE ((size_t)1 << 20) /* tokens of a sequence of ids; no model has read more */

/* A dataset that is being read. */
struct dataset_reader {
	struct dataset *data;
	const struct dataset_params *params;
	const char *path;	     /* of the current file, for messages */
	struct regex_work *patterns; /* of all texts */
};

/* Lists the files of params->paths, with directories replaced by their files; "-" stays.  ERR_INPUT
 * for a path that cannot be read and for a directory without data files. */
int dataset_list(const struct dataset_params *params, struct listing *files, struct err *err);

/* Returns the extension of a data file (".txt", ...), before .gz or .zst; NULL for other names. */
const char *dataset_extension(const char *path);

/* Returns the largest number of tokens that joined documents need; SIZE_MAX without a limit. */
size_t dataset_needed(const struct dataset_reader *reader);
/* Whether the data is complete, so that reading may end. */
bool dataset_has_enough(const struct dataset_reader *reader);

/* Appends an id.  ERR_INPUT where id is not below vocab_size; the caller adds the place. */
int dataset_add_id(const struct dataset_reader *reader, int64_t id, struct err *err);

/* Appends the tokens of a document.  ERR_INPUT without a tokenizer; the caller adds the place. */
int dataset_add_text(const struct dataset_reader *reader, const char *text, size_t len,
		     struct err *err);

/* Announce that the following ids belong to a document, or to a sequence.  ERR_INPUT where earlier
 * ids were of the other kind. */
int dataset_begin_document(const struct dataset_reader *reader, struct err *err);
int dataset_begin_sequence(const struct dataset_reader *reader, struct err *err);
/* Makes a sequence of the ids from index `begin` to the last. */
void dataset_add_sequence(const struct dataset_reader *reader, size_t begin);

/* The readers, one for each kind of file.  A stream is at its start, after the byte order mark; fd
 * is a regular file.  ERR_INPUT with the file and the place. */
int dataset_read_text(const struct dataset_reader *reader, struct stream *stream, struct err *err);
int dataset_read_lines(const struct dataset_reader *reader, struct stream *stream, struct err *err);
int dataset_read_elements(const struct dataset_reader *reader, struct stream *stream,
			  struct err *err);
int dataset_read_npy(const struct dataset_reader *reader, int fd, struct err *err);

#endif
