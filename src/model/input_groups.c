/* SPDX-License-Identifier: Apache-2.0 */
#include "model/input_groups.h"

#include "base/mem.h"

static const enum input_kind linear_kinds[N_LINEARS] = {
	[LINEAR_Q] = INPUT_MIXER,
	[LINEAR_K] = INPUT_MIXER,
	[LINEAR_V] = INPUT_MIXER,
	[LINEAR_QKV] = INPUT_MIXER,
	[LINEAR_Q_A] = INPUT_MIXER,
	[LINEAR_Q_B] = INPUT_Q_B,
	[LINEAR_KV_A] = INPUT_MIXER,
	[LINEAR_KV_B] = INPUT_KV_B,
	[LINEAR_INDEX_Q] = INPUT_Q_B,
	[LINEAR_INDEX_K] = INPUT_MIXER,
	[LINEAR_INDEX_WEIGHTS] = INPUT_MIXER,
	[LINEAR_HEAD_GATE] = INPUT_MIXER,
	[LINEAR_O] = INPUT_O,
	[LINEAR_GATE] = INPUT_MLP,
	[LINEAR_UP] = INPUT_MLP,
	[LINEAR_GATE_UP] = INPUT_MLP,
	[LINEAR_DOWN] = INPUT_DOWN,
	[LINEAR_ROUTER] = INPUT_ROUTER,
	[LINEAR_SHARED_GATE] = INPUT_MLP,
	[LINEAR_SHARED_UP] = INPUT_MLP,
	[LINEAR_SHARED_DOWN] = INPUT_SHARED_DOWN,
	[LINEAR_SHARED_ROUTER] = INPUT_MLP,
	[LINEAR_DELTA_QKVZ] = INPUT_MIXER,
	[LINEAR_DELTA_BA] = INPUT_MIXER,
	[LINEAR_DELTA_QKV] = INPUT_MIXER,
	[LINEAR_DELTA_Z] = INPUT_MIXER,
	[LINEAR_DELTA_B] = INPUT_MIXER,
	[LINEAR_DELTA_A] = INPUT_MIXER,
	[LINEAR_DELTA_Q] = INPUT_MIXER,
	[LINEAR_DELTA_K] = INPUT_MIXER,
	[LINEAR_DELTA_V] = INPUT_MIXER,
	[LINEAR_DELTA_F_A] = INPUT_MIXER,
	[LINEAR_DELTA_F_B] = INPUT_DECAYS,
	[LINEAR_DELTA_G_A] = INPUT_MIXER,
	[LINEAR_DELTA_G_B] = INPUT_GATES,
	[LINEAR_DELTA_OUT] = INPUT_O,
	[LINEAR_MAMBA_IN] = INPUT_MAMBA,
	[LINEAR_MAMBA_OUT] = INPUT_MAMBA_OUT,
	[LINEAR_MAMBA_X] = INPUT_MAMBA_X,
	[LINEAR_MAMBA_STEP] = INPUT_MAMBA_STEP,
	[LINEAR_CONV_IN] = INPUT_MIXER,
	[LINEAR_CONV_OUT] = INPUT_O,
	[LINEAR_LATENT_IN] = INPUT_MLP,
	[LINEAR_LATENT_OUT] = INPUT_LATENT,
	[LINEAR_LAYER_INPUTS] = INPUT_LAYER_INPUTS,
	[LINEAR_LAYER_GATE] = INPUT_LAYER_GATE,
	[LINEAR_LAYER_OUT] = INPUT_LAYER_OUT,
};

static const enum input_kind expert_kinds[N_EXPERT_ROLES] = {
	[EXPERT_ROLE_GATE] = INPUT_EXPERT,
	[EXPERT_ROLE_UP] = INPUT_EXPERT,
	[EXPERT_ROLE_DOWN] = INPUT_EXPERT_DOWN,
	[EXPERT_ROLE_GATE_UP] = INPUT_EXPERT,
};

/* Adds to the list the group of one kind of n matrices, unless it would be empty. */
static void add_group(struct input_group *groups, size_t *n_groups, struct input_group group,
		      const struct linear_ref *linears, const enum input_kind *kinds, int n)
{
	for (int i = 0; i < n; i++) {
		if (kinds[i] != group.kind || !linears[i].weight)
			continue;
		group.k = linears[i].k;
		group.linears[group.n++] = &linears[i];
	}
	if (group.n)
		groups[(*n_groups)++] = group;
}

void input_groups_make(const struct layer_ref *layer, struct input_group **groups, size_t *n)
{
	*groups = xcalloc(N_INPUT_KINDS + 2 * layer->n_experts, sizeof **groups);
	*n = 0;
	for (enum input_kind kind = 0; kind < INPUT_EXPERT; kind++)
		add_group(*groups, n, (struct input_group){ .kind = kind }, layer->linear,
			  linear_kinds, N_LINEARS);
	for (size_t e = 0; e < layer->n_experts; e++)
		for (enum input_kind kind = INPUT_EXPERT; kind <= INPUT_EXPERT_DOWN; kind++)
			add_group(*groups, n, (struct input_group){ .kind = kind, .expert = e },
				  layer->experts[e], expert_kinds, N_EXPERT_ROLES);
}

struct input_group input_group_of_head(const struct linear_ref *head)
{
	return (struct input_group){
		.kind = INPUT_HEAD, .k = head->k, .n = 1, .linears = { head }
	};
}
