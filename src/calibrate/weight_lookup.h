/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrices of a checkpoint by the names of their modules, whatever the architecture: what
 * activations that others dumped are multiplied with.
 */
#ifndef FP8CONV_CALIBRATE_WEIGHT_LOOKUP_H
#define FP8CONV_CALIBRATE_WEIGHT_LOOKUP_H

#include "model/config.h"
#include "model/model.h"

/* Zeroed is safe to release. */
struct weight_lookup {
	const struct checkpoint *checkpoint;
	struct model_config config;
	bool transposed; /* modules of GPT-2's names (c_attn ...) hold [in, out] */
};

/* Reads no tensor; the checkpoint must outlive it.  ERR_INPUT: config.json is no JSON object. */
int weight_lookup_open(struct weight_lookup *lookup, const struct checkpoint *checkpoint,
		       struct err *err);
void weight_lookup_release(struct weight_lookup *lookup);

/* The matrix of module X, with its bias: X.weight; an expert's part of a tensor that holds all
 * experts; the embedding where X is the head and tied.  1: found, linear->module is to be freed; 0:
 * the checkpoint has none; -1: ERR_INPUT, what it has is no matrix. */
int weight_lookup_find(const struct weight_lookup *lookup, const char *name,
		       struct linear_ref *linear, struct err *err);

#endif
