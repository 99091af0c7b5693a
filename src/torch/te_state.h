/* SPDX-License-Identifier: Apache-2.0
 *
 * What a module of TransformerEngine saves beside its weights under the name "_extra_state": the
 * scales and the amax history of its products.
 *
 * Source: TransformerEngine 2.20.2, pytorch/module/base.py and ops/op.py (get_extra_state): a
 * pickle, whose tensors have their storages as bytes; 1.9: a file of torch.save().
 */
#ifndef FP8CONV_TORCH_TE_STATE_H
#define FP8CONV_TORCH_TE_STATE_H

#include "torch/pickle.h"

/* Of the forward pass.  A zeroed struct has nothing, as the state of recipes without history. */
struct te_state {
	/* columns: input, weight, output of the first product, of the next one, and so on */
	size_t n_rows, n_columns;
	/* (n_rows, n_columns): magnitudes.  The first row is of a step that has not ended, the
	 * others of steps before, the oldest first; 0: there was no such step. */
	float *history;
	float *scale;	    /* (n_columns): from values to codes */
	float max;	    /* of a code, which the scale brings the amax to; 0: not told */
	int margin;	    /* the scale is 2^margin smaller than that */
	struct arena arena; /* of these */
};

/* Reads a state; nothing in it is called.  ERR_INPUT for other pickles, and for tensors that are
 * not magnitudes in one table of F32.  The caller calls te_state_release(), also on failure. */
int te_state_read(struct te_state *state, const struct pickle_text *text, struct err *err);
void te_state_release(struct te_state *state);

#endif
