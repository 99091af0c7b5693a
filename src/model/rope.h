/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embeddings (RoPE): the angles by which pairs of values are rotated, and the
 * scalings of these angles for longer texts.
 *
 * Source: transformers 5.23, modeling_rope_utils.py, whose fp32 steps are followed one by one.
 */
#ifndef FP8CONV_MODEL_ROPE_H
#define FP8CONV_MODEL_ROPE_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

struct rope {
	size_t n;	/* rotated values of a head, from the first on: even */
	float *inverse; /* (n / 2): the angle of position 1, inv_freq in transformers */
	float factor;	/* of cosines and sines: attention_scaling in transformers */
};

/* Reads the level of config.json that holds rope_parameters, or rope_theta, rope_scaling and
 * partial_rotary_factor, for heads of head_dim values.  layer_type: "full_attention" or
 * "sliding_attention", where rope_parameters have one object for each.  part: the rotated fraction
 * of a head, where the file has none.  ERR_INPUT for an unsupported type ("longrope", "dynamic")
 * and for missing or invalid numbers. */
int rope_init(struct rope *rope, const json_t *config, const char *layer_type, size_t head_dim,
	      double part, struct err *err);
void rope_release(struct rope *rope);

/* The factor of the scale of q k^T by YaRN's mscale_all_dim; 1 without. */
double rope_score_scale(const json_t *config);

/* Cosines and sines, n / 2 each, of a position. */
void rope_angles(const struct rope *rope, size_t position, float *cosines, float *sines);

#endif
