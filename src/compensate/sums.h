/* SPDX-License-Identifier: Apache-2.0
 *
 * The Hessians of a turn.  While a chunk of sequences runs, X^T X of each sequence of the chunk
 * before is added to the sums, sequence by sequence: a sum has one order, whatever runs at the same
 * time.
 */
#ifndef FP8CONV_COMPENSATE_SUMS_H
#define FP8CONV_COMPENSATE_SUMS_H

#include "compensate/steps.h"

/* Sums over all sequences that are not held out.  The caller frees every turn->sums[].hessian, also
 * after a failure. */
int turn_sum(struct compensation *job, const struct turn *turn, struct err *err);

#endif
