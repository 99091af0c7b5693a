/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass of a model, layer by layer: the caller loads the weights of one layer at a time
 * and pushes every sequence through it.  One thread computes a sequence, with a workspace of its
 * own, so the result does not depend on the number of threads.
 *
 * The residual stream, norms, attention and softmax are fp32; the inputs of matrix products are
 * rounded to bf16 first, unless the caller asks for fp32.  Products accumulate in fp32.  Arrays lie
 * in the executor's memory, unless they are said to be the host's.
 *
 * forward_init(), workspace_new() for each thread; then for each sequence forward_embed(),
 * forward_layer() for every layer in order, forward_head().
 */
#ifndef FP8CONV_FORWARD_FORWARD_H
#define FP8CONV_FORWARD_FORWARD_H

#include "backend/executor.h"
#include "model/model.h"

/* A matrix that is loaded. */
struct linear {
	const struct linear_ref *ref;
	struct executor_weight weight; /* data NULL: the layer has none */
	float *bias;		       /* (n); NULL: none */
	float amax;	    /* of the weight, in the type that the checkpoint has it in */
	enum dtype input;   /* what the weight is multiplied with: BF16, or F32 */
	const void *module; /* the input filter's own; NULL: the input is multiplied as it is */
};

struct layer {
	const struct layer_ref *ref;
	struct linear linear[N_LINEARS];
	float *vector[N_VECTORS]; /* VECTOR_ROUTER_BIAS is the host's, where experts are chosen */
	struct linear (*experts)[N_EXPERT_ROLES];
};

struct head {
	const float *norm; /* (hidden): the final norm */
	const struct linear *linear;
};

/* The values of a matrix (input and output), or of attention: q and k after their rotation. */
enum observed { OBSERVED_X, OBSERVED_Y, OBSERVED_Q, OBSERVED_K, OBSERVED_V };

struct observation {
	enum observed what;
	const struct linear_ref *linear; /* NULL in attention */
	const struct layer_ref *layer;	 /* NULL: the head */
	int worker;			 /* number of the workspace */
	struct executor_stream *stream;	 /* of the workspace: an observer may put work into it */
	size_t sequence;
	const float *values; /* (n_rows, n_cols), a row a token */
	size_t n_rows, n_cols;
	/* index in the sequence's stats.  Values that come in several pieces share a slot. */
	size_t slot;
};

/* Called with values as a pass goes by, by several threads, each with a worker and sequence of its
 * own. */
struct observer {
	void *context;
	void (*observe)(void *context, const struct observation *observation);
};

/* The input of a matrix, for a filter. */
struct filter_input {
	const struct linear *linear;
	int worker;
	const float *x; /* (m, k), the host's */
	size_t m;
};

/* Computes the values that are multiplied in place of an input; observers are called with the input
 * itself.  Called by several threads, each with a worker of its own. */
struct input_filter {
	void *context; /* apply NULL: no filter */
	/* *values: (m, k) of the host: x, or memory of the filter that is valid until the next call
	 * of this worker. */
	int (*apply)(void *context, const struct filter_input *input, const float **values,
		     struct err *err);
};

struct forward {
	const struct model *model;
	struct executor *executor;
	bool round;	  /* products take bf16 */
	enum dtype input; /* in which type: BF16, or F32 that holds the same values */
	const struct observer *observer; /* NULL: none */
	struct input_filter filter;	 /* of matrices that have a module */
};

struct sequence {
	size_t index; /* for observers and messages */
	size_t n_tokens;
	const uint32_t *tokens; /* (n_tokens), the host's */
	float *residual;	/* (n_tokens, hidden) */
	/* (forward_slots()): raised by forward_layer() and forward_head(), in the order of
	 * computation */
	struct value_stats *stats;
};

struct workspace;

/* One sequence in one layer: the arguments of every step of the forward pass. */
struct pass {
	const struct forward *forward; /* model, executor, what products take */
	struct workspace *workspace;   /* of this thread */
	const struct layer *layer;     /* loaded; NULL: embedding or head */
	const struct sequence *sequence;
};

/* Opens the executor; the caller releases.  precision_f32: nothing is rounded. */
int forward_init(struct forward *forward, const struct executor_ops *executor,
		 const struct model *model, bool precision_f32, struct err *err);
void forward_release(struct forward *forward);

/* The largest number of slots that a layer, or the head, needs. */
size_t forward_slots(const struct model *model);

/* residual[t] = table[token_rows[t]].  table: (n_rows, hidden), at most as many rows as the
 * sequence has tokens; token_rows: (n_tokens).  Both are the host's. */
int forward_embed(const struct pass *pass, const float *table, size_t n_rows,
		  const uint32_t *token_rows, struct err *err);

/* residual += attention, then residual += mlp. */
int forward_layer(const struct pass *pass, struct err *err);

/* *nll: the sum over all tokens but the first of -log p(token | the tokens before it), by the final
 * norm and the head.  logits: (n_tokens, vocab_size) of the host, or NULL. */
int forward_head(const struct pass *pass, const struct head *head, double *nll, float *logits,
		 struct err *err);

#endif
