/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mamba.h"

static const struct mamba_keys keys = {
	.n_heads = "mamba_num_heads",
	.head_dim = "mamba_head_dim",
	.n_groups = "n_groups",
	.state_size = "ssm_state_size",
	.conv_width = "conv_kernel",
	.step_min = "time_step_min",
	.default_min = 0.001,
	.activation = "mamba_hidden_act",
};

/* Nemotron-H and Nemotron 3: a layer is Mamba-2, attention, an mlp or experts; experts may work on
 * fewer values than the layers have. */
const struct arch arch_nemotron_h = {
	.name = "nemotron_h",
	.architectures = { "NemotronHForCausalLM" },
	.linear = {
		[LINEAR_Q] = "mixer.q_proj",
		[LINEAR_K] = "mixer.k_proj",
		[LINEAR_V] = "mixer.v_proj",
		[LINEAR_O] = "mixer.o_proj",
		[LINEAR_MAMBA_IN] = "mixer.in_proj",
		[LINEAR_MAMBA_OUT] = "mixer.out_proj",
		[LINEAR_UP] = "mixer.up_proj",
		[LINEAR_DOWN] = "mixer.down_proj",
		[LINEAR_ROUTER] = "mixer.gate",
		[LINEAR_SHARED_UP] = "mixer.shared_experts.up_proj",
		[LINEAR_SHARED_DOWN] = "mixer.shared_experts.down_proj",
		[LINEAR_LATENT_IN] = "mixer.fc1_latent_proj",
		[LINEAR_LATENT_OUT] = "mixer.fc2_latent_proj",
	},
	.vector = {
		[VECTOR_NORM_ATTENTION] = "norm.weight",
		[VECTOR_NORM_MLP] = "norm.weight",
		[VECTOR_ROUTER_BIAS] = "mixer.gate.e_score_correction_bias",
		MAMBA_VECTORS("mixer"),
	},
	.expert = {
		[EXPERT_ROLE_UP] = "mixer.experts.%zu.up_proj",
		[EXPERT_ROLE_DOWN] = "mixer.experts.%zu.down_proj",
	},
	.root = "backbone.",
	.embedding = "embeddings",
	.norm = "norm_f",
	.one_step = true,
	.no_rope = true,
	.mamba = &keys,
	.sigmoid = true,
};
