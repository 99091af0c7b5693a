/* SPDX-License-Identifier: Apache-2.0
 *
 * The job `verify`: reports the problems of any tool's FP8 checkpoint that make engines fail or
 * compute wrong results silently (fp8conv-formats(7)).  Given the source, it compares every code
 * and every scale with it.
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
	const char *input;    /* as checkpoint_open() */
	const char *source;   /* the checkpoint that input was made from; NULL: not compared */
	struct texts renames; /* of the source's tensors */
	const char *target;   /* an engine whose rules must hold too; NULL: the common rules */
	int tp;		      /* a tensor-parallel size that must load; 0: not checked */
	bool hashes;	      /* compare the SHA-256 of every file with the manifest */
	const struct signing_key *key; /* that signed every file; NULL: not checked */
	const char *recipe;	       /* with source: the recipe to expect; NULL: detect it */
	struct recipe_tuning tuning;   /* with recipe: its options */
	bool sqnr; /* with source: compute the SQNR of each weight, for 1/3 more time */
	const struct backend *backend;
	int n_threads;	     /* >= 1 */
	uint64_t max_memory; /* bytes of buffers; 0 is the default, 192 MiB */
};

/* How one FP8 weight compares with its source. */
struct weight_report {
	const char *name;
	double sqnr;	 /* dB; infinite where all values are equal */
	double own_sqnr; /* dB, of fp8conv's own arithmetic */
};

/* The weights made from low-bit weights of the source. */
struct low_bit_report {
	const char *kind; /* "mxfp4"; NULL: there are none, or they were not compared */
	size_t n, n_exact;
	uint64_t n_values, n_changed; /* changed: code times scale is another value */
	const char *first;	      /* weight with a change; NULL: none */
};

/* The weights whose codes compensate each other's errors. */
struct compensated_report {
	uint64_t n_codes;      /* 0: there are none, or they were not compared */
	uint64_t n_moved;      /* codes that are not the nearest */
	double sqnr, own_sqnr; /* dB, of all these weights; of rounding to nearest */
};

/* A zeroed struct is empty. */
struct verification {
	struct checkpoint checkpoint;
	struct detection detection; /* recipe and format */
	struct problems problems;
	size_t n_tensors; /* checked ones */
	/* the arithmetic that makes exactly these codes and scales from the source, "a + b" for
	 * mixed recipes; NULL: not compared, or unknown */
	char *arithmetic;
	/* with params->sqnr: the weights that have a source, worst SQNR first */
	struct weight_report *reports;
	size_t n_reports;
	/* dB by which this arithmetic is worse than our own of the same recipe: the mean of all
	 * weights; NAN without a weight */
	double cost;
	double worst_cost; /* of one weight */
	struct low_bit_report low_bit;
	struct compensated_report compensated;
};

/* Checks the checkpoint and fills verification, which the caller releases, also on failure.
 * Problems of the checkpoint are results, not errors.  ERR_INPUT where input or source is not a
 * checkpoint; ERR_USAGE for options that do not apply; ERR_INTERRUPTED after a signal. */
int verify_run(struct verification *verification, const struct verify_params *params,
	       struct progress *progress, struct err *err);

void verification_release(struct verification *verification);

#endif
