/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

static const struct fact_row granite_facts[] = {
	{ "attention_bias", "false" },	   { "attention_multiplier", "1.0" },
	{ "embedding_multiplier", "1.0" }, { "logits_scaling", "1.0" },
	{ "residual_multiplier", "1.0" },  { NULL, NULL },
};

/* Granite 3: Llama with factors of embeddings, scores, steps and logits. */
const struct arch arch_granite = {
	.name = "granite",
	.architectures = { "GraniteForCausalLM" },
	.text_types = { "granite" },
	.holders = "granite_speech granite_speech_plus",
	.facts.shared = granite_facts,
	.facts.keys = { { "mlp_bias", "false" } },
};

/* Granite 3 with experts. */
const struct arch arch_granitemoe = {
	.name = "granitemoe",
	.architectures = { "GraniteMoeForCausalLM" },
	.linear = { [LINEAR_ROUTER] = "block_sparse_moe.router.layer" },
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.stacks[EXPERT_ROLE_GATE_UP] = "block_sparse_moe.input_linear.weight",
	.stacks[EXPERT_ROLE_DOWN] = "block_sparse_moe.output_linear.weight",
	.routing.choose_first = true,
	.facts.shared = granite_facts,
	.facts.keys = { { "num_experts_per_tok", "2" } },
};

/* The same with a shared expert: an mlp for every token. */
const struct arch arch_granitemoeshared = {
	.name = "granitemoeshared",
	.architectures = { "GraniteMoeSharedForCausalLM" },
	.linear = {
		[LINEAR_GATE_UP] = "shared_mlp.input_linear",
		[LINEAR_DOWN] = "shared_mlp.output_linear",
		[LINEAR_ROUTER] = "block_sparse_moe.router.layer",
	},
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.stacks[EXPERT_ROLE_GATE_UP] = "block_sparse_moe.input_linear.weight",
	.stacks[EXPERT_ROLE_DOWN] = "block_sparse_moe.output_linear.weight",
	.routing.choose_first = true,
	.facts.shared = granite_facts,
	.facts.keys = { { "num_experts_per_tok", "2" } },
	.facts.ignored = { { "shared_intermediate_size", NULL } },
};

/* Granite with a window in three of four layers, sinks, and a base of angles for each layer. */
const struct arch arch_granite_swa = {
	.name = "granite_swa",
	.architectures = { "GraniteSWAForCausalLM" },
	.text_types = { "granite_swa" },
	.vector = { [VECTOR_SINKS] = "self_attn.sinks" },
	.tied = true,
	.positions.layer_pattern = "|FSSS",
	.facts.shared = granite_facts,
	.facts.keys = {
		{ "layer_rope_theta", NULL },
		{ "mlp_bias", "false" },
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", "128" },
	},
};

/* The same with experts, and a shared one or none. */
const struct arch arch_granitemoe_swa = {
	.name = "granitemoe_swa",
	.architectures = { "GraniteMoeSWAForCausalLM" },
	.text_types = { "granitemoe_swa" },
	.linear = {
		[LINEAR_GATE_UP] = "shared_mlp.input_linear",
		[LINEAR_DOWN] = "shared_mlp.output_linear",
		[LINEAR_ROUTER] = "block_sparse_moe.router",
	},
	.vector = { [VECTOR_SINKS] = "self_attn.sinks" },
	.expert = { EXPERTS("block_sparse_moe.experts") },
	.stacks = {
		[EXPERT_ROLE_GATE_UP] = "block_sparse_moe.experts.gate_up_proj",
		[EXPERT_ROLE_DOWN] = "block_sparse_moe.experts.down_proj",
	},
	.positions.layer_pattern = "|FSSS",
	.routing.choose_first = true,
	.facts.shared = granite_facts,
	.facts.keys = {
		{ "layer_rope_theta", NULL },
		{ "num_experts_per_tok", "8" },
		{ "sliding_window", "128" },
	},
	.facts.ignored = { { "shared_intermediate_size", NULL } },
};

static const struct mamba_keys granitemoehybrid_keys = { MAMBA_KEYS };

/* Granite 4: Mamba-2 in most layers, attention that need not know positions, and an mlp for every
 * token, with experts or alone. */
const struct arch arch_granitemoehybrid = {
	.name = "granitemoehybrid",
	.architectures = { "GraniteMoeHybridForCausalLM" },
	.linear = {
		[LINEAR_GATE_UP] = "shared_mlp.input_linear",
		[LINEAR_DOWN] = "shared_mlp.output_linear",
		[LINEAR_ROUTER] = "block_sparse_moe.router.layer",
	},
	.vector = { MAMBA_VECTORS("mamba") },
	.expert = { EXPERTS_W("block_sparse_moe.experts") },
	.stacks[EXPERT_ROLE_GATE_UP] = "block_sparse_moe.input_linear.weight",
	.stacks[EXPERT_ROLE_DOWN] = "block_sparse_moe.output_linear.weight",
	.mamba = &granitemoehybrid_keys,
	.routing.choose_first = true,
	.facts.shared = mamba_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_multiplier", "1.0" },
		{ "embedding_multiplier", "1.0" },
		{ "logits_scaling", "1.0" },
		{ "num_experts_per_tok", "2" },
		{ "position_embedding_type", "\"nope\"" },
		{ "residual_multiplier", "1.0" },
	},
	.facts.ignored = {
		{ "init_method", NULL },
		{ "mamba_chunk_size", NULL },
		{ "normalization_function", "\"rmsnorm\"" },
		{ "shared_intermediate_size", NULL },
	},
};

static const struct mamba_keys bamba_keys = {
	MAMBA_KEYS,
	.layers = "attn_layer_indices",
};

/* Bamba: Mamba-2 in most layers; attention rotates half of a head. */
const struct arch arch_bamba = {
	.name = "bamba",
	.architectures = { "BambaForCausalLM" },
	.linear = { MLP("feed_forward") },
	.vector = {
		[VECTOR_NORM_MLP] = "pre_ff_layernorm.weight",
		MAMBA_VECTORS("mamba"),
	},
	.norm = "final_layernorm",
	.mamba = &bamba_keys,
	.facts.shared = mamba_facts,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attn_layer_indices", NULL },
		{ "mlp_bias", "false" },
		{ "partial_rotary_factor", "0.5" },
		{ "rms_norm_eps", "1e-05" },
	},
	.facts.ignored = {
		{ "attn_rotary_emb", NULL }, /* half of head_dim in the releases */
		{ "mamba_chunk_size", NULL },
		{ "num_logits_to_keep", NULL },
		{ "z_loss_coefficient", NULL },
	},
};
