/* SPDX-License-Identifier: Apache-2.0
 *
 * What the target does not load: weights that end in partial blocks, since some loaders find the
 * height of a block by a division of shapes, and so read such weights with the scales of other
 * rows; and weights that a row of the family names.
 *
 * Tensor parallelism: checks that tiles stay whole in the splits that engines make at the given
 * size, or on one device of the target (names/parallel.h).  select/tp.c is the check before a
 * conversion.
 */
#ifndef FP8CONV_VERIFY_TARGET_H
#define FP8CONV_VERIFY_TARGET_H

#include "verify/steps.h"

/* Reports what the target reads wrong or not at all: weights that end in partial blocks, and those
 * of a family's row. */
void verify_target(struct verify *verify);

/* Checks that the weights can be split as --tp requires, or the target on one device. */
void verify_tp(struct verify *verify);

#endif
