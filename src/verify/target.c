/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/engine.h"
#include "names/parallel.h"
#include "source/fp8_source.h"
#include "verify/tensors.h"

static struct scheme scheme_of(const struct verify_weight *weight)
{
	return (struct scheme){ .granularity = weight->granularity,
				.tile = weight->unit.source_scale.tile };
}

static void check_weight(struct verify *verify, const struct verify_weight *weight)
{
	const struct unit *unit = &weight->unit;
	const struct scheme scheme = scheme_of(weight);
	const char *refused = engine_refuses_partial(verify->opened.target, verify->opened.format,
						     &scheme, unit->rows, unit->cols);

	if (!refused)
		return;
	verify_report(verify, PROBLEM_PARTIAL_BLOCKS, unit->source,
		      "weight '%s' %s ends in a partial block of %zu x %zu: %s", unit->name,
		      st_shape(unit->source->tensor).text, scheme.tile.rows, scheme.tile.cols,
		      refused);
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
			verify_report(verify, PROBLEM_NOT_LOADED, unit->source,
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
		const struct scheme scheme = scheme_of(weight);
		const char *reason = engine_refuses_experts(verify->opened.target,
							    verify->opened.format, &scheme);

		if (!reason || !role_cache_find(&verify->roles, unit->name).expert)
			continue;
		verify_report(verify, PROBLEM_NOT_LOADED, unit->source,
			      "weight '%s' of an expert does not load in %s: %s", unit->name,
			      engine_name(verify->opened.target), reason);
		return;
	}
}

/* Returns the first weight of FP8 whose rows vLLM sorts, but not its scales, or NULL. */
static const struct unit *first_sorted(const struct verify *verify, struct json_text params)
{
	int position;

	for (size_t i = 0; i < verify->weights.n; i++) {
		const struct verify_weight *weight = &verify->weights.list[i];
		const struct tensor_ref *scale = weight->unit.source_scale.scale;
		const struct scheme scheme = scheme_of(weight);

		if (scale && text_ends(scale->tensor->name, ".weight_scale") &&
		    profile_pattern_matches("layers.*.attention.{wq,wk}", weight->unit.name,
					    &position) &&
		    !fp8_source_holds_heads(params, &scheme))
			return &weight->unit;
	}
	return NULL;
}

/* Checks what is said in params.json alone, or is for vLLM. */
static void check_sorted(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	const struct unit *unit = NULL;
	struct buf text = { 0 };
	struct err ignored;

	if (verify->opened.target == ENGINE_VLLM ||
	    (verify->opened.target == ENGINE_ANY && !checkpoint->config.len))
		if (!fp8_source_params(checkpoint, verify->params->io, &text, &ignored) && text.len)
			unit = first_sorted(verify, (struct json_text){ text.data, text.len });
	if (unit)
		verify_report(verify, PROBLEM_NOT_LOADED, unit->source,
			      "vLLM sorts the rows of '%s' in each head, but not its weight_scale: "
			      "name it qscale_weight, or use one scale for the tensor",
			      unit->name);
	buf_release(&text);
}

void verify_target(struct verify *verify)
{
	check_sorted(verify);
	if (verify->opened.target != ENGINE_ANY)
		check_family(verify);
	if (!verify->opened.format)
		return;
	check_experts(verify);
	for (size_t i = 0; i < verify->weights.n; i += verify_weight_run(verify, i))
		if (verify->weights.list[i].unit.source_scale.scale)
			check_weight(verify, &verify->weights.list[i]);
}

/* Returns the highest position in each fused set, by its number. */
static int *last_positions(const struct verify *verify)
{
	int *last = xcalloc(verify->weights.fused_sets.n, sizeof *last);

	for (size_t i = 0; i < verify->weights.n; i++) {
		const struct verify_weight *weight = &verify->weights.list[i];

		if (weight->fused_set != SIZE_MAX &&
		    weight->fused_position > last[weight->fused_set])
			last[weight->fused_set] = weight->fused_position;
	}
	return last;
}

/* Returns what the target, or an engine silently, does to parts of a merged weight that are not
 * whole tiles; NULL where it refuses them. */
static const char *find_misread(const struct verify *verify, const struct verify_weight *weight)
{
	const struct scheme scheme = scheme_of(weight);

	if (!verify->opened.format ||
	    role_cache_find((struct role_cache *)&verify->roles, weight->unit.name).expert)
		return NULL;
	return engine_misreads_merged(verify->opened.target, verify->opened.format, &scheme);
}

static void report(struct verify *verify, const struct verify_weight *weight, uint64_t tp,
		   char dimension)
{
	const enum engine target = verify->opened.target;
	const struct unit *unit = &weight->unit;
	const struct tile tile = unit->source_scale.tile;
	const char *misread = tp == 1 ? find_misread(verify, weight) : NULL;
	size_t multiple = dimension == 'N' ? tile.rows : tile.cols;
	char multiples[48] = "";

	if (multiple > 1)
		snprintf(multiples, sizeof multiples, " in multiples of %zu", multiple);
	if (misread)
		verify_report(verify, PROBLEM_PARTIAL_BLOCKS, unit->source,
			      "weight '%s' has %" PRIu64 " rows, of which a part ends in a partial "
			      "block of %zu x %zu: %s",
			      unit->name, unit->rows, tile.rows, tile.cols, misread);
	else if (verify->params->tp || target == ENGINE_VLLM || target == ENGINE_SGLANG)
		verify_report(verify, PROBLEM_TP_SPLIT, unit->source,
			      "%" PRIu64 " %s of '%s' do not split over %" PRIu64 " device%s%s",
			      dimension == 'N' ? unit->rows : unit->cols, dimension_noun(dimension),
			      unit->name, tp, tp == 1 ? "" : "s", multiples);
}

static void check_heads(struct verify *verify, uint64_t tp)
{
	const char *what;
	uint64_t n;

	if (!tp_heads_fit(&verify->opened.model, tp, &n, &what))
		problem_add(&verify->result->problems, PROBLEM_TP_SPLIT, NULL, "config.json",
			    "%" PRIu64 " %s do not split over %" PRIu64
			    " devices: choose a number that divides them",
			    n, what, tp);
}

/* Whether the last tile of rows may be partial: no weight of a set follows.  SGLang checks the last
 * part of a mixer too. */
static bool may_end_partial(const struct verify *verify, const struct verify_weight *weight,
			    enum parallel parallel, const int *last)
{
	if (parallel == PARALLEL_MAMBA && verify->opened.target == ENGINE_SGLANG)
		return false;
	return weight->fused_set == SIZE_MAX || weight->fused_position == last[weight->fused_set];
}

void verify_tp(struct verify *verify)
{
	/* vLLM and SGLang need whole tiles even on one device */
	const uint64_t tp = verify->params->tp ? (uint64_t)verify->params->tp : 1;
	int *last;

	check_heads(verify, tp);
	last = last_positions(verify);
	for (size_t i = 0; i < verify->weights.n; i++) {
		const struct verify_weight *weight = &verify->weights.list[i];
		const struct unit *unit = &weight->unit;
		struct role_facts facts = role_cache_find(&verify->roles, unit->name);
		struct tp_split split;
		char dimension;

		if (unit->source->tensor->n_dims != 2)
			continue;
		split = (struct tp_split){ .parallel = facts.parallel,
					   .rows = unit->rows,
					   .cols = unit->cols,
					   .tile = unit->source_scale.tile,
					   .expert = facts.expert,
					   .ends_fused_set = may_end_partial(
						   verify, weight, facts.parallel, last) };
		if (!tp_split_fits(&split, &verify->opened.model, tp, &dimension))
			report(verify, weight, tp, dimension);
	}
	free(last);
}
