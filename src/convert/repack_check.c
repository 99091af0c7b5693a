/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks by reading the scales, not by configuration, whether they are powers of two.
 */
#include <inttypes.h>

#include "convert/rescale.h"
#include "convert/steps.h"

static bool is_blocks(const struct unit *unit, const struct qspec *spec)
{
	return unit->recipe && (spec->scale_type == SCALE_E8M0 || spec->tile.cols != WHOLE) &&
	       unit->source_scale.scale_type == SCALE_F32;
}

int repack_check_blocks(struct plan *plan, const struct io *io, struct err *err)
{
	struct source source;
	struct err ignored;
	int rc = 0;

	source_init(&source, io, &plan->source, NULL, plan->stream_fd);
	for (size_t u = 0; !rc && u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];
		const struct st_tensor *scale;
		struct scales_found found;
		struct qspec spec;

		if (!is_blocks(unit, plan->units[u].spec))
			continue;
		scale = unit->source_scale.scale->tensor;
		rc = scales_find(&source, unit, &found, err);
		spec = *plan->units[u].spec;
		spec.pow2 = found.pow2;
		plan_spec_set(plan, u, &spec);
		if (!rc && !found.pow2 && spec.scale_type == SCALE_E8M0)
			rc = err_set(
				err, ERR_USAGE,
				"scale '%s' in '%s' is %.9g at %" PRIu64
				", which is not a power of two from 2^-127 to 2^127: mxfp8 has "
				"only exponents, so quantize the model again",
				scale->name,
				plan->source.shards[unit->source_scale.scale->shard].file.path,
				(double)found.odd, found.at);
	}
	if (source_close(&source, rc ? &ignored : err))
		rc = -1;
	source_release(&source);
	return rc;
}
