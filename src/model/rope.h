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
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct rope {
	size_t n;	/* the first n values of a head are rotated; even */
	float *inverse; /* (n / 2) angles of position 1, in radians: inv_freq in transformers */
	/* LongRoPE: the angles of sequences of more than long_from tokens; NULL: the same */
	float *inverse_long;
	size_t long_from;
	float factor; /* multiplies cosines and sines: attention_scaling in transformers */
};

/* What a rope is for. */
struct rope_use {
	/* chooses one of two objects in rope_parameters: "full_attention" or "sliding_attention" */
	const char *layer_type;
	size_t head_dim;
	bool alpha;	     /* a type "dynamic" only changes theta, by its alpha, as in Hunyuan */
	bool scales_queries; /* rope_query_scale() is called too */
	/* rope_parameters must have an object for the layer type, and that one has all numbers */
	bool by_layer_type;
	bool sized; /* all values of head_dim turn, whatever partial_rotary_factor is */
	bool whole; /* partial_rotary_factor has no meaning for the type "default" */
};

/* Reads rope_parameters, or rope_scaling, rope_theta and partial_rotary_factor, from the facts of
 * an architecture (model/facts.h).  The caller releases rope.  ERR_INPUT for an unsupported type
 * ("dynamic" without use->alpha), for a key that the type does not read, and for missing or invalid
 * numbers. */
int rope_init(struct rope *rope, const json_t *facts, const struct rope_use *use, struct err *err);
void rope_release(struct rope *rope);

/* Reads how queries grow with their position in Mistral's models: by 1 + scale log(1 +
 * floor(position / step)).  ERR_INPUT for missing or invalid numbers. */
int rope_query_scale(const json_t *facts, float *scale, size_t *step, struct err *err);

/* Returns the factor by which YaRN's mscale_all_dim changes the scale of q k^T; 1 without it. */
double rope_score_scale(const json_t *facts);

/* Returns the (n / 2) angles of position 1 in a sequence of n_tokens. */
const float *rope_inverse(const struct rope *rope, size_t n_tokens);

/* Writes the n / 2 cosines and the n / 2 sines of a position, times the factor; inverse is of
 * rope_inverse(). */
void rope_angles(const struct rope *rope, const float *inverse, size_t position, float *cosines,
		 float *sines);

#endif
