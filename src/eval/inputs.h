/* SPDX-License-Identifier: Apache-2.0
 *
 * The casts of an engine that runs an FP8 checkpoint (sweep/engine_cast.h), from the scales that
 * the checkpoint has.
 *
 * Order: engine_inputs_make(); engine_inputs_filter() for the forward pass; engine_inputs_mark()
 * for each loaded layer, before its passes; engine_inputs_release().
 */
#ifndef FP8CONV_EVAL_INPUTS_H
#define FP8CONV_EVAL_INPUTS_H

#include "source/source.h"
#include "sweep/engine_cast.h"

/* The cast of the input (m, k) of one matrix. */
struct engine_input {
	const struct linear_ref *ref;
	size_t cast;
};

/* A zeroed struct is empty. */
struct engine_inputs {
	struct engine_input *list; /* by address of ref */
	size_t n;
	struct engine_casts casts;
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
