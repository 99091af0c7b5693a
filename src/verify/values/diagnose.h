/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds problems in the values that were read: in each weight alone, and by comparison with other
 * weights.
 */
#ifndef FP8CONV_VERIFY_VALUES_DIAGNOSE_H
#define FP8CONV_VERIFY_VALUES_DIAGNOSE_H

#include "verify/steps.h"

/* Adds problems from the findings in the values of each weight. */
void diagnose(struct verify *verify);

/* Is the weight what it was made from, by a manifest or by the source?  Then its values may be as
 * odd as the source's. */
bool verify_is_proven(const struct verify *verify, const struct verify_weight *weight);

/* Two limits.  A tile whose largest code is below diagnose_low_code() wastes bits, unless its scale
 * is at most diagnose_floor_scale(), because its amax was raised to a floor. */
float diagnose_low_code(const struct verify *verify, enum fp8_format format);
float diagnose_floor_scale(const struct verify *verify);

/* Returns the FP8 format of the weight's codes. */
enum fp8_format verify_weight_format(const struct verify_weight *weight);

/* Sorts n values, and returns the median; one element follows them in memory. */
float diagnose_median(float *values, size_t n);

#endif
