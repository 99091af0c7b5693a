/* SPDX-License-Identifier: Apache-2.0 */
#include "model/input_groups.h"

#include "base/mem.h"

#define LINEAR_INPUT(role, input, name) [role] = (input),

static const enum input_kind linear_kinds[N_LINEARS] = { LINEARS(LINEAR_INPUT) };

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
	*groups = xcalloc(N_INPUT_KINDS + 2 * layer_all_experts(layer), sizeof **groups);
	*n = 0;
	for (enum input_kind kind = 0; kind < INPUT_EXPERT; kind++)
		add_group(*groups, n, (struct input_group){ .kind = kind }, layer->linear,
			  linear_kinds, N_LINEARS);
	for (size_t e = 0; e < layer_all_experts(layer); e++)
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
