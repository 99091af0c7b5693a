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

#include "base/intern.h"
#include "base/words.h"
#include "names/parallel.h"

/* clang-format off */
/* The roles: the reason to keep a tensor, NULL if recipes take it; and whether its module
 * multiplies by a matrix, so that lists of ignored modules must name it. */
#define ROLES(X) \
	X(ROLE_LINEAR, NULL, true) /* the weight of a linear layer that recipes take */ \
	X(ROLE_EXPERTS_GATE_UP, NULL, false) /* all experts of a layer in one tensor */ \
	X(ROLE_EXPERTS_DOWN, NULL, false) \
	/* All roles from here on are kept. */ \
	X(ROLE_EXPERTS_UNKNOWN, "fused experts of an unknown layout", false) \
	/* not the weight of a module: biases, scales, buffers */ \
	X(ROLE_PARAMETER, "not a linear weight", false) \
	X(ROLE_EMBEDDING, "embedding", false) \
	X(ROLE_TABLE, "embedding", false) /* an embedding whose name does not say so */ \
	X(ROLE_NORM, "norm", false) \
	X(ROLE_CONVOLUTION, "convolution", false) \
	X(ROLE_LM_HEAD, "lm_head", true) \
	X(ROLE_OUTPUT_HEAD, "output head", true) \
	X(ROLE_ROUTER, "router gate", true) \
	X(ROLE_ROUTER_BIAS, "router bias", false) \
	X(ROLE_STATE_SPACE, "state-space parameter", true) \
	X(ROLE_LINEAR_ATTENTION_GATE, "linear-attention gate", true) \
	X(ROLE_INDEXER, "indexer weights_proj", true) \
	X(ROLE_SINK, "attention sink", false) \
	X(ROLE_MTP, "MTP projection", true) \
	X(ROLE_ALTUP, "AltUp", true) \
	X(ROLE_LAUREL, "LAuReL", true) \
	X(ROLE_PER_LAYER_INPUT, "per-layer input", true) \
	X(ROLE_RESIDUAL, "residual connection", true) \
	X(ROLE_ADAPTER, "adapter", true) \
	X(ROLE_PROJECTOR, "projector", true) \
	X(ROLE_VISION, "vision tower", true) \
	X(ROLE_AUDIO, "audio tower", true)

enum role { ROLES(WORDS_ID) N_ROLES };
/* clang-format on */

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

/* Roles by name, each computed once for all names that differ only in numbers: a checkpoint of
 * 100,000 tensors has perhaps 50 of them.  Zeroed: empty.  For one thread. */
struct role_cache {
	struct intern names;	  /* without their numbers */
	struct role_facts *facts; /* by name */
	char *key;		  /* scratch */
	size_t key_size;
};

/* Returns the number of the name in cache->facts: equal for names that differ only in numbers, and
 * new ones follow without gaps. */
size_t role_cache_add(struct role_cache *cache, const char *name);

/* Returns what role_of_name() makes of the name. */
struct role_facts role_cache_find(struct role_cache *cache, const char *name);

void role_cache_release(struct role_cache *cache);

#endif
