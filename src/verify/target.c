/* SPDX-License-Identifier: Apache-2.0
 *
 * What the target does not load: weights that end in partial blocks, since some loaders find the
 * height of a block by a division of shapes, and so read such weights with the scales of other
 * rows; and weights that a row of the family names.
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

/* Returns the first FP8 weight that the pattern of a row matches, or NULL. */
static const struct unit *first_matching(const struct verify *verify, const struct profile_row *row)
{
	int position;

	for (size_t i = 0; i < verify->weights.n; i++) {
		const struct unit *unit = &verify->weights.list[i].unit;

		if (profile_pattern_matches(row->pattern, unit->name, &position))
			return unit;
	}
	return NULL;
}

static void check_family(struct verify *verify)
{
	const struct verify_lists *lists = &verify->lists;
	const struct profile_row *row = NULL;

	while ((row = profile_next(&lists->profile, PROFILE_NOT_LOADED, lists->on, row))) {
		const struct unit *unit = first_matching(verify, row);

		if (unit)
			problem_add(&verify->result->problems, PROBLEM_NOT_LOADED, unit->name,
				    verify_file(verify, unit->source),
				    "weight '%s' is FP8, which %s does not load: %s [%s]",
				    unit->name, engine_name(verify->opened.target), row->said,
				    row->source);
	}
}

/* Reports the first expert in a scheme that the target reads in dense layers alone. */
static void check_experts(struct verify *verify)
{
	for (size_t i = 0; i < verify->weights.n; i += verify_weight_run(verify, i)) {
		const struct verify_weight *weight = &verify->weights.list[i];
		const struct unit *unit = &weight->unit;
		const struct scheme scheme = { .granularity = weight->granularity,
					       .tile = unit->source_scale.tile };
		const char *reason = engine_refuses_experts(verify->opened.target,
							    verify->opened.format, &scheme);

		if (!reason || !role_cache_find(&verify->roles, unit->name).expert)
			continue;
		problem_add(&verify->result->problems, PROBLEM_NOT_LOADED, unit->name,
			    verify_file(verify, unit->source),
			    "weight '%s' of an expert does not load in %s: %s", unit->name,
			    engine_name(verify->opened.target), reason);
		return;
	}
}

void verify_target(struct verify *verify)
{
	if (verify->opened.target != ENGINE_ANY)
		check_family(verify);
	if (!verify->opened.format)
		return;
	check_experts(verify);
	for (size_t i = 0; i < verify->weights.n; i += verify_weight_run(verify, i))
		if (verify->weights.list[i].unit.source_scale.scale)
			check_weight(verify, &verify->weights.list[i]);
}
