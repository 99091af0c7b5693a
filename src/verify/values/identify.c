/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the arithmetic that made the weights: tries every known one on cuts of some weights, for
 * each granularity apart, because a checkpoint may have several recipes.
 */
#include "verify/values/identify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "verify/values/compare.h"
#include "verify/values/diagnose.h"
#include "verify/values/origin.h"
#include "verify/tensors.h"

#define N_PROBES     16
#define PROBE_CODES  ((uint64_t)32 << 10)
#define N_CANDIDATES 32
#define UNLIKE_MAX \
	0.02 /* share of codes and scales that may differ from an arithmetic's if it still \
		counts as the one that was used */

/* A trial of all arithmetics on a few cuts, some of them with the amax of a fused set and with that
 * of each weight. */
struct probing {
	struct verify *verify;
	struct arithmetic_candidate candidates[N_CANDIDATES];
	size_t n_candidates;
	struct cut cuts[N_GRANULARITIES * N_PROBES];
	size_t n_cuts;
	uint64_t n_off[N_GRANULARITIES]
		      [N_CANDIDATES]; /* codes and scales that differ from the candidate's */
	uint64_t n_codes[N_GRANULARITIES];
};

/* Lists the candidates, with the arithmetic in the manifest first. */
static void list_candidates(struct probing *probing)
{
	const struct arithmetic *recorded = &probing->verify->opened.recorded;

	for (const struct arithmetic *row = recorded->name ? recorded : arithmetics; row->name;
	     row = row == recorded ? arithmetics : row + 1) {
		for (int own = 0; own < 2 && probing->n_candidates < N_CANDIDATES; own++)
			probing->candidates[probing->n_candidates++] =
				(struct arithmetic_candidate){ row, own };
	}
}

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns the first tiles of a cut, which are enough to distinguish arithmetics. */
static struct cut first_tiles(const struct verify *verify, const struct cut *cut)
{
	struct tile tile = verify->weights.list[cut->weight].unit.source_scale.tile;
	uint64_t row_step = tile.rows == WHOLE ? 1 : tile.rows;
	struct cut part = *cut;

	if (tile.cols != WHOLE)
		part.rect.n_cols = min64(cut->rect.n_cols,
					 (PROBE_CODES / row_step / tile.cols + 1) * tile.cols);
	part.rect.n_rows =
		min64(cut->rect.n_rows, (PROBE_CODES / part.rect.n_cols / row_step + 1) * row_step);
	return part;
}

/* Whether arithmetics are tried on the weight; that of tables is known (compare.c). */
static bool is_probed(const struct verify_weight *weight, enum granularity granularity)
{
	return weight->origin && weight->granularity == granularity && !weight->unit.table;
}

/* Lists the first cuts of some evenly spaced weights of the granularity. */
static void list_cuts(struct probing *probing, enum granularity granularity,
		      const struct cuts *cuts)
{
	const struct verify *verify = probing->verify;
	size_t n_weights = 0, n_first = 0, n = 0;

	for (size_t w = 0; w < verify->weights.n; w++)
		n_weights += verify->weights.list[w].scanned &&
			     is_probed(&verify->weights.list[w], granularity);
	for (size_t i = 0; i < cuts->n && n < N_PROBES; i++) {
		const struct cut *cut = &cuts->list[i];
		const struct verify_weight *weight = &verify->weights.list[cut->weight];

		if (cut->rect.row || cut->rect.col || !is_probed(weight, granularity))
			continue;
		if (n_first++ * N_PROBES >= n * n_weights) {
			probing->cuts[probing->n_cuts++] = first_tiles(verify, cut);
			n++;
		}
	}
}

/* Whether the candidate applies: the weight's own amax differs only in a fused set. */
static bool fits(const struct verify_weight *weight, const struct arithmetic_candidate *candidate)
{
	const struct weight_scale *scale = &weight->unit.source_scale;

	return scale->scale_type == candidate->arithmetic->scale_type &&
	       !(candidate->own_amax && scale->tile.rows != WHOLE);
}

static int probe(void *context, int worker, size_t item, struct err *err)
{
	struct probing *probing = context;
	struct verify *verify = probing->verify;
	const struct cut *cut = &probing->cuts[item];
	const struct verify_weight *weight = &verify->weights.list[cut->weight];
	struct comparison comparison = { .weight = weight,
					 .rect = &cut->rect,
					 .worker = &verify->run.workers[worker] };
	uint64_t n_off[N_CANDIDATES] = { 0 };
	void *scales;

	if (source_codes(&verify->run.files, &weight->unit, &cut->rect, comparison.worker->codes,
			 err) ||
	    source_scales(&verify->run.files, &weight->unit, &cut->rect, &scales, err))
		return -1;
	if (compare_open(verify, &comparison, err)) {
		free(scales);
		return -1;
	}
	comparison.scales = scales;
	for (size_t i = 0; i < probing->n_candidates; i++) {
		struct scan found = { 0 };

		if (!fits(weight, &probing->candidates[i]))
			continue;
		compare_expect(verify, &comparison, &probing->candidates[i]);
		compare_expected(&comparison, &found);
		n_off[i] = found.scales_off.n;
		if (!verify->opened.compensated)
			n_off[i] += found.codes_off.n;
	}
	compare_close(&comparison);
	free(scales);
	pthread_mutex_lock(&verify->run.lock);
	for (size_t i = 0; i < probing->n_candidates; i++)
		probing->n_off[weight->granularity][i] += n_off[i];
	probing->n_codes[weight->granularity] += cut->rect.n_rows * cut->rect.n_cols;
	pthread_mutex_unlock(&verify->run.lock);
	return 0;
}

/* Returns a weight of the granularity, as an example for its candidates, or NULL. */
static const struct verify_weight *some_weight(const struct verify *verify,
					       enum granularity granularity)
{
	for (size_t w = 0; w < verify->weights.n; w++)
		if (verify->weights.list[w].scanned &&
		    is_probed(&verify->weights.list[w], granularity))
			return &verify->weights.list[w];
	return NULL;
}

/* Keeps the candidates that fit best. */
static void choose(struct probing *probing, enum granularity granularity,
		   struct candidates *candidates)
{
	const struct verify_weight *weight = some_weight(probing->verify, granularity);
	double lowest = UNLIKE_MAX;

	for (size_t i = 0; weight && i < probing->n_candidates; i++) {
		double share = (double)probing->n_off[granularity][i] /
			       (double)probing->n_codes[granularity];

		if (!fits(weight, &probing->candidates[i]))
			continue;
		if (share < lowest)
			candidates->n = 0;
		if (share <= lowest && share < UNLIKE_MAX && candidates->n < CANDIDATES_MAX) {
			lowest = share;
			candidates->list[candidates->n++] = probing->candidates[i];
		}
	}
}

/* Finds the arithmetic by which `quantize` makes weights of the granularity without options, with
 * powers of two where these weights have them. */
static void find_own(const struct verify *verify, enum granularity granularity,
		     struct candidates *candidates)
{
	const struct verify_weight *weight = some_weight(verify, granularity);
	const struct arithmetic *used =
		candidates->n ? candidates->list[candidates->at].arithmetic : NULL;
	bool pow2 =
		used ? used->spec.pow2
		     : granularity == GRANULARITY_BLOCK && verify->opened.detection->scheme.pow2;

	for (const struct arithmetic *row = arithmetics; weight && row->name; row++) {
		if (row->quantize || row->scale_type != weight->unit.source_scale.scale_type ||
		    row->spec.pow2 != pow2)
			continue;
		candidates->own = *row;
		/* The same, perhaps with an epsilon or margin from the options. */
		if (used && !used->quantize && !strcmp(used->name, row->name) && !used->spec.margin)
			candidates->own.name = NULL;
		return;
	}
}

static int try_all(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct probing *probing = xcalloc(1, sizeof *probing);
	int rc;

	probing->verify = verify;
	list_candidates(probing);
	for (enum granularity granularity = 0; granularity < N_GRANULARITIES; granularity++)
		list_cuts(probing, granularity, cuts);
	rc = pool_run(verify->params->n_threads, probing->n_cuts, probe, probing,
		      verify->progress->stop, err);
	for (enum granularity granularity = 0; !rc && granularity < N_GRANULARITIES; granularity++)
		choose(probing, granularity, &verify->run.origin->candidates[granularity]);
	free(probing);
	return rc;
}

/* --- the given recipe --- */

static const char *side(size_t tile, char text[24])
{
	if (tile == WHOLE)
		return "whole";
	snprintf(text, 24, "%zu", tile);
	return text;
}

/* Reports a weight whose tiles or type the recipe does not make. */
static void report_unlike(struct verify *verify, const struct verify_weight *weight)
{
	const struct qspec *spec = &verify->opened.given.spec;
	const struct weight_scale *scale = &weight->unit.source_scale;
	char rows[24], cols[24], given_rows[24], given_cols[24];

	if (verify_weight_format(weight) != spec->format)
		verify_report(verify, PROBLEM_CODE_MISMATCH, weight->unit.source,
			      "'%s' is %s, which recipe '%s' with these options does not produce",
			      weight->unit.name, dtype_name(weight->unit.source->tensor->dtype),
			      verify->params->recipe);
	else
		verify_report(verify, PROBLEM_SCALE_MISMATCH, scale->scale,
			      "'%s' is for tiles of %s x %s, but recipe '%s' has %s x %s",
			      scale->scale->tensor->name, side(scale->tile.rows, rows),
			      side(scale->tile.cols, cols), verify->params->recipe,
			      side(spec->tile.rows, given_rows), side(spec->tile.cols, given_cols));
}

static void take_given(struct verify *verify)
{
	const struct qspec *spec = &verify->opened.given.spec;

	for (size_t w = 0; w < verify->weights.n; w++) {
		struct verify_weight *weight = &verify->weights.list[w];
		const struct weight_scale *scale = &weight->unit.source_scale;

		if (weight->unit.table)
			continue;
		weight->unlike = verify_weight_format(weight) != spec->format ||
				 scale->scale_type != spec->scale_type ||
				 scale->tile.rows != spec->tile.rows ||
				 scale->tile.cols != spec->tile.cols;
		if (weight->unlike && weight->origin)
			report_unlike(verify, weight);
	}
	for (enum granularity granularity = 0; granularity < N_GRANULARITIES; granularity++) {
		struct candidates *candidates = &verify->run.origin->candidates[granularity];

		candidates->list[candidates->n++] =
			(struct arithmetic_candidate){ &verify->opened.given, false };
		if (spec->tile.rows == WHOLE)
			candidates->list[candidates->n++] =
				(struct arithmetic_candidate){ &verify->opened.given, true };
	}
}

int identify_arithmetic(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	if (verify->opened.given.name)
		take_given(verify);
	else if (try_all(verify, cuts, err))
		return -1;
	for (enum granularity granularity = 0; granularity < N_GRANULARITIES; granularity++) {
		verify->run.origin->candidates[granularity].next = 1;
		find_own(verify, granularity, &verify->run.origin->candidates[granularity]);
	}
	return 0;
}

/* --- the candidates in turn --- */

bool candidates_next(struct verify *verify, enum granularity granularity)
{
	struct candidates *candidates =
		verify->run.origin ? &verify->run.origin->candidates[granularity] : NULL;

	if (!candidates || candidates->next >= candidates->n)
		return false;
	candidates->at = candidates->next++;
	find_own(verify, granularity, candidates);
	return true;
}

void candidates_end(struct verify *verify, enum granularity granularity, bool better)
{
	struct candidates *candidates = &verify->run.origin->candidates[granularity];

	if (better)
		candidates->best = candidates->at;
	candidates->at = candidates->best;
	find_own(verify, granularity, candidates);
}

bool identify_is_own(const struct verify *verify, enum granularity granularity)
{
	return verify->run.origin && !verify->run.origin->candidates[granularity].own.name;
}

bool identify_is_known(const struct verify *verify, enum granularity granularity)
{
	return verify->run.origin && verify->run.origin->candidates[granularity].n > 0;
}

/* Returns the name of the arithmetic of that granularity, unless an earlier granularity has it. */
static const char *another_name(const struct verify *verify, enum granularity granularity)
{
	const struct candidates *candidates = verify->run.origin->candidates;
	const char *name =
		candidates[granularity].list[candidates[granularity].at].arithmetic->name;

	for (enum granularity before = 0; before < granularity; before++)
		if (some_weight(verify, before) &&
		    /* Clang-tidy believes that a NULL from here is a name. */
		    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
		    !strcmp(candidates[before].list[candidates[before].at].arithmetic->name, name))
			return NULL;
	return name;
}

char *identify_names(const struct verify *verify)
{
	struct buf names = { 0 };

	for (enum granularity granularity = 0; verify->run.origin && granularity < N_GRANULARITIES;
	     granularity++) {
		const char *name;

		if (!some_weight(verify, granularity))
			continue;
		if (!identify_is_known(verify, granularity)) {
			buf_release(&names);
			return NULL;
		}
		name = another_name(verify, granularity);
		if (name)
			buf_printf(&names, "%s%s", names.len ? " + " : "", name);
	}
	return names.data;
}
