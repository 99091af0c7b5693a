/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements, codes, scales and values of each pair of tensors.
 */
#ifndef FP8CONV_DIFF_VALUES_H
#define FP8CONV_DIFF_VALUES_H

#include "diff/diff.h"

/* Reads what both sides have in pieces, on all threads, and sets what is found and the kind of each
 * tensor.  The sums are those of pieces of a fixed size in their order, so that they do not depend
 * on the number of threads. */
int diff_values(struct difference *difference, const struct diff_params *params,
		struct progress *progress, struct err *err);

#endif
