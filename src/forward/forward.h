/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass of a model, layer by layer: the caller loads the weights of one layer at a time
 * and pushes every sequence through it.  One thread computes a sequence, with its own workspace, so
 * the result does not depend on the number of threads.
 *
 * The residual stream, norms, attention and softmax are fp32.  The inputs of matrix products are
 * rounded to bf16 first, unless the caller asks for fp32.  Products accumulate in fp32.  Arrays are
 * in the executor's memory, unless stated as the host's.
 *
 * Order: forward_init(), for more than one device forward_add_devices(); workspace_new() for each
 * thread; for each sequence forward_embed(), forward_layer() for every layer in order,
 * forward_head(); workspace_free(), forward_release().
 */
#ifndef FP8CONV_FORWARD_FORWARD_H
#define FP8CONV_FORWARD_FORWARD_H

#include "backend/executor.h"
#include "model/model.h"

/* How the input of a matrix is cast to FP8; the values of its codes are multiplied. */
struct input_cast {
	struct qspec spec;
	float scale, scale_inv; /* of ARITH_GIVEN, as in round_fp8_args */
	/* the input is added to these of workspace->cast.stats before; SIZE_MAX: none */
	size_t stats;
};

/* A loaded matrix. */
struct linear {
	const struct linear_ref *ref;
	struct executor_weight weight; /* data NULL: the layer has none */
	float *bias;		       /* (n); NULL: none */
	float amax;		       /* of the weight, in the checkpoint's type */
	enum dtype input;	       /* type of the products: BF16, or F32 */
	/* of inputs, if forward.casts; NULL: the input is taken as it is.  An input of several
	 * matrices with equal casts is cast once */
	const struct input_cast *cast;
};

/* A loaded layer. */
struct layer {
	const struct layer_ref *ref;
	struct linear linear[N_LINEARS];
	/* VECTOR_LAYER_SCALE is the host's; VECTOR_CONV, VECTOR_CONV_Q, _K, _V and Mamba-1's
	 * VECTOR_A_LOG are (width, channels) */
	float *vector[N_VECTORS]; /* VECTOR_ROUTER_TABLE is the host's, too: numbers of experts */
	struct linear (*experts)[N_EXPERT_ROLES];
	/* (kv heads): scale_inv of the keys and of the values, which are rounded to E4M3 after
	 * their rotation; NULL: they stay */
	const float *key_scales, *value_scales;
	/* (1): the same for what latent attention caches, the latent vector, after its norm, and
	 * the rotated values of keys */
	const float *latent_scale;
};

/* Return the number of a matrix in the order of layer_linear_ref(), and a loaded one by its
 * number. */
static inline size_t layer_linear_number(const struct layer_ref *layer,
					 const struct linear_ref *linear)
{
	if (linear >= layer->linear && linear < layer->linear + N_LINEARS)
		return (size_t)(linear - layer->linear);
	return N_LINEARS + (size_t)(linear - &layer->experts[0][0]);
}

static inline struct linear *layer_linear(const struct layer *layer, size_t i)
{
	return i < N_LINEARS ? (struct linear *)&layer->linear[i]
			     : &layer->experts[0][0] + (i - N_LINEARS);
}

/* The vectors of the final norm: (hidden), and as in struct streams. */
enum last_vector { LAST_NORM, LAST_MIX, LAST_MIX_BASE, LAST_MIX_SCALE, N_LAST_VECTORS };

struct head {
	float *const *last; /* (N_LAST_VECTORS); NULL: the model has none */
	const struct linear *linear;
};

/* Returns the rows of a panel of a matrix of the executor. */
static inline size_t linear_panel_rows(const struct executor_ops *ops, const struct linear_ref *ref)
{
	return ref->n_parts > 1 ? ref->n / ref->n_parts : ops->portion(PORTION_WEIGHT, ref->n);
}

/* The values of a matrix (input and output), of attention (q and k after their rotation), or of the
 * cache of latent attention: all values, in two parts, and the latent ones alone. */
enum observed {
	OBSERVED_X,
	OBSERVED_Y,
	OBSERVED_Q,
	OBSERVED_K,
	OBSERVED_V,
	OBSERVED_CACHED,
	OBSERVED_LATENT
};

struct observation {
	enum observed what;
	const struct linear_ref *linear; /* NULL: attention */
	const struct layer_ref *layer;	 /* NULL: the head */
	int worker;			 /* number of the workspace */
	struct executor_stream *stream;	 /* of the workspace: an observer may add work to it */
	size_t sequence;
	const float *values; /* (n_rows, n_cols), one row for each token */
	size_t n_rows, n_cols;
	/* index in the sequence's stats; values that come in several parts share a slot */
	size_t slot;
};

/* Called with values during a pass, by several threads, each with its own worker and sequence. */
struct observer {
	void *context;
	bool reads_no_inputs; /* the values of OBSERVED_X may be missing */
	void (*observe)(void *context, const struct observation *observation);
};

struct forward {
	const struct model *model;
	struct executor *executor; /* on the first device */
	size_t n_devices;
	struct executor **executors; /* (n_devices): on each; the first is `executor` */
	bool round;		     /* products take bf16 */
	enum dtype input;	     /* type of the products: BF16, or F32 with the same values */
	const struct observer *observer; /* NULL: none */
	/* inputs may be cast: products take all rows of a sequence at once, because a scale may be
	 * of the whole input; observers are told of the input before it is cast */
	bool casts;
};

struct sequence {
	size_t index; /* for observers and messages */
	size_t n_tokens;
	const uint32_t *tokens; /* (n_tokens), the host's */
	/* (n_tokens, streams.n, hidden), the first of the arrays of struct stream_places, which
	 * have n_tokens * forward_stream_width() values together */
	float *residual;
	/* (forward_slots()): forward_layer() and forward_head() add to them, in the order of
	 * computation */
	struct value_stats *stats;
};

struct workspace;

/* One sequence in one layer: the arguments of every step of the forward pass. */
struct pass {
	const struct forward *forward; /* model, executor, type of products */
	struct workspace *workspace;   /* of this thread */
	const struct layer *layer;     /* loaded; NULL: embedding or head */
	const struct sequence *sequence;
};

/* The end of a pass. */
struct head_pass {
	struct pass pass; /* layer NULL */
	struct head head;
	/* (n_tokens - 1), written: -ln p(token t + 1 | the tokens up to t) at t */
	double *losses;
};

/* Opens the executor.  precision_f32: rounds nothing.  ERR_SYSTEM with a missing library or device.
 * The caller calls forward_release(). */
int forward_init(struct forward *forward, const struct executor_ops *executor,
		 const struct model *model, bool precision_f32, struct err *err);
void forward_release(struct forward *forward);

/* Opens the executor on the devices after the first one as well: n_devices together.  The weights
 * and sequences of a pass must be on the device of its workspace. */
int forward_add_devices(struct forward *forward, size_t n_devices, struct err *err);

/* Returns the values of a token in all arrays of struct stream_places, for a sequence of n_tokens;
 * never fewer for a longer one. */
size_t forward_stream_width(const struct model *model, size_t n_tokens);

/* Returns the largest number of slots that a layer, or the head, needs. */
size_t forward_slots(const struct model *model);

/* Returns the largest number of matrices of a layer: N_LINEARS by role, then the experts'. */
size_t forward_matrices(const struct model *model);

/* residual[t] = table[token_rows[t]].  table (n_rows, hidden) has at most as many rows as the
 * sequence has tokens; token_rows is (n_tokens); norm (hidden): the weight of the norm of
 * embeddings, or NULL.  All are the host's. */
int forward_embed(const struct pass *pass, const float *table, size_t n_rows,
		  const uint32_t *token_rows, const float *norm, struct err *err);

/* The same for the inputs that layers have of their own: table is (n_rows, layers *
 * layer_input_dim).  Follows forward_embed() with the same sequence and workspace. */
int forward_embed_layers(const struct pass *pass, const float *table, size_t n_rows,
			 struct err *err);

/* Puts an n-gram embedding of the sequence (n_tokens, ngrams.dim), of the host, which must stay
 * valid until the stream has been waited for.  number: from 0 on. */
void forward_put_ngrams(const struct pass *pass, size_t number, const float *values);

/* residual += attention, then residual += mlp.  Fails only as the executor or memory does. */
int forward_layer(const struct pass *pass, struct err *err);

/* The same for n sequences, of which pass->sequence is the first: each gets the bits that
 * forward_layer() gives it.  n: 1 to the workspace's max_group. */
int forward_group(const struct pass *pass, size_t n, struct err *err);

/* y (m, n) = x (m, k) through a matrix of pass->layer, with its cast and rounding, and its bias; no
 * observer is called.  A matrix with n_parts takes as many rows of x for one of y.  x and y are
 * executor memory, and all work on x is done.  Waits, and then workspace->host.cast_counts[0] has
 * the counts of the cast; zeros if there is none. */
int forward_linear(const struct pass *pass, const struct linear *linear, const float *x, size_t m,
		   float *y, struct err *err);

/* Computes the final norm, the head and the losses.  logits: (n_tokens, vocab_size) of the host, or
 * NULL. */
int forward_head(const struct head_pass *run, float *logits, struct err *err);

/* Two distributions P and Q of the next token: natural logarithms. */
struct divergence {
	double kl;	   /* sum P ln(P / Q) */
	double reverse_kl; /* sum Q ln(Q / P) */
	bool same_top;	   /* the same token is the most likely one; of equal ones the first */
};

/* Computes the heads of two models with one vocabulary over one sequence, with the losses of both,
 * and how far they are from each other: divergences (n_tokens). */
int forward_heads(const struct head_pass *p, const struct head_pass *q,
		  struct divergence *divergences, struct err *err);

/* The same for n models q, whose heads have one shape and which share one workspace: kl[i] becomes
 * the sum over the tokens of sum P ln(P / Q).  The logits of p are computed once; no losses are.
 * done: NULL, or grows by n for each logit of a token, a panel of the head at a time.  ERR_SYSTEM
 * without memory: forward_heads_size() bytes. */
int forward_heads_many(const struct head_pass *p, const struct head_pass *q, size_t n, double *kl,
		       _Atomic uint64_t *done, struct err *err);
uint64_t forward_heads_size(size_t n);

#endif
