/* SPDX-License-Identifier: Apache-2.0
 *
 * What users give instead of a checkpoint: each is told for what it is, and what to do.
 */
#ifndef FP8CONV_CKPT_MISTAKEN_H
#define FP8CONV_CKPT_MISTAKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

/* ERR_INPUT for the start of a file of `size` bytes that is a Git LFS pointer, a GGUF file or a
 * pickle. */
int mistaken_file(const char *path, const unsigned char start[8], uint64_t size, struct err *err);

/* ERR_INPUT for the text of a configuration, an index or a tokenizer that is a Git LFS pointer. */
int mistaken_text(const char *path, const struct buf *text, struct err *err);

/* Is the file a Git LFS pointer?  A file that cannot be read is none. */
bool mistaken_is_pointer(const struct io *io, const char *path);

/* ERR_INPUT for a path that does not exist, which may be the name of a model on the Hub. */
int mistaken_name(const char *path, struct err *err);

/* Returns -1 with ERR_INPUT on a directory without safetensors files. */
int mistaken_directory(const struct io *io, const char *directory, struct err *err);

#endif
