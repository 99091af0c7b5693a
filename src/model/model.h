/* SPDX-License-Identifier: Apache-2.0
 *
 * A language model as its forward pass needs it: sizes and features from config.json, and for each
 * layer the tensors of the checkpoint by role.  An architecture is a row (arch_<vendor>.c) of names
 * and of features that config.json does not state.  A layer has an optional part (biases, norms of
 * q and k, sinks) if the checkpoint has its tensor.
 *
 * model_open() reads no tensor data.  It refuses a tensor of a layer that has no role, because the
 * forward pass would silently leave that tensor out.
 */
#ifndef FP8CONV_MODEL_MODEL_H
#define FP8CONV_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "model/facts.h"
#include "model/layer.h"
#include "model/rope.h"
#include "num/activation.h"

/* How a token gets its experts. */
struct routing {
	size_t top_k;
	const char *top_k_key; /* in config.json */
	bool norm_top_k;       /* the weights of the chosen experts are divided by their sum */
	bool sigmoid;	       /* scores are sigmoids; else a softmax over all experts, */
	bool sqrt_softplus;    /* or sqrt(softplus(logit)) */
	bool choose_first;     /* the softmax is over the chosen experts only, or their sigmoids */
	size_t n_groups;       /* 0 or 1: no groups */
	const char *n_groups_key;
	size_t n_shared;   /* experts that every token passes, whose weights are of the same sum */
	size_t top_groups; /* groups that stay, those with the largest sum of two largest scores, */
	bool group_max;	   /* or with the largest score */
	float sum_eps;	   /* is added to the sum by which norm_top_k divides */
	float scale;	   /* factor of the weights */
	float softcap;	   /* c: a logit l is c tanh(l / c) before all this; 0: it is l */
};

/* The indexer of sparse attention (DeepSeek-V3.2), which chooses the keys of a query. */
struct indexer {
	const char *layer_type; /* in layer_types, of layers with one */
	size_t n_chosen;	/* keys, in blocks of block_size; 0: the model has no indexer */
	size_t block_size;
	size_t n_local; /* blocks before a query, with its own one, that it gets before others */
	/* tokens of a pool, which have one key together: n_chosen are pools.  A query gets the
	 * tokens behind the last whole one besides.  0: there are none */
	size_t pool_size;
	size_t n_sets; /* of keys for each query: 1, or one for each head of the indexer */
	size_t n_heads, head_dim;
	size_t n_joined; /* values of its queries and its key, if one matrix makes both; else 0 */
};

/* Biases of scores by the distance from a query to a key: sums of profiles, which each head of a
 * query weighs. */
struct distances {
	size_t n_profiles; /* 0: the model has none */
	size_t extent;	   /* distances that have one, in layers without a window */
};

/* Hyper-connections: the residual stream is n vectors, which a block mixes (backend/executor_args.h
 * has the numbers).  Of low rank: a block takes the mean of the normed vectors, with a gate for
 * each value, and each vector adds its factor times the block's output. */
struct streams {
	size_t n;    /* 1: an ordinary residual stream */
	size_t rank; /* of the products that make the gates; 0: the numbers below are in force */
	size_t n_rounds;
	float eps;
	/* of the last norm: (n, n * hidden), (n), (1) */
	const struct tensor_ref *mix, *base, *scale;
};

#define MAX_NGRAM 16 /* tokens of an n-gram */

/* An n-gram embedding: each of its heads has rows of a table, which the hash of the last tokens
 * chooses.  Heads are ordered by the number of these tokens, from 2 on. */
struct ngram_table {
	const struct tensor_ref *multipliers; /* (tokens) I64: of ids, from the last one back */
	/* (heads) I64: rows of each head, and where they begin */
	const struct tensor_ref *sizes, *offsets;
	const struct tensor_ref **shards; /* (n_shards): of (any, dim / heads) */
	size_t n_shards;
};

/* The n-gram embeddings of some layers: e of a token, which is added to the vectors of the residual
 * stream as they ask for it, and convolved over tokens. */
struct ngrams {
	size_t n;		    /* layers with one; 0: the model has none */
	size_t size;		    /* tokens of the longest n-gram, 2 to MAX_NGRAM */
	size_t n_heads;		    /* of all n-grams together */
	size_t dim;		    /* of e: what all heads give */
	size_t conv_width;	    /* tokens that the convolution reads, `size` apart */
	int64_t eos;		    /* the tokens before it, and before the first, are this one */
	struct ngram_table *tables; /* (n) */
};

/* What a sequence takes from layer to layer, as arrays behind each other: the residual stream
 * (tokens, streams.n, hidden), the inputs of all layers (tokens, layers, layer_input_dim), the
 * n-gram embeddings, each (tokens, ngrams.dim), and keys and values that later layers use (tokens,
 * kv heads * head_dim).  An array begins behind as many
 * values for each token as the arrays before it have together: its place. */
struct stream_places {
	size_t layer_inputs;
	size_t ngrams;
	size_t width;  /* values of a token, but for sets */
	bool has_sets; /* then follow the sets of keys that an indexer chose for later layers */
};

/* Where the language model is in the names of a checkpoint. */
struct model_place {
	const char *body; /* in front of embed_tokens, layers and norm: "model." */
	const char *head; /* "lm_head" */
};

#define MODEL_MAX_HEAD_DIM 65536

#define MODEL_MAX_STREAMS 8		    /* what executors mix */
#define MODEL_MIXES(n)	  ((2 + (n)) * (n)) /* products that give the weights of n streams */

#define MODEL_MAX_KEY_DIM 256 /* of gated DeltaNet: what executors can keep of a state */

/* Gated DeltaNet or Kimi Delta Attention, in the layers that have it. */
struct delta {
	size_t n_key_heads, key_dim;
	size_t n_heads, value_dim; /* of values; n_heads is a multiple of n_key_heads */
	size_t n_decays;	   /* of a head: 1, or key_dim, one for each feature of its keys */
	size_t conv_width;	   /* tokens that a convolution reads, its own included */
	float lower_bound;	   /* of the logarithms of decays; 0: none */
	enum activation gate;	   /* of the output of a head */
};

#define MODEL_MAX_STATE 1024 /* of Mamba-2: what executors can keep of a state */

/* Mamba-2, in the layers that have it. */
struct mamba {
	size_t n_heads; /* 0: no layer has it */
	size_t head_dim;
	size_t n_groups; /* heads of a group share b and c; n_heads is a multiple of n_groups */
	size_t state_size;
	size_t conv_width;	  /* tokens that a convolution reads, its own included */
	float step_min, step_max; /* limits of the steps */
	bool has_norm;		  /* of the output of the scan, with */
	bool norm_first;	  /* the gate after it */
};

#define MODEL_MAX_CHANNEL_STATE 256 /* of Mamba-1: what executors can keep of a state */

/* Mamba-1, in the layers that have it. */
struct mamba1 {
	size_t n_channels; /* 0: no layer has it */
	size_t step_rank;  /* values that give the steps of all channels */
	size_t state_size;
	size_t conv_width; /* tokens that a convolution reads, its own included */
};

enum { MAMBA_Z, MAMBA_X, MAMBA_B, MAMBA_C, MAMBA_STEPS, N_MAMBA_COLUMNS };

/* Factors of a layer's values; 1: none. */
struct multipliers {
	float residual; /* of the output of each step, before it is added */
	float logits;
	float head_in;			      /* of the input of the head */
	float query, key, value;	      /* of q and k, before their rotation; of v */
	float attention_in, attention_out;    /* of what attention takes and gives */
	float mamba_in, mamba_out;	      /* the same of Mamba-2 */
	float mamba_columns[N_MAMBA_COLUMNS]; /* of the output of its first matrix */
	float gate, down;		      /* of the outputs of the matrices of the dense mlp */
};

/* The gates of attention's output: LINEAR_HEAD_GATE or LINEAR_VALUE_GATE. */
enum gates { GATES_NONE, GATES_HEADS, GATES_VALUES };

struct model {
	const struct arch *arch;
	const struct model_place *place;
	const struct checkpoint *checkpoint;
	const char *advice; /* of model_open() */
	bool first_expert;  /* of model_check(): of matrices of experts, only the first are found */
	size_t hidden, n_layers, n_heads, vocab_size;
	size_t unpadded_vocab_size; /* rows of the head without padding */
	size_t max_positions;	    /* that the model was made for; 0: unknown */
	/* of layers for which config.json states no others; layer_ref has each layer's */
	size_t n_kv_heads;
	size_t head_dim;		    /* of q and k */
	size_t value_dim;		    /* of v */
	size_t max_kv_heads;		    /* of any layer */
	struct latent latent, latent_local; /* of layers without a window, and with one */
	struct indexer indexer;
	struct delta delta;
	struct mamba mamba;
	struct mamba1 mamba1;
	struct distances distances;
	size_t short_conv_width; /* of convolutions that add to their input; 0: no layer has one */
	size_t conv_width;	 /* of gated convolutions, as above; 0: no layer has one */
	struct multipliers multipliers;
	/* Gemma 4's small models: each layer has an input of its own, from an embedding and from
	 * the residual stream before the first layer */
	size_t layer_input_dim; /* 0: the model has none */
	size_t layer_vocab_size;
	const struct tensor_ref *layer_embedding; /* (layer_vocab_size, layers * layer_input_dim) */
	struct stream_places stream;
	struct streams streams;
	struct ngrams ngrams;
	size_t o_groups; /* of heads, each with its rows of LINEAR_O; 1: all heads have all rows */
	size_t o_rank;	 /* rows of a group */
	float norm_eps;
	float out_norm_eps; /* of norms of what attention and the mlp return */
	bool rotated_norm;  /* heads of q and k are normed after their rotation, without weights */
	float norm_offset;  /* a norm multiplies by offset + weight; and the last one: */
	float last_norm_offset;
	/* factor of embeddings; with arch->scaled_embedding, rounded to bf16 where they are bf16 */
	float embedding_scale;
	float attention_scale;	 /* of q k^T, in layers whose heads have head_dim values */
	float attention_softcap; /* c: scores become c tanh(score / c); 0: unchanged */
	float logit_softcap;	 /* the same of logits */
	enum gates gates;
	enum activation activation; /* ACT_SRELU: an mlp and an expert have no gate */
	/* the experts have GPT-OSS's activation, with its limit (of gates from above, of ups from
	 * both sides) and the factor in its sigmoid */
	bool clamped;
	float clamp, clamp_alpha;
	bool limits_first; /* gates have the limit of their layer before their activation */
	struct routing routing;
	struct rope rope,
		rope_local; /* of layers without a window, and with one: the same in most models */
	struct rope *layer_ropes; /* (n_layers): of layers with a base of their own; NULL: none */
	const struct tensor_ref *embedding;	 /* (vocab_size, hidden) */
	const struct tensor_ref *embedding_norm; /* (hidden): of embeddings; NULL: none */
	const struct tensor_ref *norm; /* NULL: the head takes what hyper-connections give */
	/* lm_head; tied: its weight is the embedding.  Without rows of padding: it has n logits, at
	 * most vocab_size */
	struct linear_ref head;
	struct layer_ref *layers;
	const char *mlp_types_key; /* in config.json, of layers' mlp_type */
};

struct mamba_keys; /* model/mamba.h */

/* The layers whose attention knows positions. */
enum rotating_layers {
	ROTATING_ALL,
	ROTATING_NONE,
	ROTATING_WINDOWS,	 /* layers with a window */
	ROTATING_WINDOWS_IF_ANY, /* the same, but all where config.json has no sliding_window */
};

/* What attention knows of positions, as far as config.json does not state it. */
struct positions {
	enum rotating_layers rotating;
	/* every n-th layer has no window, where layer_types are missing; 0: none */
	size_t window_pattern;
	/* the types of layers, where config.json has none: 'F' full attention, 'S' with a window,
	 * 'L' linear attention, 'C' a convolution; "FF|SSSF|F": of the first layers, of those that
	 * come again and again, and of the last; "<SSSF": again and again up to the last; NULL: no
	 * pattern */
	const char *layer_pattern;
	bool hybrid_types;	 /* layer_types are "hybrid" and "hybrid_sliding" */
	bool window_sinks;	 /* only layers with a window have sinks */
	size_t window_key_heads; /* of a layer with a window: so many times those of others; 0: 1 */
	bool excess_window;	 /* sliding_window_size does not count the query itself */
	bool last_is_full;	 /* the last layer has no window, whatever config.json states */
	bool chunked;		 /* attention of some layers is within chunks */
	bool layer_ropes;	 /* rope_parameters has an object for each type of layers */
	bool rope_switches;	 /* layer_rope_theta only says which layers know positions */
	bool plain_window_rope;	 /* layers with a window do not have rope_scaling */
	bool whole_rope;	 /* partial_rotary_factor has no meaning for an unscaled rope */
	bool sized_rope;	 /* partial_rotary_factor follows from the sizes of heads */
	bool rope_alpha; /* ropes of the type "dynamic" are static, with a theta by their alpha */
	bool adjacent_pairs; /* the two values of a rotated pair are adjacent */
	bool indexed_types;  /* layer_types tells which layers choose their keys */
	bool mean_index;     /* all layers with attention choose pools of keys, by their means */
	bool adjacent_index; /* the same of an indexer's queries and keys */
	bool bare_gates;     /* the name of LINEAR_INDEX_GATE has no ".weight" */
	bool grown_queries;  /* queries grow with their position, by keys of the rope */
	/* the last values of a head turn, in adjacent pairs, and its output turns back, for the one
	 * head of keys has the values too */
	bool turns_back;
};

/* What norms do besides dividing by the root mean square and multiplying by their weight. */
enum norms {
	NORMS_PLAIN,
	NORMS_PLUS_ONE,		  /* multiply by 1 + weight */
	NORMS_PLUS_ONE_IN_LAYERS, /* the same, but for the last one */
	NORMS_CENTERED,		  /* subtract the mean first: LayerNorm */
};

/* The factor of q k^T. */
enum score_scale {
	SCORES_BY_HEAD_DIM, /* 1 / sqrt(head_dim), or of query_pre_attn_scalar */
	SCORES_YARN,	    /* and YaRN's mscale_all_dim changes it */
	SCORES_PLAIN,	    /* 1 */
	SCORES_INVERSE,	    /* 1 / head_dim */
};

/* The norms of q and k, if their weights exist. */
enum head_norms {
	HEADS_ALONE,	     /* each head by itself */
	HEADS_TOGETHER,	     /* all heads of a token */
	HEADS_AFTER_ROPE,    /* each head, after its rotation */
	HEADS_PLAIN,	     /* the same without weights, if config.json has use_qk_norm */
	HEADS_PLAIN_FIRST,   /* each head, without weights, before its rotation */
	HEADS_PLAIN_QUERIES, /* the same of queries alone; keys with weights */
};

/* What head_dim of config.json is in a model with latent attention. */
enum head_dim_of {
	HEAD_DIM_OF_ROPE, /* the rotated part of heads */
	HEAD_DIM_IGNORED,
	HEAD_DIM_OF_HEADS, /* whole heads, of which partial_rotary_factor rotates */
	HEAD_DIM_OF_DELTA, /* heads of Kimi Delta Attention */
};

/* What latent attention does, as far as config.json does not state it. */
struct latents {
	enum head_dim_of head_dim_of;
	/* behind their norms, whose eps is the model's, latents are multiplied by
	 * sqrt(hidden / their number) */
	bool scaled;
	bool model_eps;	   /* their norms have the model's eps, too */
	bool without_rope; /* no values of heads are rotated */
};

/* Experts, as far as their names do not show it. */
struct arch_experts {
	/* a layer has experts for text, and as many behind them for images, which are not run;
	 * weights of routers are (hidden, experts), and biases two rows, the first of text */
	bool have_images;
	/* in a matrix, or a tensor of all experts, that has gate and up, their rows take turns */
	bool interleaved;
	/* experts that every token passes and the router weighs: matrices, with %zu for the expert,
	 * and tensors of all of them */
	const char *shared[N_EXPERT_ROLES];
	const char *shared_stacks[N_EXPERT_ROLES];
};

/* An architecture: names below the layer in the checkpoint ("self_attn.q_proj"), what it reads of
 * config.json, and features that config.json does not state. */
struct arch {
	const char *name;	      /* as `calibrate` prints it */
	const char *architectures[6]; /* values in config.json that select this row */
	/* values of model_type in text_config that select this row, whatever the architecture of
	 * the whole is: towers have no part in a pass over text */
	const char *text_types[2];
	/* model types, or classes, of models that contain this language model, with blanks
	 * between: `fp8conv families` finds a name in it.  A config.json is matched by the two
	 * members above */
	const char *holders;
	/* module names; NULL: as in arch_names; LINEAR_GATE "": an mlp and an expert have no gate
	 */
	const char *linear[N_LINEARS];
	const char *vector
		[N_VECTORS]; /* tensor names; NULL likewise; a layer must have those named here */
	const char *expert[N_EXPERT_ROLES]; /* with %zu for the expert */
	/* tensors of all experts, in the place of the matrices of `expert`: gate and up in one,
	 * (experts, 2 width, hidden) with gate first, and down, (experts, hidden, width), or both
	 * transposed; or gate and up apart, (experts, width, hidden) */
	const char *stacks[N_EXPERT_ROLES];
	struct arch_experts experts;
	/* GPT-OSS: both are transposed, gate and up interleaved, "_bias" follows the name of a
	 * bias, and the activation is clamped */
	bool clamped;
	enum norms norms;
	enum score_scale scores;
	enum head_norms head_norms;
	struct latents latents;
	bool parallel;	       /* attention and mlp have the same input: the first norm's output */
	bool scaled_embedding; /* embeddings are multiplied by sqrt(hidden) */
	bool tied;	       /* the head is the embedding unless config.json states otherwise */
	bool normed_values;    /* the heads of v are normed, without weights */
	bool scaled_router;    /* the normed input of a router is divided by sqrt(hidden) */
	/* norm_top_k: regardless of config.json; sigmoid, choose_first; sum_eps, 0: 1e-20 */
	struct routing routing;
	struct positions positions;
	bool one_step;			/* a layer has a mixer or an mlp */
	const struct mamba_keys *mamba; /* of layers with Mamba-2; NULL: no layer has it */
	/* module below root, of a norm of embeddings; "": it has no weight; NULL: no norm */
	const char *embedding_norm;
	/* modules below root; NULL: "embed_tokens", "norm"; norm "": the model has none */
	const char *embedding, *norm;
	const char *layer_embedding; /* below root, of models with layer_input_dim */
	const char *last_mix;	     /* begins the names of hyper-connections of the last norm */
	bool scaled_inputs;   /* the weight of an expert multiplies its input, not its output */
	bool gated_attention; /* q_proj holds the query and the gate of each head in turn */
	bool softplus_gates;  /* gates of heads and of values are softplus; else sigmoids */
	struct arch_facts facts;
};

extern const struct arch *const archs[]; /* generated; NULL at the end */

/* Returns the row that runs a model with this config.json; NULL: none. */
const struct arch *arch_of(const struct model_config *config);

/* Returns the row of a family, the name of a row, of a class of models or a model_type, also of a
 * model that contains this one.  A family that ends in * stands for each name that begins so.
 * NULL: none. */
const struct arch *arch_named(const char *family);

/* In err->detail of model_open(): the tensor that begins the message is missing, has another shape
 * than config.json implies, or is unexpected. */
enum model_misfit { MISFIT_MISSING = 1, MISFIT_SHAPE, MISFIT_UNEXPECTED };
#define MISFIT_BEGIN "tensor '" /* of the message, before the name */

/* Opens the model of a checkpoint.  The model refers to the checkpoint, which must outlive it; the
 * caller releases the model.  ERR_INPUT, with the key or the tensor, for an unsupported
 * architecture, a missing size, and a tensor that is missing, unexpected or of another shape than
 * config.json implies.  advice, which must outlive the model, ends the messages on models that the
 * forward pass cannot run: ": use option '--x'", or "". */
int model_open(struct model *model, const struct checkpoint *checkpoint, const char *advice,
	       struct err *err);
void model_release(struct model *model);

/* Fails as model_open() does, for a checkpoint of which only the first expert of each layer needs
 * to be listed. */
int model_check(const struct checkpoint *checkpoint, struct err *err);

/* Returns the number of tensors in branches for images and audio, with their projectors, which are
 * not run. */
size_t model_count_towers(const struct model *model);

#endif
