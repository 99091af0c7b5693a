/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales in another type, for other tiles, or of one matrix of a stack alone: the value of each
 * stays, its type and the number of elements that share it change.  F32, BF16, F16 and E8M0 become
 * F32 or E8M0; the scale of a 128 x 128 block is repeated for its 1 x 32 blocks.
 */
#ifndef FP8CONV_PLAN_RESCALE_H
#define FP8CONV_PLAN_RESCALE_H

#include "plan/bands.h"

/* The values of all scales of a unit. */
struct scales_found {
	bool valid;  /* all are finite and above 0 */
	bool pow2;   /* all have an exponent byte; else: */
	float odd;   /* the first that has none */
	uint64_t at; /* its index */
	float first;
};

/* Reads all scales of an FP8 unit. */
int scales_find(struct source *source, const struct unit *unit, struct scales_found *found,
		struct err *err);

/* ERR_INPUT, naming an example, where the scales of most FP8 units look inverted
 * (scale_looks_inverted()), although nothing says that they divide: the weights would become noise.
 * Reads the first scale of some units of the whole model. */
int scales_check_divisors(struct source *source, const struct selection *selection,
			  struct err *err);

/* Writes the elements of an OUTPUT_RESCALED band, without gaps, to data, from its output's source.
 * ERR_USAGE for a scale that the new type cannot represent. */
int rescale_band(struct source *source, const struct plan *plan, const struct band *band,
		 const struct source_buffers *buffers, void *data, struct err *err);

#endif
