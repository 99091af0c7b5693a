/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism: checks that tiles stay whole in the splits that engines make at the given
 * size, or on one device of the target (model/parallel.h).  select/tp.c is the check before a
 * conversion.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "verify/steps.h"
#include "model/parallel.h"

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

/* Returns the size to check: vLLM and SGLang need whole tiles even on one device. */
static uint64_t size_to_check(const struct verify *verify)
{
	return verify->params->tp ? (uint64_t)verify->params->tp : 1;
}

/* Returns what the target, or an engine silently, does to parts of a merged weight that are not
 * whole tiles; NULL where it refuses them. */
static const char *find_misread(const struct verify *verify, const struct verify_weight *weight)
{
	const struct scheme scheme = { .granularity = weight->granularity,
				       .tile = weight->unit.source_scale.tile };

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
	const char *file = verify_file(verify, unit->source);

	if (misread)
		problem_add(&verify->result->problems, PROBLEM_PARTIAL_BLOCKS, unit->name, file,
			    "weight '%s' has %" PRIu64 " rows, of which a part ends in a partial "
			    "block of %zu x %zu: %s",
			    unit->name, unit->rows, tile.rows, tile.cols, misread);
	else if (verify->params->tp || target == ENGINE_VLLM || target == ENGINE_SGLANG)
		problem_add(&verify->result->problems, PROBLEM_TP_SPLIT, unit->name, file,
			    "%c %" PRIu64 " of '%s' does not split over %" PRIu64
			    " device%s in multiples of %zu",
			    dimension, dimension == 'N' ? unit->rows : unit->cols, unit->name, tp,
			    tp == 1 ? "" : "s", dimension == 'N' ? tile.rows : tile.cols);
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
	const uint64_t tp = size_to_check(verify);
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
