/* SPDX-License-Identifier: Apache-2.0
 *
 * The casts of an engine that runs an FP8 checkpoint (sweep/engine_cast.h), from the scales that
 * the checkpoint has.
 *
 * Order: engine_inputs_make(); engine_inputs_mark() for each loaded layer, before its passes;
 * engine_inputs_release().
 */
#ifndef FP8CONV_EVAL_INPUTS_H
#define FP8CONV_EVAL_INPUTS_H

#include "forward/forward.h"
#include "source/source.h"

/* The cast of the input (m, k) of one matrix. */
struct engine_input {
	const struct linear_ref *ref;
	struct input_cast cast;
};

/* A zeroed struct is empty. */
struct engine_inputs {
	struct engine_input *list; /* by address of ref */
	size_t n;
};

/* Finds the casts of all quantized matrices of the model, whose checkpoint the source reads.
 * ERR_INPUT for a weight or a static scale that cannot be read. */
int engine_inputs_make(struct engine_inputs *inputs, const struct model *model,
		       struct source *source, struct err *err);
void engine_inputs_release(struct engine_inputs *inputs);

/* Sets linear.cast of the matrices of a layer, or of the head, whose input is cast; it points into
 * the list. */
void engine_inputs_mark_layer(const struct engine_inputs *inputs, struct layer *layer);
void engine_inputs_mark(const struct engine_inputs *inputs, struct linear *linear);

#endif
