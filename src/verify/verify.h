/* SPDX-License-Identifier: Apache-2.0
 *
 * The job `verify`: all that engines trip over without a word (fp8conv-formats(7)), in anybody's
 * FP8 checkpoint; against the source it was made from, every code and every scale.
 */
#ifndef FP8CONV_VERIFY_VERIFY_H
#define FP8CONV_VERIFY_VERIFY_H

#include "backend/backend.h"
#include "base/io.h"
#include "base/progress.h"
#include "format/detect.h"
#include "recipe/recipe.h"
#include "verify/problem.h"

struct verify_params {
	const struct io *io;
	const char *input;  /* as checkpoint_open() */
	const char *source; /* what it was made from, likewise; NULL: not compared */
	const char *target; /* an engine whose rules must hold too; NULL: those of all */
	int tp;		    /* a tensor-parallel size that must load; 0: none in particular */
	bool hashes;	    /* SHA-256 of every file, against the manifest */
	const char
		*recipe; /* with source: what it must have been made by; NULL: what is detected */
	struct recipe_tuning tuning; /* with recipe: its numbers */
	bool sqnr; /* with source: how much was lost is wanted, which is a third more work */
	const struct backend *backend;
	int n_threads;	     /* >= 1 */
	uint64_t max_memory; /* bytes of buffers; 0 is the default, 192 MiB */
};

/* How one FP8 weight compares with its source. */
struct weight_report {
	const char *name;
	double sqnr;	 /* dB; infinite where nothing was lost */
	double own_sqnr; /* that codes of fp8conv's own arithmetic would have had */
};

/* Zeroed is an empty one. */
struct verification {
	struct checkpoint checkpoint;
	struct detection detection; /* recipe and format, as they were detected */
	struct problems problems;
	size_t n_tensors; /* that were checked */
	/* what makes the codes and scales out of the source, to the bit, "a + b" where recipes are
	 * mixed;  NULL: not compared, or none */
	char *arithmetic;
	/* by SQNR, worst first; of weights that have a source, where it is wanted */
	struct weight_report *reports;
	size_t n_reports;
	/* dB that this arithmetic loses against our own of the same recipe: the mean of all
	 * weights; NAN  where there is none to tell of */
	double cost;
	double worst_cost; /* of one weight */
};

/* ERR_INPUT where there is no checkpoint to look at, or no source; what is wrong with one are
 * problems, and no error. */
int verify_run(struct verification *verification, const struct verify_params *params,
	       struct progress *progress, struct err *err);

void verification_release(struct verification *verification);

#endif
