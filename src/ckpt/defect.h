/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a checkpoint that can still be read in part.  Whoever opens one to use it
 * stops at the first such thing; whoever wants to know them all (verify) gives a list.
 */
#ifndef FP8CONV_CKPT_DEFECT_H
#define FP8CONV_CKPT_DEFECT_H

#include <stddef.h>

#include "base/err.h"

enum defect_kind {
	DEFECT_FILE_INVALID,   /* no safetensors file, or none at all */
	DEFECT_INDEX_MISSING,  /* the index says that a file has a tensor, which it has not */
	DEFECT_INDEX_UNMAPPED, /* a file has a tensor that the index does not say it has */
	DEFECT_INDEX_TOTAL,    /* total_size */
	DEFECT_NAME_DUPLICATE, /* one name twice */
};

struct defect {
	enum defect_kind kind;
	char *tensor; /* NULL: none in particular */
	char *file;
	char *message;
};

struct defects {
	size_t n;
	struct defect *list;
};

/* Adds what err says (ERR_INPUT) to the list and returns 0; -1 where there is no list, or err is of
 * another kind. */
int defect_add(struct defects *defects, enum defect_kind kind, const char *tensor, const char *file,
	       const struct err *err);

void defects_release(struct defects *defects);

#endif
