/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales in other clothes: the value of each stays, its type and how many elements share it change.
 * F32, BF16, F16 and E8M0 become F32 or E8M0; a scale of a 128 x 128 block becomes those of its 1 x
 * 32 ones.
 */
#ifndef FP8CONV_CONVERT_RESCALE_H
#define FP8CONV_CONVERT_RESCALE_H

#include "convert/bands.h"

/* The exponent byte of a scale_inv, code with 2^(code - 127) == value.  False: it has none. */
bool rescale_exponent(float value, uint8_t *code);

/* Makes the elements of a OUTPUT_RESCALED band, close together in data, from its output's source.
 * ERR_USAGE for a scale that the new type cannot hold. */
int rescale_band(struct source *source, const struct plan *plan, const struct band *band,
		 const struct source_buffers *buffers, void *data, struct err *err);

#endif
