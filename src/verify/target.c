/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that end in partial blocks.  Some loaders find the height of a block by a division of
 * shapes, and so read such weights with the scales of other rows.
 */
#include "base/buf.h"
#include "format/engine.h"
#include "verify/steps.h"

static void check_weight(struct verify *verify, const struct verify_weight *weight)
{
	const struct unit *unit = &weight->unit;
	const struct scheme scheme = { .granularity = weight->granularity,
				       .tile = unit->source_scale.tile };
	const char *refused = engine_refuses_partial(verify->opened.target, verify->opened.format,
						     &scheme, unit->rows, unit->cols);
	struct buf shape = { 0 };

	if (!refused)
		return;
	st_shape_format(&shape, unit->source->tensor->shape, unit->source->tensor->n_dims);
	problem_add(&verify->result->problems, PROBLEM_PARTIAL_BLOCKS, unit->name,
		    verify_file(verify, unit->source),
		    "weight '%s' %s ends in a partial block of %zu x %zu: %s", unit->name,
		    shape.data, scheme.tile.rows, scheme.tile.cols, refused);
	buf_release(&shape);
}

void verify_target(struct verify *verify)
{
	if (!verify->opened.format)
		return;
	for (size_t i = 0; i < verify->weights.n; i += verify_weight_run(verify, i))
		if (verify->weights.list[i].unit.source_scale.scale)
			check_weight(verify, &verify->weights.list[i]);
}
