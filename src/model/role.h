/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tensor is to its model, told from the segments of its name: never from a list of models.
 * The rules are two tables in role.c, whole branches of the model first, modules second;
 * fp8conv-formats(7) says what they must hold.
 */
#ifndef FP8CONV_MODEL_ROLE_H
#define FP8CONV_MODEL_ROLE_H

#include <stdbool.h>
#include <stddef.h>

#include "model/parallel.h"

enum role {
	ROLE_LINEAR,	      /* the weight of a linear layer that recipes take */
	ROLE_EXPERTS_GATE_UP, /* the same of all experts of a layer in one tensor */
	ROLE_EXPERTS_DOWN,
	/* Everything below is kept. */
	ROLE_EXPERTS_UNKNOWN,
	ROLE_PARAMETER, /* no weight of a module: biases, scales, buffers */
	ROLE_EMBEDDING,
	ROLE_NORM,
	ROLE_CONVOLUTION,
	ROLE_LM_HEAD,
	ROLE_OUTPUT_HEAD,
	ROLE_ROUTER,
	ROLE_ROUTER_BIAS,
	ROLE_STATE_SPACE,
	ROLE_LINEAR_ATTENTION_GATE,
	ROLE_INDEXER,
	ROLE_SINK,
	ROLE_MTP,
	ROLE_ALTUP,
	ROLE_LAUREL,
	ROLE_PER_LAYER_INPUT,
	ROLE_ADAPTER,
	ROLE_PROJECTOR,
	ROLE_VISION,
	ROLE_AUDIO,
	N_ROLES
};

struct role_facts {
	enum role role;
	enum parallel parallel; /* of linear weights */
	/* the weight of a linear module, if it has two dimensions: also of kept ones */
	bool linear;
	bool expert; /* of one numbered expert: "...experts.3.up_proj.weight" */
	bool conv1d; /* GPT-2 names its layers so, and stores [in, out] there */
};

/* The same for names that differ only in segments that are numbers. */
void role_of_name(struct role_facts *facts, const char *name);

/* Why tensors of the role are kept: "router gate"; NULL for those that are not. */
const char *role_reason(enum role role);

#endif
