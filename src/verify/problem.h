/* SPDX-License-Identifier: Apache-2.0
 *
 * The problems that `verify` reports.
 */
#ifndef FP8CONV_VERIFY_PROBLEM_H
#define FP8CONV_VERIFY_PROBLEM_H

#include <stddef.h>

#include "ckpt/defect.h"

enum problem_kind {
	PROBLEM_SCALE_MISSING,
	PROBLEM_SCALE_NAME,
	PROBLEM_SCALE_STRAY,
	PROBLEM_SCALE_SHAPE,
	PROBLEM_SCALE_DTYPE,
	PROBLEM_SCALE_VALUE,
	PROBLEM_SCALE_TOO_LARGE, /* has the same name as PROBLEM_SCALE_VALUE */
	PROBLEM_SCALE_TOO_SMALL, /* has the same name as PROBLEM_SCALE_VALUE */
	PROBLEM_SCALE_NOT_POW2,
	PROBLEM_SCALE_INVERTED,
	PROBLEM_INPUT_SCALES_INVERTED, /* has the same name as PROBLEM_SCALE_INVERTED */
	PROBLEM_SCALE_OUTLIER,	       /* a note */
	PROBLEM_INPUT_SCALE_OUTLIER,   /* the same */
	PROBLEM_CODE_NAN,
	PROBLEM_CODE_RANGE,
	PROBLEM_CODE_ZERO,
	PROBLEM_ZERO_ROWS, /* has the same name as PROBLEM_CODE_ZERO; a note */
	PROBLEM_CODE_SIGN, /* a note */
	PROBLEM_CODE_MISMATCH,
	PROBLEM_SCALE_MISMATCH,
	PROBLEM_DTYPE_MISMATCH,
	PROBLEM_INPUT_SCALE_MISSING,
	PROBLEM_INPUT_SCALE_VALUE, /* has the same name as PROBLEM_SCALE_VALUE */
	PROBLEM_GROUP_PARTIAL,
	PROBLEM_GROUP_SCALES_DIFFER,
	PROBLEM_GROUP_INPUTS_DIFFER, /* has the same name as PROBLEM_GROUP_SCALES_DIFFER */
	PROBLEM_KV_SCALE_PAIR,
	PROBLEM_KV_SCALE_NAME,
	PROBLEM_KV_SCALE_MISSING,
	PROBLEM_KV_SCALE_SOME,	   /* a note of the same name: some layers may cache nothing */
	PROBLEM_CACHE_SCALE_VALUE, /* has the same name as PROBLEM_SCALE_VALUE */
	PROBLEM_TP_SPLIT,
	PROBLEM_PARTIAL_BLOCKS,
	PROBLEM_NOT_LOADED,
	PROBLEM_CONFIG_KEY,
	PROBLEM_CONFIG_IGNORE,
	PROBLEM_CONFIG_CHANGED,
	PROBLEM_CONFIG_REWRITTEN, /* has the same name as PROBLEM_CONFIG_CHANGED; a note */
	PROBLEM_INDEX_MISSING,
	PROBLEM_INDEX_UNMAPPED,
	PROBLEM_INDEX_TOTAL_SIZE,
	PROBLEM_NAME_DUPLICATE,
	PROBLEM_TENSOR_MISSING,
	PROBLEM_TENSOR_LACKING, /* has the same name as PROBLEM_TENSOR_MISSING */
	PROBLEM_TENSOR_EXTRA,	/* a note of the same name */
	PROBLEM_TENSOR_SHAPE,
	PROBLEM_TENSOR_NAME,
	PROBLEM_LAYER_MISSING,
	PROBLEM_MTP_MISSING,
	PROBLEM_TENSOR_CHANGED,
	PROBLEM_TENSOR_NONFINITE,
	PROBLEM_TENSOR_ZERO, /* has the same name as PROBLEM_TENSOR_NONFINITE */
	PROBLEM_TENSOR_HUGE, /* likewise */
	PROBLEM_UNFINISHED,
	PROBLEM_NOTHING_QUANTIZED,
	PROBLEM_FILE_STRAY,
	PROBLEM_FILE_INVALID,
	PROBLEM_FILE_CHANGED,
	PROBLEM_FILE_MISSING,
	PROBLEM_FILE_UNLISTED,
	N_PROBLEM_KINDS
};

struct problem {
	enum problem_kind kind;
	char *tensor;  /* NULL: not of one tensor */
	char *file;    /* NULL: not of one file */
	char *message; /* tensor or file, numbers, and the effect in engines; one line */
};

/* Problems in an order that does not depend on the number of threads, and apart from them notes:
 * what may be intended, and does not make the checkpoint wrong.  Of a kind the first DEFECTS_LISTED
 * are listed, then one line that counts the others.  Zeroed: empty lists. */
struct problems {
	size_t n_of[N_PROBLEM_KINDS]; /* all of the kind */
	size_t more[N_PROBLEM_KINDS]; /* where the line is that counts */
	size_t n, n_notes;
	struct problem *list, *notes;
};

/* Returns the word that programs read: "scale-missing". */
const char *problem_kind_name(enum problem_kind kind);

/* Adds a problem, or a note where the row of its kind says so, with copies of tensor and file,
 * which may be NULL.  Appends the effect of its kind in engines to the message. */
void problem_add(struct problems *problems, enum problem_kind kind, const char *tensor,
		 const char *file, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Adds a problem for each defect of the container. */
void problems_add_defects(struct problems *problems, const struct defects *defects);

void problems_release(struct problems *problems);

#endif
