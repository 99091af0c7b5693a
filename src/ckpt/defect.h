/* SPDX-License-Identifier: Apache-2.0
 *
 * The defects of a checkpoint that can still be read in part.  Commands that use a checkpoint stop
 * at the first defect; `verify` is called with each of them.
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

struct defects {
	size_t n_of[N_DEFECT_KINDS]; /* all of the kind */

	/* Called with each, up to DEFECTS_LISTED of a kind; tensor and file may be NULL. */
	void (*add)(void *context, enum defect_kind kind, const char *tensor, const char *file,
		    const char *message);
	void *context;
	struct err first; /* other than DEFECT_UNFINISHED, if there is one */
};

/* Have DEFECTS_LISTED of this kind been added, so that defect_add() needs no message?  Counts one
 * more if so. */
bool defects_count_more(struct defects *defects, enum defect_kind kind);

/* Adds the message of err (ERR_INPUT) and returns 0.  Returns -1 where defects is NULL, or err
 * has another kind. */
int defect_add(struct defects *defects, enum defect_kind kind, const char *tensor, const char *file,
	       const struct err *err);

#endif
