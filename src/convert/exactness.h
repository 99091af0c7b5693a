/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether FP8 holds the values of low-bit weights.  Every code is decoded while it is written, and
 * compared with the value that it was made of (backends that have tables do so for each entry, and
 * count the elements that take it): no rule of thumb on exponents takes the place of the
 * comparison.  MXFP8 always holds MXFP4; blocks do unless exponents in a block are far apart.
 */
#ifndef FP8CONV_CONVERT_EXACTNESS_H
#define FP8CONV_CONVERT_EXACTNESS_H

#include "convert/convert.h"

/* The low-bit weights that a plan quantizes, after splitting. */
struct low_bit_totals {
	size_t n;
	uint64_t n_values;
	const char *kind; /* "mxfp4"; NULL: none */
};
struct low_bit_totals low_bit_total(const struct plan *plan);

/* Adds the note on values that are not exact, if there are some and all are counted. */
void exactness_note(struct plan *plan, const struct convert_result *result);

struct execution;

/* Converts all shards without writing.  ERR_INPUT if a value of a low-bit weight would change. */
int execution_check_exact(struct execution *execution, struct err *err);

#endif
