/* SPDX-License-Identifier: Apache-2.0
 *
 * The source that the checkpoint was made from: what each weight came from, and what was only
 * copied.
 */
#ifndef FP8CONV_VERIFY_ORIGIN_H
#define FP8CONV_VERIFY_ORIGIN_H

#include "select/select.h"
#include "source/cut.h"
#include "verify/identify.h"

struct verify;

/* A tensor that was only copied. */
struct copy {
	const struct tensor_ref *ref, *original;
	bool changed;
	uint64_t first_changed; /* byte */
};

struct origin {
	struct checkpoint checkpoint;
	struct selection selection; /* empty where nothing in the source can be quantized */
	struct source files;
	struct unit *direct; /* by weight: those that have a tensor of their own */
	float *fused_amax;   /* by fused set */
	struct candidates candidates[N_GRANULARITIES];
	struct copy *copies;
	size_t n_copies;
};

/* Opens the source, finds what each weight was made from and which arithmetic made it, and compares
 * what was only copied.  Sets verify->run.origin, also where it fails. */
int origin_find(struct verify *verify, const struct cuts *cuts, struct err *err);

/* ERR_INPUT if the source was changed meanwhile. */
int origin_close(struct verify *verify, struct err *err);
void origin_release(struct verify *verify);

#endif
