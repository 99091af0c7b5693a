/* SPDX-License-Identifier: Apache-2.0
 *
 * The source of the checkpoint: the unit that each weight was made from, and the tensors that were
 * only copied.
 *
 * Order: origin_find() once; origin_close() after the last reading; origin_release() in any case.
 */
#ifndef FP8CONV_VERIFY_VALUES_ORIGIN_H
#define FP8CONV_VERIFY_VALUES_ORIGIN_H

#include "select/select.h"
#include "source/cut.h"
#include "verify/values/identify.h"

struct verify;

/* A tensor that was only copied. */
struct copy {
	const struct tensor_ref *ref, *original;
	const struct unit *part; /* of the original: one expert's bias; NULL: all */
	bool changed;
	uint64_t first_changed; /* offset of the first byte that differs */
};

struct origin {
	struct checkpoint checkpoint;
	struct selection selection; /* empty where no tensor of the source can be quantized */
	struct source files;
	const struct unit **by_name; /* of the selection */
	struct unit *direct;	     /* by weight: the unit of a tensor with the weight's name */
	float *fused_amax;	     /* by fused set */
	struct candidates candidates[N_GRANULARITIES];
	struct copy *copies;
	size_t n_copies;
};

/* Opens the source, finds the unit and the arithmetic that each weight was made from, and compares
 * the copied tensors.  Sets verify->run.origin, also on failure.  ERR_INPUT where the source cannot
 * be read. */
int origin_find(struct verify *verify, const struct cuts *cuts, struct err *err);

/* Closes the files of the source.  ERR_INPUT if one was changed meanwhile. */
int origin_close(struct verify *verify, struct err *err);
void origin_release(struct verify *verify);

#endif
