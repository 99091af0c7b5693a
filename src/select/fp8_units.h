/* SPDX-License-Identifier: Apache-2.0
 *
 * The units of a source that is FP8 and stays what it is in names: each of its weights, each tensor
 * that is kept, and none of the scales, which follow their weights.
 */
#ifndef FP8CONV_SELECT_FP8_UNITS_H
#define FP8CONV_SELECT_FP8_UNITS_H

#include "source/fp8_source.h"
#include "select/select.h"

/* Fills the selection, in the order of the checkpoint's tensors; weights have their source_scale,
 * rows and cols (a stack of experts: of all of them, and `stack`), what is kept a reason.  Counts
 * weights in selection.n_quantized.  ERR_INPUT for what cannot be read. */
int fp8_units_make(struct selection *selection, const struct checkpoint *checkpoint,
		   const struct detection *detection, struct err *err);

/* Rows, columns and layout of the FP8 weight that unit->source is: the matrices of a 3-D one lie on
 * top of each other. */
void fp8_unit_layout(struct unit *unit);

#endif
