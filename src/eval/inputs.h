/* SPDX-License-Identifier: Apache-2.0
 *
 * The casts of an engine that runs an FP8 checkpoint: it quantizes the input of every quantized
 * matrix by the granularity of the weight's scales, and multiplies codes.  Here the values of the
 * codes take the place of the input.
 *
 * Order: engine_inputs_make(); engine_inputs_filter() for the forward pass; engine_inputs_mark()
 * for each loaded layer, before its passes; engine_inputs_release().
 *
 * Source: vLLM's Fp8LinearMethod and CompressedTensorsW8A8Fp8, per_token_group_quant_fp8(),
 * mxfp8_quantize(); SGLang has the same casts.
 */
#ifndef FP8CONV_EVAL_INPUTS_H
#define FP8CONV_EVAL_INPUTS_H

#include "base/mem.h"
#include "forward/forward.h"
#include "source/source.h"

/* How an input is cast. */
struct engine_cast {
	struct qspec spec;
	float scale_inv; /* static, of the checkpoint; 0: each tile has its own */
};

/* The cast of the input (m, k) of one matrix.  Matrices with equal casts share one, so that an
 * input of several matrices is cast once. */
struct engine_input {
	const struct linear_ref *ref;
	size_t cast;
};

/* Values that were cast: all, those beyond the largest code, and those that became zero and were
 * none. */
struct cast_counts {
	uint64_t n, saturated, zeros;
};

/* The memory of one worker. */
struct engine_lane {
	struct buffer codes, scales, values;
	struct cast_counts counts;
};

/* A zeroed struct is empty. */
struct engine_inputs {
	struct engine_input *list; /* by address of ref */
	size_t n;
	struct engine_cast *casts;
	size_t n_casts;
	const struct backend *backend;
	struct engine_lane *lanes; /* by worker */
	int n_lanes;
};

/* Finds the casts of all quantized matrices of the model, whose checkpoint the source reads.
 * backend must outlive the inputs.  ERR_INPUT for a weight or a static scale that cannot be
 * read. */
int engine_inputs_make(struct engine_inputs *inputs, const struct model *model,
		       struct source *source, int n_lanes, struct err *err);
void engine_inputs_release(struct engine_inputs *inputs);

/* Returns the filter; inputs must not move. */
struct input_filter engine_inputs_filter(struct engine_inputs *inputs);

/* Returns the counts of all casts of a worker. */
struct cast_counts engine_inputs_counts(const struct engine_inputs *inputs, int worker);

/* Sets linear.module of the matrices of a layer, or of the head, whose input is cast. */
void engine_inputs_mark_layer(const struct engine_inputs *inputs, struct layer *layer);
void engine_inputs_mark(const struct engine_inputs *inputs, struct linear *linear);

#endif
