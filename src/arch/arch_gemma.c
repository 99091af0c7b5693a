/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Gemma 2: norms before and after attention and mlp, capped scores and logits, every second
 * layer with a window. */
const struct arch arch_gemma2 = {
	.name = "gemma2",
	.architectures = { "Gemma2ForCausalLM" },
	.text_types = { "gemma2" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
	},
	.norms = NORMS_PLUS_ONE,
	.scaled_embedding = true,
	.tied = true,
	.positions.window_pattern = 2,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attn_logit_softcapping", "50.0" },
		{ "final_logit_softcapping", "30.0" },
		{ "head_dim", "256" },
		{ "hidden_activation", "\"gelu_pytorch_tanh\"" },
		{ "query_pre_attn_scalar", "256" },
		{ "sliding_window", "4096" },
	},
	.facts.ignored = {
		{ "hidden_act", NULL },
		{ "sliding_window_size", NULL },
	},
};

/* Gemma 3, its language model: q and k are normalized; five of six layers have a window and their
 * own angles. */
const struct arch arch_gemma3 = {
	.name = "gemma3",
	.architectures = { "Gemma3ForCausalLM" },
	.text_types = { "gemma3_text" },
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		QK_NORMS,
	},
	.norms = NORMS_PLUS_ONE,
	.scaled_embedding = true,
	.tied = true,
	.positions.window_pattern = 6,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "256" },
		{ "hidden_activation", "\"gelu_pytorch_tanh\"" },
		{ "query_pre_attn_scalar", "256" },
		{ "rope_local_base_freq", "10000.0" },
		{ "rope_theta", "1000000.0" },
		{ "sliding_window", "4096" },
		{ "sliding_window_pattern", NULL },
	},
	.facts.ignored = {
		{ "_sliding_window_pattern", NULL },
		{ "hidden_act", NULL },
	},
};

static const char gemma4_ropes[] =
	"{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, "
	"\"full_attention\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.25, "
	"\"rope_theta\": 1000000.0}}";

/* Gemma 4, its language model: layers without a window have larger heads, whose keys may be their
 * values; values are normed; experts run beside the dense mlp, with norms of their own.  Small
 * models have embeddings for each layer, and their last layers use keys and values of others. */
const struct arch arch_gemma4 = {
	.name = "gemma4",
	.architectures = { "Gemma4ForCausalLM" },
	.text_types = { "gemma4_text" },
	.linear = {
		[LINEAR_ROUTER] = "router.proj",
		[LINEAR_LAYER_INPUTS] = "per_layer_model_projection",
		[LINEAR_LAYER_GATE] = "per_layer_input_gate",
		[LINEAR_LAYER_OUT] = "per_layer_projection",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight",
		[VECTOR_NORM_MLP] = "pre_feedforward_layernorm.weight",
		[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight",
		[VECTOR_NORM_ROUTER] = "router.scale",
		[VECTOR_NORM_EXPERTS] = "pre_feedforward_layernorm_2.weight",
		[VECTOR_NORM_EXPERTS_OUT] = "post_feedforward_layernorm_2.weight",
		[VECTOR_NORM_DENSE_OUT] = "post_feedforward_layernorm_1.weight",
		[VECTOR_EXPERT_SCALES] = "router.per_expert_scale",
		[VECTOR_LAYER_SCALE] = "layer_scalar",
		[VECTOR_NORM_LAYER_INPUTS] = "per_layer_projection_norm.weight",
		[VECTOR_NORM_LAYER_OUT] = "post_per_layer_input_norm.weight",
		QK_NORMS,
	},
	.expert = { EXPERTS("experts") },
	.stacks[EXPERT_ROLE_GATE_UP] = "experts.gate_up_proj",
	.stacks[EXPERT_ROLE_DOWN] = "experts.down_proj",
	.layer_embedding = "embed_tokens_per_layer",
	.scaled_embedding = true,
	.tied = true,
	.scores = SCORES_PLAIN,
	.normed_values = true,
	.scaled_router = true,
	.routing.norm_top_k = true,
	.positions.last_is_full = true,
	.positions.layer_ropes = true,
	.positions.whole_rope = true,
	.positions.window_pattern = 6,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_k_eq_v", "false" },
		{ "enable_moe_block", "false" },
		{ "final_logit_softcapping", NULL },
		{ "global_head_dim", "512" },
		{ "head_dim", "256" },
		{ "hidden_activation", "\"gelu_pytorch_tanh\"" },
		{ "hidden_size_per_layer_input", "256" },
		{ "num_global_key_value_heads", NULL },
		{ "num_kv_shared_layers", "0" },
		{ "per_layer_config", NULL },
		{ "rope_parameters", gemma4_ropes },
		{ "sliding_window", "512" },
		{ "top_k_experts", "null" },
		{ "use_double_wide_mlp", "false" },
		{ "vocab_size_per_layer_input", "262144" },
	},
	.facts.ignored = {
		{ "hidden_act", NULL },
		{ "use_bidirectional_attention", "\"vision\"" },
	},
};
