/* SPDX-License-Identifier: Apache-2.0
 *
 * A checksum of all that decides the bytes of a shard, besides the options of the job and the
 * values of its weights.  So a changed config.json makes those shards again whose plan it changes.
 */
#include <inttypes.h>
#include <isa-l/crc.h>

#include "base/buf.h"
#include "convert/steps.h"

static void add_spec(struct buf *text, const struct qspec *spec)
{
	buf_printf(text, " %d %zu %zu %d %d %d %d %a %d", (int)spec->format, spec->tile.rows,
		   spec->tile.cols, (int)spec->scale_type, spec->pow2, (int)spec->arith,
		   (int)spec->mx_rule, (double)spec->amax_epsilon, spec->margin);
}

/* Where the unit's values come from. */
static void add_source(struct buf *text, const struct unit *unit)
{
	const struct weight_scale *scale = &unit->source_scale;

	buf_printf(text, " %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		   unit->source->tensor->name, unit->rows, unit->cols, unit->stack,
		   unit->slice.first, unit->slice.row_stride, unit->slice.col_stride);
	if (scale->scale)
		buf_printf(text, " %s %zu %zu %d %d", scale->scale->tensor->name, scale->tile.rows,
			   scale->tile.cols, (int)scale->scale_type, scale->inverted);
}

/* The other units that share its per-tensor scale. */
static void add_group(struct buf *text, const struct plan *plan, const struct unit *unit)
{
	uint32_t u = plan->groups ? plan->groups[unit->scale_group].first : NO_UNIT;

	for (; u != NO_UNIT; u = plan->units[u].next_in_group)
		buf_printf(text, " %s", plan->selection.units[u].name);
}

static void add_unit(struct buf *text, const struct plan *plan, size_t u)
{
	const struct unit *unit = &plan->selection.units[u];

	buf_puts(text, unit->name);
	buf_puts(text, unit->low_bit ? " low-bit" : "");
	add_source(text, unit);
	buf_puts(text, plan->units[u].same_codes ? " same codes" : "");
	if (unit->recipe) {
		buf_printf(text, " %s", unit->recipe->name);
		add_spec(text, plan->units[u].spec);
		add_group(text, plan, unit);
	}
	buf_putc(text, '\n');
}

uint32_t resume_plan(const struct plan *plan, size_t shard)
{
	size_t end = selection_shard_begin(&plan->selection, shard + 1);
	struct buf text = { 0 };
	uint32_t crc;

	output_shard_header(&plan->shards[shard], &text);
	crc = crc32_gzip_refl(0, (const unsigned char *)text.data, text.len);
	for (size_t u = selection_shard_begin(&plan->selection, shard); u < end; u++) {
		text.len = 0;
		add_unit(&text, plan, u);
		crc = crc32_gzip_refl(crc, (const unsigned char *)text.data, text.len);
	}
	buf_release(&text);
	return crc;
}
