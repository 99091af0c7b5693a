/* SPDX-License-Identifier: Apache-2.0
 *
 * The role of a tensor in its model.  The role decides whether the tensor is quantized or kept in
 * high precision.  It follows from the segments of the tensor's name, never from a list of models.
 * The rules are two tables in role.c: branches of the model first, then modules.
 * fp8conv-formats(7) lists the kept roles.
 */
#ifndef FP8CONV_NAMES_ROLE_H
#define FP8CONV_NAMES_ROLE_H

#include <stdbool.h>
#include <stddef.h>

#include "names/parallel.h"

enum role {
	ROLE_LINEAR,	      /* the weight of a linear layer that recipes take */
	ROLE_EXPERTS_GATE_UP, /* all experts of a layer in one tensor */
	ROLE_EXPERTS_DOWN,
	/* All roles from here on are kept. */
	ROLE_EXPERTS_UNKNOWN,
	ROLE_PARAMETER, /* not the weight of a module: biases, scales, buffers */
	ROLE_EMBEDDING,
	ROLE_TABLE, /* an embedding whose name does not say so */
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
	ROLE_RESIDUAL,
	ROLE_ADAPTER,
	ROLE_PROJECTOR,
	ROLE_VISION,
	ROLE_AUDIO,
	N_ROLES
};

struct role_facts {
	enum role role;
	enum parallel parallel; /* of linear weights */
	/* the weight of a linear module, kept or not, provided that it has two dimensions */
	bool linear;
	bool in_experts;     /* below a segment "experts" */
	bool in_any_experts; /* below a segment that ends in "experts" */
	bool expert;	     /* of one numbered expert: "...experts.3.up_proj.weight" */
	bool ragged_rows;    /* vendors release it in blocks, the last one partial */
	/* engines know an embedding, norm or convolution by itself: no list of kept modules has to
	 * name it */
	bool free;
	bool weight;   /* the name ends in ".weight": a module owns the tensor */
	bool in_layer; /* of a numbered layer: "layers.0.", "h.0.", or EAGLE-3's "midlayer." */
	bool tower;    /* in a vision, audio or projector branch */
	bool conv1d;   /* named as in GPT-2, which stores [in, out] */
};

/* Sets *facts from the name of a tensor.  Names that differ only in numeric segments give equal
 * facts. */
void role_of_name(struct role_facts *facts, const char *name);

/* Returns the reason to keep tensors of the role ("router gate"), or NULL for roles that are
 * quantized. */
const char *role_reason(enum role role);

#endif
