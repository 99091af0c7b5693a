/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* Llama 1 to 3, and models of the same structure (SmolLM2, TinyLlama, Yi). */
const struct arch arch_llama = {
	.name = "llama",
	.architectures = { "LlamaForCausalLM" },
	.text_types = { "llama" },
	.holders = "deepseek_vl deepseek_vl_hybrid glmasr internlm3 iquestcoder janus "
		   "llava llava_next llava_next_video omniasr perception_lm video_llava vipllava "
		   "voxtral",
	.facts.keys = { { "attention_bias", "false" }, { "mlp_bias", "false" } },
};

/* Llama 4: layers with positions attend within chunks, and norm the heads of q and k after their
 * rotation; others scale queries by position.  Experts take their input times its score. */
const struct arch arch_llama4 = {
	.name = "llama4",
	.architectures = { "Llama4ForCausalLM", "Llama4ForConditionalGeneration" },
	.text_types = { "llama4_text" },
	.linear = {
		MLP("feed_forward"),
		[LINEAR_ROUTER] = "feed_forward.router",
		SHARED_EXPERT("feed_forward.shared_expert"),
	},
	.vector = { [VECTOR_NORM_Q] = "", [VECTOR_NORM_K] = "" },
	.expert = { EXPERTS("feed_forward.experts") },
	.stacks[EXPERT_ROLE_GATE_UP] = "feed_forward.experts.gate_up_proj",
	.stacks[EXPERT_ROLE_DOWN] = "feed_forward.experts.down_proj",
	.routing.sigmoid = true,
	.routing.choose_first = true,
	.scaled_inputs = true,
	.positions.adjacent_pairs = true,
	.head_norms = HEADS_PLAIN,
	.positions.chunked = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_chunk_size", "8192" },
		{ "attn_scale", "0.1" },
		{ "attn_temperature_tuning", "true" },
		{ "floor_scale", "8192" },
		{ "head_dim", "128" },
		{ "no_rope_layer_interval", "4" },
		{ "no_rope_layers", NULL },
		{ "num_experts_per_tok", "1" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "500000.0" },
		{ "use_qk_norm", "true" },
	},
	.facts.ignored = {
		{ "for_llm_compressor", NULL },
		{ "interleave_moe_layer_step", NULL },
		{ "intermediate_size_mlp", NULL },
		{ "moe_layers", NULL },
	},
};

/* Seed-OSS: Llama with biases of q, k and v. */
const struct arch arch_seed_oss = {
	.name = "seed_oss",
	.architectures = { "SeedOssForCausalLM" },
	.facts.keys = {
		{ "attention_bias", "true" },
		{ "attention_out_bias", "false" },
		{ "head_dim", "128" },
		{ "mlp_bias", "false" },
	},
	.facts.ignored = { { "residual_dropout", NULL } },
};

/* SmolLM3: Llama whose attention does not know positions in every fourth layer. */
const struct arch arch_smollm3 = {
	.name = "smollm3",
	.architectures = { "SmolLM3ForCausalLM" },
	.tied = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "mlp_bias", "false" },
		{ "no_rope_layer_interval", "4" },
		{ "no_rope_layers", NULL },
		{ "rope_theta", "2000000.0" },
	},
	.facts.ignored = {
		{ "max_window_layers", NULL },
		{ "sliding_window", NULL },
	},
};
