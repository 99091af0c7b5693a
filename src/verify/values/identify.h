/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifies the arithmetic that made the weights from the source.  A checkpoint may mix recipes,
 * so that each granularity has its own candidates.  Order:
 *
 *	identify_arithmetic()	keeps the arithmetics that fit some cuts equally well
 *	candidates_next()	selects the next one, where the whole weights differ from the first
 *	candidates_end()	keeps the better of the last two
 */
#ifndef FP8CONV_VERIFY_VALUES_IDENTIFY_H
#define FP8CONV_VERIFY_VALUES_IDENTIFY_H

#include "format/format.h"
#include "source/cut.h"
#include "verify/values/arithmetic.h"

struct verify;

#define CANDIDATES_MAX 8

struct arithmetic_candidate {
	const struct arithmetic *arithmetic;
	bool own_amax; /* one scale per tensor, which a fused set need not share */
};

/* The candidates of the weights of one granularity. */
struct candidates {
	struct arithmetic_candidate list[CANDIDATES_MAX]; /* fit the tried cuts equally well */
	size_t n;					  /* 0: no arithmetic fits */
	size_t at;					  /* index of the current one */
	size_t best;					  /* index of the best one until now */
	size_t next;	       /* index of the first one that was not used */
	struct arithmetic own; /* the arithmetic of fp8conv; no name: the same */
};

/* Fills origin->candidates: tries all arithmetics on some cuts, or takes that of the recipe that
 * the user gave.  ERR_INPUT where a file is truncated. */
int identify_arithmetic(struct verify *verify, const struct cuts *cuts, struct err *err);

/* Selects the next candidate.  Returns false after the last one. */
bool candidates_next(struct verify *verify, enum granularity granularity);

/* Keeps the current candidate as the best one if it is better, else returns to the best one. */
void candidates_end(struct verify *verify, enum granularity granularity, bool better);

/* Whether fp8conv makes weights of that granularity by the same arithmetic. */
bool identify_is_own(const struct verify *verify, enum granularity granularity);

/* Whether a known arithmetic made the weights of that granularity. */
bool identify_is_known(const struct verify *verify, enum granularity granularity);

/* Returns the names of all arithmetics that made weights, "a + b", which the caller frees; NULL
 * where no known arithmetic made some weights. */
char *identify_names(const struct verify *verify);

#endif
