/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight files that belong together by their names: "STEM-00001-of-00004.safetensors" and its
 * neighbors; and directories that hold only some files of a checkpoint: outputs of this program
 * whose job did not end, and downloads or copies that stopped.
 */
#ifndef FP8CONV_CKPT_FILE_SET_H
#define FP8CONV_CKPT_FILE_SET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/io.h"
#include "ckpt/listing.h"

/* Zeroed: no file of the directory has such a name. */
struct file_set {
	size_t n_complete;    /* sets of the directory that have all their files */
	size_t n_expected;    /* files of the set that is described here: the complete one that
				 comes first, else the one with the most files */
	struct listing files; /* names of those that are there, sorted */
	char *missing;	      /* name of the first one that is not there; NULL: complete */
};

/* Finds the sets among the names of a directory.  The caller releases *set. */
void file_set_find(struct file_set *set, const struct listing *names);

void file_set_release(struct file_set *set);

/* Zeroed: nothing is missing. */
struct unfinished {
	bool found;
	bool by_manifest;     /* it is an output of this program */
	size_t n_expected;    /* weight files of the whole checkpoint */
	struct listing files; /* names of those that are there, sorted */
	char *missing;	      /* name of one that is not there; NULL: unknown, or none */
};

/* Finds whether a directory is unfinished: its manifest says so, or it has neither an index nor
 * model.safetensors nor a whole set of files, but part of a set.  The caller releases
 * *unfinished, also on failure. */
int unfinished_find(struct unfinished *unfinished, const struct io *io, const char *directory,
		    struct err *err);

void unfinished_release(struct unfinished *unfinished);

#endif
