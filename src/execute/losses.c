/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/losses.h"

#include <stdlib.h>

#include "base/mem.h"
#include "execute/execution.h"

static void take_shard(const struct pipeline *pipeline, size_t shard, struct unit_loss *losses)
{
	const struct output_shard *out = &pipeline->plan->shards[shard];

	for (size_t i = 0; i < out->n_tensors; i++) {
		const struct unit *unit = &pipeline->plan->selection.units[out->outputs[i].unit];
		const struct output_figures *figures = &pipeline->outputs[i];

		if (out->outputs[i].kind == OUTPUT_CODES)
			losses[out->outputs[i].unit] =
				(struct unit_loss){ .n = unit->rows * unit->cols,
						    .underflow = figures->n_underflow,
						    .overflow = figures->n_overflow,
						    .error = figures->error };
	}
}

int execute_losses(const struct plan *plan, const struct convert_params *params,
		   struct progress *progress, struct unit_loss **losses, struct err *err)
{
	struct pipeline *pipeline;
	int rc = pipeline_new(&pipeline, plan, params, progress, err);

	*losses = xcalloc(plan->selection.n_units, sizeof **losses);
	progress_begin(progress, PROGRESS_WORK, plan->totals.input_bytes);
	if (!rc)
		pipeline->every_row = true;
	for (size_t i = 0; !rc && i < plan->n_shards; i++) {
		rc = pipeline_shard_nowhere(pipeline, i, err);
		if (!rc)
			take_shard(pipeline, i, *losses);
	}
	pipeline_free(pipeline);
	return rc;
}
