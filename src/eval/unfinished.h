/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of --resume: the numbers of the first sequences of an evaluation, and of its layers, in
 * the machine's fp64 and integers, behind lines of all that decides them and before their SHA-256.
 * Sums that continue from it are those of one run, bit by bit.
 *
 * Order: unfinished_open(); unfinished_put() after each sweep; unfinished_close().
 */
#ifndef FP8CONV_EVAL_UNFINISHED_H
#define FP8CONV_EVAL_UNFINISHED_H

#include "ckpt/outdir.h"
#include "eval/eval.h"
#include "source/source.h"

/* A zeroed struct is safe to close. */
struct unfinished {
	const struct eval_plan *plan;
	const struct eval_params *params;
	struct samples *samples;
	struct eval_result *result; /* of which it uses the layers */
	struct outfile file;	    /* of the leading rank */
	struct buf job;		    /* lines "NAME: VALUE" of the models and options */
	size_t n;		    /* sequences whose numbers are there */
};

/* Takes the numbers of an earlier run, on all ranks; without params->resume there are none.  The
 * caller has set the first four members.  ERR_USAGE where the file is of another evaluation, or no
 * such file. */
int unfinished_open(struct unfinished *unfinished, struct err *err);

/* Keeps the numbers of the first n sequences. */
int unfinished_put(struct unfinished *unfinished, size_t n, struct err *err);

/* Says after a signal what is kept, and that `lost` seconds of work are not.  Returns -1. */
int unfinished_interrupted(const struct unfinished *unfinished, double lost, struct err *err);
void unfinished_close(struct unfinished *unfinished);

#endif
