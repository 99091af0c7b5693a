/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass of a model as somebody's framework dumped it: a safetensors file with a tensor
 * `MODULE.input` [tokens, features] of F32, BF16 or F16 for each module that ran.
 */
#ifndef FP8CONV_CALIBRATE_DUMP_FILE_H
#define FP8CONV_CALIBRATE_DUMP_FILE_H

#include "ckpt/listing.h"
#include "source/source.h"

/* Zeroed is safe to release. */
struct dump {
	struct checkpoint checkpoint;
	struct source source;
	uint64_t n_tokens; /* of the pass: the most that reached a module */
};

/* The dumps of a folder, in the bytewise order of their names: regular files, or links to such,
 * that end in .safetensors and do not begin with a dot.  ERR_INPUT: there is none. */
int dumps_list(const struct io *io, const char *folder, struct listing *paths, struct err *err);

/* Reads the header.  ERR_INPUT, naming file and tensor, for whatever is not as above. */
int dump_open(struct dump *dump, const struct io *io, const char *path, struct err *err);
/* ERR_INPUT if the file was changed since. */
int dump_close(struct dump *dump, struct err *err);
void dump_release(struct dump *dump);

/* The module of a tensor of the dump; to be freed. */
char *dump_module(const struct tensor_ref *input);
/* The input of a module; NULL: it did not run. */
const struct tensor_ref *dump_find(const struct dump *dump, const char *module);

#endif
