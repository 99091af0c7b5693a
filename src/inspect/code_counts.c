/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect/code_counts.h"

#include <math.h>

static void count_scale(struct code_counts *counts, float factor)
{
	if (isfinite(factor) && factor > 0)
		counts->scales[ilogbf(factor) - SCALE_EXPONENT_MIN]++;
	else
		counts->n_other_scales++;
}

int code_counts_scales(struct code_counts *counts, struct source *files,
		       const struct weight_scale *scale, void *buffer, struct err *err)
{
	const struct st_tensor *tensor = scale->scale->tensor;
	uint64_t n = st_n_elements(tensor->shape, tensor->n_dims);
	const uint64_t step = CODE_COUNTS_BUFFER / sizeof(float);
	float *values = buffer;

	for (uint64_t first = 0; first < n; first += step) {
		struct floats_request request = { .ref = scale->scale,
						  .inverted = scale->inverted,
						  .first = first,
						  .n = (size_t)(n - first < step ? n - first
										 : step) };

		if (source_read_floats(files, &request, values, err))
			return -1;
		for (size_t i = 0; i < request.n; i++)
			count_scale(counts, values[i]);
	}
	return 0;
}

void code_counts_add(struct code_counts *into, const struct code_counts *from)
{
	for (int code = 0; code < 256; code++)
		into->codes[code] += from->codes[code];
	for (int i = 0; i < N_SCALE_EXPONENTS; i++)
		into->scales[i] += from->scales[i];
	into->n_other_scales += from->n_other_scales;
}
