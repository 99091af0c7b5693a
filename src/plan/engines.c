/* SPDX-License-Identifier: Apache-2.0
 *
 * What engines do not load of a plan: an error for the target; without one notes, each of which
 * names all engines that a kind of refusals is of.
 */
#include "plan/engines.h"

#include <inttypes.h>

#include "base/buf.h"
#include "format/format.h"

/* The engines that a plan without a target speaks of.  TensorRT-LLM reads the format modelopt
 * alone, so whoever serves with it names it. */
#define NOTED_ENGINES (ENGINE_ALL_BITS & ~ENGINE_BIT(ENGINE_TRTLLM))

/* Looks for what quantization->target refuses: ERR_USAGE.  *tensor: the first one that it is
 * about, or NULL. */
typedef int find_refusal(const struct plan *plan, const struct quantization *quantization,
			 const char **tensor, struct err *err);

/* Returns what to do, where the job is for a target. */
static const char *cure(const struct plan *plan, const char *text)
{
	return plan->target == ENGINE_ANY ? "" : text;
}

static const struct unit *first_unit(const struct plan *plan, const struct profile_row *row)
{
	int position;

	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];

		if (unit->recipe && profile_pattern_matches(row->pattern, unit->name, &position))
			return unit;
	}
	return NULL;
}

/* Returns the first attention with a scale that the row is about, or NULL. */
static const char *first_cache(const struct plan *plan, const struct profile_row *row)
{
	int position;

	for (size_t i = 0; i < plan->caches.n; i++)
		if (profile_pattern_matches(row->pattern, plan->caches.list[i].attention,
					    &position))
			return plan->caches.list[i].attention;
	return NULL;
}

/* The rows about weights. */
static int refuse_weights(const struct plan *plan, enum engine engine, unsigned on,
			  const char **tensor, struct err *err)
{
	const struct profile_row *row = NULL;

	while ((row = profile_next(&plan->profile, PROFILE_NOT_LOADED, on, row))) {
		const struct unit *unit = first_unit(plan, row);

		if (!unit)
			continue;
		*tensor = unit->source->tensor->name;
		return err_set(err, ERR_USAGE,
			       "'%s' as FP8 in format '%s' does not load in %s: %s [%s]%s", *tensor,
			       plan->format->name, engine_name(engine), row->said, row->source,
			       cure(plan, plan->conversion == CONVERT_REPACK
						  ? "; use another --format, or omit --target"
						  : "; use --exclude to keep such weights, or omit "
						    "--target"));
	}
	return 0;
}

/* The rows about scales of KV caches. */
static int refuse_caches(const struct plan *plan, enum engine engine, unsigned on,
			 const char **tensor, struct err *err)
{
	const struct profile_row *row = NULL;

	while ((row = profile_next(&plan->profile, PROFILE_CACHE_STOP, on, row))) {
		const char *attention = first_cache(plan, row);

		if (!attention)
			continue;
		*tensor = attention;
		return err_set(err, ERR_USAGE,
			       "the KV cache scales of '%s' do not load in %s: %s [%s]%s",
			       attention, engine_name(engine), row->said, row->source,
			       cure(plan, "; omit --kv-cache, or --target"));
	}
	return 0;
}

/* Weights that vLLM and SGLang load on no number of devices. */
static int refuse_blocks(const struct plan *plan, enum engine engine, const char **tensor,
			 struct err *err)
{
	const struct unit *unit = selection_obstacle(&plan->selection);
	struct buf said = { 0 };

	if (!unit || (engine != ENGINE_VLLM && engine != ENGINE_SGLANG))
		return 0;
	*tensor = unit->name;
	selection_put_obstacle(&said, unit);
	err_set(err, ERR_USAGE, "'%s' does not load in %s: %s%s", unit->name, engine_name(engine),
		said.data,
		cure(plan, "; use --recipe channelwise, which accepts any shape, or omit "
			   "--ragged"));
	buf_release(&said);
	return -1;
}

/* Weights that end in a partial block, which transformers reads wrong; without a target the
 * selection notes them. */
static int refuse_partial(const struct plan *plan, const char **tensor, struct err *err)
{
	for (size_t u = 0; plan->target == ENGINE_TRANSFORMERS && u < plan->selection.n_units;
	     u++) {
		const struct unit *unit = &plan->selection.units[u];
		uint64_t rows = unit_matrix_rows(unit);
		struct tile tile;

		if (!unit->recipe)
			continue;
		tile = plan->units[u].spec->tile;
		if ((tile.rows == WHOLE || rows % tile.rows == 0) &&
		    (tile.cols == WHOLE || unit->cols % tile.cols == 0))
			continue;
		*tensor = unit->name;
		return err_set(err, ERR_USAGE,
			       "'%s' [%" PRIu64 ", %" PRIu64
			       "] ends in a partial block of %zu x %zu, which transformers reads "
			       "wrong or not at all: use --recipe channelwise, which accepts any "
			       "shape, or omit --ragged",
			       unit->name, rows, unit->cols, tile.rows, tile.cols);
	}
	return 0;
}

static int refuse_model(const struct plan *plan, const struct quantization *quantization,
			const char **tensor, struct err *err)
{
	const struct scheme scheme = scheme_from_qspec(&plan->spec, false);
	enum engine engine = quantization->target;
	unsigned on = profile_conditions(plan->format, &scheme, engine);

	if (refuse_weights(plan, engine, on, tensor, err) ||
	    refuse_caches(plan, engine, on, tensor, err) ||
	    refuse_blocks(plan, engine, tensor, err) || refuse_partial(plan, tensor, err))
		return -1;
	return 0;
}

static int refuse_format(const struct plan *plan, const struct quantization *quantization,
			 const char **tensor, struct err *err)
{
	*tensor = NULL;
	return format_check(plan->format, quantization, err);
}

/* Makes one note of all engines: what the first one refuses, and the names of the others. */
static void note_refused(struct plan *plan, const struct quantization *quantization,
			 enum note_kind kind, find_refusal *find)
{
	struct quantization asked = *quantization;
	const char *first = NULL, *other;
	enum engine engine = ENGINE_ANY;
	struct buf text = { 0 };
	struct err err;

	for (int e = ENGINE_ANY + 1, n = 0; e < N_ENGINES; e++) {
		asked.target = (enum engine)e;
		if (!(NOTED_ENGINES & ENGINE_BIT(e)) ||
		    !find(plan, &asked, n ? &other : &first, &err))
			continue;
		buf_puts(&text, !n ? err.message : n == 1 ? "; nor in " : ", ");
		if (n++)
			buf_puts(&text, engine_name(asked.target));
		else
			engine = asked.target;
	}
	if (engine)
		notes_add(&plan->selection.notes, kind, first, "%s; see --target %s", text.data,
			  engine_name(engine));
	buf_release(&text);
}

/* Notes the engines that load the format, but under other names: each wants a target. */
static void note_names(struct plan *plan, const struct quantization *quantization)
{
	for (size_t i = 0; i < quantization->n_sets; i++) {
		for (int e = ENGINE_ANY + 1; e < N_ENGINES; e++) {
			const char *engine = engine_name((enum engine)e);

			if (!engine_wants_names((enum engine)e, plan->format,
						&quantization->sets[i].scheme))
				continue;
			notes_add(&plan->selection.notes, NOTE_OTHER_NAMES, NULL,
				  "%s looks for these scales under other names: use --target %s "
				  "for it",
				  engine, engine);
			return;
		}
	}
}

/* Notes the scales of KV caches that engines pass over. */
static void note_caches(struct plan *plan)
{
	const struct scheme scheme = scheme_from_qspec(&plan->spec, false);
	unsigned on = profile_conditions(plan->format, &scheme, plan->target);
	const struct profile_row *row = NULL;

	while ((row = profile_next(&plan->profile, PROFILE_CACHE, on, row))) {
		const char *attention = first_cache(plan, row);

		if (attention)
			notes_add(&plan->selection.notes, NOTE_NOT_LOADED, attention,
				  "%s, first for '%s' [%s]", row->said, attention, row->source);
	}
}

int plan_engines(struct plan *plan, const struct quantization *quantization, struct err *err)
{
	const char *ignored;

	note_caches(plan);
	if (plan->target != ENGINE_ANY)
		return refuse_model(plan, quantization, &ignored, err);
	note_refused(plan, quantization, NOTE_NOT_LOADED, refuse_model);
	note_refused(plan, quantization, NOTE_FORMAT_NOT_LOADED, refuse_format);
	note_names(plan, quantization);
	return 0;
}
