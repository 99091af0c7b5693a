/* SPDX-License-Identifier: Apache-2.0 */
#include "job/sightings.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Of one sequence at one site. */
struct sight_row {
	float amax[3]; /* x, -, y; or q, k, v */
	int64_t n_tokens;
};

/* The rows of one site, a pass each, until the sweep is over. */
struct kept_site {
	const char *name;
	enum amax_kind kind;
	float (*rows)[3];
	int64_t *tokens;
	size_t n_passes;
	uint64_t (*histogram)[2];
};

/* Sites of a layer: attention, then its matrices by role, then those of its experts. */
enum { SITE_ATTENTION, SITE_LINEARS, SITE_EXPERTS = SITE_LINEARS + N_LINEARS };

struct sightings {
	const struct forward *forward;
	size_t most_sequences, batch;
	int n_lanes;
	bool histogram;

	const struct layer *layer; /* under way; NULL: the head */
	const struct linear *head;
	size_t first; /* sequence */
	size_t n_sites;
	struct sight_row *rows;		       /* (n_sites, most_sequences) */
	uint64_t (*counts)[AMAX_BINS][2];      /* (n_lanes, n_sites) */

	size_t n_kept;
	struct kept_site *kept;
};

struct sightings *sightings_new(const struct forward *forward, size_t n_sequences, size_t batch, int n_lanes,
				bool histogram)
{
	struct sightings *sightings = xcalloc(1, sizeof *sightings);

	*sightings = (struct sightings){ .forward = forward, .most_sequences = n_sequences, .batch = batch,
					 .n_lanes = n_lanes, .histogram = histogram };
	return sightings;
}

void sightings_drop(struct sightings *sightings)
{
	for (size_t i = 0; i < sightings->n_kept; i++) {
		free(sightings->kept[i].rows);
		free(sightings->kept[i].tokens);
		free(sightings->kept[i].histogram);
	}
	free(sightings->kept);
	free(sightings->rows);
	free(sightings->counts);
	sightings->kept = NULL;
	sightings->rows = NULL;
	sightings->counts = NULL;
	sightings->n_kept = 0;
}

void sightings_free(struct sightings *sightings)
{
	if (sightings)
		sightings_drop(sightings);
	free(sightings);
}

static size_t site_of(const struct sighting *sighting)
{
	const struct layer_ref *layer = sighting->layer;

	if (!layer)
		return SITE_LINEARS;
	if (!sighting->linear)
		return SITE_ATTENTION;
	if (sighting->linear >= layer->linear && sighting->linear < layer->linear + N_LINEARS)
		return SITE_LINEARS + (size_t)(sighting->linear - layer->linear);
	return SITE_EXPERTS + (size_t)(sighting->linear - layer->experts[0]);
}

/* The matrix of a site; NULL: attention, or one that the layer has not. */
static const struct linear *linear_of(const struct sightings *sightings, size_t site)
{
	if (!sightings->layer)
		return site == SITE_LINEARS ? sightings->head : NULL;
	if (site == SITE_ATTENTION)
		return NULL;
	if (site < SITE_EXPERTS)
		return &sightings->layer->linear[site - SITE_LINEARS];
	site -= SITE_EXPERTS;
	return &sightings->layer->experts[site / N_EXPERT_ROLES][site % N_EXPERT_ROLES];
}

static int refuse(const struct sighting *sighting, struct err *err)
{
	static const char *const what[] = { [SIGHT_X] = "input", [SIGHT_Y] = "output", [SIGHT_Q] = "queries",
					    [SIGHT_K] = "keys", [SIGHT_V] = "values" };

	return err_set(err, ERR_INPUT,
		       "the forward pass went wrong: the %s of '%s' holds %llu values that are NaN or infinite, in sequence %zu",
		       what[sighting->what], sighting->linear ? sighting->linear->module : sighting->layer->attention,
		       (unsigned long long)sighting->n_nonfinite, sighting->sequence);
}

static int see(void *context, const struct sighting *sighting, struct err *err)
{
	static const int columns[] = { [SIGHT_X] = AMAX_X, [SIGHT_Y] = AMAX_Y, [SIGHT_Q] = AMAX_Q, [SIGHT_K] = AMAX_K,
				       [SIGHT_V] = AMAX_V };
	struct sightings *sightings = context;
	const struct compute *compute = sightings->forward->compute;
	size_t site = site_of(sighting), n = sighting->n_rows * sighting->n_cols;
	struct sight_row *row =
		&sightings->rows[site * sightings->most_sequences + sighting->sequence - sightings->first];
	float *column = &row->amax[columns[sighting->what]];

	if (sighting->n_nonfinite)
		return refuse(sighting, err);
	*column = sighting->amax > *column ? sighting->amax : *column;
	if (sighting->what == SIGHT_X || sighting->what == SIGHT_Q)
		row->n_tokens += (int64_t)sighting->n_rows;
	if (sightings->counts && sighting->linear) {
		uint64_t(*counts)[2] = sightings->counts[(size_t)sighting->lane * sightings->n_sites + site];

		compute->histogram(sighting->values, n, &counts[0][sighting->what == SIGHT_Y]);
	}
	return 0;
}

struct observer sightings_observer(struct sightings *sightings)
{
	return (struct observer){ sightings, see };
}

void sightings_begin(struct sightings *sightings, const struct layer *layer, const struct linear *head, size_t first)
{
	sightings->first = first;
	sightings->layer = layer;
	sightings->head = head;
	sightings->n_sites = layer ? SITE_EXPERTS + layer->ref->n_experts * N_EXPERT_ROLES : SITE_LINEARS + 1;
	sightings->rows = xcalloc(sightings->n_sites * sightings->most_sequences, sizeof *sightings->rows);
	if (sightings->histogram)
		sightings->counts = xcalloc((size_t)sightings->n_lanes * sightings->n_sites, sizeof *sightings->counts);
}

/* Sequences of a pass become one row. */
static void keep_rows(const struct sightings *sightings, size_t site, float amax_w, size_t n_sequences,
		      struct kept_site *kept)
{
	kept->n_passes = (n_sequences + sightings->batch - 1) / sightings->batch;
	kept->rows = xcalloc(kept->n_passes, sizeof *kept->rows);
	kept->tokens = xcalloc(kept->n_passes, sizeof *kept->tokens);
	for (size_t s = 0; s < n_sequences; s++) {
		const struct sight_row *row = &sightings->rows[site * sightings->most_sequences + s];
		float *amax = kept->rows[s / sightings->batch];

		for (int i = 0; i < 3; i++)
			amax[i] = row->amax[i] > amax[i] ? row->amax[i] : amax[i];
		kept->tokens[s / sightings->batch] += row->n_tokens;
	}
	for (size_t p = 0; kept->kind == AMAX_GEMM && p < kept->n_passes; p++)
		kept->rows[p][AMAX_W] = amax_w;
}

static void keep_counts(const struct sightings *sightings, size_t site, struct kept_site *kept)
{
	kept->histogram = xcalloc(AMAX_BINS, sizeof *kept->histogram);
	for (int lane = 0; lane < sightings->n_lanes; lane++) {
		uint64_t(*counts)[2] = sightings->counts[(size_t)lane * sightings->n_sites + site];

		for (size_t b = 0; b < AMAX_BINS; b++)
			for (int i = 0; i < 2; i++)
				kept->histogram[b][i] += counts[b][i];
	}
}

void sightings_end(struct sightings *sightings, size_t n_sequences)
{
	for (size_t site = 0; site < sightings->n_sites; site++) {
		const struct linear *linear = linear_of(sightings, site);
		bool attention = sightings->layer && site == SITE_ATTENTION;
		struct kept_site kept = { .kind = attention ? AMAX_ATTENTION : AMAX_GEMM };

		if (!attention && (!linear || !linear->weight))
			continue;
		kept.name = attention ? sightings->layer->ref->attention : linear->ref->module;
		keep_rows(sightings, site, attention ? 0 : linear->amax, n_sequences, &kept);
		if (sightings->counts && !attention)
			keep_counts(sightings, site, &kept);
		ARRAY_GROW(sightings->kept, sightings->n_kept);
		sightings->kept[sightings->n_kept++] = kept;
	}
	free(sightings->rows);
	free(sightings->counts);
	sightings->rows = NULL;
	sightings->counts = NULL;
}

void sightings_commit(struct sightings *sightings, struct amax_stats *stats)
{
	for (size_t i = 0; i < sightings->n_kept; i++) {
		const struct kept_site *kept = &sightings->kept[i];
		struct amax_site *site = amax_stats_site(stats, kept->name, kept->kind);

		for (size_t p = 0; p < kept->n_passes; p++)
			amax_site_append(site, kept->rows[p], kept->tokens[p]);
		if (kept->histogram) {
			uint64_t(*counts)[2] = amax_site_histogram(site);

			for (size_t b = 0; b < AMAX_BINS; b++)
				for (int k = 0; k < 2; k++)
					counts[b][k] += kept->histogram[b][k];
		}
	}
	sightings_drop(sightings);
}
