/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "compensate/codes.h"
#include "compensate/ranks.h"
#include "compensate/round.h"

/* With fewer tokens for a column, rho rises linearly to 1, which is rounding to nearest.  Below the
 * second number it is 1. */
#define ENOUGH_TOKENS 4.0
#define FEW_TOKENS    0.25

/* The rounding of a turn with one rho. */
struct rho_rounding {
	struct compensation *job;
	const struct turn *turn;
	struct writer *writer;
	size_t rho;		/* index */
	struct factor *factors; /* (groups of the turn); of too few tokens: zeroed */
	uint64_t *first;	/* (jobs + 1): the bands of each job */
	const struct compensate_job **jobs;
	size_t *groups; /* (jobs): of the turn */
	size_t n_jobs;
	size_t n, rank,
		n_ranks; /* groups of the turn: this rank has every n_ranks-th, from rank on */
};

static const struct compensate_group *group_at(const struct rho_rounding *round, size_t i)
{
	return &round->turn->stage->groups[round->turn->first + i];
}

/* Returns the tokens that group i has seen, for each of its columns. */
static double tokens_per_column(const struct rho_rounding *round, size_t i)
{
	return (double)round->turn->sums[i].n_tokens / (double)group_at(round, i)->input.k;
}

/* Returns the rho of group i. */
static float rho_of(const struct rho_rounding *round, size_t i)
{
	float rho = round->job->plan->rhos[round->rho];
	double tokens = tokens_per_column(round, i), share = tokens / ENOUGH_TOKENS;

	if (tokens < FEW_TOKENS)
		return 1;
	return share >= 1 ? rho : (float)(1 - (1 - rho) * share);
}

static int factor_group(struct rho_rounding *round, size_t i, int n_threads, struct err *err)
{
	const struct compensate_plan *plan = round->job->plan;
	const struct group_sum *sum = &round->turn->sums[i];
	size_t k = group_at(round, i)->input.k;
	const struct hessian hessian = { .data = sum->hessian,
					 .n = k,
					 .ops = host_ops_select(),
					 .n_threads = n_threads,
					 .stop = plan->params.stop };
	float rho = rho_of(round, i);

	return rho < 1 ? factor_make(&round->factors[i], &hessian, rho, err) : 0;
}

static int factor_item(void *context, int worker, size_t item, struct err *err)
{
	struct rho_rounding *round = context;

	(void)worker;
	return factor_group(round, round->rank + item * round->n_ranks, 1, err);
}

/* Many small groups take a thread each, few large ones all threads. */
static int factor_groups(struct rho_rounding *round, struct err *err)
{
	const struct compensate_params *params = &round->job->plan->params;
	size_t n = (round->n + round->n_ranks - 1 - round->rank) / round->n_ranks;

	if (n >= 2 * (size_t)params->n_threads && n > N_INPUT_KINDS)
		return pool_run(params->n_threads, n, factor_item, round, params->stop, err);
	for (size_t i = round->rank; i < round->n; i += round->n_ranks)
		if (factor_group(round, i, params->n_threads, err))
			return -1;
	return 0;
}

/* Is the group rounded to nearest? */
static bool is_nearest(const struct factor *factor)
{
	return !factor->u;
}

static int round_band(const struct rho_rounding *round, size_t group, struct band_memory *band,
		      struct err *err)
{
	const struct compensate_plan *plan = round->job->plan;
	const struct factor *factor = &round->factors[group];
	const struct rounding rounding = { .factor = factor,
					   .spec = band->spec,
					   .scales = band->scalings,
					   .ops = host_ops_select(),
					   .n_threads = 1 };
	const struct store_span span = band_span(plan, band, round->rho);
	const uint8_t *codes = is_nearest(factor) ? band->nearest : band->codes;

	if (!is_nearest(factor) && round_matrix(&rounding, band_values(band), band->codes, err))
		return -1;
	return codes_write(round->job, round->writer, &span, codes, err);
}

static int band_item(void *context, int worker, size_t item, struct err *err)
{
	const struct rho_rounding *round = context;
	struct band_memory *band;
	size_t j = 0;

	while (round->first[j + 1] <= item)
		j++;
	band = band_read(&round->job->bands, worker, round->jobs[j], item - round->first[j], err);
	return band ? round_band(round, round->groups[j], band, err) : -1;
}

static void list_jobs(struct rho_rounding *round)
{
	size_t n_jobs = 0;

	for (size_t g = round->rank; g < round->n; g += round->n_ranks)
		n_jobs += group_at(round, g)->n_jobs;
	round->jobs = xcalloc(n_jobs, sizeof *round->jobs);
	round->groups = xcalloc(n_jobs, sizeof *round->groups);
	round->first = xcalloc(n_jobs + 1, sizeof *round->first);
	for (size_t g = round->rank; g < round->n; g += round->n_ranks) {
		const struct compensate_group *group = group_at(round, g);

		for (size_t j = 0; j < group->n_jobs; j++, round->n_jobs++) {
			round->jobs[round->n_jobs] = &group->jobs[j];
			round->groups[round->n_jobs] = g;
			round->first[round->n_jobs + 1] =
				round->first[round->n_jobs] + bands_of_job(&group->jobs[j]);
		}
	}
}

static void count(const struct rho_rounding *round, struct store_counts *counts)
{
	for (size_t i = round->rank; i < round->n; i += round->n_ranks) {
		size_t n_jobs = group_at(round, i)->n_jobs;
		const struct factor *factor = &round->factors[i];

		counts->n_few += tokens_per_column(round, i) < FEW_TOKENS ? n_jobs : 0;
		counts->n_raised += factor->rho > rho_of(round, i) ? n_jobs : 0;
	}
}

int turn_round(struct compensation *job, const struct turn *turn, struct writer *writer,
	       struct store_counts *counts, struct err *err)
{
	const struct compensate_params *params = &job->plan->params;
	struct rho_rounding round = { .job = job,
				      .turn = turn,
				      .writer = writer,
				      .n = turn->end - turn->first,
				      .rank = group_rank(params->group),
				      .n_ranks = group_size(params->group) };
	int rc = 0;

	round.factors = xcalloc(round.n, sizeof *round.factors);
	list_jobs(&round);
	for (round.rho = 0; round.rho < job->plan->n_rhos && !rc; round.rho++) {
		rc = factor_groups(&round, err);
		if (!rc)
			rc = pool_run(params->n_threads, round.first[round.n_jobs], band_item,
				      &round, params->stop, err);
		if (!rc)
			count(&round, &counts[round.rho]);
		for (size_t i = 0; i < round.n; i++) {
			factor_release(&round.factors[i]);
			round.factors[i] = (struct factor){ 0 };
		}
	}
	free(round.factors);
	free(round.jobs);
	free(round.groups);
	free(round.first);
	return ranks_settle(job, rc, err);
}
