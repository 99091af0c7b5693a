/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "compensate/codes.h"
#include "compensate/ranks.h"
#include "sweep/series.h"

/* Returns the number, among all sequences that are held out, of this rank's sequence i. */
static size_t held_number(const struct compensate_plan *plan, size_t i)
{
	return group_rank(plan->params.group) + i * group_size(plan->params.group);
}

int candidates_open(struct compensation *job, struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	size_t *sequences = xcalloc(plan->n_own_held_out, sizeof *sequences);
	size_t n = plan->n_own_held_out;
	int rc;

	for (size_t i = 0; i < n; i++)
		sequences[i] = plan->own_numbers[plan->held[held_number(plan, i)]];
	rc = variants_open(&job->variants, &job->runner, err);
	for (size_t c = 0; c <= plan->n_rhos && !rc; c++) {
		job->n_candidates++;
		rc = variant_open(&job->candidates[c], &job->variants, sequences, n, err);
	}
	job->kld = xcalloc(job->n_candidates * plan->n_held_out, sizeof *job->kld);
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
	struct band_memory *band = band_read(&job->bands, worker, decoding->from, item, err);
	const uint8_t *codes;
	struct quant_in q;

	if (!band)
		return -1;
	codes = band->nearest;
	if (decoding->candidate > 0) {
		const struct store_span span = band_span(plan, band, decoding->candidate - 1);

		codes = band->codes;
		if (codes_read(job, &span, band->codes, err))
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

/* Candidates in the current stage. */
struct trial {
	struct compensation *job;
	size_t candidate;		    /* in a layer: the one that runs */
	const struct variant_stage *stages; /* its stage; at the head: all candidates' */
};

static int run_item(void *context, int worker, size_t item, struct err *err)
{
	const struct trial *trial = context;
	struct compensation *job = trial->job;
	struct model_variant *variant = &job->candidates[trial->candidate];
	int rc = variant_run(variant, trial->stages, worker, variant->sequences[item].index, err);

	atomic_fetch_add(&job->progress->done, job->candidate_work);
	return rc;
}

/* Computes the mean divergence of a sequence from the source, for all candidates. */
static int run_heads(void *context, int worker, size_t item, struct err *err)
{
	const struct trial *trial = context;
	struct compensation *job = trial->job;
	const struct compensate_plan *plan = job->plan;
	size_t held = held_number(plan, item);
	const struct sequence *sequence = &job->candidates[0].sequences[item];
	const struct head_pass p = runner_head_pass(&job->runner, worker, sequence->index);
	struct head_pass q[1 + STORE_RHOS];
	double kl[1 + STORE_RHOS];

	for (size_t c = 0; c < job->n_candidates; c++)
		q[c] = variant_head(&job->candidates[c], &trial->stages[c], worker,
				    sequence->index);
	if (forward_heads_many(&p, q, job->n_candidates, kl, NULL, err))
		return -1;
	for (size_t c = 0; c < job->n_candidates; c++) {
		if (!isfinite(kl[c]))
			return err_set(err, ERR_INPUT,
				       "the outputs of '%s' are not finite in sequence %zu: the "
				       "model overflows on this data",
				       plan->model.head.module, plan->held[held]);
		job->kld[c * plan->n_held_out + held] = kl[c] / (double)sequence->n_tokens;
	}
	atomic_fetch_add(&job->progress->done, job->candidate_work * job->n_candidates);
	return 0;
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

/* Takes a candidate through the current layer. */
static int run_layer(struct compensation *job, size_t candidate, struct err *err)
{
	struct variant_stage stage;
	struct trial trial = { job, candidate, &stage };
	int rc;

	variant_stage_begin(&stage, &job->variants);
	rc = replace_all(job, &stage, candidate, err);
	if (!rc)
		rc = pool_run(job->plan->params.n_threads, job->candidates[candidate].n, run_item,
			      &trial, job->plan->params.stop, err);
	variant_stage_end(&stage);
	return rc;
}

/* Takes all candidates through the head, so that the source's is computed once. */
static int run_head(struct compensation *job, struct err *err)
{
	struct variant_stage stages[1 + STORE_RHOS];
	struct trial trial = { job, 0, stages };
	int rc = 0;

	for (size_t c = 0; c < job->n_candidates; c++) {
		variant_stage_begin(&stages[c], &job->variants);
		rc = rc ? rc : replace_all(job, &stages[c], c, err);
	}
	if (!rc && job->n_candidates)
		rc = pool_run(job->plan->params.n_threads, job->candidates[0].n, run_heads, &trial,
			      job->plan->params.stop, err);
	for (size_t c = 0; c < job->n_candidates; c++)
		variant_stage_end(&stages[c]);
	return rc;
}

int candidates_stage(struct compensation *job, struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	size_t n = plan->n_own_held_out ? job->n_candidates : 0;
	bool head = !runner_layer(&job->runner);
	int rc = n && head ? run_head(job, err) : 0;

	for (size_t c = 0; c < n && !head && !rc; c++)
		rc = run_layer(job, c, err);
	return ranks_unite(job, rc, job->kld,
			   head ? job->n_candidates * plan->n_held_out * sizeof *job->kld : 0, err);
}

/* Returns the mean of the candidate's divergences, less the mean of `other` (NULL: 0). */
static struct estimate mean(const struct compensation *job, const double *kld, const double *other)
{
	const struct compensate_plan *plan = job->plan;
	struct series series = series_new(plan->n_held_out);
	struct estimate estimate;

	for (size_t i = 0; i < plan->n_held_out; i++) {
		size_t n = plan->data.sequences[plan->held[i]].len;

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
