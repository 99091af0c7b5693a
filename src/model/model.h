/* SPDX-License-Identifier: Apache-2.0
 *
 * A language model as its forward pass needs it: sizes and features out of config.json, and for
 * each layer the tensors of the checkpoint by what they do.  An architecture is a row
 * (arch_<name>.c) of names and of features that config.json does not say; what a layer has besides
 * (biases, norms of q and k, sinks) shows in its tensors.
 *
 * Opening reads no tensor.  Every tensor below the model's layers must have a place here: one that
 * has none would be left out of the computation without a word, so it is an error.
 */
#ifndef FP8CONV_MODEL_MODEL_H
#define FP8CONV_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "model/experts.h"
#include "model/rope.h"
#include "num/activation.h"

/* The matrices of a layer. */
enum linear_role {
	LINEAR_Q,
	LINEAR_K,
	LINEAR_V,
	LINEAR_QKV,  /* all three, one below the other */
	LINEAR_Q_A,  /* latent attention: to a narrow query, */
	LINEAR_Q_B,  /* from it to the heads; */
	LINEAR_KV_A, /* to a narrow key and value, with the part of keys that turns, */
	LINEAR_KV_B, /* from it to the heads' keys and values */
	LINEAR_O,
	LINEAR_GATE,
	LINEAR_UP,
	LINEAR_GATE_UP, /* both, one below the other */
	LINEAR_DOWN,
	LINEAR_ROUTER,
	LINEAR_SHARED_GATE, /* of the expert that all tokens go through */
	LINEAR_SHARED_UP,
	LINEAR_SHARED_DOWN,
	N_LINEARS
};

/* The vectors of a layer. */
enum vector_role {
	VECTOR_NORM_ATTENTION,	   /* of the input of attention */
	VECTOR_NORM_ATTENTION_OUT, /* of its output, before it is added */
	VECTOR_NORM_MLP,
	VECTOR_NORM_MLP_OUT,
	VECTOR_NORM_Q, /* of each head */
	VECTOR_NORM_K,
	VECTOR_NORM_Q_A,    /* of the narrow query */
	VECTOR_NORM_KV_A,   /* of the narrow key and value */
	VECTOR_ROUTER_BIAS, /* added to an expert's score for the choice alone */
	VECTOR_SINKS,	    /* of each head: one more score, which has no value */
	N_VECTORS
};

enum expert_role {
	EXPERT_ROLE_GATE,
	EXPERT_ROLE_UP,
	EXPERT_ROLE_DOWN,
	EXPERT_ROLE_GATE_UP, /* gate and up in turn, row by row */
	N_EXPERT_ROLES
};

/* y = x weight^T + bias. */
struct linear_ref {
	char *module; /* "model.layers.0.self_attn.q_proj"; NULL: there is none */
	const struct tensor_ref *weight; /* (n, k), or a tensor of all experts */
	const struct tensor_ref *bias;	 /* (n), or of all experts; NULL: none */
	size_t n, k;
	struct slice slice; /* where the matrix lies in its tensor */
	size_t bias_first;  /* and the bias in its own */
};

struct layer_ref {
	char *attention; /* "model.layers.0.self_attn" */
	struct linear_ref linear[N_LINEARS];
	const struct tensor_ref *vector[N_VECTORS]; /* NULL: the layer has none */
	struct linear_ref (*experts)[N_EXPERT_ROLES];
	size_t n_experts;    /* 0: a dense layer */
	size_t expert_width; /* of one expert's hidden values */
	size_t shared_width; /* of the shared expert's; 0: there is none */
	size_t width;	     /* of the dense mlp's; 0: there is none */
	size_t window;	     /* a token sees so many, itself included; 0: all before it */
	const struct rope *rope;
};

/* How tokens choose experts. */
struct routing {
	size_t top_k;
	bool norm_top_k;   /* the chosen weights are scaled to a sum of 1 */
	bool sigmoid;	   /* scores are sigmoids, each by itself; else a softmax over all */
	bool choose_first; /* the softmax is over the chosen ones alone */
	size_t n_groups;   /* 0 or 1: no groups; else only the best groups are chosen from, */
	size_t top_groups; /* so many, by the sum of their two best */
	float scale;	   /* of the chosen weights */
};

/* Latent attention (MLA): sizes of a head's parts, and of what queries, keys and values are
 * squeezed through. */
struct latent {
	size_t q_lora_rank;  /* 0: queries are not squeezed */
	size_t kv_lora_rank; /* 0: no latent attention */
	/* values of a head of q and k: those before, and those that turn, interleaved */
	size_t nope_dim, rope_dim;
};

struct model {
	const struct arch *arch;
	const struct checkpoint *checkpoint;
	size_t hidden, n_layers, n_heads, n_kv_heads, vocab_size;
	size_t head_dim;  /* of q and k */
	size_t value_dim; /* of v */
	struct latent latent;
	float norm_eps;
	float norm_offset;	 /* a norm multiplies by offset + weight */
	float embedding_scale;	 /* what an embedding is multiplied by, in bf16 by the bf16 of it */
	float attention_scale;	 /* of q k^T */
	float attention_softcap; /* c tanh(x / c) of scores, of logits; 0: none */
	float logit_softcap;
	enum activation activation;
	/* of gates, and of ups both ways; GPT-OSS's gates are g sigmoid(1.702 g), its ups u + 1 */
	float clamp;
	struct routing routing;
	struct rope rope,
		rope_local; /* of layers without a window, and with one: the same in most models */
	const struct tensor_ref *embedding; /* (vocab_size, hidden) */
	const struct tensor_ref *norm;
	struct linear_ref head; /* lm_head; tied: its weight is the embedding */
	struct layer_ref *layers;
};

/* An architecture: names below "model.layers.N." in the checkpoint, and features that config.json
 * does not say. */
struct arch {
	const char *name;	       /* as `calibrate` tells it */
	const char *architectures[6];  /* of config.json that this row serves */
	const char *linear[N_LINEARS]; /* module names; NULL: as in arch_names */
	const char *vector
		[N_VECTORS]; /* tensor names; likewise; one that is named here must be there */
	const char *expert[N_EXPERT_ROLES]; /* with %zu for the expert */
	/* tensors of all experts, (experts, hidden, 2 width), gate and up in turn, */
	const char *fused_gate_up;
	/* and (experts, width, hidden); their biases have "_bias" behind the name; NULL: not */
	const char *fused_down;
	bool norm_plus_one;    /* norms multiply by 1 + weight */
	bool scaled_embedding; /* embeddings are multiplied by sqrt(hidden) */
	bool tied;	   /* the head is the embedding where config.json does not say otherwise */
	bool query_scalar; /* config.json says the scale of q k^T: query_pre_attn_scalar^-1/2 */
	bool norm_top_k;   /* whatever config.json says */
	bool sigmoid;	   /* how experts are scored */
	bool choose_first;
	/* the part of a head that turns, where config.json says none; 0: all */
	double rotary_factor;
	bool window_by_flag; /* sliding_window counts only where use_sliding_window says so */
	/* every so many-th layer has none, where layer_types are not said; 0: none */
	size_t window_pattern;
};

extern const struct arch *const archs[]; /* generated; NULL at the end */

/* ERR_INPUT, naming the key or the tensor: an architecture that has no row, a size that is missing,
 * a tensor that is missing, unknown, or of another shape than config.json says.  The checkpoint
 * must outlive the model. */
int model_open(struct model *model, const struct checkpoint *checkpoint, struct err *err);
void model_release(struct model *model);

#endif
