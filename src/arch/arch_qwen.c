/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

static const struct fact_row delta_facts[] = {
	{ "attention_bias", "false" },
	{ "full_attention_interval", "4" },
	{ "head_dim", "256" },
	{ "linear_conv_kernel_dim", "4" },
	{ "linear_key_head_dim", "128" },
	{ "linear_num_key_heads", "16" },
	{ "linear_num_value_heads", "32" },
	{ "linear_value_head_dim", "128" },
	{ "partial_rotary_factor", "0.25" },
	{ NULL, NULL },
};

static const struct ignored_row delta_ignored[] = {
	{ "attn_output_gate", "true" },
	{ "mamba_ssm_dtype", NULL },
	{ "mtp_num_hidden_layers", NULL },
	{ "output_gate_type", "\"silu\"" },
	/* another name of silu */
	{ "output_gate_type", "\"swish\"" },
	{ "use_qk_norm", "true" },
	{ NULL, NULL },
};

/* Qwen 2 and 2.5: biases of q, k and v; a window in the upper layers, by use_sliding_window. */
const struct arch arch_qwen2 = {
	.name = "qwen2",
	.architectures = { "Qwen2ForCausalLM" },
	.text_types = { "qwen2", "qwen2_5_vl_text" },
	.holders = "audioflamingo3 fast_vlm got_ocr2 internvl llava_onevision "
		   "musicflamingo ovis2 pp_chart2table qwen2_5_vl qwen2_audio vibevoice "
		   "vibevoice_asr video_llama_3",
	.facts.keys = {
		{ "max_window_layers", "28" },
		{ "sliding_window", "4096" },
		{ "use_sliding_window", "false" },
	},
};

/* The thinker of Qwen2.5-Omni: Qwen 2.5 with another base of its angles. */
const struct arch arch_qwen2_5_omni = {
	.name = "qwen2_5_omni",
	.text_types = { "qwen2_5_omni_text" },
	.holders = "qwen2_5_omni_thinker",
	.facts.keys = {
		{ "max_window_layers", "28" },
		{ "rope_theta", "1000000.0" },
		{ "sliding_window", "32768" },
		{ "use_sliding_window", "false" },
	},
};

/* Qwen 1.5 and 2 with experts, and a shared expert whose weight has a router of its own. */
const struct arch arch_qwen2_moe = {
	.name = "qwen2_moe",
	.architectures = { "Qwen2MoeForCausalLM" },
	.linear = { SHARED_EXPERT("mlp.shared_expert") },
	.facts.keys = {
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", "4" },
	},
	/* a window is refused: transformers alternates layers below max_window_layers */
	.facts.ignored = {
		{ "max_window_layers", NULL },
		{ "qkv_bias", NULL },
		{ "sliding_window", NULL },
	},
};

/* Qwen 3: q and k are normalized head by head. */
const struct arch arch_qwen3 = {
	.name = "qwen3",
	.architectures = { "Qwen3ForCausalLM" },
	.text_types = { "qwen3" },
	.holders = "fun_asr_nano internvl_chat InternVLChatModel lighton_ocr "
		   "moss_transcribe_diarize qwen3_asr",
	.vector = { QK_NORMS },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "max_window_layers", "28" },
		{ "sliding_window", "4096" },
		{ "use_sliding_window", "false" },
	},
	.facts.ignored = { { "use_qk_norm", "true" } },
};

/* Qwen 3 with experts, in all layers or in some. */
const struct arch arch_qwen3_moe = {
	.name = "qwen3_moe",
	.architectures = { "Qwen3MoeForCausalLM" },
	.text_types = { "qwen3_moe" },
	.vector = { QK_NORMS },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "norm_topk_prob", "false" },
		{ "num_experts_per_tok", "8" },
		{ "sliding_window", "4096" },
		{ "use_sliding_window", "false" },
	},
	.facts.ignored = {
		{ "max_window_layers", NULL },
		{ "use_qk_norm", "true" },
	},
};

/* The language model of Qwen3-VL: Qwen 3 with another base of its angles. */
const struct arch arch_qwen3_vl = {
	.name = "qwen3_vl",
	.text_types = { "qwen3_vl_text" },
	.vector = { QK_NORMS },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "head_dim", "128" },
		{ "rope_theta", "500000.0" },
	},
};

/* The language model of Qwen3-VL with experts: their weights always sum to 1. */
const struct arch arch_qwen3_vl_moe = {
	.name = "qwen3_vl_moe",
	.text_types = { "qwen3_vl_moe_text" },
	.vector = { QK_NORMS },
	.routing.norm_top_k = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "num_experts_per_tok", "4" },
		{ "rope_theta", "500000.0" },
	},
	.facts.ignored = { { "norm_topk_prob", "true" } },
};

/* The thinker of Qwen3-Omni: Qwen 3 with experts, without windows. */
const struct arch arch_qwen3_omni_moe = {
	.name = "qwen3_omni_moe",
	.text_types = { "qwen3_omni_moe_text" },
	.holders = "qwen3_omni_moe_thinker",
	.vector = { QK_NORMS },
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "8" },
		{ "rope_theta", "1000000.0" },
	},
	.facts.ignored = {
		{ "max_window_layers", NULL },
		{ "sliding_window", NULL },
		{ "use_qk_norm", "true" },
	},
};

/* Qwen3-Next: gated DeltaNet in three of four layers, gated attention, experts and a shared one. */
const struct arch arch_qwen3_next = {
	.name = "qwen3_next",
	.architectures = { "Qwen3NextForCausalLM" },
	.linear = { SHARED_EXPERT("mlp.shared_expert") },
	.vector = { QK_NORMS },
	.norms = NORMS_PLUS_ONE,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.keys = {
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "10" },
	},
	.facts.shared_ignored = delta_ignored,
};

/* Qwen 3.5, dense: gated DeltaNet in three of four layers, and gated attention. */
const struct arch arch_qwen3_5 = {
	.name = "qwen3_5",
	.architectures = { "Qwen3_5ForCausalLM" },
	.text_types = { "qwen3_5_text" },
	.holders = "minicpm_ocr minicpmv4_6 minicpmv4_7",
	.vector = { QK_NORMS },
	.norms = NORMS_PLUS_ONE,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.shared_ignored = delta_ignored,
};

/* Qwen 3.5 with experts and a shared one: gated DeltaNet in three of four layers, and gated
 * attention. */
const struct arch arch_qwen3_5_moe = {
	.name = "qwen3_5_moe",
	.architectures = { "Qwen3_5MoeForCausalLM" },
	.text_types = { "qwen3_5_moe_text" },
	.linear = { SHARED_EXPERT("mlp.shared_expert") },
	.vector = { QK_NORMS },
	.routing.norm_top_k = true,
	.norms = NORMS_PLUS_ONE,
	.gated_attention = true,
	.facts.shared = delta_facts,
	.facts.keys = { { "num_experts_per_tok", "8" } },
	.facts.shared_ignored = delta_ignored,
	.facts.ignored = { { "norm_topk_prob", "true" } },
};

/* Qwen3.8-Flash-Next: gated DeltaNet and gated attention to the tokens of chosen pools, experts and
 * a shared one; hyper-connections of low rank, which are all norms that a layer has, and n-gram
 * embeddings. */
const struct arch arch_qwen4_exp = {
	.name = "qwen4_exp",
	.architectures = { "Qwen4ExpForCausalLM" },
	.text_types = { "qwen4_exp_text" },
	.linear = {
		SHARED_EXPERT("mlp.shared_expert"),
		[LINEAR_INDEX_Q] = "",
		[LINEAR_INDEX_Q_HIDDEN] = "self_attn.indexer.index_qk_proj",
		[LINEAR_INDEX_K] = "",
		[LINEAR_INDEX_WEIGHTS] = "",
		[LINEAR_NGRAM_KEY] = "ple.key_proj",
		[LINEAR_NGRAM_VALUE] = "ple.value_proj",
		[LINEAR_MIX_DOWN] = "attn_hyper_connection.input_mix_weight_down",
		[LINEAR_MIX_UP] = "attn_hyper_connection.input_mix_weight_up",
		[LINEAR_MIX_INJECT] = "attn_hyper_connection.block_inject_weight",
		[LINEAR_MLP_MIX_DOWN] = "mlp_hyper_connection.input_mix_weight_down",
		[LINEAR_MLP_MIX_UP] = "mlp_hyper_connection.input_mix_weight_up",
		[LINEAR_MLP_MIX_INJECT] = "mlp_hyper_connection.block_inject_weight",
		[LINEAR_LAST_MIX_DOWN] = "hyper_connection_mixer.input_mix_weight_down",
		[LINEAR_LAST_MIX_UP] = "hyper_connection_mixer.input_mix_weight_up",
	},
	.vector = {
		QK_NORMS,
		[VECTOR_NORM_ATTENTION] = "",
		[VECTOR_NORM_MLP] = "",
		[VECTOR_NORM_INDEX_Q] = "self_attn.indexer.q_layernorm.weight",
		[VECTOR_NORM_INDEX_K] = "self_attn.indexer.k_layernorm.weight",
		[VECTOR_NORM_INDEX_K_BIAS] = "",
		[VECTOR_NORM_MIX] = "attn_hyper_connection.hc_norm.weight",
		[VECTOR_NORM_MLP_MIX] = "mlp_hyper_connection.hc_norm.weight",
		[VECTOR_NORM_LAST_MIX] = "hyper_connection_mixer.hc_norm.weight",
		[VECTOR_NORM_NGRAM_KEY] = "ple.norm_key.weight",
		[VECTOR_NORM_NGRAM_QUERY] = "ple.norm_query.weight",
		[VECTOR_NORM_NGRAM_CONV] = "ple.norm_conv.weight",
		[VECTOR_NGRAM_CONV] = "ple.conv1d.weight",
		[VECTOR_NGRAM_HASH] = "ple.ple_embedding.layer_multipliers",
	},
	.norm = "",
	.norms = NORMS_PLUS_ONE,
	.gated_attention = true,
	.positions.mean_index = true,
	.facts.shared = delta_facts,
	.facts.keys = {
		{ "eos_token_id", NULL },
		{ "hc_count", "4" },
		{ "hc_lowrank", "320" },
		{ "heads_per_ngram", "8" },
		{ "indexer_budget", NULL },
		{ "indexer_compress_ratio", NULL },
		{ "indexer_head_dim", NULL },
		{ "indexer_kv_heads", NULL },
		{ "indexer_n_heads", NULL },
		{ "ngram_size", "3" },
		{ "norm_topk_prob", "true" },
		{ "num_experts_per_tok", "10" },
		{ "output_gate_type", NULL },
		{ "partial_rotary_factor", "1.0" },
		{ "ple_conv_kernel_size", "4" },
		{ "ple_embed_dim", NULL },
		{ "ple_layer_ids", NULL },
	},
	/* the file has what these make */
	.facts.ignored = {
		{ "attn_output_gate", "true" },
		{ "make_ngram_vocab_size_divisible_by", NULL },
		{ "mamba_ssm_dtype", NULL },
		{ "mtp_num_hidden_layers", NULL },
		{ "ngram_vocab_size_base", NULL },
		{ "number_of_conv_states", "1" },
		{ "number_of_conv_states", "3" },
		{ "seed", NULL },
		{ "split_ngram_parts", NULL },
		{ "use_qk_norm", "true" },
	},
};
