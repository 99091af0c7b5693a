/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales that are far above those beside them: one of a weight above the others, or those of a
 * weight above those of the same module in other layers.  Trained weights have neither, but nothing
 * forbids them: they are notes.
 */
#ifndef FP8CONV_VERIFY_OUTLIERS_H
#define FP8CONV_VERIFY_OUTLIERS_H

#include "verify/steps.h"

/* Notes scales that are far above those beside them. */
void verify_outliers(struct verify *verify);

#endif
