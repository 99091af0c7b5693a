/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds outlying scales: one scale far above the others of its weight, or a weight's scales far
 * above the same module's in other layers.  Trained weights have neither, but nothing forbids them:
 * they are notes.
 */
#ifndef FP8CONV_VERIFY_VALUES_OUTLIERS_H
#define FP8CONV_VERIFY_VALUES_OUTLIERS_H

#include "verify/steps.h"

/* Notes scales that are far above those beside them. */
void verify_outliers(struct verify *verify);

#endif
