/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer of a language model: the tensors of the checkpoint by role, and what its steps are.
 */
#ifndef FP8CONV_MODEL_LAYER_H
#define FP8CONV_MODEL_LAYER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/words.h"
#include "ckpt/checkpoint.h"
#include "names/experts.h"
#include "model/rope.h"

/* clang-format off */
/* The matrices of a layer: which values they multiply (model/input_groups.h), and the name in most
 * architectures, which a row of an architecture overrides. */
#define LINEARS(X) \
	X(LINEAR_Q, INPUT_MIXER, "self_attn.q_proj") \
	X(LINEAR_K, INPUT_MIXER, "self_attn.k_proj") \
	X(LINEAR_V, INPUT_MIXER, "self_attn.v_proj") \
	/* q, k and v in one matrix, in this order */ \
	X(LINEAR_QKV, INPUT_MIXER, "self_attn.qkv_proj") \
	/* latent attention: hidden to q_lora_rank */ \
	X(LINEAR_Q_A, INPUT_MIXER, "self_attn.q_a_proj") \
	X(LINEAR_Q_B, INPUT_Q_B, "self_attn.q_b_proj") /* q_lora_rank to the heads */ \
	/* hidden to kv_lora_rank, and to the rope_dim values of keys */ \
	X(LINEAR_KV_A, INPUT_MIXER, "self_attn.kv_a_proj_with_mqa") \
	/* kv_lora_rank to the keys and values of the heads */ \
	X(LINEAR_KV_B, INPUT_KV_B, "self_attn.kv_b_proj") \
	/* the indexer of sparse attention: q_lora_rank to its queries, */ \
	X(LINEAR_INDEX_Q, INPUT_Q_B, "self_attn.indexer.wq_b") \
	/* or hidden to its queries, and to its keys behind them where LINEAR_INDEX_K has no \
	 * name, */ \
	X(LINEAR_INDEX_Q_HIDDEN, INPUT_MIXER, "") \
	/* hidden to its keys, which all of its heads share, */ \
	X(LINEAR_INDEX_K, INPUT_MIXER, "self_attn.indexer.wk") \
	/* and hidden to the weights of tokens in keys of pools, which without it are means; */ \
	X(LINEAR_INDEX_GATE, INPUT_MIXER, "") \
	/* and hidden to the weights of its heads */ \
	X(LINEAR_INDEX_WEIGHTS, INPUT_MIXER, "self_attn.indexer.weights_proj") \
	/* (heads, hidden): its sigmoid, or softplus, multiplies the output of a head */ \
	X(LINEAR_HEAD_GATE, INPUT_MIXER, "") \
	/* (heads * value_dim, hidden): the same of each value of the output */ \
	X(LINEAR_VALUE_GATE, INPUT_MIXER, "") \
	/* (heads * n_profiles, hidden): how much of each profile of biases by distance a query of \
	 * a head gets */ \
	X(LINEAR_DISTANCES, INPUT_MIXER, "") \
	/* compressed keys: hidden to what pools of tokens are made of, and to its weights */ \
	X(LINEAR_POOL, INPUT_MIXER, "") \
	X(LINEAR_POOL_GATE, INPUT_MIXER, "") \
	/* with o_groups, each group of heads has rows of its own, and */ \
	X(LINEAR_O, INPUT_O, "self_attn.o_proj") \
	/* this joins the outputs of all groups */ \
	X(LINEAR_O_JOIN, INPUT_O_JOIN, "") \
	X(LINEAR_GATE, INPUT_MLP, "mlp.gate_proj") \
	X(LINEAR_UP, INPUT_MLP, "mlp.up_proj") \
	/* gate and up in one matrix, in this order */ \
	X(LINEAR_GATE_UP, INPUT_MLP, "mlp.gate_up_proj") \
	X(LINEAR_DOWN, INPUT_DOWN, "mlp.down_proj") \
	X(LINEAR_ROUTER, INPUT_ROUTER, "mlp.gate") \
	/* of the shared expert, which every token passes */ \
	X(LINEAR_SHARED_GATE, INPUT_MLP, "mlp.shared_experts.gate_proj") \
	X(LINEAR_SHARED_UP, INPUT_MLP, "mlp.shared_experts.up_proj") \
	X(LINEAR_SHARED_DOWN, INPUT_SHARED_DOWN, "mlp.shared_experts.down_proj") \
	/* (1, hidden): the shared expert's weight is its sigmoid */ \
	X(LINEAR_SHARED_ROUTER, INPUT_MLP, "mlp.shared_expert_gate") \
	/* gated DeltaNet: for each key head its q and k, and the v and z of its value \
	 * heads, */ \
	X(LINEAR_DELTA_QKVZ, INPUT_MIXER, "linear_attn.in_proj_qkvz") \
	/* and the rates b and decays a of its value heads; */ \
	X(LINEAR_DELTA_BA, INPUT_MIXER, "linear_attn.in_proj_ba") \
	/* or q of all heads, k, and v, */ \
	X(LINEAR_DELTA_QKV, INPUT_MIXER, "linear_attn.in_proj_qkv") \
	X(LINEAR_DELTA_Z, INPUT_MIXER, "linear_attn.in_proj_z") /* and the others apart */ \
	X(LINEAR_DELTA_B, INPUT_MIXER, "linear_attn.in_proj_b") \
	X(LINEAR_DELTA_A, INPUT_MIXER, "linear_attn.in_proj_a") \
	X(LINEAR_DELTA_Q, INPUT_MIXER, "") /* Kimi Delta Attention: all apart, */ \
	X(LINEAR_DELTA_K, INPUT_MIXER, "") \
	X(LINEAR_DELTA_V, INPUT_MIXER, "") \
	X(LINEAR_DELTA_F_A, INPUT_MIXER, "") /* hidden to fewer values, */ \
	X(LINEAR_DELTA_F_B, INPUT_DECAYS, "") /* and these to the decays a of all features; */ \
	/* the same to the gates z; or A and Z, without fewer values */ \
	X(LINEAR_DELTA_G_A, INPUT_MIXER, "") \
	X(LINEAR_DELTA_G_B, INPUT_GATES, "") \
	X(LINEAR_DELTA_OUT, INPUT_O, "linear_attn.out_proj") \
	/* Mamba-2: hidden to z, x, b, c and the steps */ \
	X(LINEAR_MAMBA_IN, INPUT_MAMBA, "mamba.in_proj") \
	X(LINEAR_MAMBA_OUT, INPUT_MAMBA_OUT, "mamba.out_proj") \
	/* Mamba-1: the values to what gives steps, to b and c; */ \
	X(LINEAR_MAMBA_X, INPUT_MAMBA_X, "mamba.x_proj") \
	/* what gives steps to a step of each value */ \
	X(LINEAR_MAMBA_STEP, INPUT_MAMBA_STEP, "mamba.dt_proj") \
	/* gated convolution: hidden to the gates b and c, and x */ \
	X(LINEAR_CONV_IN, INPUT_MIXER, "conv.in_proj") \
	X(LINEAR_CONV_OUT, INPUT_O, "conv.out_proj") \
	/* (latent, hidden): its output is the input of all experts */ \
	X(LINEAR_LATENT_IN, INPUT_MLP, "") \
	/* (hidden, latent): its input is the sum of their outputs */ \
	X(LINEAR_LATENT_OUT, INPUT_LATENT, "") \
	/* (layers * layer_input_dim, hidden), of the first layer alone: what embeddings add \
	 * to the inputs of all layers; */ \
	X(LINEAR_LAYER_INPUTS, INPUT_LAYER_INPUTS, "") \
	/* (layer_input_dim, hidden): the gate of a layer's own input; */ \
	X(LINEAR_LAYER_GATE, INPUT_LAYER_GATE, "") \
	/* (hidden, layer_input_dim): of the gated input */ \
	X(LINEAR_LAYER_OUT, INPUT_LAYER_OUT, "") \
	/* (n * hidden, ngram_dim): keys of an n-gram embedding, by which the vectors of the \
	 * residual stream weigh it; (hidden, ngram_dim): its values */ \
	X(LINEAR_NGRAM_KEY, INPUT_NGRAM, "") \
	X(LINEAR_NGRAM_VALUE, INPUT_NGRAM, "") \
	/* hyper-connections of low rank, of both blocks: the normed vectors of the stream to \
	 * mix_rank values, */ \
	X(LINEAR_MIX_DOWN, INPUT_MIX, "") \
	X(LINEAR_MIX_UP, INPUT_MIX_UP, "") /* these to the gates of all vectors' values, */ \
	/* and the vectors to the factors by which they take the output of the block */ \
	X(LINEAR_MIX_INJECT, INPUT_MIX, "") \
	X(LINEAR_MLP_MIX_DOWN, INPUT_MLP_MIX, "") \
	X(LINEAR_MLP_MIX_UP, INPUT_MLP_MIX_UP, "") \
	X(LINEAR_MLP_MIX_INJECT, INPUT_MLP_MIX, "") \
	/* of the last layer alone: the same for what the head takes */ \
	X(LINEAR_LAST_MIX_DOWN, INPUT_LAST_MIX, "") \
	X(LINEAR_LAST_MIX_UP, INPUT_LAST_MIX_UP, "")

enum linear_role { LINEARS(WORDS_ID) N_LINEARS };

/* The vectors of a layer, likewise. */
#define VECTORS(X) \
	/* of the input of attention; this and the next 3: (hidden) */ \
	X(VECTOR_NORM_ATTENTION, "input_layernorm.weight") \
	X(VECTOR_NORM_ATTENTION_OUT, "") /* of its output, before it is added */ \
	X(VECTOR_NORM_MLP, "post_attention_layernorm.weight") \
	X(VECTOR_NORM_MLP_OUT, "") \
	/* Gemma 4, in layers with experts beside a dense mlp, (hidden): of the inputs of \
	 * the router and of the experts, and of the outputs of the experts and of the dense \
	 * mlp */ \
	X(VECTOR_NORM_ROUTER, "") \
	X(VECTOR_NORM_EXPERTS, "") \
	X(VECTOR_NORM_EXPERTS_OUT, "") \
	X(VECTOR_NORM_DENSE_OUT, "") \
	/* (layer_input_dim): of LINEAR_LAYER_INPUTS, for each layer */ \
	X(VECTOR_NORM_LAYER_INPUTS, "") \
	X(VECTOR_NORM_LAYER_OUT, "") /* (hidden): of LINEAR_LAYER_OUT */ \
	X(VECTOR_NORM_Q, "self_attn.q_norm.weight") /* (head_dim), the same for each head */ \
	X(VECTOR_NORM_K, "self_attn.k_norm.weight") \
	X(VECTOR_NORM_Q_A, "self_attn.q_a_layernorm.weight") /* (q_lora_rank) */ \
	X(VECTOR_NORM_KV_A, "self_attn.kv_a_layernorm.weight") /* (kv_lora_rank) */ \
	X(VECTOR_NORM_K_ROPE, "") /* (rope_dim): of the values of keys that all heads share */ \
	/* (index_head_dim): of the indexer's queries and keys; with a bias it is LayerNorm */ \
	X(VECTOR_NORM_INDEX_Q, "") \
	X(VECTOR_NORM_INDEX_K, "self_attn.indexer.k_norm.weight") \
	X(VECTOR_NORM_INDEX_K_BIAS, "self_attn.indexer.k_norm.bias") \
	/* compressed keys: (pool_size, rows of the matrix), added to what weighs tokens; and the \
	 * norm of pools, (head_dim) */ \
	X(VECTOR_POOL_PLACES, "") \
	X(VECTOR_NORM_POOL, "") \
	X(VECTOR_INDEX_PLACES, "") /* the same of an indexer's keys */ \
	/* hyper-connections, of both blocks: (MIX_PRODUCTS(n), n * hidden), (MIX_PRODUCTS(n)), \
	 * (3) */ \
	X(VECTOR_MIX_ATTENTION, "") \
	X(VECTOR_MIX_ATTENTION_BASE, "") \
	X(VECTOR_MIX_ATTENTION_SCALE, "") \
	X(VECTOR_MIX_MLP, "") \
	X(VECTOR_MIX_MLP_BASE, "") \
	X(VECTOR_MIX_MLP_SCALE, "") \
	/* (n * hidden): norms of each vector of the stream, of low-rank hyper-connections; the \
	 * last one is of the last layer alone */ \
	X(VECTOR_NORM_MIX, "") \
	X(VECTOR_NORM_MLP_MIX, "") \
	X(VECTOR_NORM_LAST_MIX, "") \
	/* of n-gram embeddings, likewise: of keys, of the stream, and of what is convolved; and \
	 * (n * hidden, 1, width): that convolution */ \
	X(VECTOR_NORM_NGRAM_KEY, "") \
	X(VECTOR_NORM_NGRAM_QUERY, "") \
	X(VECTOR_NORM_NGRAM_CONV, "") \
	X(VECTOR_NGRAM_CONV, "") \
	/* (tokens of an n-gram) I64, the host's: multipliers of their ids; what else the table of \
	 * the embedding has lies beside them */ \
	X(VECTOR_NGRAM_HASH, "") \
	/* (vocab_size, top_k) I64, the host's: the experts of each token of the vocabulary */ \
	X(VECTOR_ROUTER_TABLE, "") \
	/* (n_experts): added to scores for the choice of experts only */ \
	X(VECTOR_ROUTER_BIAS, "mlp.gate.e_score_correction_bias") \
	X(VECTOR_EXPERT_SCALES, "") /* (n_experts): factors of the weights of chosen experts */ \
	X(VECTOR_ROUTER_SCALE, "") /* (1): a factor of the weights of all experts */ \
	X(VECTOR_MLP_SCALE, "") /* (1): a factor of the output of the dense mlp */ \
	X(VECTOR_LAYER_SCALE, "") /* (1): a factor of the residual stream after the layer */ \
	/* (n_heads): one more score of the softmax, without a value */ \
	X(VECTOR_SINKS, "self_attn.sinks") \
	/* (channels, 1, width): a causal convolution of each channel */ \
	X(VECTOR_CONV, "linear_attn.conv1d.weight") \
	X(VECTOR_CONV_Q, "") /* Kimi Delta Attention: of q, k and v apart */ \
	X(VECTOR_CONV_K, "") \
	X(VECTOR_CONV_V, "") \
	/* short convolutions: of keys and of values, and of what attention and the mlp return */ \
	X(VECTOR_SHORT_CONV_K, "") \
	X(VECTOR_SHORT_CONV_V, "") \
	X(VECTOR_SHORT_CONV_ATTENTION, "") \
	X(VECTOR_SHORT_CONV_MLP, "") \
	X(VECTOR_DISTANCES, "") /* (n_profiles, extent): biases of scores by distance */ \
	/* (heads): how fast a state decays; of Mamba-1: (channels, state) */ \
	X(VECTOR_A_LOG, "linear_attn.A_log") \
	/* (heads), or (heads * key_dim) where decays are of features */ \
	X(VECTOR_DT_BIAS, "linear_attn.dt_bias") \
	/* (value_dim): of the output of a head, before its gate; of Mamba-2: (heads * \
	 * head_dim) */ \
	X(VECTOR_NORM_GATED, "linear_attn.norm.weight") \
	X(VECTOR_CONV_BIAS, "") /* (channels) */ \
	X(VECTOR_SKIP, "") /* (heads): how much of x Mamba-2 adds to the output of its scan */ \
	X(VECTOR_NORM_STEP, "") /* (step_rank): Mamba-1, of the input of the matrix of steps */ \
	X(VECTOR_NORM_B, "") /* (state_size) */ \
	X(VECTOR_NORM_C, "")

enum vector_role { VECTORS(WORDS_ID) N_VECTORS };
/* clang-format on */

enum expert_role {
	EXPERT_ROLE_GATE,
	EXPERT_ROLE_UP,
	EXPERT_ROLE_DOWN,
	EXPERT_ROLE_GATE_UP, /* gate and up interleaved, row by row */
	N_EXPERT_ROLES
};

/* What mixes the tokens of a sequence: the first step of a layer. */
enum mixer {
	MIXER_ATTENTION,
	MIXER_DELTA, /* gated DeltaNet, or Kimi Delta Attention */
	MIXER_MAMBA, /* Mamba-2 */
	MIXER_MAMBA1,
	MIXER_BOTH, /* attention and Mamba-2 side by side */
	MIXER_CONV, /* a short convolution between two gates */
	MIXER_NONE, /* the layer has only the second step, an mlp */
	N_MIXERS
};

/* The keys of a query, of those up to its own. */
enum layer_keys {
	KEYS_ALL,
	KEYS_CHOSEN, /* by the layer's indexer */
	KEYS_SHARED, /* by the indexer of the last layer before it that has one */
};

/* Multi-head latent attention (MLA), in the words of DeepSeek's config.json. */
struct latent {
	size_t q_lora_rank;	   /* 0: queries come from one matrix */
	size_t kv_lora_rank;	   /* 0: no latent attention */
	size_t nope_dim, rope_dim; /* of a head of q or k: values without rotation, then rotated */
	float norm_eps;		   /* of the norms of q_lora_rank and kv_lora_rank values */
	float q_scale, kv_scale;   /* factors of both, behind their norms; 1: none */
	bool interleaved; /* the values of a rotated pair are adjacent; else rope_dim / 2 apart */
};

/* y = x weight^T + bias. */
struct linear_ref {
	char *module; /* "model.layers.0.self_attn.q_proj"; NULL: the layer has no such matrix */
	const struct tensor_ref *weight; /* (n, k), or a tensor of all experts */
	const struct tensor_ref *bias;	 /* (n), or of all experts; NULL: none */
	size_t n, k;
	/* each of so many parts of the rows of the weight multiplies an input of its own, (n_parts,
	 * tokens, k); 0: there is one input */
	size_t n_parts;
	struct slice slice; /* position of the matrix in its tensor */
	size_t bias_first;  /* first element of the bias in its tensor */
};

struct layer_ref {
	enum mixer mixer;
	bool has_mlp;	    /* the second step of a layer */
	char *mixer_module; /* "model.layers.0.self_attn" */
	struct linear_ref linear[N_LINEARS];
	const struct tensor_ref *vector[N_VECTORS]; /* NULL: the layer has none */
	/* those for images behind the others, then those that every token passes */
	struct linear_ref (*experts)[N_EXPERT_ROLES];
	size_t n_experts;	 /* 0: a dense layer */
	size_t n_image_experts;	 /* which no token of text chooses */
	size_t n_shared_experts; /* which the router weighs */
	size_t expert_width;	 /* intermediate size of one expert */
	size_t shared_width; /* intermediate size of the shared expert; 0: the layer has no one */
	/* activations of gates are at most the limit, and ups within it from both sides, before
	 * their product: of the dense mlp and the shared expert, and of experts; 0: none */
	float limit, expert_limit;
	/* intermediate size of the dense mlp, beside the experts or alone; 0: experts only */
	size_t width;
	size_t n_heads, n_kv_heads;  /* of attention: n_heads is a multiple */
	size_t head_dim;	     /* of q and k */
	size_t value_dim;	     /* of v */
	const struct latent *latent; /* NULL: the layers have matrices of whole keys and values */
	float attention_scale;	     /* of q k^T */
	bool keys_are_values;	     /* v is the output of k's matrix */
	/* the layer whose keys and values this one uses, whatever matrices it has; NULL: its own */
	const struct layer_ref *kv_source;
	size_t kv_place; /* of keys that stay for other layers, in the stream; 0: none do */
	enum layer_keys keys;
	/* tokens whose keys are one besides, to queries behind them; 0: there are no such pools */
	size_t pool_size;
	bool pools_overlap;	 /* the tokens of the pool before belong to a pool, too */
	const char *mlp_type;	 /* by mlp_layer_types: "dense", or one of experts; NULL: unsaid */
	size_t ngrams;		 /* number of its n-gram embedding, from 1 on; 0: it has none */
	bool routed_by_token;	 /* experts follow from the token, by VECTOR_ROUTER_TABLE */
	size_t window;		 /* tokens that a query attends to, its own included; 0: all */
	size_t chunk;		 /* tokens that attend to each other and to no others; 0: all */
	const struct rope *rope; /* NULL: attention does not know positions */
	/* keys less than so many tokens behind a query have a bias by their distance; 0: none */
	size_t extent;
	/* queries are multiplied by 1 + query_scale log(1 + floor((position + query_shift) /
	 * query_floor)); or 1 + query_scale log(max((position + query_shift) / query_floor, 1));
	 * query_scale 0: they are not */
	float query_scale;
	bool query_ratio;
	size_t query_floor, query_shift;
};

static inline bool layer_has_attention(const struct layer_ref *layer)
{
	return layer->mixer == MIXER_ATTENTION || layer->mixer == MIXER_BOTH;
}

static inline bool layer_has_mamba(const struct layer_ref *layer)
{
	return layer->mixer == MIXER_MAMBA || layer->mixer == MIXER_BOTH;
}

static inline size_t layer_all_experts(const struct layer_ref *layer)
{
	return layer->n_experts + layer->n_image_experts + layer->n_shared_experts;
}

/* The matrices of a layer in one order, by role, then those of experts, by expert and role: their
 * number, and number i. */
static inline size_t layer_n_linears(const struct layer_ref *layer)
{
	return N_LINEARS + layer_all_experts(layer) * N_EXPERT_ROLES;
}

static inline const struct linear_ref *layer_linear_ref(const struct layer_ref *layer, size_t i)
{
	return i < N_LINEARS ? &layer->linear[i] : &layer->experts[0][0] + (i - N_LINEARS);
}

#endif
