/* SPDX-License-Identifier: Apache-2.0
 *
 * What activations.c and activations_run.c share.
 */
#ifndef FP8CONV_CALIBRATE_DUMPS_INTERNAL_H
#define FP8CONV_CALIBRATE_DUMPS_INTERNAL_H

#include "calibrate/dumps.h"
#include "calibrate/steps.h"
#include "calibrate/dump_file.h"

/* ERR_INPUT, naming tensor and file, unless the matrix takes so many features. */
int activations_check_input(const struct linear_ref *linear, const struct tensor_ref *input,
			    const char *path, struct err *err);

/* How many rows of inputs are multiplied at once: always the same, for the same bytes. */
size_t activations_rows(const struct linear_ref *linear);

#endif
