/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of one thread in the forward pass: arrays for one sequence in one layer, in structs by
 * the step that uses them, and what each sequence of a group keeps between steps.
 *
 * In the shapes, tokens means max_tokens.  Where layers differ, an array has room for the largest
 * one.
 */
#ifndef FP8CONV_FORWARD_WORKSPACE_H
#define FP8CONV_FORWARD_WORKSPACE_H

#include "forward/forward.h"

#define HEAD_BLOCK \
	512 /* tokens whose logits are computed at once, one panel of the head at a time */

/* The input of a product, rounded or cast, kept while several matrices share it. */
struct input_arrays {
	uint16_t *rounded;	   /* (tokens, widest input): bf16 */
	const float *rounded_from; /* the values that codes are made of; NULL: none */
	const uint16_t *codes;	   /* in rounded, or in own->rounded */
};

/* The input of a product in FP8: the values of its codes, likewise kept. */
struct cast_arrays {
	void *values;	      /* as input.rounded: F32 or BF16 */
	const float *from;    /* the values that they are made of; NULL: none */
	struct input_cast by; /* how */
	enum dtype dtype;     /* of values */
	size_t n_stats;	      /* forward_matrices() */
	/* (n_stats): of inputs.  Matrices that share an input add it once: at `place` of the first
	 * one, for `from` */
	struct value_stats *stats;
	size_t place;
	/* (1), or if the executor is `grouped` (experts, sequences): of round_fp8() */
	struct value_stats *scratch;
	struct cast_counts *counts; /* (1): of forward_linear() */
};

/* An input of products that the operation before them has rounded, and added to the stats of a
 * slot. */
struct ready_input {
	const float *x; /* (n); without meaning themselves if codes have all that is needed */
	size_t n;
	const uint16_t *codes; /* (n): as bf16; NULL: none */
	size_t slot;
};

struct attention_arrays {
	float *q;    /* (tokens, heads * head_dim) */
	float *k;    /* (tokens, kv heads * head_dim) */
	float *v;    /* (tokens, kv heads * value_dim) */
	float *lora; /* (tokens, q_lora_rank), or (tokens, kv_lora_rank + rope_dim) */
	/* of q_proj's and k_proj's output, to which the rotation adds them; NULL: they are added */
	struct value_stats *q_stats, *k_stats;
	float *kv_latent;   /* (tokens, kv_lora_rank), normed */
	float *k_rope;	    /* (tokens, rope_dim), shared by all heads, rotated */
	float *kv_expanded; /* (tokens, heads * (nope_dim + value_dim)) */
	float *attn_out;    /* (tokens, heads * value_dim) */
	float *part_out;    /* (tokens, rows of a part of LINEAR_O) */
	float *joined;	    /* (tokens, rows of LINEAR_O with parts) */
	float *distances;   /* (tokens, heads * profiles), of LINEAR_DISTANCES */
	float *head_gates;  /* (tokens, heads), of LINEAR_HEAD_GATE */
	float *cosines;	    /* (tokens, rope->n / 2), of the angles */
	float *sines;
	const float *inverse; /* rope_inverse() of these angles, which stay from layer to layer */
	size_t n_angles;      /* rows that are filled */
	float *positions;     /* (tokens): factors of queries by their position */
	size_t n_positions;   /* that are filled */
};

/* Of an indexer, whose heads share keys. */
struct index_arrays {
	float *joined;	/* (tokens, (heads + 1) * head_dim): q and k of one matrix */
	float *q;	/* (tokens, heads * head_dim) */
	float *k;	/* (tokens, head_dim) */
	float *weights; /* (tokens, heads) */
	uint32_t *sets; /* (sets, tokens, KEY_WORDS(tokens)) */
};

/* Of compressed keys; pools: as many as there are, at most. */
struct pool_arrays {
	float *values, *gates;		   /* (tokens, rows of LINEAR_POOL) */
	float *index_values, *index_gates; /* (tokens, rows of LINEAR_INDEX_K) */
	float *keys, *key_values; /* (pools + tokens, head_dim): of pools, then of tokens */
	float *cosines, *sines;	  /* (pools, rope->n / 2) */
};

/* Of low-rank hyper-connections and n-gram embeddings; wide: vectors of the stream * hidden. */
struct stream_arrays {
	float *normed; /* (tokens, wide): the vectors, normed; or values of an n-gram embedding */
	float *gates;  /* (tokens, wide): of these; or its keys; or what is convolved */
	float *few;    /* (tokens, streams.rank) */
	float *one;    /* (tokens, hidden): one of the vectors */
};

/* Of gated DeltaNet; keys: key heads * key_dim, values: heads * value_dim, decays: heads * decays
 * of a head. */
struct delta_arrays {
	float *qkv;	  /* (tokens, 2 keys + values): before the convolution */
	float *ba;	  /* (tokens, 2 heads): of one matrix */
	float *q, *k, *v; /* (tokens, keys), (tokens, keys), (tokens, values): after it */
	float *z, *out;	  /* (tokens, values): gates, and the output of the heads */
	float *a, *b;	  /* (tokens, decays), (tokens, heads): decays and rates */
	/* (tokens, key_dim): Kimi Delta Attention, what decays and gates are made of */
	float *few_decays, *few_gates;
};

/* Of Mamba-2; inner: heads * head_dim. */
struct mamba_arrays {
	float *projected; /* (tokens, rows of the first matrix): z, x, b, c and the steps */
	float *convolved; /* (tokens, inner + 2 groups * state_size): x, b and c */
	float *scanned;	  /* (tokens, inner) */
	/* (tokens, hidden): the input of the layer, and Mamba's output, while attention runs
	 * beside it */
	float *input, *out;
};

/* Of Mamba-1. */
struct mamba1_arrays {
	float *projected;  /* (tokens, 2 channels): x and the gates z */
	float *x;	   /* (tokens, channels): after the convolution */
	float *selected;   /* (tokens, step_rank + 2 state_size): what gives steps, b and c */
	float *step_input; /* (tokens, step_rank), normed */
	float *steps;	   /* (tokens, channels) */
	float *scanned;	   /* (tokens, channels) */
};

struct mlp_arrays {
	float *gate, *up;  /* (tokens, width) */
	float *expert_in;  /* (tokens, hidden or latent): tokens of one expert or of several */
	float *expert_out; /* (tokens, hidden or latent) */
};

struct head_arrays {
	uint32_t *labels;	      /* (HEAD_BLOCK) */
	float *log_sums;	      /* (panels of the head, HEAD_BLOCK) */
	float *label_logits;	      /* (HEAD_BLOCK) */
	struct divergence_sums *sums; /* (HEAD_BLOCK) */
};

struct host_arrays {
	struct value_stats **stats; /* from here on: copies of the executor's arrays */
	uint32_t *counts, *chosen;
	float *cosines, *sines, *positions;
	uint32_t *labels;
	float *log_sums, *label_logits;
	struct divergence_sums *sums;
	struct divergence_sums *totals;	 /* (HEAD_BLOCK), over the panels */
	struct cast_counts *cast_counts; /* (1) */
	struct value_stats *cast_stats;	 /* (cast.n_stats) */
	size_t *cast_places; /* (cast.n_stats): where in cast.stats the input of a matrix is */
};

/* What a sequence keeps while the other sequences of its group take the same step.  Each array of
 * a sequence follows that of the sequence before it in the group. */
struct own_arrays {
	float *normed;		  /* (tokens, hidden) */
	uint16_t *rounded;	  /* (tokens, hidden): normed as bf16 */
	struct ready_input ready; /* normed; x NULL: it is not rounded yet */
	/* to which out is still to be added; NULL: none */
	struct value_stats *out_stats;
	float *out;   /* (tokens, hidden): of attention or mlp */
	float *mixes; /* (tokens, streams_n_mixes()): weights of hyper-connections */
	float *latent_in, *latent_out; /* (tokens, latent): of all experts */
	float *shared_scores;	       /* (tokens): factors of the shared expert */
	size_t first_token;	       /* in the group */
	size_t n_slots_used;	       /* of the sequence's stats, used in this layer */
};

/* Of the choice of experts, and of the rows of all sequences of a group, sorted by expert. */
struct route_arrays {
	uint32_t *chosen;		    /* (tokens, top_k) */
	float *weights;			    /* (tokens, top_k) */
	float *shared_weights;		    /* (shared experts, workspace_group_tokens()) */
	uint32_t *counts;		    /* (experts, sequences) */
	uint32_t *rows, *segments, *places; /* as in sort_choices_args */
	float *factors;
	struct value_stats **stats; /* (experts, sequences): the first slot of a segment */
};

#define MAX_GROUP  SORT_MAX_SEQUENCES /* sequences that take the experts of a layer together */
#define MAX_ARRAYS 120

/* Every array of a workspace. */
struct array_list {
	struct {
		void **place;
		uint64_t size; /* bytes */
		bool host;
	} array[MAX_ARRAYS];
	size_t n;
};

/* What a workspace has room for. */
struct workspace_shape {
	size_t max_tokens; /* of a sequence */
	size_t max_group;  /* sequences of a group: 1 to MAX_GROUP */
};

struct workspace {
	struct executor_stream *stream;
	const struct executor_ops *ops;
	int number; /* the worker of observers: the devices take workers in turn */
	struct workspace_shape shape;
	/* of arrays between the products of experts: the tokens of a group, if the executor is
	 * `grouped`; else of a sequence */
	size_t expert_rows;

	struct own_arrays group[MAX_GROUP]; /* of the sequences of a group */
	struct own_arrays *own;		    /* of the sequence that runs */
	/* (tokens, width): q, k and v, or queries and gates, or gate and up, from one matrix; or
	 * the gates of values; or the gates and the values of a convolution; or the inputs of all
	 * layers */
	float *fused_out;
	float *scores;	      /* (2, tokens, experts), or (HEAD_BLOCK, a panel of the head) */
	void *scratch;	      /* of mixers */
	uint32_t *token_rows; /* (tokens): rows of the table of embeddings, which is in normed */

	struct input_arrays input;
	struct cast_arrays cast;
	struct ready_input ready; /* mlp.gate; x NULL: it is not rounded yet */
	struct attention_arrays attention;
	struct index_arrays index;
	struct pool_arrays pool;
	struct stream_arrays streams;
	struct delta_arrays delta;
	struct mamba_arrays mamba;
	struct mamba1_arrays mamba1;
	struct mlp_arrays mlp;
	struct route_arrays route;
	struct head_arrays head;
	struct host_arrays host;

	struct array_list arrays;
};

/* Adds an array to the list; place is the address of its pointer. */
void workspace_add(struct array_list *list, void *place, uint64_t size, bool host);

/* Allocates memory.  number: the worker of observers, on device number % n_devices.  forward->casts
 * must be set before.  ERR_SYSTEM with the size. */
int workspace_new(struct workspace **workspace, const struct forward *forward,
		  struct workspace_shape shape, int number, struct err *err);
void workspace_free(struct workspace *workspace); /* accepts NULL */

/* Returns the bytes of the arrays; casts: as in struct forward. */
uint64_t workspace_size(const struct executor_ops *executor, const struct model *model,
			struct workspace_shape shape, bool casts);

/* Returns the tokens that a group may have. */
static inline size_t workspace_group_tokens(const struct workspace *workspace)
{
	return workspace->shape.max_tokens * workspace->shape.max_group;
}

/* Copies workspace->cast.stats to workspace->host.cast_stats, and makes them zeros.  Waits. */
int workspace_take_cast_stats(struct workspace *workspace, struct err *err);

#endif
