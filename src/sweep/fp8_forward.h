/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward passes in FP8, by exact emulation: weights and inputs are quantized by the recipe, and
 * their values are multiplied with fp32 accumulation.  Each quantized matrix is a module with its
 * own recipe state.
 *
 * A dynamic scale is that of the tokens of one sequence that reach the matrix.  Delayed scaling
 * begins with a scale of 1 and no history; its steps are the passes.
 *
 * Order: fp8_forward_new(); for each layer, fp8_forward_raise_amax() where an amax is wanted, then
 * fp8_forward_quantize() for the bands of each matrix; for each step, fp8_forward_touch(), the
 * passes with forward.casts, and fp8_forward_take_amaxes() for each workspace; fp8_forward_free().
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

/* Does the matrix need the scale of a whole tensor that is not known yet?  It is known once
 * fp8_forward_raise_amax() was called for all matrices that share it: those that engines merge. */
bool fp8_forward_wants_amax(const struct fp8_forward *fp8, const struct linear_ref *ref);
void fp8_forward_raise_amax(struct fp8_forward *fp8, const struct linear_ref *ref, float amax);

/* Returns how the inputs of a matrix are cast; NULL if the matrix is kept. */
const struct input_cast *fp8_forward_cast(const struct fp8_forward *fp8,
					  const struct linear_ref *ref);

/* Can bf16 represent every value of a quantized input? */
bool fp8_forward_is_bf16(const struct fp8_forward *fp8);

/* Returns the least part of a matrix whose codes depend on no other part. */
struct tile fp8_forward_tile(const struct fp8_forward *fp8, const struct linear_ref *ref);

/* Quantizes a band x of a matrix that is not kept: whole tiles, but for the last of the matrix.
 * The values of its codes go to values, without gaps, and *y becomes them; it becomes x if that was
 * FP8 in the checkpoint, which is not quantized again.  Any threads may quantize bands of any
 * matrix.  ERR_SYSTEM without memory. */
int fp8_forward_quantize(struct fp8_forward *fp8, const struct linear_ref *ref,
			 const struct matrix *x, float *values, struct matrix *y, struct err *err);

/* Notes that the modules of a layer run in the current step, and sets their scales. */
void fp8_forward_touch(struct fp8_forward *fp8, struct context_stack *contexts,
		       const struct layer *layer);

/* With delayed scaling: raises the amaxes of the modules of a layer to those that their inputs had
 * in the workspace in this step.  Waits.  Other recipes: does nothing. */
int fp8_forward_take_amaxes(struct fp8_forward *fp8, const struct layer *layer,
			    struct workspace *workspace, struct err *err);

/* Updates the state of the matrix for one more pass, whose input had this amax. */
void fp8_forward_update(struct fp8_forward *fp8, const struct linear_ref *ref, float amax_x);

#endif
