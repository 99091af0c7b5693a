/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories that hold only some files of a checkpoint: outputs of this program whose job did not
 * end, and downloads or copies that stopped.
 */
#ifndef FP8CONV_CKPT_UNFINISHED_H
#define FP8CONV_CKPT_UNFINISHED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/io.h"
#include "ckpt/listing.h"

/* Zeroed: nothing is missing. */
struct unfinished {
	bool found;
	bool by_manifest;     /* it is an output of this program */
	size_t n_expected;    /* weight files of the whole checkpoint */
	struct listing files; /* names of those that are there, sorted */
	char *missing;	      /* name of one that is not there; NULL: unknown, or none */
};

/* Finds whether a directory is unfinished: its manifest says so, or it has neither an index nor
 * model.safetensors nor a whole set of files, but part of a set (file_set.h).  The caller releases
 * *unfinished, also on failure. */
int unfinished_find(struct unfinished *unfinished, const struct io *io, const char *directory,
		    struct err *err);

void unfinished_release(struct unfinished *unfinished);

#endif
