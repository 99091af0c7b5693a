/* SPDX-License-Identifier: Apache-2.0 */
#include "model/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define LINEAR_NAME(role, input, name) [role] = (name),
#define VECTOR_NAME(role, name)	       [role] = (name),

/* The names of most architectures; a row of an architecture overrides them. */
static const struct arch arch_names = {
	.linear = { LINEARS(LINEAR_NAME) },
	.vector = { VECTORS(VECTOR_NAME) },
	.expert = {
		[EXPERT_ROLE_GATE] = "mlp.experts.%zu.gate_proj",
		[EXPERT_ROLE_UP] = "mlp.experts.%zu.up_proj",
		[EXPERT_ROLE_DOWN] = "mlp.experts.%zu.down_proj",
	},
	.stacks = {
		[EXPERT_ROLE_GATE_UP] = "mlp.experts.gate_up_proj",
		[EXPERT_ROLE_DOWN] = "mlp.experts.down_proj",
	},
};

static const char *name_of(const char *own, const char *common)
{
	return own ? own : common ? common : "";
}

const char *search_linear_name(const struct search *search, enum linear_role role)
{
	return name_of(search->model->arch->linear[role], arch_names.linear[role]);
}

const char *search_vector_name(const struct search *search, enum vector_role role)
{
	return name_of(search->model->arch->vector[role], arch_names.vector[role]);
}

const char *search_expert_name(const struct search *search, enum expert_role role)
{
	return name_of(search->model->arch->expert[role], arch_names.expert[role]);
}

const char *search_stack_name(const struct search *search, enum expert_role role)
{
	return name_of(search->model->arch->stacks[role], arch_names.stacks[role]);
}

int search_bad_shape(const struct tensor_ref *ref, const char *expected, struct err *err)
{
	err_set(err, ERR_INPUT, MISFIT_BEGIN "%s' has shape %s, but config.json implies %s",
		ref->tensor->name, st_shape(ref->tensor).text, expected);
	err->detail = MISFIT_SHAPE;
	return -1;
}

int search_check_vector(const struct tensor_ref *ref, size_t n, struct err *err)
{
	char expected[40];

	if (ref->tensor->n_dims == 1 && (n == 0 || ref->tensor->shape[0] == n))
		return 0;
	snprintf(expected, sizeof expected, "[%zu]", n);
	return search_bad_shape(ref, expected, err);
}

int search_check_matrix(const struct tensor_ref *ref, size_t n, size_t k, struct err *err)
{
	const struct st_tensor *tensor = ref->tensor;
	char expected[60];

	if (tensor->n_dims == 2 && tensor->shape[0] && tensor->shape[1] &&
	    (n == 0 || tensor->shape[0] == n) && (k == 0 || tensor->shape[1] == k))
		return 0;
	if (n && k)
		snprintf(expected, sizeof expected, "[%zu, %zu]", n, k);
	else
		snprintf(expected, sizeof expected, n ? "[%zu, any]" : "[any, %zu]", n ? n : k);
	return search_bad_shape(ref, expected, err);
}

const struct tensor_ref *search_tensor(struct search *search, const char *prefix,
				       const char *module, const char *suffix)
{
	char *name = xasprintf("%s%s%s", prefix, module, suffix);
	const struct tensor_ref *ref = checkpoint_find(search->model->checkpoint, name);

	free(name);
	search->n_found += ref != NULL;
	return ref;
}

/* Whether MODULE.bias has a role of its own: that of a router changes the choice alone. */
static bool is_vector_bias(const struct search *search, const char *module)
{
	const char *name = search_vector_name(search, VECTOR_ROUTER_BIAS);
	size_t n = strlen(module);

	return !strncmp(name, module, n) && !strcmp(name + n, ".bias");
}

/* Returns what follows the module in the name of its weight: nothing where that is a tensor of
 * another module. */
static const char *weight_suffix(const struct search *search, const char *module)
{
	const char *gate = search_linear_name(search, LINEAR_INDEX_GATE);

	return search->model->arch->positions.bare_gates && !strcmp(module, gate) ? "" : ".weight";
}

int search_linear(struct search *search, const char *prefix, const char *module, size_t n, size_t k,
		  struct linear_ref *linear)
{
	linear->weight = search_tensor(search, prefix, module, weight_suffix(search, module));
	if (!is_vector_bias(search, module))
		linear->bias = search_tensor(search, prefix, module, ".bias");
	if (!linear->weight)
		return linear->bias ? err_set(search->err, ERR_INPUT, "tensor '%s' has no weight",
					      linear->bias->tensor->name)
				    : 0;
	if (search_check_matrix(linear->weight, n, k, search->err) ||
	    (linear->bias &&
	     search_check_vector(linear->bias, linear->weight->tensor->shape[0], search->err)))
		return -1;
	linear->module = xasprintf("%s%s", prefix, module);
	linear->n = linear->weight->tensor->shape[0];
	linear->k = linear->weight->tensor->shape[1];
	linear->slice = (struct slice){ .row_stride = linear->k, .col_stride = 1 };
	return 0;
}

int search_missing(const struct search *search, const char *prefix, const char *module,
		   const char *suffix)
{
	err_set(search->err, ERR_INPUT,
		MISFIT_BEGIN "%s%s%s' is missing from '%s', a model of %s%s", prefix, module,
		suffix, search->model->checkpoint->path, search->model->arch->name,
		search->model->advice);
	search->err->detail = MISFIT_MISSING;
	return -1;
}

static bool is_needed(const struct layer_ref *layer, int needed)
{
	if (needed < 0)
		return !layer->linear[-1 - needed].weight;
	return needed < 2 ? needed : layer->linear[needed - 2].weight != NULL;
}

int search_linears(struct search *search, const char *prefix, struct layer_ref *layer,
		   const struct expected *expected, size_t n_expected)
{
	for (size_t i = 0; i < n_expected; i++) {
		enum linear_role role = expected[i].role;

		if (search_linear(search, prefix, search_linear_name(search, role), expected[i].n,
				  expected[i].k, &layer->linear[role]))
			return -1;
	}
	for (size_t i = 0; i < n_expected; i++)
		if (is_needed(layer, expected[i].needed) &&
		    search_need(search, prefix, layer, &expected[i].role, 1))
			return -1;
	return 0;
}

int search_need(const struct search *search, const char *prefix, const struct layer_ref *layer,
		const enum linear_role *roles, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *name = search_linear_name(search, roles[i]);

		if (!layer->linear[roles[i]].weight)
			return search_missing(search, prefix, name, weight_suffix(search, name));
	}
	return 0;
}

/* Whether the architecture has a vector whose name is the end of this one. */
static bool is_vector(const struct arch *arch, const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; i < N_VECTORS; i++) {
		const char *vector = arch->vector[i];
		size_t len = vector ? strlen(vector) : 0;

		if (len && len < n && name[n - len - 1] == '.' && !strcmp(name + n - len, vector))
			return true;
	}
	return false;
}

/* Whether a tensor needs no role: a scale of a weight, or stored frequencies of RoPE, which
 * rope_init() computes. */
static bool is_accessory(const struct model *model, const char *name)
{
	const char *last = strrchr(name, '.');

	return last && ((strstr(last, "scale") && !is_vector(model->arch, name)) ||
			!strcmp(last, ".inv_freq"));
}

static bool is_known(const struct layer_ref *layer, const struct tensor_ref *ref)
{
	for (size_t i = 0; i < layer_n_linears(layer); i++)
		if (layer_linear_ref(layer, i)->weight == ref ||
		    layer_linear_ref(layer, i)->bias == ref)
			return true;
	for (int i = 0; i < N_VECTORS; i++)
		if (layer->vector[i] == ref)
			return true;
	return false;
}

/* Whether a tensor norms keys or values in a layer that uses another layer's: releases have
 * them all the same.  rest: "20.self_attn.k_norm.weight". */
static bool is_unused(const struct model *model, const char *rest)
{
	static const char *const parts[] = { "k_norm.", "v_norm." };
	static const char attention[] = ".self_attn.";
	char *end;
	unsigned long i = strtoul(rest, &end, 10);

	if (i >= model->n_layers || !model->layers[i].kv_source ||
	    strncmp(end, attention, strlen(attention)) != 0)
		return false;
	for (size_t p = 0; p < COUNT(parts); p++)
		if (!strncmp(end + strlen(attention), parts[p], strlen(parts[p])))
			return true;
	return false;
}

/* Whether a tensor is the router of the experts for images.  rest: "1.mlp.gate.weight_1". */
static bool is_of_images(const struct model *model, const char *rest)
{
	char *end;
	unsigned long i = strtoul(rest, &end, 10);

	return model->arch->experts.have_images && i < model->n_layers &&
	       model->layers[i].n_experts && !strcmp(end, ".mlp.gate.weight_1");
}

/* Returns what follows the prefix of layers in the name of a tensor of a layer; NULL for others. */
static const char *below_layers(const struct model *model, const char *name)
{
	const char *body = model->place->body, *rest = name + strlen(body);

	if (strncmp(name, body, strlen(body)) != 0 || strncmp(rest, "layers.", 7) != 0)
		return NULL;
	rest += strlen("layers.");
	return is_accessory(model, name) || is_unused(model, rest) || is_of_images(model, rest)
		       ? NULL
		       : rest;
}

int search_check_leftovers(const struct search *search)
{
	const struct model *model = search->model;
	const struct checkpoint *checkpoint = model->checkpoint;
	size_t n = 0;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		n += below_layers(model, checkpoint->by_name[i].tensor->name) != NULL;
	if (n == search->n_found)
		return 0;
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		const char *rest = below_layers(model, ref->tensor->name);
		unsigned long layer = rest ? strtoul(rest, NULL, 10) : model->n_layers;

		if (layer >= model->n_layers || is_known(&model->layers[layer], ref))
			continue;
		err_set(search->err, ERR_INPUT, MISFIT_BEGIN "%s' is unexpected in a model of %s",
			ref->tensor->name, model->arch->name);
		search->err->detail = MISFIT_UNEXPECTED;
		return -1;
	}
	return 0; /* the rest belongs to layers after the last: multi-token prediction */
}
