/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks by reading the scales, not by configuration, whether they are powers of two.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "convert/rescale.h"
#include "convert/steps.h"

#define CHUNK ((uint64_t)1 << 16) /* scales */

/* Finds the first scale of the unit that is not a power of two: *odd becomes its index in the
 * tensor, UINT64_MAX if there is none. */
static int find_odd(struct source *source, const struct unit *unit, float *chunk, uint64_t *odd,
		    float *value, struct err *err)
{
	const struct weight_scale *from = &unit->source_scale;
	uint64_t n = st_n_elements(from->scale->tensor->shape, from->scale->tensor->n_dims);
	uint8_t code;

	*odd = UINT64_MAX;
	for (uint64_t at = 0; at < n; at += CHUNK) {
		size_t n_chunk = (size_t)(n - at < CHUNK ? n - at : CHUNK);

		if (source_read_floats(
			    source,
			    &(struct floats_request){ from->scale, from->inverted, at, n_chunk },
			    chunk, err))
			return -1;
		for (size_t i = 0; i < n_chunk; i++) {
			if (rescale_exponent(chunk[i], &code))
				continue;
			*odd = at + i;
			*value = chunk[i];
			return 0;
		}
	}
	return 0;
}

static bool is_blocks(const struct unit *unit, const struct qspec *spec)
{
	return unit->recipe && (spec->scale_type == SCALE_E8M0 || spec->tile.cols != WHOLE) &&
	       unit->source_scale.scale_type == SCALE_F32;
}

int repack_check_blocks(struct plan *plan, const struct io *io, struct err *err)
{
	float *chunk = xcalloc(CHUNK, sizeof *chunk);
	struct source source;
	struct err ignored;
	int rc = 0;

	source_init(&source, io, &plan->source, NULL, plan->stream_fd);
	for (size_t u = 0; !rc && u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];
		const struct st_tensor *scale;
		struct qspec spec;
		float value = 0;
		uint64_t odd;

		if (!is_blocks(unit, plan->units[u].spec))
			continue;
		scale = unit->source_scale.scale->tensor;
		rc = find_odd(&source, unit, chunk, &odd, &value, err);
		spec = *plan->units[u].spec;
		spec.pow2 = odd == UINT64_MAX;
		plan_spec_set(plan, u, &spec);
		if (!rc && odd != UINT64_MAX && spec.scale_type == SCALE_E8M0)
			rc = err_set(
				err, ERR_USAGE,
				"scale '%s' in '%s' is %.9g at %" PRIu64
				", which is not a power of two from 2^-127 to 2^127: mxfp8 has "
				"only exponents, so quantize the model again",
				scale->name,
				plan->source.shards[unit->source_scale.scale->shard].file.path,
				(double)value, odd);
	}
	if (source_close(&source, rc ? &ignored : err))
		rc = -1;
	source_release(&source);
	free(chunk);
	return rc;
}
