/* SPDX-License-Identifier: Apache-2.0
 *
 * What several rows share: names below a layer, and keys of config.json.  A macro is a part of the
 * list of a row's `linear`, `vector` or `expert`.
 */
#ifndef FP8CONV_ARCH_SHARED_H
#define FP8CONV_ARCH_SHARED_H

#include "model/mamba.h"
#include "model/model.h"

/* --- linear --- */

#define MLP(module)                                                           \
	[LINEAR_GATE] = module ".gate_proj", [LINEAR_UP] = module ".up_proj", \
	[LINEAR_DOWN] = module ".down_proj"

#define SHARED_EXPERT(module)                                                               \
	[LINEAR_SHARED_GATE] = module ".gate_proj", [LINEAR_SHARED_UP] = module ".up_proj", \
	[LINEAR_SHARED_DOWN] = module ".down_proj"

/* Kimi Delta Attention: what takes the input of the layer, but for decays and gates. */
#define KDA_MATRICES(module)                                                      \
	[LINEAR_DELTA_Q] = module ".q_proj", [LINEAR_DELTA_K] = module ".k_proj", \
	[LINEAR_DELTA_V] = module ".v_proj", [LINEAR_DELTA_B] = module ".b_proj"

/* --- expert --- */

#define EXPERTS(module)                                                                         \
	[EXPERT_ROLE_GATE] = module ".%zu.gate_proj", [EXPERT_ROLE_UP] = module ".%zu.up_proj", \
	[EXPERT_ROLE_DOWN] = module ".%zu.down_proj"

#define EXPERTS_W(module)                                                           \
	[EXPERT_ROLE_GATE] = module ".%zu.w1", [EXPERT_ROLE_UP] = module ".%zu.w3", \
	[EXPERT_ROLE_DOWN] = module ".%zu.w2"

/* --- vector --- */

#define QK_NORMS \
	[VECTOR_NORM_Q] = "self_attn.q_norm.weight", [VECTOR_NORM_K] = "self_attn.k_norm.weight"

/* Norms of what attention and the mlp return, and none of what they take. */
#define NORMS_AFTER                                                      \
	[VECTOR_NORM_ATTENTION] = "", [VECTOR_NORM_MLP] = "",            \
	[VECTOR_NORM_ATTENTION_OUT] = "post_attention_layernorm.weight", \
	[VECTOR_NORM_MLP_OUT] = "post_feedforward_layernorm.weight"

/* The tensors below the module of Mamba-2. */
#define MAMBA_VECTORS(module)                                                                \
	[VECTOR_CONV] = module ".conv1d.weight", [VECTOR_CONV_BIAS] = module ".conv1d.bias", \
	[VECTOR_A_LOG] = module ".A_log", [VECTOR_DT_BIAS] = module ".dt_bias",              \
	[VECTOR_SKIP] = module ".D", [VECTOR_NORM_GATED] = module ".norm.weight"

#define KDA_VECTORS(module)                                                                       \
	[VECTOR_CONV] = "", [VECTOR_CONV_Q] = module ".q_conv1d.weight",                          \
	[VECTOR_CONV_K] = module ".k_conv1d.weight", [VECTOR_CONV_V] = module ".v_conv1d.weight", \
	[VECTOR_A_LOG] = module ".A_log", [VECTOR_DT_BIAS] = module ".dt_bias",                   \
	[VECTOR_NORM_GATED] = module ".o_norm.weight"

/* --- keys of config.json --- */

/* Of Mamba-2 in most models that have it, for struct mamba_keys. */
#define MAMBA_KEYS                                                                             \
	.n_heads = "mamba_n_heads", .head_dim = "mamba_d_head", .n_groups = "mamba_n_groups",  \
	.state_size = "mamba_d_state", .conv_width = "mamba_d_conv", .expand = "mamba_expand", \
	.limits = "time_step_limit"

/* Read, with the defaults, where the keys of a row come first: of Mamba-2; of latent attention and
 * experts as in DeepSeek-V3; of such experts alone, which sigmoid scores and a bias choose. */
extern const struct fact_row mamba_facts[], latent_facts[], bias_facts[];

/* Ignored, of the latter two. */
extern const struct ignored_row latent_ignored[], bias_ignored[];

#endif
