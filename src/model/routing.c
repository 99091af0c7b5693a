/* SPDX-License-Identifier: Apache-2.0
 *
 * How tokens get their experts, by config.json.
 *
 * Source: transformers 5.23, configuration_<name>.py and modeling_deepseek_v4.py.
 */
#include <math.h>
#include <string.h>

#include "model/facts.h"
#include "model/steps.h"

/* DeepSeek-V2's two ways to choose experts: among all, or in the groups of the best ones. */
static int configure_groups(struct routing *routing, const json_t *facts, struct err *err)
{
	const json_t *value = json_object_get(facts, "topk_method");
	const char *method = json_is_string(value) ? json_string_value(value) : "null";

	routing->n_groups_key = FACT_KEY(facts, "num_expert_group", "n_group");
	routing->n_groups = fact_count(facts, routing->n_groups_key, 0);
	routing->top_groups = fact_count(facts, "topk_group", 0);
	if (!value)
		return 0;
	routing->group_max = true;
	if (!strcmp(method, "greedy"))
		routing->n_groups = 0;
	else if (strcmp(method, "group_limited_greedy") != 0)
		return err_set(err, ERR_INPUT,
			       "config.json: 'topk_method' is '%s', which is not supported "
			       "(supported: greedy, group_limited_greedy)",
			       method);
	else if (!routing->n_groups)
		return err_set(err, ERR_INPUT,
			       "config.json: 'topk_method' is '%s', but 'n_group' is missing",
			       method);
	return 0;
}

/* Reads how many experts a token gets.  A list has a number for each layer; they must be equal. */
static int read_top_k(struct routing *routing, const json_t *facts, struct err *err)
{
	const char *key = FACT_KEY(facts, "moe_k", "moe_topk", "top_k_experts",
				   "num_experts_per_token", "moe_top_k", "num_experts_per_tok");
	const json_t *value = json_object_get(facts, key);
	const json_t *first = json_is_array(value) ? json_array_get(value, 0) : value;

	routing->top_k_key = key;
	for (size_t k = 1; k < json_array_size(value); k++)
		if (!json_equal(json_array_get(value, k), first))
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' has different numbers, which are not "
				       "supported",
				       key);
	if (value && !json_is_null(value) &&
	    !(json_is_integer(first) && json_integer_value(first) >= 0))
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' is not a number, or a list of equal numbers",
			       key);
	routing->top_k = (size_t)json_integer_value(first);
	return 0;
}

/* DeepSeek-V4: what scores are made of, where the row does not say it. */
static int read_scores(struct routing *routing, const json_t *facts, struct err *err)
{
	const char *name = json_string_value(json_object_get(facts, "scoring_func"));

	if (!json_object_get(facts, "scoring_func"))
		return 0;
	routing->sigmoid = name && !strcmp(name, "sigmoid");
	routing->sqrt_softplus = name && !strcmp(name, "sqrtsoftplus");
	if (routing->sigmoid || routing->sqrt_softplus || (name && !strcmp(name, "softmax")))
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: 'scoring_func' is '%s', which is not supported (supported: "
		       "sqrtsoftplus, sigmoid, softmax)",
		       name ? name : "null");
}

/* Reads what mlp_layer_types says of layer i; find_mlp() holds it against the tensors. */
static int read_mlp_type(struct model *model, const json_t *types, size_t i, struct err *err)
{
	static const char *const words[2][2] = { { "dense", "sparse" }, { "hash_moe", "moe" } };
	bool hashed = model->arch->vector[VECTOR_ROUTER_TABLE] != NULL;
	const char *const *word = words[hashed];
	const char *type = json_string_value(json_array_get(types, i));

	for (int w = 0; w < 2; w++)
		if (type && !strcmp(type, word[w]))
			model->layers[i].mlp_type = word[w];
	if (!model->layers[i].mlp_type)
		return err_set(err, ERR_INPUT,
			       "config.json: 'mlp_layer_types' has '%s' for layer %zu, which is "
			       "not supported (supported: %s, %s)",
			       type ? type : "null", i, word[0], word[1]);
	model->layers[i].routed_by_token = hashed && model->layers[i].mlp_type == word[0];
	return 0;
}

/* Inkling: without mlp_layer_types, the first dense_mlp_idx layers have no experts. */
static void read_dense_layers(struct model *model, const json_t *facts)
{
	static const char key[] = "dense_mlp_idx";
	size_t n_dense = fact_count(facts, key, 0);

	if (!json_object_get(facts, key))
		return;
	model->mlp_types_key = key;
	for (size_t i = 0; i < model->n_layers; i++)
		model->layers[i].mlp_type = i < n_dense ? "dense" : "sparse";
}

/* DeepSeek-V4: experts follow from the token in the first num_hash_layers, or in those that
 * mlp_layer_types names. */
static int configure_layers(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *types = json_object_get(facts, "mlp_layer_types");
	size_t n = fact_count(facts, "num_hash_layers", 0);

	model->mlp_types_key = "mlp_layer_types";
	if (!json_is_array(types)) {
		read_dense_layers(model, facts);
		for (size_t i = 0; i < n && i < model->n_layers; i++)
			model->layers[i].routed_by_token =
				model->arch->vector[VECTOR_ROUTER_TABLE] != NULL;
		return 0;
	}
	if (json_array_size(types) < model->n_layers)
		return fact_refuse_length("mlp_layer_types", json_array_size(types),
					  model->n_layers, err);
	for (size_t i = 0; i < model->n_layers; i++)
		if (read_mlp_type(model, types, i, err))
			return -1;
	return 0;
}

int routing_configure(struct model *model, const json_t *facts, struct err *err)
{
	const struct arch *arch = model->arch;
	const char *norm = FACT_KEY(facts, "moe_renormalize", "norm_topk_prob");
	const char *scale =
		FACT_KEY(facts, "moe_routed_scaling_factor", "moe_router_scaling_factor",
			 "route_scale", "router_scaling_factor", "routed_scaling_factor");

	model->routing = arch->routing;
	model->routing.norm_top_k |= fact_flag(facts, norm);
	model->routing.scale = (float)fact_number(facts, scale, 1);
	model->routing.softcap =
		fmaxf(0, (float)fact_number(facts, "moe_router_logit_softcapping", 0));
	if (arch->experts.shared_stacks[EXPERT_ROLE_GATE_UP])
		model->routing.n_shared = fact_count(facts, "n_shared_experts", 0);
	if (model->routing.sum_eps == 0)
		model->routing.sum_eps = 1e-20f;
	model->clamped = arch->clamped;
	model->clamp = (float)fact_number(facts, "swiglu_limit", 0);
	model->clamp_alpha = (float)fact_number(facts, "swiglu_alpha", 0);
	if (read_top_k(&model->routing, facts, err) || read_scores(&model->routing, facts, err) ||
	    configure_groups(&model->routing, facts, err))
		return -1;
	return configure_layers(model, facts, err);
}
