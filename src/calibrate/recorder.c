/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/recorder.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"

/* One sequence at one site: the slots of the value stats of x and y, or q, k and v. */
struct recorder_row {
	bool observed[3];
	size_t slot[3];
	int64_t n_tokens;
};

#define COUNTS_SIZE ((size_t)AMAX_BINS * 2 * sizeof(uint64_t))

/* The rows of one site, one for each pass, until the sweep is over. */
struct kept_site {
	char *name;
	enum amax_kind kind;
	float (*rows)[3];
	int64_t *tokens;
	size_t n_passes;
	uint64_t (*histogram)[2];
};

/* The sites of a layer: attention, its latent cache, then its matrices by role, then its experts'
 * matrices.  The head is the only site outside of layers. */
enum { SITE_ATTENTION, SITE_LATENT_CACHE, SITE_LINEARS };
enum { SITE_HEAD };

struct recorder {
	const struct runner *runner;
	const struct share *share;
	const struct group *group;
	size_t most_sequences;
	size_t n_lanes;
	bool histogram;

	const struct layer *layer; /* the current one; NULL: the head */
	const struct linear *head;
	size_t first; /* the first sequence */
	size_t n_sites;
	struct recorder_row *rows; /* (n_sites, most_sequences) */
	/* by lane: (n_sites, AMAX_BINS, 2) of uint64_t, on its device; NULL: no histogram */
	void **counts;

	size_t n_kept;
	struct kept_site *kept;
};

struct recorder *recorder_new(const struct runner *runner, const struct share *share,
			      bool histogram)
{
	const struct sweep_plan *plan = runner->plan;
	struct recorder *recorder = xcalloc(1, sizeof *recorder);

	*recorder = (struct recorder){ .runner = runner,
				       .share = share,
				       .group = plan->params.group,
				       .most_sequences = plan->max_sequences,
				       .n_lanes = (size_t)plan->params.n_threads,
				       .histogram = histogram };
	return recorder;
}

static struct executor_stream *lane_of(const struct recorder *recorder, size_t lane)
{
	return recorder->runner->memory.workspaces[lane]->stream;
}

/* Frees everything that belongs to the current layer. */
static void layer_done(struct recorder *recorder)
{
	free(recorder->rows);
	for (size_t i = 0; recorder->counts && i < recorder->n_lanes; i++) {
		struct executor *executor = lane_of(recorder, i)->executor;

		executor->ops->memory_free(executor, recorder->counts[i]);
	}
	free(recorder->counts);
	recorder->rows = NULL;
	recorder->counts = NULL;
}

static void drop(struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->n_kept; i++) {
		free(recorder->kept[i].name);
		free(recorder->kept[i].rows);
		free(recorder->kept[i].tokens);
		free(recorder->kept[i].histogram);
	}
	free(recorder->kept);
	recorder->kept = NULL;
	recorder->n_kept = 0;
	layer_done(recorder);
}

void recorder_free(struct recorder *recorder)
{
	if (recorder)
		drop(recorder);
	free(recorder);
}

static size_t site_of(const struct observation *observation)
{
	const struct layer_ref *layer = observation->layer;

	if (!layer)
		return SITE_HEAD;
	if (observation->what == OBSERVED_CACHED || observation->what == OBSERVED_LATENT)
		return SITE_LATENT_CACHE;
	if (!observation->linear)
		return SITE_ATTENTION;
	return SITE_LINEARS + layer_linear_number(layer, observation->linear);
}

static bool is_attention(const struct recorder *recorder, size_t site)
{
	return recorder->layer && site < SITE_LINEARS;
}

/* Returns the matrix of a site; NULL for attention, or if the layer lacks it. */
static const struct linear *linear_of(const struct recorder *recorder, size_t site)
{
	if (!recorder->layer)
		return recorder->head;
	if (is_attention(recorder, site))
		return NULL;
	return layer_linear(recorder->layer, site - SITE_LINEARS);
}

static const int columns[] = {
	[OBSERVED_X] = AMAX_X,	   [OBSERVED_Y] = AMAX_Y, [OBSERVED_Q] = AMAX_Q,
	[OBSERVED_K] = AMAX_K,	   [OBSERVED_V] = AMAX_V, [OBSERVED_CACHED] = AMAX_K,
	[OBSERVED_LATENT] = AMAX_V
};

/* Returns the counts of a worker at a site. */
static uint64_t *counts_of(const struct recorder *recorder, size_t lane, size_t site)
{
	return (uint64_t *)((char *)recorder->counts[lane] + site * COUNTS_SIZE);
}

static void recorder_observe(void *context, const struct observation *observation)
{
	struct recorder *recorder = context;
	size_t site = site_of(observation);
	int column = columns[observation->what];
	struct measure_args values = { .x = observation->values,
				       .n = observation->n_rows * observation->n_cols };
	struct recorder_row *row = &recorder->rows[site * recorder->most_sequences +
						   observation->sequence - recorder->first];

	row->observed[column] = true;
	row->slot[column] = observation->slot;
	if (observation->what == OBSERVED_X || observation->what == OBSERVED_Q ||
	    observation->what == OBSERVED_LATENT)
		row->n_tokens += (int64_t)observation->n_rows;
	if (!recorder->counts || !observation->linear)
		return;
	values.counts = counts_of(recorder, (size_t)observation->worker, site) +
			(observation->what == OBSERVED_Y);
	observation->stream->executor->ops->measure(observation->stream, &values);
}

struct observer recorder_observer(struct recorder *recorder)
{
	return (struct observer){ .context = recorder,
				  .reads_no_inputs = !recorder->histogram,
				  .observe = recorder_observe };
}

/* Allocates and clears the counts of each lane. */
static int counts_begin(struct recorder *recorder, struct err *err)
{
	size_t size = recorder->n_sites * COUNTS_SIZE;

	recorder->counts = xcalloc(recorder->n_lanes, sizeof *recorder->counts);
	for (size_t i = 0; i < recorder->n_lanes; i++) {
		struct executor_stream *lane = lane_of(recorder, i);
		const struct executor_ops *ops = lane->executor->ops;

		if (ops->memory_new(lane->executor, &recorder->counts[i], size,
				    "the histograms of a layer", err))
			return -1;
		ops->zero(lane, recorder->counts[i], size);
		if (ops->wait(lane, err))
			return -1;
	}
	return 0;
}

int recorder_begin(struct recorder *recorder, const struct layer *layer, const struct linear *head,
		   size_t first, struct err *err)
{
	recorder->first = first;
	recorder->layer = layer;
	recorder->head = head;
	recorder->n_sites = layer ? SITE_LINEARS + layer_n_linears(layer->ref) : SITE_HEAD + 1;
	recorder->rows =
		xcalloc(recorder->n_sites * recorder->most_sequences, sizeof *recorder->rows);
	return recorder->histogram ? counts_begin(recorder, err) : 0;
}

/* Returns the value stats of a column of a site's row; NULL if nothing was observed. */
static const struct value_stats *stats_of(const struct recorder_row *row, int column,
					  const struct value_stats *stats)
{
	return row->observed[column] ? &stats[row->slot[column]] : NULL;
}

static int refuse(const struct recorder *recorder, size_t site, int column, size_t sequence,
		  uint64_t n, struct err *err)
{
	static const char *const of_linear[] = {
		[AMAX_X] = "input", [AMAX_W] = "weight", [AMAX_Y] = "output"
	};
	static const char *const of_attention[] = {
		[AMAX_Q] = "queries", [AMAX_K] = "keys", [AMAX_V] = "values"
	};
	const struct linear *linear = linear_of(recorder, site);

	return err_set(err, ERR_INPUT,
		       "the forward pass produced %" PRIu64
		       " NaN or infinite values in the %s of '%s', in sequence %zu",
		       n,
		       linear			   ? of_linear[column]
		       : site == SITE_LATENT_CACHE ? "latent cache"
						   : of_attention[column],
		       linear ? linear->ref->module : recorder->layer->ref->mixer_module,
		       share_sequence(recorder->share, recorder->first + sequence));
}

/* Fails with the first observed values of a sequence that are not finite. */
static int check(const struct recorder *recorder, size_t sequence, const struct value_stats *stats,
		 struct err *err)
{
	size_t first = SIZE_MAX, at_site = 0;
	int at_column = 0;

	for (size_t site = 0; site < recorder->n_sites; site++) {
		const struct recorder_row *row =
			&recorder->rows[site * recorder->most_sequences + sequence];

		for (int column = 0; column < 3; column++) {
			const struct value_stats *value = stats_of(row, column, stats);

			if (value && value->n_nonfinite && row->slot[column] < first) {
				first = row->slot[column];
				at_site = site;
				at_column = column;
			}
		}
	}
	return first == SIZE_MAX ? 0
				 : refuse(recorder, at_site, at_column, sequence,
					  stats[first].n_nonfinite, err);
}

/* The value stats of a layer's sequences: stats (n_sequences, n_slots). */
struct layer_stats {
	size_t n_sequences, n_slots;
	const struct value_stats *stats;
};

/* Makes one row of the sequences of a pass; of zeros where the share has none. */
static void keep_rows(const struct recorder *recorder, size_t site, float amax_w,
		      const struct layer_stats *layer, struct kept_site *kept)
{
	const struct share *share = recorder->share;
	size_t first_pass = share_passes_done(share, recorder->first);

	kept->n_passes =
		share_passes_done(share, recorder->first + layer->n_sequences) - first_pass;
	kept->rows = xcalloc(kept->n_passes, sizeof *kept->rows);
	kept->tokens = xcalloc(kept->n_passes, sizeof *kept->tokens);
	for (size_t s = 0; s < layer->n_sequences; s++) {
		const struct recorder_row *row =
			&recorder->rows[site * recorder->most_sequences + s];
		const struct value_stats *stats = layer->stats + s * layer->n_slots;
		size_t p = share_pass(share, recorder->first + s) - first_pass;

		for (int i = 0; i < 3; i++) {
			const struct value_stats *of = stats_of(row, i, stats);

			if (of && of->amax > kept->rows[p][i])
				kept->rows[p][i] = of->amax;
		}
		kept->tokens[p] += row->n_tokens;
	}
	for (size_t p = 0; kept->kind == AMAX_GEMM && p < kept->n_passes; p++)
		kept->rows[p][AMAX_W] = amax_w;
}

/* Adds the counts of all workers; counts: (n_lanes, n_sites), on the host. */
static void keep_counts(const struct recorder *recorder, size_t site,
			uint64_t (*counts)[AMAX_BINS][2], struct kept_site *kept)
{
	kept->histogram = xcalloc(AMAX_BINS, sizeof *kept->histogram);
	for (size_t lane = 0; lane < recorder->n_lanes; lane++)
		for (size_t b = 0; b < AMAX_BINS; b++)
			for (int i = 0; i < 2; i++)
				kept->histogram[b][i] +=
					counts[lane * recorder->n_sites + site][b][i];
}

/* Returns the name of a site, which the caller frees; NULL if the layer lacks it. */
static char *site_name(const struct recorder *recorder, size_t site)
{
	const struct linear *linear = linear_of(recorder, site);
	const struct layer_ref *ref;

	if (!recorder->layer || !is_attention(recorder, site))
		return linear && linear->weight.data ? xstrdup(linear->ref->module) : NULL;
	ref = recorder->layer->ref;
	if (!layer_has_attention(ref))
		return NULL;
	if (site == SITE_ATTENTION)
		return xstrdup(ref->mixer_module);
	return ref->linear[LINEAR_KV_B].weight
		       ? xasprintf("%s" AMAX_LATENT_CACHE, ref->mixer_module)
		       : NULL;
}

static int keep_site(struct recorder *recorder, size_t site, const struct layer_stats *layer,
		     uint64_t (*counts)[AMAX_BINS][2], struct err *err)
{
	bool attention = is_attention(recorder, site);
	struct kept_site kept = { .name = site_name(recorder, site),
				  .kind = attention ? AMAX_ATTENTION : AMAX_GEMM };

	if (!kept.name)
		return 0;
	keep_rows(recorder, site, attention ? 0 : linear_of(recorder, site)->amax, layer, &kept);
	if (counts && !attention)
		keep_counts(recorder, site, counts, &kept);
	ARRAY_GROW(recorder->kept, recorder->n_kept);
	recorder->kept[recorder->n_kept++] = kept;
	if (!kept.histogram)
		return 0;
	return group_reduce(recorder->group, GROUP_SUM, kept.histogram,
			    AMAX_BINS * sizeof *kept.histogram / sizeof **kept.histogram, err);
}

/* Copies the counts to the host; without histograms *counts becomes NULL. */
static int fetch_counts(const struct recorder *recorder, void **counts, struct err *err)
{
	size_t size = recorder->n_sites * COUNTS_SIZE;

	*counts = NULL;
	if (!recorder->counts)
		return 0;
	if (buffer_alloc(counts, recorder->n_lanes * size, "the histograms of a layer", err))
		return -1;
	for (size_t i = 0; i < recorder->n_lanes; i++) {
		struct executor_stream *lane = lane_of(recorder, i);

		lane->executor->ops->fetch(lane, (char *)*counts + i * size, recorder->counts[i],
					   size);
		if (lane->executor->ops->wait(lane, err))
			return -1;
	}
	return 0;
}

int recorder_end(struct recorder *recorder, size_t n_sequences, const struct value_stats *stats,
		 size_t n_slots, struct err *err)
{
	const struct layer_stats layer = { n_sequences, n_slots, stats };
	void *counts = NULL;
	/* the rows of sequences of other ranks too */
	int rc = group_reduce(recorder->group, GROUP_UNION, recorder->rows,
			      recorder->n_sites * recorder->most_sequences * sizeof *recorder->rows,
			      err);

	for (size_t s = 0; s < n_sequences && !rc; s++)
		rc = check(recorder, s, stats + s * n_slots, err);
	if (!rc)
		rc = group_settle(recorder->group, fetch_counts(recorder, &counts, err), err);
	for (size_t site = 0; site < recorder->n_sites && !rc; site++)
		rc = keep_site(recorder, site, &layer, counts, err);
	free(counts);
	layer_done(recorder);
	return rc;
}

void recorder_commit(struct recorder *recorder, struct amax_stats *stats)
{
	for (size_t i = 0; i < recorder->n_kept; i++) {
		const struct kept_site *kept = &recorder->kept[i];
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
	drop(recorder);
}
