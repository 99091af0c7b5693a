/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of st_parse_header(): reading the JSON, and checking its statements.  Order:
 * st_header_read(), st_header_check().
 */
#ifndef FP8CONV_CKPT_SAFETENSORS_HEADER_H
#define FP8CONV_CKPT_SAFETENSORS_HEADER_H

#include "ckpt/safetensors.h"

/* Fills file->tensors (in the order of the header) and file->metadata from the header text.
 * file->path must be set, for messages. */
int st_header_read(struct st_file *file, const char *header, size_t n, struct err *err);

/* Sorts file->tensors by offset and fills by_name.  Checks that names and keys are unique, and that
 * the tensors tile data_size bytes exactly. */
int st_header_check(struct st_file *file, uint64_t data_size, struct err *err);

#endif
