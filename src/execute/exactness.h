/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether FP8 holds the values of low-bit weights.  Every code is decoded while it is written, and
 * compared with the value that it was made of (backends that have tables do so for each entry, and
 * count the elements that take it): no rule of thumb on exponents takes the place of the
 * comparison.  MXFP8 always holds MXFP4; blocks do unless exponents in a block are far apart.
 */
#ifndef FP8CONV_EXECUTE_EXACTNESS_H
#define FP8CONV_EXECUTE_EXACTNESS_H

#include "execute/execute.h"

/* Adds the note on values that are not exact, if there are some and all are counted. */
void exactness_note(struct plan *plan, const struct convert_result *result);

struct execution;

/* Converts all shards without writing.  ERR_INPUT if a value of a low-bit weight would change. */
int execution_check_exact(struct execution *execution, struct err *err);

#endif
