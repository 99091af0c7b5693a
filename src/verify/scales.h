/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale of each weight: its name, type and shape, as the format says them, and with a target as
 * this engine looks for them.
 */
#ifndef FP8CONV_VERIFY_SCALES_H
#define FP8CONV_VERIFY_SCALES_H

#include "verify/steps.h"

/* Checks the name, type and shape of a weight's scale, and the name of its input's. */
void verify_scale(struct verify *verify, const struct tensor_ref *ref,
		  const struct weight_scale *of, const struct scheme *scheme);

/* Reports, once, the scales that the target looks for under other names. */
void verify_scale_names(struct verify *verify);

#endif
