/* SPDX-License-Identifier: Apache-2.0
 *
 * Mamba-2 in config.json and in the names of tensors.
 */
#ifndef FP8CONV_MODEL_MAMBA_H
#define FP8CONV_MODEL_MAMBA_H

#include <jansson.h>

#include "model/model.h"

/* The keys of an architecture. */
struct mamba_keys {
	const char *n_heads, *head_dim, *n_groups, *state_size, *conv_width;
	/* heads * head_dim is this number times hidden_size; NULL: head_dim must be present */
	const char *expand;
	const char *limits;	/* a pair: the limits of the steps; NULL: none */
	const char *step_min;	/* the lower limit alone; NULL: none */
	double default_min;	/* the lower limit where config.json has none */
	const char *activation; /* of the convolution, silu; NULL: hidden_act */
	const char *inner;	/* heads * head_dim itself, unless null; NULL: none */
	/* is there a norm, and does the gate follow it?  NULL: a norm after the gate */
	const char *has_norm, *norm_first;
	bool beside_attention; /* in every layer */
	const char *layers;    /* a list of the layers that have attention; NULL: none */
};

/* Reads the sizes of Mamba-2 and its layers' mixers from the facts of config.json (model/facts.h).
 * ERR_INPUT, with the key, for a size that is missing, out of range or does not fit another. */
int mamba_configure(struct model *model, const json_t *facts, struct err *err);

#endif
