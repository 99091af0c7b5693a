/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass of a model, layer by layer: whoever calls brings one layer's weights at a time
 * and pushes every sequence through it.  One sequence is the work of one lane, so the result does
 * not depend on how many there are.
 *
 * The residual stream, norms, attention and softmax are fp32; what enters a matrix product is
 * rounded to bf16 first, unless asked not to be.  Products accumulate in fp32.  Values are in the
 * executor's memory, unless they are said to be the host's.
 */
#ifndef FP8CONV_FORWARD_FORWARD_H
#define FP8CONV_FORWARD_FORWARD_H

#include "backend/executor.h"
#include "model/model.h"

/* A matrix that is loaded. */
struct linear {
	const struct linear_ref *ref;
	struct executor_weight weight; /* data NULL: the layer has none */
	float *bias;		       /* NULL: none */
	float amax;	    /* of the weight, in the type that the checkpoint has it in */
	enum dtype input;   /* what the weight is multiplied with: BF16, or F32 */
	const void *module; /* the input filter's own; NULL: the input is multiplied as it is */
};

struct layer {
	const struct layer_ref *ref;
	struct linear linear[N_LINEARS];
	float *vector[N_VECTORS]; /* that of the router is the host's, where experts are chosen */
	struct linear (*experts)[N_EXPERT_ROLES];
};

/* What can be seen at a matrix (x, y), and in attention (as it sees them: q and k after their
 * rotation). */
enum observed { OBSERVED_X, OBSERVED_Y, OBSERVED_Q, OBSERVED_K, OBSERVED_V };

struct observation {
	enum observed what;
	const struct linear_ref *linear; /* NULL in attention */
	const struct layer_ref *layer;	 /* NULL: outside of layers */
	int lane;
	struct executor_stream *executor; /* of the lane: an observer may put work into it */
	size_t sequence;
	const float *values; /* (n_rows, n_cols), a row a token */
	size_t n_rows, n_cols;
	/* of the sequence's `seen`, which these values go into: they may share it, and come in
	 * several pieces */
	size_t slot;
};

/* Told of values as a pass goes by; called by several threads, each with its own lane and
 * sequence. */
struct observer {
	void *context;
	void (*observe)(void *context, const struct observation *observation);
};

/* Makes of the input of a matrix what is multiplied in its place; observers have seen the input
 * itself.  Called by several threads, each with its own lane. */
struct input_filter {
	void *context;
	/* *values: (m, k), x's or the filter's own, good until the lane's next call; both are the
	 * host's. */
	int (*apply)(void *context, const struct linear *linear, int lane, const float *x, size_t m,
		     const float **values, struct err *err);
};

struct forward {
	const struct model *model;
	struct executor *executor;
	bool round;	  /* products take bf16 */
	enum dtype input; /* in which type: BF16, or F32 that holds the same values */
	const struct observer *observer; /* NULL: none */
	struct input_filter filter;	 /* of matrices that have a module */
};

/* What one thread works with. */
struct workspace;

/* One sequence on its way. */
struct sequence {
	size_t index; /* for observers */
	size_t n_tokens;
	const uint32_t *tokens; /* of the host */
	float *residual;	/* (n_tokens, hidden) */
	/* (forward_slots()): raised as the layer under way goes by, in the order of computation */
	struct value_stats *stats;
};

/* Opens the executor; the caller releases.  precision_f32: nothing is rounded. */
int forward_init(struct forward *forward, const struct executor_ops *executor,
		 const struct model *model, bool precision_f32, struct err *err);
void forward_release(struct forward *forward);

/* Slots that a layer, or the head, needs at most. */
size_t forward_slots(const struct model *model);

/* Memory for sequences of up to max_tokens.  number: told to observers.  The filter is known. */
int workspace_new(struct workspace **lane, const struct forward *forward, size_t max_tokens,
		  int number, struct err *err);
void workspace_free(struct workspace *lane, const struct forward *forward);

/* Bytes it will hold, about; filtered: there is an input filter. */
uint64_t workspace_size(const struct executor_ops *executor, const struct model *model,
			size_t max_tokens, bool filtered);

/* The executor's, for other work between layers. */
struct executor_stream *workspace_stream(const struct workspace *lane);

/* residual = rows of a table of n_rows embeddings, `places` of it: one for each token.  Both are
 * the host's. */
int forward_embed(const struct forward *forward, struct workspace *lane, const float *table,
		  size_t n_rows, const uint32_t *places, const struct sequence *sequence,
		  struct err *err);

/* residual += what the layer adds to it. */
int forward_layer(const struct forward *forward, struct workspace *lane, const struct layer *layer,
		  struct sequence *sequence, struct err *err);

/* *nll: the sum over all tokens but the first of -log p(token | those before it), by the final norm
 * and head.  logits, of the host, if not NULL: (n_tokens, vocab_size). */
int forward_head(const struct forward *forward, struct workspace *lane, const float *norm,
		 const struct linear *head, struct sequence *sequence, double *nll, float *logits,
		 struct err *err);

#endif
