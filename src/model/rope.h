/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embeddings: the angles by which pairs of values turn with the position, and the
 * scalings that stretch them to longer texts.
 *
 * Source: transformers 5.23, modeling_rope_utils.py, whose fp32 steps are followed one by one.
 */
#ifndef FP8CONV_MODEL_ROPE_H
#define FP8CONV_MODEL_ROPE_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

struct rope {
	size_t n;	/* values of a head that turn, from the first on: even */
	float *inverse; /* n / 2: the angle of one position */
	float factor;	/* of cosines and sines */
};

/* Reads the level of config.json that holds rope_parameters, or rope_theta, rope_scaling and
 * partial_rotary_factor, for heads of head_dim values.  layer_type: "full_attention" or
 * "sliding_attention", where rope_parameters have one object for each; part: of a head's values
 * that turn, where the file says none.  ERR_INPUT for a type that there is none of ("longrope",
 * "dynamic") and for numbers that are missing or wrong. */
int rope_init(struct rope *rope, const json_t *config, const char *layer_type, size_t head_dim,
	      double part, struct err *err);
void rope_release(struct rope *rope);

/* What YaRN's mscale_all_dim makes of the scale of q k^T; 1 without. */
double rope_score_scale(const json_t *config);

/* Cosines and sines, n / 2 each, of a position. */
void rope_angles(const struct rope *rope, size_t position, float *cosines, float *sines);

#endif
