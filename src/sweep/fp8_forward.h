/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward passes in FP8, by exact emulation: weights and inputs are quantized by the recipe, and
 * their values multiplied, with fp32 accumulation.  Each quantized matrix is a module with its
 * recipe state.
 *
 * A dynamic scale is of the tokens of one sequence that reach the matrix.  Delayed scaling begins
 * with a scale of 1 and no history; its steps are the passes.
 */
#ifndef FP8CONV_SWEEP_FP8_FORWARD_H
#define FP8CONV_SWEEP_FP8_FORWARD_H

#include "backend/backend.h"
#include "sweep/fp8_select.h"
#include "forward/forward.h"
#include "quantizer/context.h"

struct fp8_forward;

/* Both must outlive it.  Its recipe says how long histories are. */
struct fp8_forward *fp8_forward_new(const struct fp8_selection *selected,
				    const struct backend *backend, int n_lanes);
void fp8_forward_free(struct fp8_forward *fp8);

/* Bytes that it will hold, for n_lanes sequences of up to max_tokens at a time. */
uint64_t fp8_forward_size(const struct fp8_selection *selected, size_t max_tokens, int n_lanes);

/* What the forward pass is given. */
struct input_filter fp8_forward_filter(struct fp8_forward *fp8);

/* Weights.  A scale of whole tensors is shared by those that engines merge: fp8_forward_set_amax()
 * must have told the amax of each that fp8_forward_wants_amax() before the first is quantized. Both
 * from any thread. */
bool fp8_forward_wants_amax(struct fp8_forward *fp8, const struct linear_ref *ref);
void fp8_forward_set_amax(struct fp8_forward *fp8, const struct linear_ref *ref, float amax);

/* Makes linear, whose amax is known, a module where it is to be quantized, and puts the values of
 * the quantized x into values (n, k).  x that was FP8 in the checkpoint is not quantized again. */
int fp8_forward_weight(struct fp8_forward *fp8, struct linear *linear, const struct matrix *x,
		       float *values, struct err *err);

/* The modules of a layer run in the step under way. */
void fp8_forward_touch(struct fp8_forward *fp8, struct context_stack *contexts,
		       const struct layer *layer);

/* The state of the matrix after one more pass, whose input had that amax. */
void fp8_forward_update(struct fp8_forward *fp8, const struct linear_ref *ref, float amax_x);

#endif
