/* SPDX-License-Identifier: Apache-2.0
 *
 * The units of an FP8 source that keeps its names: each of its weights and each kept tensor, but no
 * scales, which follow their weights.
 */
#ifndef FP8CONV_SELECT_FP8_UNITS_H
#define FP8CONV_SELECT_FP8_UNITS_H

#include "source/fp8_source.h"
#include "select/select.h"

/* Fills the selection in the order of the checkpoint's tensors, and counts weights in
 * selection.n_quantized.  selection.low_bit lists the low-bit weights.  Weights get
 * source_scale or low_bit, rows and cols (of a stack of experts: of all matrices, and `stack`);
 * kept units get a reason.  ERR_INPUT for a tensor that cannot be read. */
int fp8_units_make(struct selection *selection, const struct checkpoint *checkpoint,
		   const struct detection *detection, struct err *err);

/* Notes the scales that no output has because no engine reads them by their names. */
void fp8_units_note(struct notes *notes, const struct tensor_ref *first, size_t n);

/* Sets rows, columns and layout of the FP8 weight unit->source.  The matrices of a 3-D weight are
 * stacked. */
void fp8_unit_layout(struct unit *unit);

/* The same of the low-bit weight unit->low_bit, as models have it: rows are outputs, and where a
 * file in high precision has them as columns, the weight is read transposed. */
void fp8_unit_low_bit(struct unit *unit);

#endif
