/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of events: embed; for each layer load it, sum its Hessians while all sequences go
 * through it, round its matrices, take the candidates through it; at the head, choose.
 */
#include "compensate/compensate.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "compensate/candidates.h"
#include "compensate/codes.h"
#include "compensate/inputs.h"
#include "compensate/memory.h"
#include "compensate/ranks.h"
#include "compensate/round.h"
#include "compensate/steps.h"
#include "compensate/sums.h"

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

/* Rounds the matrices of every n_ranks-th group of a turn with every rho, and writes their
 * codes. */
static int turn_round(struct compensation *job, const struct turn *turn, struct writer *writer,
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

/* Returns where the turn ends that begins with group `first`: as many groups as the memory holds
 * with two sequences for each thread of all ranks. */
static size_t turn_end(const struct compensate_plan *plan, const struct compensate_stage *stage,
		       size_t first)
{
	uint64_t n_threads = (uint64_t)plan->params.n_threads * group_size(plan->params.group);
	uint64_t size = 0;
	size_t end = first;

	for (; end < stage->n_groups; end++) {
		size += compensate_group_size(&stage->groups[end]);
		if (end > first &&
		    size + N_CHUNKS * n_threads *
					    compensate_inputs_size(plan, stage, first, end + 1) >
			    plan->room)
			break;
	}
	return end;
}

static int run_turn(struct compensation *job, struct turn *turn, struct writer *writer,
		    struct store_counts *counts, struct err *err)
{
	size_t n = turn->end - turn->first;
	int rc;

	turn->sums = xcalloc(n + 1, sizeof *turn->sums);
	rc = turn_sum(job, turn, err);
	if (!rc && n)
		rc = turn_round(job, turn, writer, counts, err);
	for (size_t i = 0; i < n; i++)
		free(turn->sums[i].hessian);
	free(turn->sums);
	return rc;
}

/* Computes the codes of the current stage. */
static int round_stage(struct compensation *job, const struct compensate_stage *stage,
		       struct err *err)
{
	struct store_counts counts[STORE_RHOS] = { 0 };
	struct writer writer = { 0 };
	int rc = bands_take_amax(&job->bands, stage, err);

	rc = rc ? rc : codes_begin(job, &writer, err);
	rc = ranks_settle(job, rc, err);
	for (size_t first = 0; first < stage->n_groups && !rc;) {
		struct turn turn = { .stage = stage, .first = first };

		turn.end = turn_end(job->plan, stage, first);
		rc = group_least(job->plan->params.group, &turn.end, err);
		first = turn.end;
		turn.last = first == stage->n_groups;
		rc = rc ? rc : run_turn(job, &turn, &writer, counts, err);
	}
	rc = rc ? rc : codes_commit(job, &writer, counts, err);
	writer_release(&writer);
	return rc;
}

static int run_stage(struct compensation *job, struct err *err)
{
	const struct compensate_stage *stage = &job->plan->stages[job->stage];
	bool head = job->stage == job->plan->model.n_layers;
	int rc = 0;

	if (stage->n_groups && !job->done[job->stage])
		rc = round_stage(job, stage, err);
	else if (!head)
		rc = run_turn(job, &(struct turn){ .stage = stage, .last = true }, NULL, NULL, err);
	if (rc || !job->n_candidates)
		return rc;
	if (stage->n_groups && job->done[job->stage] && codes_take(job, err))
		return -1;
	rc = ranks_settle(job, bands_take_amax(&job->bands, stage, err), err);
	return rc ? rc : candidates_stage(job, err);
}

/* Sets the progress of a sequence in the current stage. */
static void count_work(struct compensation *job)
{
	const struct compensate_plan *plan = job->plan;
	const struct compensate_stage *stage = &plan->stages[job->stage];

	job->candidate_work = sweep_plan_work(&plan->sweep, job->stage) * job->work_unit;
	job->work = job->stage < plan->model.n_layers || stage->n_groups ? job->candidate_work : 0;
	for (size_t g = 0; g < stage->n_groups; g++) {
		uint64_t k = stage->groups[g].input.k;

		job->work += k * k / plan->model.hidden * job->work_unit;
	}
}

static int run_stages(struct compensation *job, struct err *err)
{
	const struct model *model = &job->plan->model;

	for (job->stage = 0; job->stage <= model->n_layers; job->stage++) {
		int rc = runner_stage_begin(&job->runner, job->stage, &job->length, err);

		if (ranks_settle(job, rc, err))
			return -1;
		count_work(job);
		atomic_store(&job->progress->name, job->stage < model->n_layers
							   ? model->layers[job->stage].mixer_module
							   : model->head.module);
		if (run_stage(job, err))
			return -1;
		runner_stage_end(&job->runner);
	}
	return 0;
}

static int embed_item(void *context, int worker, size_t item, struct err *err)
{
	struct compensation *job = context;

	return runner_embed(&job->runner, worker, item, err);
}

/* Progress counts the source's bytes, in shares by the multiplications of every sequence of this
 * rank: through a stage, and of its inputs with themselves for the Hessians. */
static void begin_progress(struct compensation *job)
{
	const struct compensate_plan *plan = job->plan;
	uint64_t total = 0;

	job->work_unit = 1;
	for (job->stage = 0; job->stage <= plan->model.n_layers; job->stage++) {
		count_work(job);
		total += job->work * plan->own.n +
			 job->candidate_work * (1 + plan->n_rhos) * plan->n_own_held_out;
	}
	job->work_unit = plan->params.checkpoint->data_bytes / (total + 1) + 1;
	progress_begin(job->progress, PROGRESS_ROUND, total * job->work_unit);
}

/* Opens all that stages need, and embeds the sequences. */
static int begin(struct compensation *job, struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	const struct compensate_params *params = &plan->params;

	if (runner_open(&job->runner, &plan->sweep, &plan->sweep.params.models[0], params->backend,
			params->stop, err) ||
	    bands_open(&job->bands, plan, err) || codes_open(job, err))
		return -1;
	runner_begin(&job->runner, 0, plan->own.n);
	begin_progress(job);
	if (pool_run(params->n_threads, plan->own.n, embed_item, job, params->stop, err) ||
	    (plan->n_held_out && candidates_open(job, err)) || candidates_begin(job, err))
		return -1;
	return 0;
}

static int end(struct compensation *job, struct err *err)
{
	struct store_outcome outcome;

	if (bands_close(&job->bands, err) || runner_close(&job->runner, err))
		return -1;
	candidates_choose(job, &outcome);
	return job->store ? store_choose(job->store, &outcome, err) : 0;
}

int compensate_run(const struct compensate_plan *plan, struct store *store,
		   struct progress *progress, struct err *err)
{
	struct compensation job = { .plan = plan, .store = store, .progress = progress };
	bool finished = false;
	int rc = ranks_take_store(&job, &finished, err);

	if (!rc && !finished)
		rc = ranks_settle(&job, begin(&job, err), err) ?: run_stages(&job, err)
			     ?: ranks_settle(&job, end(&job, err), err);
	free(job.done);
	codes_release(&job);
	candidates_release(&job);
	kept_inputs_release(&job);
	bands_release(&job.bands);
	runner_release(&job.runner);
	return rc;
}
