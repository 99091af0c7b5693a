/* SPDX-License-Identifier: Apache-2.0 */
#include "model/search.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

/* The names of most architectures; a row of an architecture overrides them. */
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
		[LINEAR_INDEX_Q] = "self_attn.indexer.wq_b",
		[LINEAR_INDEX_K] = "self_attn.indexer.wk",
		[LINEAR_INDEX_WEIGHTS] = "self_attn.indexer.weights_proj",
		[LINEAR_HEAD_GATE] = "",
		[LINEAR_SHARED_GATE] = "mlp.shared_experts.gate_proj",
		[LINEAR_SHARED_UP] = "mlp.shared_experts.up_proj",
		[LINEAR_SHARED_DOWN] = "mlp.shared_experts.down_proj",
		[LINEAR_SHARED_ROUTER] = "mlp.shared_expert_gate",
		[LINEAR_DELTA_QKVZ] = "linear_attn.in_proj_qkvz",
		[LINEAR_DELTA_BA] = "linear_attn.in_proj_ba",
		[LINEAR_DELTA_QKV] = "linear_attn.in_proj_qkv",
		[LINEAR_DELTA_Z] = "linear_attn.in_proj_z",
		[LINEAR_DELTA_B] = "linear_attn.in_proj_b",
		[LINEAR_DELTA_A] = "linear_attn.in_proj_a",
		[LINEAR_DELTA_OUT] = "linear_attn.out_proj",
		[LINEAR_MAMBA_IN] = "mamba.in_proj",
		[LINEAR_MAMBA_OUT] = "mamba.out_proj",
		[LINEAR_MAMBA_X] = "mamba.x_proj",
		[LINEAR_MAMBA_STEP] = "mamba.dt_proj",
		[LINEAR_CONV_IN] = "conv.in_proj",
		[LINEAR_CONV_OUT] = "conv.out_proj",
		[LINEAR_LATENT_IN] = "",
		[LINEAR_LATENT_OUT] = "",
		[LINEAR_LAYER_INPUTS] = "",
		[LINEAR_LAYER_GATE] = "",
		[LINEAR_LAYER_OUT] = "",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION] = "input_layernorm.weight",
		[VECTOR_NORM_ATTENTION_OUT] = "",
		[VECTOR_NORM_MLP] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "",
		[VECTOR_NORM_ROUTER] = "",
		[VECTOR_NORM_EXPERTS] = "",
		[VECTOR_NORM_EXPERTS_OUT] = "",
		[VECTOR_NORM_DENSE_OUT] = "",
		[VECTOR_EXPERT_SCALES] = "",
		[VECTOR_LAYER_SCALE] = "",
		[VECTOR_NORM_LAYER_INPUTS] = "",
		[VECTOR_NORM_LAYER_OUT] = "",
		[VECTOR_NORM_Q] = "self_attn.q_norm.weight",
		[VECTOR_NORM_K] = "self_attn.k_norm.weight",
		[VECTOR_NORM_Q_A] = "self_attn.q_a_layernorm.weight",
		[VECTOR_NORM_KV_A] = "self_attn.kv_a_layernorm.weight",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias",
		[VECTOR_SINKS] = "self_attn.sinks",
		[VECTOR_CONV] = "linear_attn.conv1d.weight",
		[VECTOR_A_LOG] = "linear_attn.A_log",
		[VECTOR_DT_BIAS] = "linear_attn.dt_bias",
		[VECTOR_NORM_GATED] = "linear_attn.norm.weight",
		[VECTOR_CONV_BIAS] = "",
		[VECTOR_SKIP] = "",
		[VECTOR_NORM_STEP] = "",
		[VECTOR_NORM_B] = "",
		[VECTOR_NORM_C] = "",
	},
	.expert = {
		[EXPERT_ROLE_GATE] = "mlp.experts.%zu.gate_proj",
		[EXPERT_ROLE_UP] = "mlp.experts.%zu.up_proj",
		[EXPERT_ROLE_DOWN] = "mlp.experts.%zu.down_proj",
	},
	.fused_gate_up = "mlp.experts.gate_up_proj",
	.fused_down = "mlp.experts.down_proj",
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

const char *search_fused_name(const struct search *search, bool down)
{
	const struct arch *arch = search->model->arch;

	return down ? name_of(arch->fused_down, arch_names.fused_down)
		    : name_of(arch->fused_gate_up, arch_names.fused_gate_up);
}

int search_bad_shape(const struct tensor_ref *ref, const char *expected, struct err *err)
{
	struct buf shape = { 0 };

	st_shape_format(&shape, ref->tensor->shape, ref->tensor->n_dims);
	err_set(err, ERR_INPUT, "tensor '%s' has shape %s, but config.json implies %s",
		ref->tensor->name, shape.data, expected);
	buf_release(&shape);
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

int search_linear(struct search *search, const char *prefix, const char *module, size_t n, size_t k,
		  struct linear_ref *linear)
{
	linear->weight = search_tensor(search, prefix, module, ".weight");
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
	return err_set(search->err, ERR_INPUT,
		       "tensor '%s%s%s' is missing from '%s', a model of %s%s", prefix, module,
		       suffix, search->model->checkpoint->path, search->model->arch->name,
		       search->model->advice);
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
	return 0;
}

int search_need(const struct search *search, const char *prefix, const struct layer_ref *layer,
		const enum linear_role *roles, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!layer->linear[roles[i]].weight)
			return search_missing(search, prefix, search_linear_name(search, roles[i]),
					      ".weight");
	return 0;
}
