/* SPDX-License-Identifier: Apache-2.0
 *
 * Which arithmetic made the weights: all that are known are tried on cuts of some, those of each
 * granularity by themselves, for a checkpoint may have several recipes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "verify/origin.h"

#define N_PROBES     16
#define PROBE_CODES  ((uint64_t)32 << 10)
#define N_CANDIDATES 32
#define UNLIKE_MOST \
	0.02 /* share of codes and scales that may differ, where an arithmetic is taken for the \
		one that was used */

/* What is tried: all arithmetics, some by the amax of groups and by that of each weight, on a few
 * cuts. */
struct probing {
	struct verify *verify;
	struct trial candidates[N_CANDIDATES];
	size_t n_candidates;
	struct cut cuts[N_GRANULARITIES * N_PROBES];
	size_t n_cuts;
	uint64_t n_off[N_GRANULARITIES]
		      [N_CANDIDATES]; /* codes and scales that the candidate makes otherwise */
	uint64_t n_codes[N_GRANULARITIES];
};

/* What the manifest says is likeliest. */
static void list_candidates(struct probing *probing)
{
	const struct arithmetic *recorded = &probing->verify->recorded;

	for (const struct arithmetic *row = recorded->name ? recorded : arithmetics; row->name;
	     row = row == recorded ? arithmetics : row + 1) {
		for (int own = 0; own < 2 && probing->n_candidates < N_CANDIDATES; own++)
			probing->candidates[probing->n_candidates++] = (struct trial){ row, own };
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The first tiles of a cut: enough to tell one arithmetic from another. */
static struct cut first_tiles(const struct verify *verify, const struct cut *cut)
{
	struct tile tile = verify->weights[cut->weight].unit.source_scale.tile;
	uint64_t row_step = tile.rows == WHOLE ? 1 : tile.rows;
	struct cut part = *cut;

	if (tile.cols != WHOLE)
		part.rect.n_cols = least(cut->rect.n_cols,
					 (PROBE_CODES / row_step / tile.cols + 1) * tile.cols);
	part.rect.n_rows =
		least(cut->rect.n_rows, (PROBE_CODES / part.rect.n_cols / row_step + 1) * row_step);
	return part;
}

/* The first cuts of some weights of the granularity, evenly spaced. */
static void list_cuts(struct probing *probing, enum granularity granularity,
		      const struct cuts *cuts)
{
	const struct verify *verify = probing->verify;
	size_t n_weights = 0, seen = 0, n = 0;

	for (size_t w = 0; w < verify->n_weights; w++)
		n_weights += verify->weights[w].scanned && verify->weights[w].origin &&
			     verify->weights[w].granularity == granularity;
	for (size_t i = 0; i < cuts->n && n < N_PROBES; i++) {
		const struct cut *cut = &cuts->list[i];
		const struct checked *weight = &verify->weights[cut->weight];

		if (cut->rect.row || cut->rect.col || !weight->origin ||
		    weight->granularity != granularity)
			continue;
		if (seen++ * N_PROBES >= n * n_weights) {
			probing->cuts[probing->n_cuts++] = first_tiles(verify, cut);
			n++;
		}
	}
}

/* Its own amax makes a difference only where groups share one. */
static bool fits(const struct checked *weight, const struct trial *trial)
{
	const struct weight_scale *scale = &weight->unit.source_scale;

	return scale->scale_type == trial->arithmetic->scale_type &&
	       !(trial->own_amax && scale->tile.rows != WHOLE);
}

static int probe(void *context, int worker, size_t item, struct err *err)
{
	struct probing *probing = context;
	struct verify *verify = probing->verify;
	const struct source_tee nowhere = { 0 };
	const struct cut *cut = &probing->cuts[item];
	const struct checked *weight = &verify->weights[cut->weight];
	struct desk *desk = &verify->desks[worker];
	uint64_t n_off[N_CANDIDATES] = { 0 };
	struct matrix x;
	void *scales;

	if (read_codes(verify, cut, desk->codes, err) ||
	    source_read(&verify->origins->files, weight->origin, &cut->rect, &desk->source,
			&nowhere, &x, err) ||
	    source_scales(&verify->files, &weight->unit, &cut->rect, &scales, err))
		return -1;
	for (size_t i = 0; i < probing->n_candidates; i++) {
		struct scan found = { 0 };

		if (!fits(weight, &probing->candidates[i]))
			continue;
		expect(verify, desk, weight, &x, &probing->candidates[i]);
		compare_expected(weight, &cut->rect, desk, scales, &found);
		n_off[i] = found.n_codes_off + found.n_scales_off;
	}
	free(scales);
	pthread_mutex_lock(&verify->lock);
	for (size_t i = 0; i < probing->n_candidates; i++)
		probing->n_off[weight->granularity][i] += n_off[i];
	probing->n_codes[weight->granularity] += cut->rect.n_rows * cut->rect.n_cols;
	pthread_mutex_unlock(&verify->lock);
	return 0;
}

/* A weight of the granularity, in whose terms its trials are; NULL: there is none. */
static const struct checked *some_weight(const struct verify *verify, enum granularity granularity)
{
	for (size_t w = 0; w < verify->n_weights; w++)
		if (verify->weights[w].granularity == granularity && verify->weights[w].scanned &&
		    verify->weights[w].origin)
			return &verify->weights[w];
	return NULL;
}

/* Keeps those that fit best. */
static void choose(struct probing *probing, enum granularity granularity, struct trials *trials)
{
	const struct checked *weight = some_weight(probing->verify, granularity);
	double lowest = UNLIKE_MOST;

	for (size_t i = 0; weight && i < probing->n_candidates; i++) {
		double share = (double)probing->n_off[granularity][i] /
			       (double)probing->n_codes[granularity];

		if (!fits(weight, &probing->candidates[i]))
			continue;
		if (share < lowest)
			trials->n = 0;
		if (share <= lowest && share < UNLIKE_MOST && trials->n < MAX_TRIALS) {
			lowest = share;
			trials->list[trials->n++] = probing->candidates[i];
		}
	}
}

/* What `quantize` makes of such weights where nothing is asked for: powers of two where these are.
 */
static void find_own(const struct verify *verify, enum granularity granularity,
		     struct trials *trials)
{
	const struct checked *weight = some_weight(verify, granularity);
	const struct arithmetic *used = trials->n ? trials->list[trials->at].arithmetic : NULL;
	bool pow2 = used ? used->spec.pow2
			 : granularity == GRANULARITY_BLOCK && verify->detection->scheme.pow2;

	for (const struct arithmetic *row = arithmetics; weight && row->name; row++) {
		if (row->quantize || row->scale_type != weight->unit.source_scale.scale_type ||
		    row->spec.pow2 != pow2)
			continue;
		trials->own = *row;
		/* The same, or with an epsilon or margin that was asked for. */
		if (used && !used->quantize && !strcmp(used->name, row->name) && !used->spec.margin)
			trials->own.name = NULL;
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
		choose(probing, granularity, &verify->origins->trials[granularity]);
	free(probing);
	return rc;
}

/* --- the recipe that was given --- */

static const char *side(size_t tile, char text[24])
{
	if (tile == WHOLE)
		return "whole";
	snprintf(text, 24, "%zu", tile);
	return text;
}

/* A weight that the recipe does not make: of other tiles, or another type. */
static void tell_unlike(struct verify *verify, const struct checked *weight)
{
	const struct qspec *spec = &verify->given.spec;
	const struct weight_scale *scale = &weight->unit.source_scale;
	char rows[24], cols[24], given_rows[24], given_cols[24];

	if (weight_format(weight) != spec->format)
		problem_add(&verify->result->problems, PROBLEM_CODE_MISMATCH, weight->unit.name,
			    verify_file(verify, weight->unit.source),
			    "'%s' is %s, which recipe '%s' as given does not make",
			    weight->unit.name, dtype_name(weight->unit.source->tensor->dtype),
			    verify->params->recipe);
	else
		problem_add(&verify->result->problems, PROBLEM_SCALE_MISMATCH,
			    scale->scale->tensor->name, verify_file(verify, scale->scale),
			    "'%s' is for tiles of %s x %s, and recipe '%s' has %s x %s",
			    scale->scale->tensor->name, side(scale->tile.rows, rows),
			    side(scale->tile.cols, cols), verify->params->recipe,
			    side(spec->tile.rows, given_rows), side(spec->tile.cols, given_cols));
}

static void take_given(struct verify *verify)
{
	const struct qspec *spec = &verify->given.spec;

	for (size_t w = 0; w < verify->n_weights; w++) {
		struct checked *weight = &verify->weights[w];
		const struct weight_scale *scale = &weight->unit.source_scale;

		weight->unlike = weight_format(weight) != spec->format ||
				 scale->scale_type != spec->scale_type ||
				 scale->tile.rows != spec->tile.rows ||
				 scale->tile.cols != spec->tile.cols;
		if (weight->unlike && weight->origin)
			tell_unlike(verify, weight);
	}
	for (enum granularity granularity = 0; granularity < N_GRANULARITIES; granularity++) {
		struct trials *trials = &verify->origins->trials[granularity];

		trials->list[trials->n++] = (struct trial){ &verify->given, false };
		if (spec->tile.rows == WHOLE)
			trials->list[trials->n++] = (struct trial){ &verify->given, true };
	}
}

int find_arithmetic(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	if (verify->given.name)
		take_given(verify);
	else if (try_all(verify, cuts, err))
		return -1;
	for (enum granularity granularity = 0; granularity < N_GRANULARITIES; granularity++) {
		verify->origins->trials[granularity].next = 1;
		find_own(verify, granularity, &verify->origins->trials[granularity]);
	}
	return 0;
}

/* --- one after the other --- */

bool verify_has_trials(const struct verify *verify, enum granularity granularity)
{
	return verify->origins &&
	       verify->origins->trials[granularity].next < verify->origins->trials[granularity].n;
}

void verify_next_trial(struct verify *verify, enum granularity granularity)
{
	struct trials *trials = &verify->origins->trials[granularity];

	trials->at = trials->next++;
	find_own(verify, granularity, trials);
}

void verify_end_trial(struct verify *verify, enum granularity granularity, bool better)
{
	struct trials *trials = &verify->origins->trials[granularity];

	if (better)
		trials->best = trials->at;
	trials->at = trials->best;
	find_own(verify, granularity, trials);
}

bool verify_is_own(const struct verify *verify, enum granularity granularity)
{
	return verify->origins && !verify->origins->trials[granularity].own.name;
}

bool verify_knows_arithmetic(const struct verify *verify, enum granularity granularity)
{
	return verify->origins && verify->origins->trials[granularity].n > 0;
}

/* The name of what made weights of that granularity, unless it made those of one before. */
static const char *another_name(const struct verify *verify, enum granularity granularity)
{
	const struct trials *trials = verify->origins->trials;
	const char *name = trials[granularity].list[trials[granularity].at].arithmetic->name;

	for (enum granularity before = 0; before < granularity; before++)
		if (some_weight(verify, before) &&
		    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): it takes a NULL from
		     * here for a name */
		    !strcmp(trials[before].list[trials[before].at].arithmetic->name, name))
			return NULL;
	return name;
}

char *verify_arithmetic_names(const struct verify *verify)
{
	struct buf names = { 0 };

	for (enum granularity granularity = 0; verify->origins && granularity < N_GRANULARITIES;
	     granularity++) {
		const char *name;

		if (!some_weight(verify, granularity))
			continue;
		if (!verify_knows_arithmetic(verify, granularity)) {
			buf_release(&names);
			return NULL;
		}
		name = another_name(verify, granularity);
		if (name)
			buf_printf(&names, "%s%s", names.len ? " + " : "", name);
	}
	return names.data;
}
