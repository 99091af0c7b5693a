/* SPDX-License-Identifier: Apache-2.0
 *
 * A cut of a weight against the cut of the source that it was made from.
 */
#ifndef FP8CONV_VERIFY_COMPARE_H
#define FP8CONV_VERIFY_COMPARE_H

#include "backend/matrix.h"
#include "verify/identify.h"
#include "verify/scan.h"
#include "verify/steps.h"
#include "verify/worker.h"

/* A cut, and what was read for it. */
struct comparison {
	const struct verify_weight *weight;
	const struct rect *rect;
	struct verify_worker *worker; /* codes: of the cut; expected: what is computed */
	const void *scales;	      /* of its tiles, in whole rows of the grid */
	struct matrix x;	      /* of the source */
};

/* Writes the codes and scales that the candidate makes of x to the worker's `expected`. */
void compare_expect(const struct verify *verify, const struct comparison *comparison,
		    const struct candidate *candidate);

/* Adds to found the codes and scales that differ from those expected. */
void compare_expected(const struct comparison *comparison, struct scan *found);

/* Reads the source of a cut whose codes and scales were read, and adds to found what differs: from
 * what the candidate makes, or, where no arithmetic is known, from what rounding to nearest could
 * have made. */
int compare_cut(struct verify *verify, struct verify_worker *worker, const struct cut *cut,
		const void *scales, struct scan *found, struct err *err);

#endif
