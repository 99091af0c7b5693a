/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of the arrays of a workspace, by the model's layers.
 */
#ifndef FP8CONV_FORWARD_DIMS_H
#define FP8CONV_FORWARD_DIMS_H

#include "forward/workspace.h"

/* The numbers of elements of arrays; the largest, where layers differ. */
struct dims {
	uint64_t tokens, hidden;
	uint64_t mlp, fused, lora, expanded, experts; /* of each token */
	uint64_t input;				      /* of each token, for the widest matrix */
	uint64_t group;				      /* tokens of a group */
	uint64_t rows;				      /* of experts at once */
	bool grouped;
	uint64_t latent;			 /* of each token, for experts */
	uint64_t mixes;				 /* of each token */
	uint64_t pooled, index_pooled;		 /* of each token, for pools */
	uint64_t index_pools;			 /* of an indexer */
	uint64_t pools;				 /* of layers */
	uint64_t part, joined;			 /* of each token, for a matrix with parts */
	uint64_t q, k, v, attended, angles;	 /* of each token, for attention */
	uint64_t head_gates, distances;		 /* of each token */
	uint64_t turning;			 /* of each token: in latent attention */
	uint64_t convolved;			 /* of each token: the largest short convolution */
	uint64_t shared;			 /* experts that the router weighs */
	uint64_t scratch;			 /* bytes */
	uint64_t keys, values, value_heads, few; /* of gated DeltaNet */
	uint64_t block, panel, n_panels;	 /* tokens and columns of the head */
	uint64_t casts;				 /* 1, or without casts of inputs 0 */
	uint64_t matrices;			 /* of a layer */
};

static inline uint64_t dims_larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns them for a workspace; casts: as in struct forward. */
struct dims dims_of(const struct executor_ops *ops, const struct model *model,
		    struct workspace_shape shape, bool casts);

#endif
