/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward passes in FP8, by exact emulation: weights and inputs are quantized by the recipe, and
 * their values are multiplied with fp32 accumulation.  Each quantized matrix is a module with its
 * own recipe state.
 *
 * A dynamic scale is that of the tokens of one sequence that reach the matrix.  Delayed scaling
 * begins with a scale of 1 and no history; its steps are the passes.
 *
 * Order: fp8_forward_new(); for each layer, fp8_forward_set_amax() where it is wanted, then
 * fp8_forward_weight() for each matrix; for each step, fp8_forward_touch(), the passes with
 * forward.casts, and fp8_forward_take_amaxes() for each workspace; fp8_forward_free().
 */
#ifndef FP8CONV_SWEEP_FP8_FORWARD_H
#define FP8CONV_SWEEP_FP8_FORWARD_H

#include "backend/backend.h"
#include "sweep/fp8_select.h"
#include "forward/workspace.h"
#include "quantizer/context.h"

struct fp8_forward;

/* Makes the state of all modules; selected and backend must outlive it.  The recipe of selected
 * sets the length of histories. */
struct fp8_forward *fp8_forward_new(const struct fp8_selection *selected,
				    const struct backend *backend);
void fp8_forward_free(struct fp8_forward *fp8);

/* Returns the bytes of the state. */
uint64_t fp8_forward_size(const struct fp8_selection *selected);

/* Weights that engines merge share the scale of whole tensors: the amax of each one that
 * fp8_forward_wants_amax() must be set before the first of them is quantized.  Both functions may
 * be called from any thread. */
bool fp8_forward_wants_amax(struct fp8_forward *fp8, const struct linear_ref *ref);
void fp8_forward_set_amax(struct fp8_forward *fp8, const struct linear_ref *ref, float amax);

/* For a matrix x (n, k) with known amax: sets linear->cast if it is to be quantized, and writes the
 * values of the quantized x to values (n, k).  An x that was FP8 in the checkpoint is not
 * quantized again. */
int fp8_forward_weight(struct fp8_forward *fp8, struct linear *linear, const struct matrix *x,
		       float *values, struct err *err);

/* Notes that the modules of a layer run in the current step, and sets their scales. */
void fp8_forward_touch(struct fp8_forward *fp8, struct context_stack *contexts,
		       const struct layer *layer);

/* With delayed scaling: raises the amaxes of the modules of a layer by those of the inputs that the
 * workspace has had in the step.  Waits.  Other recipes: does nothing. */
int fp8_forward_take_amaxes(struct fp8_forward *fp8, const struct layer *layer,
			    struct workspace *workspace, struct err *err);

/* Updates the state of the matrix for one more pass, whose input had this amax. */
void fp8_forward_update(struct fp8_forward *fp8, const struct linear_ref *ref, float amax_x);

#endif
