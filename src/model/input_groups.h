/* SPDX-License-Identifier: Apache-2.0
 *
 * Input groups: the matrices of a layer that multiply the same values.  They share what is computed
 * from their input.
 */
#ifndef FP8CONV_MODEL_INPUT_GROUPS_H
#define FP8CONV_MODEL_INPUT_GROUPS_H

#include "model/model.h"

enum input_kind {
	INPUT_LAYER_INPUTS, /* the residual stream before the first layer */
	INPUT_NGRAM,	    /* the n-gram embedding */
	INPUT_MIX,	    /* the normed vectors of the residual stream; */
	INPUT_MIX_UP,	    /* few values of them */
	/* the normed residual stream: q, k, v, and what compresses them; DeltaNet's but its last */
	INPUT_MIXER,
	INPUT_DECAYS, /* the compressed decays and gates of Kimi Delta Attention */
	INPUT_GATES,
	INPUT_Q_B,    /* the compressed queries */
	INPUT_KV_B,   /* the compressed keys and values */
	INPUT_O,      /* the output of attention, DeltaNet or a short convolution */
	INPUT_O_JOIN, /* the outputs of all groups of heads */
	INPUT_MAMBA,
	INPUT_MAMBA_X,
	INPUT_MAMBA_STEP,
	INPUT_MAMBA_OUT,
	INPUT_MLP_MIX, /* the vectors again, for the mlp */
	INPUT_MLP_MIX_UP,
	INPUT_ROUTER, /* the residual stream, normed as for experts or with another norm */
	INPUT_MLP,    /* the normed residual stream: gate, up, shared router, gate and up */
	INPUT_DOWN,   /* the gated values */
	INPUT_SHARED_DOWN,
	INPUT_LAYER_GATE, /* the residual stream behind the mlp */
	INPUT_LAYER_OUT,  /* the gated input of a layer */
	INPUT_LAST_MIX,	  /* the vectors behind the last layer */
	INPUT_LAST_MIX_UP,
	INPUT_LATENT,	   /* the sum of the experts' outputs, in a layer with LINEAR_LATENT_OUT */
	INPUT_EXPERT,	   /* gate and up of one expert: the tokens that it gets */
	INPUT_EXPERT_DOWN, /* its gated values */
	INPUT_HEAD,	   /* the final norm's output */
	N_INPUT_KINDS
};

#define INPUT_GROUP_MAX 8 /* matrices of a group */

struct input_group {
	enum input_kind kind;
	size_t expert; /* INPUT_EXPERT and INPUT_EXPERT_DOWN */
	size_t k;      /* columns of every matrix */
	size_t n;
	const struct linear_ref *linears[INPUT_GROUP_MAX];
};

/* Makes the groups of a layer, in the order of computation, experts last.  The caller frees
 * *groups. */
void input_groups_make(const struct layer_ref *layer, struct input_group **groups, size_t *n);

/* Returns the group of a head. */
struct input_group input_group_of_head(const struct linear_ref *head);

/* Is it of one expert, which only some of the tokens reach? */
static inline bool input_group_is_expert(const struct input_group *group)
{
	return group->kind == INPUT_EXPERT || group->kind == INPUT_EXPERT_DOWN;
}

#endif
