/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrices of a checkpoint by the names of their modules, for any architecture: the dumped
 * activations are multiplied by them.
 *
 * Order: weight_lookup_open(); weight_lookup_find() for each module; weight_lookup_release().
 */
#ifndef FP8CONV_CALIBRATE_WEIGHT_LOOKUP_H
#define FP8CONV_CALIBRATE_WEIGHT_LOOKUP_H

#include "names/config.h"
#include "model/model.h"

/* A zeroed struct is safe to release. */
struct weight_lookup {
	const struct checkpoint *checkpoint;
	struct model_config config;
	bool transposed; /* modules of GPT-2's names (c_attn ...) hold [in, out] */
};

/* Reads config.json, no tensor; the checkpoint must outlive the lookup.  ERR_INPUT if config.json
 * is not a JSON object. */
int weight_lookup_open(struct weight_lookup *lookup, const struct checkpoint *checkpoint,
		       struct err *err);
void weight_lookup_release(struct weight_lookup *lookup);

/* Finds the matrix of module X, with its bias: X.weight; or an expert's part of a tensor of all
 * experts; or the embedding if X is the head and tied.  Returns 1 if found (the caller frees
 * linear->module), 0 if the checkpoint has none, -1 with ERR_INPUT if its tensor is not a
 * matrix. */
int weight_lookup_find(const struct weight_lookup *lookup, const char *name,
		       struct linear_ref *linear, struct err *err);

#endif
