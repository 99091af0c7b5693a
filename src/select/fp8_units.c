/* SPDX-License-Identifier: Apache-2.0 */
#include "select/fp8_units.h"

#include <string.h>

#include "base/mem.h"
#include "format/foreign.h"
#include "format/scale_names.h"

void fp8_unit_layout(struct unit *unit)
{
	const struct st_tensor *tensor = unit->source->tensor;
	const uint64_t *sides = tensor->shape + tensor->n_dims - 2;

	unit->rows = sides[0];
	unit->cols = sides[1];
	if (tensor->n_dims == 3) {
		unit->stack = unit->rows;
		unit->rows *= tensor->shape[0];
	}
	unit->slice = (struct slice){ .row_stride = unit->cols, .col_stride = 1 };
}

void fp8_unit_low_bit(struct unit *unit)
{
	fp8_unit_layout(unit);
	if (!unit->low_bit->packing->transposed)
		return;
	unit->stack = unit->cols;
	unit->cols = unit->source->tensor->shape[1];
	unit->rows = unit->source->tensor->shape[0] * unit->stack;
	unit->slice = (struct slice){ .row_stride = 1, .col_stride = unit->stack };
}

/* Is it an integer tensor of another scheme's weights?  Such a tensor has a scale beside it, or a
 * telling name.  Other integers are no weights. */
static bool is_packed(const struct detection *detection, const struct st_tensor *tensor)
{
	return foreign_tool(detection->checkpoint, tensor) ||
	       scale_beside(detection->checkpoint, tensor->name);
}

static void add_low_bit(struct selection *selection, const struct low_bit_weight *weight)
{
	struct unit unit = { .name = weight->tensor.name,
			     .source = &weight->ref,
			     .low_bit = weight,
			     .next_joint = (uint32_t)selection->n_units };

	fp8_unit_low_bit(&unit);
	selection->n_quantized++;
	ARRAY_GROW(selection->units, selection->n_units);
	selection->units[selection->n_units++] = unit;
}

static int add_unit(struct selection *selection, const struct detection *detection,
		    const struct tensor_ref *ref, struct err *err)
{
	const struct st_tensor *tensor = ref->tensor;
	struct unit unit = { .name = tensor->name,
			     .source = ref,
			     .next_joint = (uint32_t)selection->n_units };
	const char *method = json_string_value(json_object_get(detection->config, "quant_method"));

	if (fp8_source_check_type(detection->checkpoint, tensor, is_packed(detection, tensor),
				  method, err))
		return -1;
	if (detection_is_weight(ref)) {
		if (fp8_source_scale(detection, ref, &unit.source_scale, err))
			return -1;
		fp8_unit_layout(&unit);
		selection->n_quantized++;
	} else if (dtype_is_fp8(tensor->dtype)) {
		return err_set(err, ERR_INPUT, "FP8 tensor '%s' has %d dimensions, not 2 or 3",
			       tensor->name, tensor->n_dims);
	} else {
		unit.reason = xasprintf("%s already", dtype_name(tensor->dtype));
	}
	ARRAY_GROW(selection->units, selection->n_units);
	selection->units[selection->n_units++] = unit;
	return 0;
}

void fp8_units_note(struct notes *notes, const struct tensor_ref *first, size_t n)
{
	if (n)
		notes_add(notes, NOTE_SCALES_LEFT_OUT, first->tensor->name,
			  "%zu %s the name of a scale that no engine reads, and %s left out, first "
			  "'%s': rename or apply %s first if %s",
			  n, n == 1 ? "tensor has" : "tensors have", n == 1 ? "is" : "are",
			  first->tensor->name, n == 1 ? "it" : "them",
			  n == 1 ? "it counts" : "they count");
}

int fp8_units_make(struct selection *selection, const struct checkpoint *checkpoint,
		   const struct detection *detection, struct err *err)
{
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->tensors[i];

		if (detection_is_scale(detection, ref) ||
		    low_bit_is_dropped(&selection->low_bit, i))
			continue;
		if (low_bit_of(&selection->low_bit, i))
			add_low_bit(selection, low_bit_of(&selection->low_bit, i));
		else if (add_unit(selection, detection, ref, err))
			return -1;
	}
	fp8_units_note(&selection->notes, detection->unread, detection->n_unread);
	return 0;
}
