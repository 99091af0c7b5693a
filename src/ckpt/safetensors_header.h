/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of st_parse_header(): what the JSON says, and whether it can be true.
 */
#ifndef FP8CONV_CKPT_SAFETENSORS_HEADER_H
#define FP8CONV_CKPT_SAFETENSORS_HEADER_H

#include "ckpt/safetensors.h"

/* Fills file->tensors (in the order of the header) and file->metadata from the header text;
 * file->path is set. */
int st_header_read(struct st_file *file, const char *header, size_t n, struct err *err);

/* Sorts file->tensors by offset and fills by_name; checks that no name or key is there twice and
 * that the tensors tile data_size bytes exactly. */
int st_header_check(struct st_file *file, uint64_t data_size, struct err *err);

#endif
