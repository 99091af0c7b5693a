/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embeddings (RoPE): the angles by which pairs of values are rotated, and the
 * scalings of these angles for longer texts.  The executors rotate the values:
 * kernels/cpu/forward/ops_loops.h, kernels/gpu/forward/rows.cu.
 *
 * Source: transformers 5.23, modeling_rope_utils.py, whose fp32 steps are followed one by one.
 */
#ifndef FP8CONV_MODEL_ROPE_H
#define FP8CONV_MODEL_ROPE_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

struct rope {
	size_t n;	/* the first n values of a head are rotated; even */
	float *inverse; /* (n / 2) angles of position 1, in radians: inv_freq in transformers */
	float factor;	/* multiplies cosines and sines: attention_scaling in transformers */
};

/* Reads the level of config.json that holds rope_parameters, or rope_theta, rope_scaling and
 * partial_rotary_factor, for heads of head_dim values.  layer_type chooses one of two objects in
 * rope_parameters: "full_attention" or "sliding_attention".  part: the rotated fraction of a head
 * where the file does not state it.  The caller releases rope.  ERR_INPUT for an unsupported type
 * ("longrope", "dynamic") and for missing or invalid numbers. */
int rope_init(struct rope *rope, const json_t *config, const char *layer_type, size_t head_dim,
	      double part, struct err *err);
void rope_release(struct rope *rope);

/* Returns the factor by which YaRN's mscale_all_dim changes the scale of q k^T; 1 without it. */
double rope_score_scale(const json_t *config);

/* Writes the n / 2 cosines and the n / 2 sines of a position, times the factor. */
void rope_angles(const struct rope *rope, size_t position, float *cosines, float *sines);

#endif
