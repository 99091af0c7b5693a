/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass of a model, layer by layer: whoever calls brings one layer's weights at a time and pushes every sequence
 * through it. One sequence is the work of one thread, so the result does not depend on how many there are.
 *
 * The residual stream, norms, attention and softmax are fp32; what enters a matrix product is rounded to bf16 first, unless
 * asked not to be. Products accumulate in fp32.
 */
#ifndef FP8CONV_MODEL_FORWARD_H
#define FP8CONV_MODEL_FORWARD_H

#include "backend/compute.h"
#include "backend/gemm.h"
#include "model/model.h"

/* A matrix that is loaded. */
struct linear {
	const struct linear_ref *ref;
	struct gemm_weight *weight; /* NULL: the layer has none */
	float *bias;		    /* NULL: none */
	float amax;		    /* of the weight, in the type that the checkpoint has it in */
	enum dtype input;	    /* what the weight is multiplied with: BF16, or F32 */
	const void *module;	    /* the input filter's own; NULL: the input is multiplied as it is */
};

struct layer {
	const struct layer_ref *ref;
	struct linear linear[N_LINEARS];
	float *vector[N_VECTORS];
	struct linear (*experts)[N_EXPERT_ROLES];
};

/* What can be seen at a matrix (x, y), and in attention (as it sees them: q and k after their rotation). */
enum sight { SIGHT_X, SIGHT_Y, SIGHT_Q, SIGHT_K, SIGHT_V };

struct sighting {
	enum sight what;
	const struct linear_ref *linear;
	const struct layer_ref *layer; /* NULL: outside of layers */
	int lane;
	size_t sequence;
	const float *values;
	size_t n_rows, n_cols;
	float amax;	      /* of the values, */
	uint64_t n_nonfinite; /* and how many are NaN or infinite */
};

/* Told of values as a pass goes by; called by several threads, each with its own lane and sequence. */
struct observer {
	void *context;
	/* linear: the matrix, NULL in attention.  values: (n_rows, n_cols), a row a token. */
	int (*see)(void *context, const struct sighting *sighting, struct err *err);
};

/* Makes of the input of a matrix what is multiplied in its place; observers have seen the input itself.  Called by several
 * threads, each with its own lane. */
struct input_filter {
	void *context;
	/* *values: (m, k), x's or the filter's own, good until the lane's next call. */
	int (*apply)(void *context, const struct linear *linear, int lane, const float *x, size_t m, const float **values,
		     struct err *err);
};

struct forward {
	const struct model *model;
	const struct compute *compute;
	struct gemm *gemm;
	bool round;	   /* products take bf16 */
	enum dtype input;  /* in which type: BF16, or F32 that holds the same values */
	const struct observer *observers;
	size_t n_observers;
	struct input_filter filter; /* of matrices that have a module */
};

/* What one thread works with. */
struct forward_lane;

/* One sequence on its way. */
struct sequence {
	size_t index; /* for observers */
	size_t n_tokens;
	const uint32_t *tokens;
	float *residual; /* (n_tokens, hidden) */
};

/* Opens the library; the caller releases.  precision_f32: nothing is rounded. */
int forward_init(struct forward *forward, const struct model *model, bool precision_f32, struct err *err);
void forward_release(struct forward *forward);

/* Memory for sequences of up to max_tokens.  number: told to observers. */
int forward_lane_new(struct forward_lane **lane, const struct forward *forward, size_t max_tokens, int number,
		     struct err *err);
void forward_lane_free(struct forward_lane *lane, const struct forward *forward);
uint64_t forward_lane_size(const struct model *model, size_t max_tokens); /* bytes it will hold, about */

/* residual += what the layer adds to it. */
int forward_layer(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		  struct sequence *sequence, struct err *err);

/* *nll: the sum over all tokens but the first of -log p(token | those before it), by the final norm and head. logits, if not
 * NULL: (n_tokens, vocab_size). */
int forward_head(const struct forward *forward, struct forward_lane *lane, const float *norm, const struct linear *head,
		 struct sequence *sequence, double *nll, float *logits, struct err *err);

#endif
