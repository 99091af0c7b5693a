/* SPDX-License-Identifier: Apache-2.0
 *
 * The candidates: models whose weights have the codes of one rho, or the nearest.  They go through
 * the layers beside the source, over the sequences that no Hessian has seen; the one that diverges
 * least from it wins.  Inputs stay in high precision: their rounding is the same for all.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "compensate/steps.h"
#include "sweep/series.h"

int candidates_open(struct compensation *job, struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	size_t *sequences = xcalloc(plan->data.n, sizeof *sequences), n = 0;
	int rc;

	for (size_t i = 0; i < plan->data.n; i++)
		if (plan->held_out[i])
			sequences[n++] = i;
	rc = variants_open(&job->variants, &job->runner, (struct input_filter){ 0 }, err);
	for (size_t c = 0; c <= plan->n_rhos && !rc; c++) {
		job->n_candidates++;
		rc = variant_open(&job->candidates[c], &job->variants, sequences, n, err);
	}
	job->kld = xcalloc(job->n_candidates * n, sizeof *job->kld);
	free(sequences);
	return rc;
}

void candidates_release(struct compensation *job)
{
	for (size_t c = 0; c < job->n_candidates; c++)
		variant_release(&job->candidates[c]);
	variants_release(&job->variants);
	free(job->kld);
}

/* The weights of one matrix of a candidate, decoded by bands. */
struct decoding {
	struct compensation *job;
	size_t candidate;
	const struct compensate_job *from;
	float *values; /* (n, k) of the matrix */
};

static int decode_item(void *context, int worker, size_t item, struct err *err)
{
	const struct decoding *decoding = context;
	struct compensation *job = decoding->job;
	const struct compensate_plan *plan = job->plan;
	struct band *band = band_read(&job->bands, worker, decoding->from, item, err);
	const uint8_t *codes;
	struct quant_in q;

	if (!band)
		return -1;
	codes = band->nearest;
	if (decoding->candidate > 0) {
		const struct store_span span = band_span(plan, band, decoding->candidate - 1);

		codes = band->codes;
		if (store_read(job->store, &span, band->codes, err))
			return -1;
	}
	q = band_codes(band, codes);
	backend_dequantize(plan->params.cast, &q, DT_F32, band->decoded, q.cols);
	for (uint64_t r = 0; r < q.rows; r++) {
		uint64_t row =
			decoding->from->linear_row + (band->row + r) * decoding->from->linear_step;

		memcpy(decoding->values + row * q.cols, band->decoded + r * q.cols,
		       q.cols * sizeof(float));
	}
	return backend_failed(plan->params.cast, decoding->from->linear->module, err);
}

/* Replaces a matrix by the candidate's, if jobs have all of its rows; jobs[first] is the first. */
static int replace(struct compensation *job, struct variant_stage *stage, size_t candidate,
		   const struct compensate_group *group, size_t first, struct err *err)
{
	const struct compensate_params *params = &job->plan->params;
	const struct linear_ref *linear = group->jobs[first].linear;
	struct decoding decoding = { .job = job, .candidate = candidate };
	uint64_t n_rows = 0;
	void *values;
	int rc = 0;

	for (size_t j = first; j < group->n_jobs; j++)
		n_rows += group->jobs[j].linear == linear ? group->jobs[j].n_rows : 0;
	if (n_rows != linear->n)
		return 0;
	if (buffer_alloc(&values, linear->n * linear->k * sizeof(float), "a weight", err))
		return -1;
	decoding.values = values;
	for (size_t j = first; j < group->n_jobs && !rc; j++) {
		decoding.from = &group->jobs[j];
		if (decoding.from->linear == linear)
			rc = pool_run(params->n_threads, bands_of_job(decoding.from), decode_item,
				      &decoding, params->stop, err);
	}
	rc = rc ? rc : variant_stage_replace(stage, &job->variants, linear, values, NULL, err);
	free(values);
	return rc;
}

static int replace_all(struct compensation *job, struct variant_stage *stage, size_t candidate,
		       struct err *err)
{
	const struct compensate_stage *plan = &job->plan->stages[job->stage];

	for (size_t g = 0; g < plan->n_groups; g++)
		for (size_t j = 0; j < plan->groups[g].n_jobs; j++) {
			const struct compensate_job *jobs = plan->groups[g].jobs;

			if (j && jobs[j].linear == jobs[j - 1].linear)
				continue;
			if (replace(job, stage, candidate, &plan->groups[g], j, err))
				return -1;
		}
	return 0;
}

/* A candidate in the current stage. */
struct trial {
	struct compensation *job;
	size_t candidate;
	const struct variant_stage *stage;
	struct divergence *divergences; /* (threads, longest sequence) */
};

/* Computes the mean divergence of a sequence from the source. */
static int run_head(const struct trial *trial, int worker, size_t item, struct err *err)
{
	struct compensation *job = trial->job;
	const struct variant *variant = &job->candidates[trial->candidate];
	size_t sequence = variant->sequences[item].index;
	const struct head_pass p = runner_head_pass(&job->runner, worker, sequence);
	const struct head_pass q = variant_head(variant, trial->stage, worker, sequence);
	struct divergence *divergences =
		trial->divergences + (size_t)worker * job->plan->sweep.longest;
	size_t n = variant->sequences[item].n_tokens;
	double sum = 0;

	if (forward_heads(&p, &q, divergences, err))
		return -1;
	for (size_t t = 0; t < n; t++)
		sum += divergences[t].kl;
	job->kld[trial->candidate * variant->n + item] = sum / (double)n;
	return 0;
}

static int run_item(void *context, int worker, size_t item, struct err *err)
{
	const struct trial *trial = context;
	struct compensation *job = trial->job;
	struct variant *variant = &job->candidates[trial->candidate];
	int rc;

	if (trial->stage->layer.ref)
		rc = variant_run(variant, trial->stage, worker, variant->sequences[item].index,
				 err);
	else
		rc = run_head(trial, worker, item, err);
	atomic_fetch_add(&job->progress->done, job->work);
	return rc;
}

int candidates_begin(struct compensation *job, struct err *err)
{
	for (size_t c = 0; c < job->n_candidates; c++)
		for (size_t i = 0; i < job->candidates[c].n; i++)
			if (variant_begin(&job->candidates[c], 0,
					  job->candidates[c].sequences[i].index, err))
				return -1;
	return 0;
}

/* Takes a candidate through the current stage. */
static int run_candidate(struct compensation *job, size_t candidate, struct divergence *divergences,
			 struct err *err)
{
	struct variant_stage stage;
	struct trial trial = { job, candidate, &stage, divergences };
	int rc;

	variant_stage_begin(&stage, &job->variants);
	rc = replace_all(job, &stage, candidate, err);
	if (!rc)
		rc = pool_run(job->plan->params.n_threads, job->candidates[candidate].n, run_item,
			      &trial, job->plan->params.stop, err);
	variant_stage_end(&stage);
	return rc;
}

int candidates_stage(struct compensation *job, struct err *err)
{
	size_t n_threads = (size_t)job->plan->params.n_threads;
	struct divergence *divergences =
		xcalloc(n_threads * job->plan->sweep.longest, sizeof *divergences);
	int rc = 0;

	for (size_t c = 0; c < job->n_candidates && !rc; c++)
		rc = run_candidate(job, c, divergences, err);
	free(divergences);
	return rc;
}

/* Returns the mean of the candidate's divergences, less those of `other` (NULL: 0). */
static struct estimate mean(const struct compensation *job, const double *kld, const double *other)
{
	const struct variant *variant = &job->candidates[0];
	struct series series = series_new(variant->n);
	struct estimate estimate;

	for (size_t i = 0; i < variant->n; i++) {
		size_t n = variant->sequences[i].n_tokens;

		series_add(&series, (kld[i] - (other ? other[i] : 0)) * (double)n, n);
	}
	estimate = series_mean(&series);
	series_release(&series);
	return estimate;
}

void candidates_choose(const struct compensation *job, struct store_outcome *outcome)
{
	size_t n = job->plan->n_held_out;

	*outcome = (struct store_outcome){ .measured = job->n_candidates };
	if (!outcome->measured)
		return;
	outcome->nearest_kld = mean(job, job->kld, NULL).value;
	for (size_t r = 0; r < job->plan->n_rhos; r++) {
		const double *kld = job->kld + (r + 1) * n;

		outcome->kld[r] = mean(job, kld, NULL).value;
		outcome->se[r] = mean(job, kld, job->kld).se;
		if (outcome->kld[r] < outcome->kld[outcome->rho])
			outcome->rho = r;
	}
	outcome->is_nearest = !(outcome->kld[outcome->rho] < outcome->nearest_kld);
}
