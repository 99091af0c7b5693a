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

/* Reads the codes of a rect of an FP8 unit, row by row. */
int values_read_codes(struct source *files, const struct unit *unit, const struct rect *rect,
		      uint8_t *codes, struct err *err);

#endif
