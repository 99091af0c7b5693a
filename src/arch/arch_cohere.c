/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* Command R7B and A: attention and mlp have the same input, of one LayerNorm; only layers with a
 * window know positions. */
const struct arch arch_cohere2 = {
	.name = "cohere2",
	.architectures = { "Cohere2ForCausalLM" },
	.text_types = { "cohere2" },
	.holders = "aya_vision cohere2_vision",
	.vector = { [VECTOR_NORM_MLP] = "" },
	.norms = NORMS_CENTERED,
	.parallel = true,
	.positions.adjacent_pairs = true,
	.positions.rotating = ROTATING_WINDOWS,
	.positions.window_pattern = 4,
	.tied = true,
	.facts.keys = {
		{ "attention_bias", "false" },
		{ "layer_norm_eps", "1e-05" },
		{ "logit_scale", "0.0625" },
		{ "sliding_window", "4096" },
		{ "sliding_window_pattern", NULL },
	},
	.facts.ignored = {
		{ "_sliding_window_pattern", NULL },
		{ "layer_switch", NULL },
		{ "order_of_interleaved_layers", "\"local_attn_first\"" },
		{ "position_embedding_type", "\"rope_gptj\"" },
		{ "rms_norm_eps", NULL },
		{ "rotary_pct", "1.0" },
		{ "use_embedding_sharing", NULL },
		{ "use_gated_activation", "true" },
		{ "use_parallel_block", "true" },
		{ "use_parallel_embedding", NULL },
	},
};
