/* SPDX-License-Identifier: Apache-2.0
 *
 * The defects of a checkpoint that can still be read in part.  Commands that use a checkpoint stop
 * at the first defect; `verify` passes a list and gets all of them.
 */
#ifndef FP8CONV_CKPT_DEFECT_H
#define FP8CONV_CKPT_DEFECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum defect_kind {
	DEFECT_FILE_INVALID,   /* the file is not a safetensors file, or missing */
	DEFECT_INDEX_MISSING,  /* the index names a tensor that the file does not have */
	DEFECT_INDEX_UNMAPPED, /* a file has a tensor that the index does not name */
	DEFECT_INDEX_TOTAL,    /* total_size of the index is false */
	DEFECT_NAME_DUPLICATE, /* two tensors have one name */
	DEFECT_UNFINISHED,     /* files are missing, or the job that wrote them did not end */
	N_DEFECT_KINDS
};

#define DEFECTS_LISTED ((size_t)1000) /* of a kind: an index may name millions of tensors */

struct defect {
	enum defect_kind kind;
	char *tensor; /* NULL: no single tensor */
	char *file;   /* NULL: no single file */
	char *message;
};

struct defects {
	size_t n_of[N_DEFECT_KINDS]; /* all of the kind; of more than DEFECTS_LISTED, only these */
	size_t n;
	struct defect *list;
};

/* Is the list full of this kind, so that defect_add() needs no message?  Counts one if it is. */
bool defects_count_more(struct defects *defects, enum defect_kind kind);

/* Adds the message of err (ERR_INPUT) to the list and returns 0.  Returns -1 where there is no
 * list, or err has another kind. */
int defect_add(struct defects *defects, enum defect_kind kind, const char *tensor, const char *file,
	       const struct err *err);

void defects_release(struct defects *defects);

#endif
