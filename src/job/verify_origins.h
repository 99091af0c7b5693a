/* SPDX-License-Identifier: Apache-2.0
 *
 * What verify_source.c and verify_compare.c share.
 */
#ifndef FP8CONV_JOB_VERIFY_ORIGINS_H
#define FP8CONV_JOB_VERIFY_ORIGINS_H

#include "job/verify_internal.h"

#define MAX_TRIALS 8

/* The source, and how the weights came out of it. */
struct origins {
	struct checkpoint checkpoint;
	struct selection selection; /* empty where nothing in the source can be quantized */
	struct source files;
	struct unit *direct; /* by weight: those that have a tensor of their own */
	float *group_amax;   /* by group */

	struct trial {
		const struct arithmetic *arithmetic;
		bool own_amax; /* one scale per tensor, which merged ones do not share */
	} trials[MAX_TRIALS];  /* those that fit the pieces that were tried equally well; the present one first */
	size_t n_trials;       /* 0: none fits */

	const struct tensor_ref **copies; /* what is compared byte for byte, and with what */
	const struct tensor_ref **originals;
	size_t n_copies;
	bool *changed; /* by copy */
};

/* verify_compare.c: tries all arithmetics that are known on some pieces: origins->trials. */
int find_arithmetic(struct verify *verify, const struct piece *pieces, size_t n_pieces, struct err *err);

#endif
