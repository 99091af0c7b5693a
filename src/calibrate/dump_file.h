/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass of a model, dumped by another framework: a safetensors file with a tensor `MODULE.input`
 * [tokens, features] of F32, BF16 or F16 for each module that ran.
 *
 * Order: dump_open(); dump_find() and reads of its source; dump_close(), which fails if the file
 * was changed; dump_release().
 */
#ifndef FP8CONV_CALIBRATE_DUMP_FILE_H
#define FP8CONV_CALIBRATE_DUMP_FILE_H

#include "ckpt/listing.h"
#include "source/source.h"

/* An open dump.  A zeroed struct is safe to release. */
struct dump {
	struct checkpoint checkpoint;
	struct source source;
	uint64_t n_tokens; /* of the pass: the most tokens of any module */
};

/* Lists the dumps of a directory in the bytewise order of their names: regular files, or links to
 * them, that end in .safetensors and do not begin with a dot.  ERR_INPUT if there is none. */
int dumps_list(const struct io *io, const char *directory, struct listing *paths, struct err *err);

/* Opens a dump and reads its header.  ERR_INPUT, naming file and tensor, for any other file. */
int dump_open(struct dump *dump, const struct io *io, const char *path, struct err *err);
/* Closes the file.  ERR_INPUT if it was changed meanwhile. */
int dump_close(struct dump *dump, struct err *err);
void dump_release(struct dump *dump);

/* Returns the module of a tensor of the dump; the caller frees it. */
char *dump_module(const struct tensor_ref *input);
/* Returns the input of a module; NULL if the module did not run. */
const struct tensor_ref *dump_find(const struct dump *dump, const char *module);

#endif
