/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a model by what they do: found by the names of its architecture, checked against config.json, and none of a
 * layer left over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/model_internal.h"

#define LAYERS "model.layers."

/* Names of most architectures; a row says where its own differ. */
static const struct arch arch_names = {
	.linear = {
		[LINEAR_Q] = "self_attn.q_proj",
		[LINEAR_K] = "self_attn.k_proj",
		[LINEAR_V] = "self_attn.v_proj",
		[LINEAR_QKV] = "self_attn.qkv_proj",
		[LINEAR_O] = "self_attn.o_proj",
		[LINEAR_GATE] = "mlp.gate_proj",
		[LINEAR_UP] = "mlp.up_proj",
		[LINEAR_GATE_UP] = "mlp.gate_up_proj",
		[LINEAR_DOWN] = "mlp.down_proj",
		[LINEAR_ROUTER] = "mlp.gate",
		[LINEAR_Q_A] = "self_attn.q_a_proj",
		[LINEAR_Q_B] = "self_attn.q_b_proj",
		[LINEAR_KV_A] = "self_attn.kv_a_proj_with_mqa",
		[LINEAR_KV_B] = "self_attn.kv_b_proj",
		[LINEAR_SHARED_GATE] = "mlp.shared_experts.gate_proj",
		[LINEAR_SHARED_UP] = "mlp.shared_experts.up_proj",
		[LINEAR_SHARED_DOWN] = "mlp.shared_experts.down_proj",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION] = "input_layernorm.weight",
		[VECTOR_NORM_ATTENTION_OUT] = "",
		[VECTOR_NORM_MLP] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "",
		[VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		[VECTOR_NORM_K] = "self_attn.k_norm.weight",
		[VECTOR_NORM_Q_A] = "self_attn.q_a_layernorm.weight",
		[VECTOR_NORM_KV_A] = "self_attn.kv_a_layernorm.weight",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias",
		[VECTOR_SINKS] = "self_attn.sinks",
	},
	.expert = {
		[EXPERT_ROLE_GATE] = "mlp.experts.%zu.gate_proj",
		[EXPERT_ROLE_UP] = "mlp.experts.%zu.up_proj",
		[EXPERT_ROLE_DOWN] = "mlp.experts.%zu.down_proj",
	},
};

static const char *name_of(const char *own, const char *common)
{
	return own ? own : common;
}

/* What is looked for, and how many tensors of the layers were found. */
struct search {
	const struct model *model;
	size_t n_found;
	struct err *err;
};

static int bad_shape(const struct tensor_ref *ref, const char *wanted, struct err *err)
{
	struct buf shape = { 0 };

	st_shape_format(&shape, ref->tensor->shape, ref->tensor->n_dims);
	err_set(err, ERR_INPUT, "tensor '%s' has shape %s, and config.json wants %s", ref->tensor->name, shape.data, wanted);
	buf_release(&shape);
	return -1;
}

/* n 0: any length. */
static int check_vector(const struct tensor_ref *ref, size_t n, struct err *err)
{
	char wanted[40];

	if (ref->tensor->n_dims == 1 && (n == 0 || ref->tensor->shape[0] == n))
		return 0;
	snprintf(wanted, sizeof wanted, "[%zu]", n);
	return bad_shape(ref, wanted, err);
}

/* n or k 0: any. */
static int check_matrix(const struct tensor_ref *ref, size_t n, size_t k, struct err *err)
{
	const struct st_tensor *tensor = ref->tensor;
	char wanted[60];

	if (tensor->n_dims == 2 && tensor->shape[0] && tensor->shape[1] && (n == 0 || tensor->shape[0] == n) &&
	    (k == 0 || tensor->shape[1] == k))
		return 0;
	if (n && k)
		snprintf(wanted, sizeof wanted, "[%zu, %zu]", n, k);
	else
		snprintf(wanted, sizeof wanted, n ? "[%zu, any]" : "[any, %zu]", n ? n : k);
	return bad_shape(ref, wanted, err);
}

/* The tensor PREFIX MODULE SUFFIX, or NULL. */
static const struct tensor_ref *find(struct search *search, const char *prefix, const char *module, const char *suffix)
{
	char *name = xasprintf("%s%s%s", prefix, module, suffix);
	const struct tensor_ref *ref = checkpoint_find(search->model->checkpoint, name);

	free(name);
	search->n_found += ref != NULL;
	return ref;
}

/* A matrix (n, k) with its bias; nothing where the layer has none. */
static int find_linear(struct search *search, const char *prefix, const char *module, size_t n, size_t k,
		       struct linear_ref *linear)
{
	linear->weight = find(search, prefix, module, ".weight");
	linear->bias = find(search, prefix, module, ".bias");
	if (!linear->weight)
		return linear->bias ? err_set(search->err, ERR_INPUT, "tensor '%s' has no weight beside it",
					      linear->bias->tensor->name)
				    : 0;
	if (check_matrix(linear->weight, n, k, search->err) ||
	    (linear->bias && check_vector(linear->bias, linear->weight->tensor->shape[0], search->err)))
		return -1;
	linear->module = xasprintf("%s%s", prefix, module);
	linear->n = linear->weight->tensor->shape[0];
	linear->k = linear->weight->tensor->shape[1];
	linear->slice = (struct slice){ .row_stride = linear->k, .col_stride = 1 };
	return 0;
}

static int missing(const struct search *search, const char *prefix, const char *module)
{
	return err_set(search->err, ERR_INPUT, "tensor '%s%s.weight' is missing from '%s', a model of %s", prefix, module,
		       search->model->checkpoint->path, search->model->arch->name);
}

/* A matrix that the architecture names, of n rows and k columns (0: any). */
struct wanted {
	enum linear_role role;
	size_t n, k;
};

static int find_linears(struct search *search, const char *prefix, struct layer_ref *layer, const struct wanted *wanted,
			size_t n_wanted)
{
	for (size_t i = 0; i < n_wanted; i++) {
		enum linear_role role = wanted[i].role;

		if (find_linear(search, prefix, name_of(search->model->arch->linear[role], arch_names.linear[role]),
				wanted[i].n, wanted[i].k, &layer->linear[role]))
			return -1;
	}
	return 0;
}

/* All of them must be there. */
static int need_linears(const struct search *search, const char *prefix, const struct layer_ref *layer,
			const enum linear_role *roles, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!layer->linear[roles[i]].weight)
			return missing(search, prefix,
				       name_of(search->model->arch->linear[roles[i]], arch_names.linear[roles[i]]));
	return 0;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int find_latent_attention(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	const struct latent *latent = &model->latent;
	size_t q = model->n_heads * model->head_dim;
	const struct wanted wanted[] = {
		{ LINEAR_Q, q, model->hidden },
		{ LINEAR_Q_A, latent->q_rank, model->hidden },
		{ LINEAR_Q_B, q, latent->q_rank },
		{ LINEAR_KV_A, latent->kv_rank + latent->turning, model->hidden },
		{ LINEAR_KV_B, model->n_heads * (latent->still + model->value_dim), latent->kv_rank },
		{ LINEAR_O, model->hidden, model->n_heads * model->value_dim },
	};
	static const enum linear_role squeezed[] = { LINEAR_Q_A, LINEAR_Q_B, LINEAR_KV_A, LINEAR_KV_B, LINEAR_O };
	static const enum linear_role plain[] = { LINEAR_Q, LINEAR_KV_A, LINEAR_KV_B, LINEAR_O };

	if (find_linears(search, prefix, layer, wanted, COUNT(wanted)))
		return -1;
	return latent->q_rank ? need_linears(search, prefix, layer, squeezed, COUNT(squeezed))
			      : need_linears(search, prefix, layer, plain, COUNT(plain));
}

static int find_attention(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	size_t q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim, hidden = model->hidden;
	const struct wanted wanted[] = {
		{ LINEAR_Q, q, hidden },   { LINEAR_K, kv, hidden }, { LINEAR_V, kv, hidden },
		{ LINEAR_QKV, q + 2 * kv, hidden }, { LINEAR_O, hidden, q },
	};
	static const enum linear_role fused[] = { LINEAR_QKV, LINEAR_O };
	static const enum linear_role apart[] = { LINEAR_Q, LINEAR_K, LINEAR_V, LINEAR_O };

	if (model->latent.kv_rank)
		return find_latent_attention(search, prefix, layer);
	if (find_linears(search, prefix, layer, wanted, COUNT(wanted)))
		return -1;
	return layer->linear[LINEAR_QKV].weight ? need_linears(search, prefix, layer, fused, COUNT(fused))
						: need_linears(search, prefix, layer, apart, COUNT(apart));
}

/* A tensor of all experts, each (k, n), and its bias. */
static int find_fused(struct search *search, const char *prefix, const char *name, size_t n, size_t k,
		      struct layer_ref *layer, enum expert_role role)
{
	const struct tensor_ref *weight = find(search, prefix, name, ""), *bias = find(search, prefix, name, "_bias");
	const uint64_t shape[] = { layer->n_experts, k, n };
	const char *last = strrchr(name, '.') + 1;
	char wanted[80];

	if (!weight)
		return err_set(search->err, ERR_INPUT, "tensor '%s%s' is missing from '%s', a model of %s", prefix, name,
			       search->model->checkpoint->path, search->model->arch->name);
	snprintf(wanted, sizeof wanted, "[%zu, %zu, %zu]", layer->n_experts, k, n);
	if (weight->tensor->n_dims != 3 || memcmp(weight->tensor->shape, shape, sizeof shape) != 0)
		return bad_shape(weight, wanted, search->err);
	snprintf(wanted, sizeof wanted, "[%zu, %zu]", layer->n_experts, n);
	if (bias && (bias->tensor->n_dims != 2 || bias->tensor->shape[0] != layer->n_experts || bias->tensor->shape[1] != n))
		return bad_shape(bias, wanted, search->err);
	for (size_t e = 0; e < layer->n_experts; e++)
		layer->experts[e][role] = (struct linear_ref){
			.module = xasprintf("%s%.*s%zu.%s", prefix, (int)(last - name), name, e, last),
			.weight = weight,
			.bias = bias,
			.n = n,
			.k = k,
			.slice = { .first = e * n * k, .row_stride = 1, .col_stride = n },
			.bias_first = e * n,
		};
	return 0;
}

static int find_fused_experts(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct arch *arch = search->model->arch;
	size_t hidden = search->model->hidden, width = layer->expert_width;

	if (width == 0)
		return err_set(search->err, ERR_INPUT, "config.json has no 'intermediate_size'");
	return find_fused(search, prefix, arch->fused_gate_up, 2 * width, hidden, layer, EXPERT_ROLE_GATE_UP) ||
			       find_fused(search, prefix, arch->fused_down, hidden, width, layer, EXPERT_ROLE_DOWN)
		       ? -1
		       : 0;
}

/* Experts are counted by their names. */
static int find_experts(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	size_t n_wanted = layer->linear[LINEAR_ROUTER].n, hidden = model->hidden;

	layer->experts = xcalloc(n_wanted, sizeof *layer->experts);
	layer->n_experts = n_wanted;
	if (model->arch->fused_gate_up)
		return find_fused_experts(search, prefix, layer);
	for (size_t e = 0; e < n_wanted; e++) {
		for (int i = 0; i <= EXPERT_ROLE_DOWN; i++) {
			const char *pattern = name_of(model->arch->expert[i], arch_names.expert[i]);
			char *module = xasprintf(pattern, e);
			bool down = i == EXPERT_ROLE_DOWN;
			int rc = find_linear(search, prefix, module, down ? hidden : layer->expert_width,
					     down ? layer->expert_width : hidden, &layer->experts[e][i]);

			if (rc == 0 && !layer->experts[e][i].weight)
				rc = missing(search, prefix, module);
			free(module);
			if (rc)
				return -1;
			layer->expert_width = layer->experts[0][0].n;
		}
	}
	return 0;
}

static int find_moe(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct routing *routing = &search->model->routing;
	const struct linear_ref *router = &layer->linear[LINEAR_ROUTER];
	const struct linear_ref *shared = &layer->linear[LINEAR_SHARED_DOWN];
	static const enum linear_role whole[] = { LINEAR_SHARED_GATE, LINEAR_SHARED_UP };

	if (routing->top_k == 0 || routing->top_k > router->n)
		return err_set(search->err, ERR_INPUT,
			       "config.json: 'num_experts_per_tok' is %zu, and '%s' chooses among %zu experts", routing->top_k,
			       router->module, router->n);
	if (routing->n_groups > 1 && (router->n % routing->n_groups || routing->top_groups > routing->n_groups ||
				      routing->top_groups == 0 || router->n / routing->n_groups < 2))
		return err_set(search->err, ERR_INPUT, "config.json: %zu of %zu groups cannot be chosen of %zu experts",
			       routing->top_groups, routing->n_groups, router->n);
	layer->shared_width = shared->k;
	if (shared->weight && need_linears(search, prefix, layer, whole, COUNT(whole)))
		return -1;
	for (size_t i = 0; shared->weight && i < COUNT(whole); i++)
		if (check_matrix(layer->linear[whole[i]].weight, shared->k, search->model->hidden, search->err))
			return -1;
	return find_experts(search, prefix, layer);
}

static int find_mlp(struct search *search, const char *prefix, struct layer_ref *layer)
{
	size_t hidden = search->model->hidden;
	const struct wanted wanted[] = {
		{ LINEAR_GATE, 0, hidden },	   { LINEAR_UP, 0, hidden },
		{ LINEAR_GATE_UP, 0, hidden },	   { LINEAR_DOWN, hidden, 0 },
		{ LINEAR_ROUTER, 0, hidden },	   { LINEAR_SHARED_GATE, 0, hidden },
		{ LINEAR_SHARED_UP, 0, hidden },   { LINEAR_SHARED_DOWN, hidden, 0 },
	};
	static const enum linear_role fused[] = { LINEAR_GATE_UP, LINEAR_DOWN };
	static const enum linear_role apart[] = { LINEAR_GATE, LINEAR_UP, LINEAR_DOWN };
	struct linear_ref *l = layer->linear;

	if (find_linears(search, prefix, layer, wanted, COUNT(wanted)))
		return -1;
	if (l[LINEAR_ROUTER].weight)
		return find_moe(search, prefix, layer);
	if (l[LINEAR_GATE_UP].weight ? need_linears(search, prefix, layer, fused, COUNT(fused))
				     : need_linears(search, prefix, layer, apart, COUNT(apart)))
		return -1;
	layer->width = l[LINEAR_DOWN].k;
	if (l[LINEAR_GATE_UP].weight)
		return check_matrix(l[LINEAR_GATE_UP].weight, 2 * layer->width, hidden, search->err);
	return check_matrix(l[LINEAR_GATE].weight, layer->width, hidden, search->err) ||
			       check_matrix(l[LINEAR_UP].weight, layer->width, hidden, search->err)
		       ? -1
		       : 0;
}

/* How long the vector must be. */
static size_t vector_length(const struct model *model, const struct layer_ref *layer, int role)
{
	switch (role) {
	case VECTOR_NORM_Q:
	case VECTOR_NORM_K:
		return model->head_dim;
	case VECTOR_NORM_Q_A:
		return model->latent.q_rank;
	case VECTOR_NORM_KV_A:
		return model->latent.kv_rank;
	case VECTOR_ROUTER_BIAS:
		return layer->n_experts;
	case VECTOR_SINKS:
		return model->n_heads;
	default:
		return model->hidden;
	}
}

/* Whether a layer cannot be without it. */
static bool vector_is_needed(const struct model *model, const struct layer_ref *layer, int role)
{
	switch (role) {
	case VECTOR_NORM_Q_A:
		return model->latent.q_rank > 0;
	case VECTOR_NORM_KV_A:
		return model->latent.kv_rank > 0;
	case VECTOR_ROUTER_BIAS:
		return layer->n_experts && model->arch->vector[role];
	case VECTOR_NORM_Q:
	case VECTOR_NORM_K:
	case VECTOR_SINKS:
		return model->arch->vector[role] != NULL;
	default:
		return true;
	}
}

static int find_vectors(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;

	for (int i = 0; i < N_VECTORS; i++) {
		const char *name = name_of(model->arch->vector[i], arch_names.vector[i]);

		if (!*name)
			continue;
		layer->vector[i] = find(search, prefix, name, "");
		if (layer->vector[i] && check_vector(layer->vector[i], vector_length(model, layer, i), search->err))
			return -1;
		if (!layer->vector[i] && vector_is_needed(model, layer, i))
			return err_set(search->err, ERR_INPUT, "tensor '%s%s' is missing from '%s', a model of %s", prefix,
				       name, model->checkpoint->path, model->arch->name);
	}
	return 0;
}

static int find_layer(struct search *search, size_t i)
{
	struct layer_ref *layer = &search->model->layers[i];
	char *prefix = xasprintf(LAYERS "%zu.", i);
	int rc;

	layer->attention = xasprintf("%sself_attn", prefix);
	rc = find_attention(search, prefix, layer) || find_mlp(search, prefix, layer) ||
			     find_vectors(search, prefix, layer)
		     ? -1
		     : 0;
	free(prefix);
	return rc;
}

/* Scales belong to the weights beside them, and angles are computed. */
static bool is_accessory(const char *name)
{
	const char *last = strrchr(name, '.');

	return last && (strstr(last, "scale") || !strcmp(last, ".inv_freq"));
}

static bool is_known(const struct layer_ref *layer, const struct tensor_ref *ref)
{
	for (int i = 0; i < N_LINEARS; i++)
		if (layer->linear[i].weight == ref || layer->linear[i].bias == ref)
			return true;
	for (int i = 0; i < N_VECTORS; i++)
		if (layer->vector[i] == ref)
			return true;
	for (size_t e = 0; e < layer->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			if (layer->experts[e][i].weight == ref || layer->experts[e][i].bias == ref)
				return true;
	return false;
}

/* A tensor of a layer that has no place in the computation. */
static int check_leftovers(const struct search *search)
{
	const struct checkpoint *checkpoint = search->model->checkpoint;
	size_t n_layers = search->model->n_layers, n = 0;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		n += !strncmp(checkpoint->by_name[i].tensor->name, LAYERS, strlen(LAYERS)) &&
		     !is_accessory(checkpoint->by_name[i].tensor->name);
	if (n == search->n_found)
		return 0;
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		const char *name = ref->tensor->name;
		unsigned long layer;

		if (strncmp(name, LAYERS, strlen(LAYERS)) != 0 || is_accessory(name))
			continue;
		layer = strtoul(name + strlen(LAYERS), NULL, 10);
		if (layer < n_layers && !is_known(&search->model->layers[layer], ref))
			return err_set(search->err, ERR_INPUT,
				       "tensor '%s' has no place in a model of %s: its forward pass would be wrong", name,
				       search->model->arch->name);
	}
	return 0; /* layers behind the last one: those that predict further tokens */
}

int model_find_tensors(struct model *model, const struct model_config *config, struct err *err)
{
	struct search search = { .model = model, .err = err };

	model->embedding = find(&search, "", "model.embed_tokens", ".weight");
	model->norm = find(&search, "", "model.norm", ".weight");
	if (!model->embedding)
		return missing(&search, "", "model.embed_tokens");
	if (!model->norm)
		return missing(&search, "", "model.norm");
	if (check_matrix(model->embedding, model->vocab_size, model->hidden, err) ||
	    check_vector(model->norm, model->hidden, err) ||
	    find_linear(&search, "", "lm_head", model->vocab_size, model->hidden, &model->head))
		return -1;
	if (!model->head.weight) {
		if (!config->tie_word_embeddings && !model->arch->tied)
			return missing(&search, "", "lm_head");
		model->head = (struct linear_ref){ .module = xstrdup("lm_head"), .weight = model->embedding,
						   .n = model->vocab_size, .k = model->hidden,
						   .slice = { .row_stride = model->hidden, .col_stride = 1 } };
	}
	search.n_found = 0;
	for (size_t i = 0; i < model->n_layers; i++) {
		model->layers[i].expert_width = model->arch->fused_gate_up ? model_config_expert_width(config) : 0;
		if (find_layer(&search, i))
			return -1;
	}
	return check_leftovers(&search);
}
