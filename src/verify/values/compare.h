/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a cut of a weight with the same cut of its source.
 */
#ifndef FP8CONV_VERIFY_VALUES_COMPARE_H
#define FP8CONV_VERIFY_VALUES_COMPARE_H

#include "backend/matrix.h"
#include "verify/values/identify.h"
#include "verify/values/scan.h"
#include "verify/steps.h"
#include "verify/values/worker.h"

/* A cut with its data. */
struct comparison {
	const struct verify_weight *weight;
	const struct rect *rect;
	struct verify_worker *worker; /* its codes are read; its `expected` is computed */
	const void *scales;	      /* of the tiles of the cut, in whole rows of the grid */
	struct matrix x;	      /* the same cut of the source */
	/* of an FP8 source with the same type and tiles: its codes and scales; else NULL */
	const uint8_t *source_codes;
	void *source_scales;
};

/* Reads the same cut of the source.  ERR_INPUT where the source is truncated. */
int compare_open(struct verify *verify, struct comparison *comparison, struct err *err);
void compare_close(struct comparison *comparison);

/* Writes the codes and scales that the candidate makes from x to the worker's `expected`.  A tile
 * that has the scale of an FP8 source has its codes. */
void compare_expect(const struct verify *verify, const struct comparison *comparison,
		    const struct arithmetic_candidate *candidate);

/* Adds to found the codes and scales that differ from those expected. */
void compare_expected(const struct comparison *comparison, struct scan *found);

/* Reads the source of a cut, whose codes and scales the caller has read, and adds to found the
 * codes and scales that the candidate does not make.  Without a known arithmetic it adds
 * those that no rounding to nearest could make.  ERR_INPUT where the source is truncated. */
int compare_cut(struct verify *verify, struct verify_worker *worker, const struct cut *cut,
		const void *scales, struct scan *found, struct err *err);

#endif
