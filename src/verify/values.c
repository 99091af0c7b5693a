/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at every scale and code, in cuts of whole tiles over all threads; what is found is
 * added up by weight, so that a tensor with a million bad scales is one problem, the same at any
 * number of threads.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "verify/steps.h"

int read_codes(struct verify *verify, const struct cut *cut, uint8_t *codes, struct err *err)
{
	const struct unit *unit = &verify->weights[cut->weight].unit;
	const struct rect *rect = &cut->rect;

	if (rect->n_cols == unit->cols)
		return source_read_bytes(&verify->files, unit->source, rect->row * unit->cols,
					 (size_t)(rect->n_rows * rect->n_cols), codes, err);
	for (uint64_t r = 0; r < rect->n_rows; r++)
		if (source_read_bytes(&verify->files, unit->source,
				      (rect->row + r) * unit->cols + rect->col,
				      (size_t)rect->n_cols, codes + r * rect->n_cols, err))
			return -1;
	return 0;
}

/* What is looked at: all weights, or again those of one granularity. */
struct look {
	struct verify *verify;
	struct cuts cuts;
	bool again;
	enum granularity granularity;
};

static int look(void *context, int worker, size_t item, struct err *err)
{
	const struct look *at = context;
	struct verify *verify = at->verify;
	const struct cut *cut = &at->cuts.list[item];
	struct checked *weight = &verify->weights[cut->weight];
	struct desk *desk = &verify->desks[worker];
	struct scan found = { 0 };
	void *scales;
	int rc = 0;

	if (at->again && weight->granularity != at->granularity)
		return 0;
	if (read_codes(verify, cut, desk->codes, err) ||
	    source_scales(&verify->files, &weight->unit, &cut->rect, &scales, err))
		return -1;
	scan_piece(verify, cut, desk->codes, scales, &found);
	if (weight->origin)
		rc = compare_piece(verify, desk, cut, scales, &found, err);
	free(scales);
	if (rc)
		return -1;
	atomic_fetch_add(&verify->progress->done, cut->rect.n_rows * cut->rect.n_cols);
	pthread_mutex_lock(&verify->lock);
	scan_merge(&weight->scan, &found);
	pthread_mutex_unlock(&verify->lock);
	return 0;
}

static uint64_t count_off(const struct verify *verify, enum granularity granularity)
{
	uint64_t n = 0;

	for (size_t w = 0; w < verify->n_weights; w++)
		if (verify->weights[w].granularity == granularity)
			n += verify->weights[w].scan.n_codes_off +
			     verify->weights[w].scan.n_scales_off;
	return n;
}

static int look_at(struct look *at, struct err *err)
{
	const struct verify_params *params = at->verify->params;

	return pool_run(params->n_threads, at->cuts.n, look, at, at->verify->progress->stop, err);
}

/* Looks again by another arithmetic, and keeps what fits better: some differ in one code of
 * thousands. */
static int look_again(struct look *at, uint64_t *n_off, struct err *err)
{
	struct verify *verify = at->verify;
	struct scan *before = xcalloc(verify->n_weights, sizeof *before);
	uint64_t again;
	int rc = -1;

	for (size_t w = 0; w < verify->n_weights; w++) {
		before[w] = verify->weights[w].scan;
		if (verify->weights[w].granularity == at->granularity)
			verify->weights[w].scan = (struct scan){ 0 };
	}
	verify_next_trial(verify, at->granularity);
	if (look_at(at, err))
		goto out;
	again = count_off(verify, at->granularity);
	verify_end_trial(verify, at->granularity, again < *n_off);
	for (size_t w = 0; again >= *n_off && w < verify->n_weights; w++)
		verify->weights[w].scan = before[w];
	*n_off = again < *n_off ? again : *n_off;
	rc = 0;
out:
	free(before);
	return rc;
}

static int look_at_all(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct look at = { .verify = verify, .cuts = *cuts };

	if (look_at(&at, err))
		return -1;
	at.again = true;
	for (at.granularity = 0; at.granularity < N_GRANULARITIES; at.granularity++) {
		uint64_t n_off = count_off(verify, at.granularity);

		while (n_off && verify_has_trials(verify, at.granularity))
			if (look_again(&at, &n_off, err))
				return -1;
	}
	return 0;
}

int verify_values(struct verify *verify, struct err *err)
{
	struct cuts cuts = { 0 };
	int rc = -1;

	verify_cut(verify, &cuts);
	if (desks_new(&verify->desks, verify, err) ||
	    (verify->params->source && verify_origins(verify, &cuts, err)) ||
	    look_at_all(verify, &cuts, err) || source_close(&verify->files, err) ||
	    verify_origins_close(verify, err))
		goto out;
	verify_tell(verify);
	rc = 0;
out:
	desks_free(verify->desks, verify->params->n_threads);
	free(cuts.list);
	return rc;
}
