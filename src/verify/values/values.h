/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads every scale and code, in cuts of whole tiles over all threads.  What is found is added up
 * by weight, so that a tensor with a million bad scales is one problem, the same at any number of
 * threads.
 */
#ifndef FP8CONV_VERIFY_VALUES_VALUES_H
#define FP8CONV_VERIFY_VALUES_VALUES_H

#include "verify/steps.h"

/* Reads every value of kept tensors, and every scale and code once, or several times to identify an
 * arithmetic, and compares them with the source if the user gave one.  ERR_INPUT where a file is
 * truncated or changed. */
int verify_values(struct verify *verify, struct err *err);

#endif
