/* SPDX-License-Identifier: Apache-2.0
 *
 * The experts of a layer: matrices of each expert, or tensors of all experts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/steps.h"

/* A tensor of all experts of GPT-OSS: (experts, k, n). */
struct expected_fused {
	enum expert_role role;
	const char *name;
	size_t n, k;
};

/* The tensor, and its bias (experts, n). */
static int find_fused(struct search *search, const char *prefix, struct layer_ref *layer,
		      const struct expected_fused *fused)
{
	const char *name = fused->name;
	size_t n = fused->n, k = fused->k;
	const struct tensor_ref *weight = search_tensor(search, prefix, name, ""),
				*bias = search_tensor(search, prefix, name, "_bias");
	const uint64_t shape[] = { layer->n_experts, k, n };
	const char *last = strrchr(name, '.') + 1;
	char expected[80];

	if (!weight)
		return search_missing(search, prefix, name, "");
	snprintf(expected, sizeof expected, "[%zu, %zu, %zu]", layer->n_experts, k, n);
	if (weight->tensor->n_dims != 3 || memcmp(weight->tensor->shape, shape, sizeof shape) != 0)
		return search_bad_shape(weight, expected, search->err);
	snprintf(expected, sizeof expected, "[%zu, %zu]", layer->n_experts, n);
	if (bias && (bias->tensor->n_dims != 2 || bias->tensor->shape[0] != layer->n_experts ||
		     bias->tensor->shape[1] != n))
		return search_bad_shape(bias, expected, search->err);
	for (size_t e = 0; e < layer->n_experts; e++)
		layer->experts[e][fused->role] = (struct linear_ref){
			.module = xasprintf("%s%.*s%zu.%s", prefix, (int)(last - name), name, e,
					    last),
			.weight = weight,
			.bias = bias,
			.n = n,
			.k = k,
			.slice = { .first = e * n * k, .row_stride = 1, .col_stride = n },
			.bias_first = e * n,
		};
	return 0;
}

static int find_clamped_experts(struct search *search, const char *prefix, struct layer_ref *layer)
{
	size_t hidden = search->model->hidden, width = layer->expert_width;

	if (width == 0)
		return err_set(search->err, ERR_INPUT, "config.json has no 'intermediate_size'");
	if (find_fused(search, prefix, layer,
		       &(struct expected_fused){ EXPERT_ROLE_GATE_UP,
						 search_stack_name(search, EXPERT_ROLE_GATE_UP),
						 2 * width, hidden }))
		return -1;
	return find_fused(search, prefix, layer,
			  &(struct expected_fused){ EXPERT_ROLE_DOWN,
						    search_stack_name(search, EXPERT_ROLE_DOWN),
						    hidden, width });
}

/* Returns the name of an expert's matrix: "model.layers.0.mlp.experts.3.up_proj". */
static char *module_of(const char *prefix, const char *pattern, size_t expert)
{
	char *below = xasprintf(pattern, expert);
	char *module = xasprintf("%s%s", prefix, below);

	free(below);
	return module;
}

/* The matrix of an expert in a tensor of all experts, without its name. */
static struct linear_ref stacked_matrix(const struct tensor_ref *stack,
					const struct experts_layout *layout, enum expert_role role,
					size_t expert)
{
	static const enum expert_part parts[] = { [EXPERT_ROLE_GATE] = EXPERT_GATE,
						  [EXPERT_ROLE_UP] = EXPERT_UP,
						  [EXPERT_ROLE_DOWN] = EXPERT_DOWN };
	struct linear_ref linear = { .weight = stack };
	uint64_t n, k;

	experts_matrix(layout, parts[role], expert, &n, &k, &linear.slice);
	linear.n = n;
	linear.k = k;
	return linear;
}

/* Finds a tensor of all experts, which must exist. */
static int find_stack(struct search *search, const char *prefix, const char *name,
		      const struct tensor_ref **stack)
{
	*stack = search_tensor(search, prefix, name, "");
	if (!*stack)
		return search_missing(search, prefix, name, "");
	if ((*stack)->tensor->n_dims == 3 && st_n_elements((*stack)->tensor->shape, 3))
		return 0;
	return search_bad_shape(*stack, "3 dimensions", search->err);
}

/* Finds how the experts lie in two tensors: by their shapes, or where rows of gate and up take
 * turns, as (experts, 2 width, hidden) and (experts, hidden, width). */
static int find_layout(struct search *search, const struct tensor_ref *const stacks[2],
		       struct experts_layout *layout)
{
	const struct model_config no_config = { 0 }; /* two shapes need none */
	const uint64_t *shape = stacks[0]->tensor->shape, *down = stacks[1]->tensor->shape;
	const struct experts_tensor tensors[2] = { { stacks[0]->tensor->name, shape },
						   { stacks[1]->tensor->name, down } };
	char expected[80];

	if (!search->model->arch->experts.interleaved)
		return experts_layout_find(layout, &tensors[0], &tensors[1], &no_config,
					   search->err);
	*layout = (struct experts_layout){ .n_experts = shape[0],
					   .hidden = shape[2],
					   .width = shape[1] / 2,
					   .interleaved = true };
	snprintf(expected, sizeof expected, "[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", shape[0],
		 shape[2], shape[1] / 2);
	if (shape[1] % 2 || down[0] != shape[0] || down[1] != shape[2] || down[2] != shape[1] / 2)
		return search_bad_shape(stacks[1], expected, search->err);
	return 0;
}

/* Names of two tensors of n experts, and of their matrices; first: in layer->experts. */
struct stacked {
	const char *gate_up, *down;
	const char *const *modules; /* by role, with %zu for the expert */
	size_t first, n;
};

/* The experts in two tensors, one expert after the other. */
static int find_stacked(struct search *search, const char *prefix, struct layer_ref *layer,
			const struct stacked *of)
{
	const struct tensor_ref *stacks[2];
	struct experts_layout layout;
	char expected[80];

	if (find_stack(search, prefix, of->gate_up, &stacks[0]) ||
	    find_stack(search, prefix, of->down, &stacks[1]) ||
	    find_layout(search, stacks, &layout))
		return -1;
	snprintf(expected, sizeof expected, "%zu experts of %zu columns", of->n,
		 search->model->hidden);
	if (layout.n_experts != of->n || layout.hidden != search->model->hidden)
		return search_bad_shape(stacks[0], expected, search->err);
	for (size_t e = 0; e < of->n; e++)
		for (int i = EXPERT_ROLE_GATE; i <= EXPERT_ROLE_DOWN; i++) {
			struct linear_ref *linear = &layer->experts[of->first + e][i];

			*linear = stacked_matrix(stacks[i == EXPERT_ROLE_DOWN], &layout,
						 (enum expert_role)i, e);
			linear->module = module_of(prefix, of->modules[i], e);
		}
	if (of->first && layout.width != layer->expert_width) {
		snprintf(expected, sizeof expected, "experts of %zu values", layer->expert_width);
		return search_bad_shape(stacks[0], expected, search->err);
	}
	layer->expert_width = layout.width;
	return 0;
}

static int find_stacked_experts(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const char *const modules[] = {
		[EXPERT_ROLE_GATE] = search_expert_name(search, EXPERT_ROLE_GATE),
		[EXPERT_ROLE_UP] = search_expert_name(search, EXPERT_ROLE_UP),
		[EXPERT_ROLE_DOWN] = search_expert_name(search, EXPERT_ROLE_DOWN),
	};
	const struct stacked of = {
		.gate_up = search_stack_name(search, EXPERT_ROLE_GATE_UP),
		.down = search_stack_name(search, EXPERT_ROLE_DOWN),
		.modules = modules,
		.n = layer->n_experts,
	};

	return find_stacked(search, prefix, layer, &of);
}

/* Those that every token passes and the router weighs, behind all others. */
static int find_shared_experts(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct arch *arch = search->model->arch;
	const struct stacked of = { .gate_up = arch->experts.shared_stacks[EXPERT_ROLE_GATE_UP],
				    .down = arch->experts.shared_stacks[EXPERT_ROLE_DOWN],
				    .modules = arch->experts.shared,
				    .first = layer->n_experts + layer->n_image_experts,
				    .n = layer->n_shared_experts };

	return of.n ? find_stacked(search, prefix, layer, &of) : 0;
}

/* Does the layer have a matrix for each expert, in place of the tensors of all experts?  Quantized
 * checkpoints do. */
static bool is_split(const struct search *search, const char *prefix)
{
	char *module = xasprintf(search_expert_name(search, EXPERT_ROLE_DOWN), (size_t)0);
	char *name = xasprintf("%s%s.weight", prefix, module);
	bool found = checkpoint_find(search->model->checkpoint, name);

	free(module);
	free(name);
	return found;
}

/* Finds one tensor of all experts, of which each expert has n rows and k columns, 0: any. */
static int find_lone_stack(struct search *search, const char *prefix, struct layer_ref *layer,
			   const struct expected_fused *of)
{
	const struct tensor_ref *stack;
	char expected[80];

	if (find_stack(search, prefix, search_stack_name(search, of->role), &stack))
		return -1;
	snprintf(expected, sizeof expected, "[%zu, %zu, %zu]", layer->n_experts,
		 of->n ? of->n : (size_t)stack->tensor->shape[1],
		 of->k ? of->k : (size_t)stack->tensor->shape[2]);
	if (stack->tensor->shape[0] != layer->n_experts ||
	    (of->n && stack->tensor->shape[1] != of->n) ||
	    (of->k && stack->tensor->shape[2] != of->k))
		return search_bad_shape(stack, expected, search->err);
	for (size_t e = 0; e < layer->n_experts; e++) {
		struct linear_ref *linear = &layer->experts[e][of->role];

		const char *pattern = search_expert_name(search, of->role);

		*linear = (struct linear_ref){ .module = module_of(prefix, pattern, e),
					       .weight = stack,
					       .n = stack->tensor->shape[1],
					       .k = stack->tensor->shape[2] };
		linear->slice.first = e * linear->n * linear->k;
		linear->slice.row_stride = linear->k;
		linear->slice.col_stride = 1;
	}
	return 0;
}

/* The experts in three tensors (Step): gate, up and down apart. */
static int find_lone_stacks(struct search *search, const char *prefix, struct layer_ref *layer)
{
	size_t hidden = search->model->hidden;
	struct expected_fused stacks[] = { { EXPERT_ROLE_GATE, NULL, 0, hidden },
					   { EXPERT_ROLE_UP, NULL, 0, hidden },
					   { EXPERT_ROLE_DOWN, NULL, hidden, 0 } };

	for (size_t i = 0; i < COUNT(stacks); i++) {
		if (find_lone_stack(search, prefix, layer, &stacks[i]))
			return -1;
		layer->expert_width = layer->experts[0][EXPERT_ROLE_GATE].n;
		stacks[EXPERT_ROLE_UP].n = stacks[EXPERT_ROLE_DOWN].k = layer->expert_width;
	}
	return 0;
}

static bool has_stack(const struct search *search, const char *prefix, enum expert_role role)
{
	char *name = xasprintf("%s%s", prefix, search_stack_name(search, role));
	bool found = checkpoint_find(search->model->checkpoint, name);

	free(name);
	return found;
}

/* Finds the matrices of n experts of one width, from `first` on. */
static int find_range(struct search *search, const char *prefix, struct layer_ref *layer,
		      size_t first, size_t n)
{
	int gate = search->model->activation == ACT_SRELU ? EXPERT_ROLE_UP : EXPERT_ROLE_GATE;
	const struct linear_ref *in = &layer->linear[LINEAR_LATENT_IN];
	size_t hidden = in->weight ? in->n : search->model->hidden, width = 0;

	for (size_t e = first; e < first + n; e++) {
		for (int i = gate; i <= EXPERT_ROLE_DOWN; i++) {
			const char *pattern = search_expert_name(search, (enum expert_role)i);
			char *module = xasprintf(pattern, e);
			bool down = i == EXPERT_ROLE_DOWN;
			int rc = search_linear(search, prefix, module, down ? hidden : width,
					       down ? width : hidden, &layer->experts[e][i]);

			if (rc == 0 && !layer->experts[e][i].weight)
				rc = search_missing(search, prefix, module, ".weight");
			free(module);
			if (rc)
				return -1;
			width = layer->experts[first][gate].n;
		}
	}
	return 0;
}

/* Finds the matrices of every expert that the router can choose, and of those for images. */
static int find_experts(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	bool clamped = model->arch->clamped && !is_split(search, prefix);
	bool stacked = !clamped && has_stack(search, prefix, EXPERT_ROLE_GATE_UP);
	bool lone = has_stack(search, prefix, EXPERT_ROLE_GATE);

	layer->n_experts = layer->linear[LINEAR_ROUTER].n - model->routing.n_shared;
	layer->n_shared_experts = model->routing.n_shared;
	if (model->first_expert && !clamped && !stacked && !lone)
		layer->n_experts = 1;
	else if (model->arch->experts.have_images)
		layer->n_image_experts = layer->n_experts;
	layer->experts = xcalloc(layer_all_experts(layer), sizeof *layer->experts);
	if (clamped)
		return find_clamped_experts(search, prefix, layer);
	if (stacked)
		return find_stacked_experts(search, prefix, layer);
	if (lone)
		return find_lone_stacks(search, prefix, layer);
	if (find_range(search, prefix, layer, 0, layer->n_experts) ||
	    find_range(search, prefix, layer, layer->n_experts, layer->n_image_experts))
		return -1;
	layer->expert_width = layer->experts[0][EXPERT_ROLE_UP].n;
	return 0;
}

int search_experts(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct routing *routing = &search->model->routing;
	const struct linear_ref *router = &layer->linear[LINEAR_ROUTER];
	const struct linear_ref *shared = &layer->linear[LINEAR_SHARED_DOWN];
	static const enum linear_role whole[] = { LINEAR_SHARED_UP, LINEAR_SHARED_GATE };
	static const enum linear_role latent[] = { LINEAR_LATENT_IN, LINEAR_LATENT_OUT };
	const struct linear_ref *in = &layer->linear[LINEAR_LATENT_IN],
				*out = &layer->linear[LINEAR_LATENT_OUT];
	size_t n_whole = search->model->activation == ACT_SRELU ? 1 : COUNT(whole);
	size_t n_stated = search->config->size[CONFIG_EXPERTS], n = router->n - routing->n_shared;

	if (router->n <= routing->n_shared)
		return err_set(
			search->err, ERR_INPUT,
			"config.json: 'n_shared_experts' is %zu, but '%s' weighs %zu experts",
			routing->n_shared, router->module, router->n);
	if (n_stated && n_stated != n && routing->n_shared)
		return err_set(search->err, ERR_INPUT,
			       "config.json has %zu experts and %zu that are shared "
			       "('n_shared_experts'), but '%s' weighs %zu",
			       n_stated, routing->n_shared, router->module, router->n);
	if (n_stated && n_stated != n)
		return err_set(search->err, ERR_INPUT,
			       "config.json has %zu experts, but '%s' chooses among %zu", n_stated,
			       router->module, n);
	if (routing->top_k == 0 || routing->top_k > n)
		return err_set(search->err, ERR_INPUT,
			       "config.json: '%s' is %zu, but '%s' chooses among %zu experts",
			       routing->top_k_key, routing->top_k, router->module, n);
	if (routing->n_groups &&
	    (router->n % routing->n_groups || routing->top_groups > routing->n_groups ||
	     routing->top_groups == 0 || router->n / routing->n_groups < 2 ||
	     routing->top_k > router->n / routing->n_groups * routing->top_groups))
		return err_set(search->err, ERR_INPUT,
			       "config.json: cannot choose %zu experts ('%s') in %zu "
			       "('topk_group') of %zu ('%s') groups of all %zu experts",
			       routing->top_k, routing->top_k_key, routing->top_groups,
			       routing->n_groups, routing->n_groups_key, router->n);
	layer->shared_width = shared->k;
	if ((shared->weight && search_need(search, prefix, layer, whole, n_whole)) ||
	    ((in->weight || out->weight) &&
	     (search_need(search, prefix, layer, latent, COUNT(latent)) ||
	      search_check_matrix(out->weight, search->model->hidden, in->n, search->err))))
		return -1;
	for (size_t i = 0; shared->weight && i < n_whole; i++)
		if (search_check_matrix(layer->linear[whole[i]].weight, shared->k,
					search->model->hidden, search->err))
			return -1;
	if (find_experts(search, prefix, layer))
		return -1;
	return find_shared_experts(search, prefix, layer);
}
