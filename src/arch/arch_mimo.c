/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* MiMo-V2-Flash: heads of values are smaller than of keys, and multiplied by a factor; layers with
 * a window have sinks and twice the heads of keys; the experts of DeepSeek-V3 without a shared one.
 * Keys are as transformers writes them, or the release's. */
const struct arch arch_mimo_v2_flash = {
	.name = "mimo_v2_flash",
	.architectures = { "MiMoV2FlashForCausalLM" },
	.text_types = { "mimo_v2_flash" },
	.vector = {
		[VECTOR_SINKS] = "self_attn.attention_sink_bias",
		[VECTOR_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias",
	},
	.positions.layer_pattern = "F|SSSSF",
	.positions.layer_ropes = true,
	.positions.window_sinks = true,
	.positions.window_key_heads = 2,
	.positions.excess_window = true,
	.routing.sigmoid = true,
	.facts.shared = bias_facts,
	.facts.shared_ignored = bias_ignored,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "attention_value_scale", "0.707" },
		{ "head_dim", "192" },
		{ "hybrid_layer_pattern", NULL },
		{ "layernorm_epsilon", NULL },
		{ "partial_rotary_factor", "0.334" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_theta", "5000000.0" },
		{ "sliding_window", "129" },
		{ "sliding_window_size", NULL },
		{ "swa_head_dim", NULL },
		{ "swa_num_attention_heads", NULL },
		{ "swa_num_key_value_heads", NULL },
		{ "swa_rope_theta", "10000.0" },
		{ "swa_v_head_dim", NULL },
		{ "v_head_dim", "128" },
	},
	.facts.ignored = {
		{ "add_full_attention_sink_bias", "false" },
		{ "add_swa_attention_sink_bias", "true" },
		{ "attention_chunk_size", NULL },
	},
};
