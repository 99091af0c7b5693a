/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrices of a model that are FP8 in its forward passes, and their recipe: those that
 * `quantize` would quantize.
 *
 * Order: fp8_select_make(); the questions below; fp8_select_release().
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

/* A zeroed struct is empty.  It must not move: the selection points to its recipe. */
struct fp8_selection {
	struct recipe recipe;	    /* after tuning */
	struct selection selection; /* empty without --fp8-forward */
	size_t n;
	const struct unit **units; /* the quantized ones, for fp8_select_find() */
};

/* Makes the selection; params, model and its checkpoint must outlive it.  ERR_USAGE for an option
 * without effect, for nothing to quantize, and for all that selection_make() and
 * recipe_weight_spec() refuse. */
int fp8_select_make(struct fp8_selection *selected, const struct fp8_params *params,
		    const struct checkpoint *checkpoint, const struct model *model,
		    struct err *err);
void fp8_select_release(struct fp8_selection *selected);

/* Returns the index of this matrix in units; SIZE_MAX if it is kept. */
size_t fp8_select_find(const struct fp8_selection *selected, const struct linear_ref *ref);

/* Is it quantized as two matrices with interleaved rows, as gate and up of GPT-OSS? */
bool fp8_select_alternates(const struct fp8_selection *selected, const struct linear_ref *ref);

/* Can bf16 represent every value of a quantized input?  It can if the scales are powers of two. */
bool fp8_select_is_bf16(const struct fp8_selection *selected);

/* Returns the type of products as in amax files: "bf16", or "bf16, fp8 blockwise --ragged".  The
 * caller frees it. */
char *fp8_select_precision(const struct fp8_params *params, const char *precision);

#endif
