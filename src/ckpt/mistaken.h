/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognizes GGUF files, pickles and LFS pointers given as a checkpoint, and says what to do.
 */
#ifndef FP8CONV_CKPT_MISTAKEN_H
#define FP8CONV_CKPT_MISTAKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "ckpt/safetensors.h"

/* The key of the metadata by which torch.distributed.checkpoint says where in a tensor the bytes of
 * a file lie. */
#define SHARDING_KEY "DCP_SHARDING_INFO"

/* ERR_INPUT for the start of a file of `size` bytes that is a Git LFS pointer, a GGUF file or a
 * pickle. */
int mistaken_file(const char *path, const unsigned char start[8], uint64_t size, struct err *err);

/* ERR_INPUT for the text of a configuration, an index or a tokenizer that is a Git LFS pointer. */
int mistaken_text(const char *path, const struct buf *text, struct err *err);

/* Is the file a Git LFS pointer?  A file that cannot be read is none. */
bool mistaken_is_pointer(const struct io *io, const char *path);

/* ERR_INPUT for a path that does not exist, which may be the name of a model on the Hub. */
int mistaken_name(const char *path, struct err *err);

/* ERR_INPUT for a file with slices of tensors, as each rank of a job saves them.  Only beside a
 * model.safetensors.index.json, and under another name than a rank's, may all offsets be 0: one
 * rank saves whole tensors with an index, several save slices without one.  io: NULL for a
 * stream. */
int mistaken_slice(const struct st_file *file, const struct io *io, struct err *err);

/* ERR_INPUT for a file whose name is that of one rank's part of a model, if another rank's lies
 * beside it. */
int mistaken_rank(const struct io *io, const char *path, struct err *err);

/* ERR_INPUT for a directory of a trainer whose tensors need its own tool, which the message
 * names. */
int mistaken_trainer(const struct io *io, const char *directory, struct err *err);

/* Returns -1 with ERR_INPUT on a directory without safetensors files. */
int mistaken_directory(const struct io *io, const char *directory, struct err *err);

/* ERR_INPUT, with what to do, for a directory of pickles of torch, or of a trainer, without a
 * .safetensors file: for a command that has no option '--from-torch'. */
int mistaken_torch(const struct io *io, const char *directory, const char *advice, struct err *err);

#endif
