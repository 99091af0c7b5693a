/* SPDX-License-Identifier: Apache-2.0
 *
 * Which arithmetic made the weights out of the source.  A checkpoint may mix recipes, so each
 * granularity has candidates of its own:
 *
 *	identify_arithmetic()	keeps those that fit some cuts equally well
 *	candidates_next()	where the whole weights show differences: goes to the next one
 *	candidates_end()	keeps the better of the last two
 */
#ifndef FP8CONV_VERIFY_IDENTIFY_H
#define FP8CONV_VERIFY_IDENTIFY_H

#include "format/format.h"
#include "source/cut.h"
#include "verify/arithmetic.h"

struct verify;

#define CANDIDATES_MAX 8

struct candidate {
	const struct arithmetic *arithmetic;
	bool own_amax; /* one scale per tensor, which a fused set does not share */
};

/* How weights of one granularity came out of the source. */
struct candidates {
	struct candidate list[CANDIDATES_MAX]; /* that fit the cuts tried equally well */
	size_t n;			       /* 0: none fits */
	size_t at;			       /* in the list: the present one */
	size_t best;			       /* the best until now */
	size_t next;			       /* the first that was not used */
	struct arithmetic own; /* what fp8conv itself would have used; no name: it is the same */
};

/* Tries all arithmetics on some cuts, or takes the one that was given: origin->candidates. */
int identify_arithmetic(struct verify *verify, const struct cuts *cuts, struct err *err);

/* Goes to the next candidate.  False: there is none left. */
bool candidates_next(struct verify *verify, enum granularity granularity);

/* Ends the use of the present one: keeps it if it is better, else returns to the best one. */
void candidates_end(struct verify *verify, enum granularity granularity, bool better);

/* Whether what made weights of that granularity is what fp8conv itself would have used. */
bool identify_is_own(const struct verify *verify, enum granularity granularity);

/* Whether an arithmetic is known that makes weights of that granularity. */
bool identify_is_known(const struct verify *verify, enum granularity granularity);

/* The names of all that made weights, "a + b", to be freed; NULL: some weights were made by none
 * that is known. */
char *identify_names(const struct verify *verify);

#endif
