/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/values/values.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "verify/values/compare.h"
#include "verify/values/diagnose.h"
#include "verify/values/identify.h"
#include "verify/inputs.h"
#include "verify/values/kept_values.h"
#include "verify/values/origin.h"
#include "verify/values/worker.h"

/* One reading of all weights, or another one of the weights of one granularity. */
struct reading {
	struct verify *verify;
	const struct cuts *cuts;
	bool again;
	enum granularity granularity;
};

static int read_cut(void *context, int worker, size_t item, struct err *err)
{
	const struct reading *reading = context;
	struct verify *verify = reading->verify;
	const struct cut *cut = &reading->cuts->list[item];
	struct verify_weight *weight = &verify->weights.list[cut->weight];
	struct verify_worker *memory = &verify->run.workers[worker];
	struct scan found = { 0 };
	void *scales;
	int rc = 0;

	if (reading->again && weight->granularity != reading->granularity)
		return 0;
	if (source_codes(&verify->run.files, &weight->unit, &cut->rect, memory->codes, err) ||
	    source_scales(&verify->run.files, &weight->unit, &cut->rect, &scales, err))
		return -1;
	if (!reading->again && cut->rect.n_cols == weight->unit.cols)
		sums_add(&verify->run.sums, verify, weight->unit.source,
			 weight->unit.slice.first + cut->rect.row * weight->unit.cols,
			 memory->codes, cut->rect.n_rows * cut->rect.n_cols);
	scan_cut(verify, cut, memory->codes, scales, &found);
	if (weight->origin)
		rc = compare_cut(verify, memory, cut, scales, &found, err);
	free(scales);
	if (rc)
		return -1;
	atomic_fetch_add(&verify->progress->done, cut->rect.n_rows * cut->rect.n_cols);
	pthread_mutex_lock(&verify->run.lock);
	scan_merge(&weight->scan, &found);
	pthread_mutex_unlock(&verify->run.lock);
	return 0;
}

static int read_all(struct reading *reading, struct err *err)
{
	const struct verify *verify = reading->verify;

	return pool_run(verify->params->n_threads, reading->cuts->n, read_cut, reading,
			verify->progress->stop, err);
}

static uint64_t mismatches_of(const struct verify *verify, enum granularity granularity)
{
	uint64_t n = 0;

	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];

		if (weight->granularity == granularity)
			n += weight->scan.codes_off.n + weight->scan.scales_off.n;
	}
	return n;
}

static uint64_t codes_of(const struct reading *reading)
{
	uint64_t n = 0;

	for (size_t i = 0; i < reading->cuts->n; i++) {
		const struct cut *cut = &reading->cuts->list[i];

		if (reading->verify->weights.list[cut->weight].granularity == reading->granularity)
			n += cut->rect.n_rows * cut->rect.n_cols;
	}
	return n;
}

/* Reads the weights again with the next candidate and keeps the better one: some candidates differ
 * in one code of thousands. */
static int read_again(struct reading *reading, uint64_t *n_off, struct err *err)
{
	struct verify *verify = reading->verify;
	struct scan *before = xcalloc(verify->weights.n, sizeof *before);
	uint64_t n_again;
	int rc = -1;

	for (size_t w = 0; w < verify->weights.n; w++) {
		before[w] = verify->weights.list[w].scan;
		if (verify->weights.list[w].granularity == reading->granularity)
			verify->weights.list[w].scan = (struct scan){ 0 };
	}
	atomic_fetch_add(&verify->progress->total, codes_of(reading));
	if (read_all(reading, err))
		goto out;
	n_again = mismatches_of(verify, reading->granularity);
	candidates_end(verify, reading->granularity, n_again < *n_off);
	for (size_t w = 0; n_again >= *n_off && w < verify->weights.n; w++)
		verify->weights.list[w].scan = before[w];
	*n_off = n_again < *n_off ? n_again : *n_off;
	rc = 0;
out:
	free(before);
	return rc;
}

static int read_values(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct reading reading = { .verify = verify, .cuts = cuts };

	if (read_all(&reading, err))
		return -1;
	reading.again = true;
	for (reading.granularity = 0; reading.granularity < N_GRANULARITIES;
	     reading.granularity++) {
		uint64_t n_off = mismatches_of(verify, reading.granularity);

		while (n_off && candidates_next(verify, reading.granularity))
			if (read_again(&reading, &n_off, err))
				return -1;
	}
	return 0;
}

static int read_kept(void *context, int worker, size_t item, struct err *err)
{
	struct kept_values *kept = context;
	struct verify *verify = kept->verify;
	uint64_t n;

	if (kept_values_read(kept, item, &verify->run.workers[worker], &n, err))
		return -1;
	atomic_fetch_add(&verify->progress->done, n);
	return 0;
}

static uint64_t count_codes(const struct cuts *cuts)
{
	uint64_t n = 0;

	for (size_t i = 0; i < cuts->n; i++)
		n += cuts->list[i].rect.n_rows * cuts->list[i].rect.n_cols;
	return n;
}

int verify_values(struct verify *verify, struct err *err)
{
	struct kept_values kept;
	struct cuts cuts = { 0 };
	int rc = -1;

	sums_init(&verify->run.sums, verify);
	zero_scales_list(&verify->run.zero_scales, &verify->opened.recorded);
	verify_cut(verify, &cuts);
	kept_values_list(&kept, verify, verify_worker_bytes(verify));
	progress_begin(verify->progress, PROGRESS_WORK,
		       count_codes(&cuts) + kept_values_bytes(&kept));
	if (verify_workers_new(&verify->run.workers, verify, err) ||
	    (verify->params->source && origin_find(verify, &cuts, err)) ||
	    read_values(verify, &cuts, err) ||
	    pool_run(verify->params->n_threads, kept.n_pieces, read_kept, &kept,
		     verify->progress->stop, err) ||
	    sums_finish(&verify->run.sums, verify, err) || verify_inputs(verify, err) ||
	    source_close(&verify->run.files, 0, err) || origin_close(verify, err))
		goto out;
	diagnose(verify);
	kept_values_report(&kept);
	sums_report(&verify->run.sums, verify);
	rc = 0;
out:
	verify_workers_free(verify->run.workers, verify->params->n_threads);
	kept_values_release(&kept);
	free(cuts.list);
	return rc;
}
