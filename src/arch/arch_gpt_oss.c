/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

static const char default_rope[] =
	"{\"rope_type\": \"yarn\", \"factor\": 32.0, \"truncate\": false, "
	"\"original_max_position_embeddings\": 4096}";

/* GPT-OSS with weights in BF16: experts in one tensor, gate and up interleaved; each head has a
 * sink. */
const struct arch arch_gpt_oss = {
	.name = "gpt_oss",
	.architectures = { "GptOssForCausalLM" },
	.text_types = { "gpt_oss" },
	.linear = { [LINEAR_ROUTER] = "mlp.router" },
	.vector = { [VECTOR_SINKS] = "self_attn.sinks" },
	.clamped = true,
	.routing.choose_first = true,
	.positions.window_pattern = 2,
	.facts.keys = {
		{ "attention_bias", "true" },
		{ "head_dim", "64" },
		{ "num_experts_per_tok", "4" },
		{ "rms_norm_eps", "1e-05" },
		{ "rope_parameters", default_rope },
		{ "rope_theta", "150000.0" },
		{ "sliding_window", "128" },
		{ "swiglu_alpha", "1.702" },
		{ "swiglu_limit", "7.0" },
	},
	.facts.ignored = {
		{ "experts_per_token", NULL },
		{ "hidden_act", NULL },
		{ "initial_context_length", NULL },
	},
};
