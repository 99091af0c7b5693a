/* SPDX-License-Identifier: Apache-2.0
 *
 * What TransformerEngine's modules saved beside their weights as an amax history.
 */
#ifndef FP8CONV_AMAX_TE_H
#define FP8CONV_AMAX_TE_H

#include "amax/amax.h"

/* The bytes of a state, its name "MODULE._extra_state", and the names of the module's weights, one
 * for each of its products. */
struct amax_state {
	const char *name;
	const unsigned char *bytes;
	size_t n;
	size_t n_weights; /* 0: MODULE.weight, if it has one product */
	const char **weights;
};

/* Adds a site for each product, named as its weight without ".weight", and a pass for each step of
 * the history, with one token, since TransformerEngine counts none, or with no token where the
 * input had no amax.  A history without steps (amax_history_len 1) gives one pass with the amaxes
 * that the scales stand for, as far as fp32 tells.  Adds nothing where the weights are not as many
 * as the products, and for states without a history.  ERR_INPUT for a state that TransformerEngine
 * does not write. */
int amax_state_add(struct amax_stats *stats, const struct amax_state *state, struct err *err);

#endif
