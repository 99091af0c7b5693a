/* SPDX-License-Identifier: Apache-2.0
 *
 * Which matrices of a model take FP8 in its forward passes, and by which recipe: those that
 * `quantize` would quantize.
 */
#ifndef FP8CONV_SWEEP_FP8_SELECT_H
#define FP8CONV_SWEEP_FP8_SELECT_H

#include "select/select.h"
#include "model/model.h"

struct fp8_params {
	bool forward;		      /* --fp8-forward; without it the others must be unset */
	const char *recipe;	      /* NULL: blockwise */
	const char *scale_fmt;	      /* "ue8m0", "float" or NULL, of weights and inputs */
	struct select_options select; /* include, exclude and ragged */
};

/* Zeroed is an empty one.  It stays where it was made: the selection points at its recipe. */
struct fp8_selection {
	struct recipe recipe;	    /* as tuned */
	struct selection selection; /* empty without --fp8-forward */
	size_t n;
	const struct unit **units; /* that are quantized, for fp8_select_find() */
};

/* Both must outlive it.  ERR_USAGE: an option without use, nothing to quantize, and whatever
 * selection_make() and recipe_weight_spec() refuse. */
int fp8_select_make(struct fp8_selection *selected, const struct fp8_params *params,
		    const struct model *model, struct err *err);
void fp8_select_release(struct fp8_selection *selected);

/* The index in units of the one that is this matrix; SIZE_MAX: it is kept. */
size_t fp8_select_find(const struct fp8_selection *selected, const struct linear_ref *ref);

/* Whether bf16 holds every value of a quantized input: the scales are powers of two. */
bool fp8_select_is_bf16(const struct fp8_selection *selected);

/* "bf16", or "bf16, fp8 blockwise --ragged": what products take, as amax files say it.  The caller
 * frees. */
char *fp8_select_precision(const struct fp8_params *params, const char *precision);

#endif
