/* SPDX-License-Identifier: Apache-2.0
 *
 * What verify_source.c and verify_compare.c share.
 */
#ifndef FP8CONV_VERIFY_ORIGIN_H
#define FP8CONV_VERIFY_ORIGIN_H

#include "select/select.h"
#include "verify/steps.h"

#define MAX_TRIALS 8

struct trial {
	const struct arithmetic *arithmetic;
	bool own_amax; /* one scale per tensor, which merged ones do not share */
};

/* How weights of one granularity came out of the source. */
struct trials {
	struct trial list[MAX_TRIALS]; /* those that fit the cuts that were tried equally well */
	size_t n;		       /* 0: none fits */
	/* in the list: the present one, the best until now, the first that was not used */
	size_t at, best, next;
	struct arithmetic own; /* what fp8conv itself would have used; no name: it is the same */
};

/* The source, and how the weights came out of it. */
struct origins {
	struct checkpoint checkpoint;
	struct selection selection; /* empty where nothing in the source can be quantized */
	struct source files;
	struct unit *direct; /* by weight: those that have a tensor of their own */
	float *group_amax;   /* by group */
	struct trials trials[N_GRANULARITIES];

	const struct tensor_ref **copies; /* what is compared byte for byte, and with what */
	const struct tensor_ref **originals;
	size_t n_copies;
	bool *changed; /* by copy */
};

/* verify_compare.c: codes and scales that the arithmetic makes of x, a cut of the weight, to the
 * desk. */
void expect(struct verify *verify, struct desk *desk, const struct checked *weight,
	    const struct matrix *x, const struct trial *trial);

/* The codes and scales of a cut that are not those expected: added to found. */
void compare_expected(const struct checked *weight, const struct rect *rect,
		      const struct desk *desk, const void *scales, struct scan *found);

/* verify_trials.c: tries all arithmetics that are known on some cuts, or takes the one that was
 * given: origins->trials. */
int find_arithmetic(struct verify *verify, const struct cuts *cuts, struct err *err);

#endif
