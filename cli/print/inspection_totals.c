/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/print/inspection.h"

struct inspection_totals inspection_total(const struct inspection *inspection)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	struct inspection_totals totals = { 0 };

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->tensors[i];
		const struct st_tensor *tensor = ref->tensor;

		totals.n_tensors[tensor->dtype]++;
		totals.bytes[tensor->dtype] += st_tensor_size(tensor);
		totals.n_bytes += st_tensor_size(tensor);
		if (detection_is_scale(&inspection->detection, ref) ||
		    low_bit_is_part(&inspection->low_bit, i))
			continue;
		if (low_bit_of(&inspection->low_bit, i))
			totals.n_parameters += 2 * st_tensor_size(tensor);
		else
			totals.n_parameters += st_n_elements(tensor->shape, tensor->n_dims);
	}
	return totals;
}

double inspection_bits(const struct inspection_totals *totals)
{
	return totals->n_parameters ? 8 * (double)totals->n_bytes / (double)totals->n_parameters
				    : NAN;
}
