/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of events: embed; for each layer load it, sum its Hessians while all sequences go
 * through it, round its matrices, take the candidates through it; at the head, choose.
 */
#include "compensate/compensate.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "compensate/candidates.h"
#include "compensate/codes.h"
#include "compensate/inputs.h"
#include "compensate/memory.h"
#include "compensate/ranks.h"
#include "compensate/stage.h"
#include "compensate/sums.h"

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

/* Only takes the sequences through the current layer. */
static int pass_stage(struct compensation *job, const struct compensate_stage *stage,
		      struct err *err)
{
	struct turn turn = { .stage = stage, .last = true };

	return run_turn(job, &turn, NULL, NULL, err);
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
		rc = pass_stage(job, stage, err);
	if (rc || !job->n_candidates)
		return rc;
	if (stage->n_groups && job->done[job->stage] && codes_take(job, err))
		return -1;
	rc = ranks_settle(job, bands_take_amax(&job->bands, stage, err), err);
	return rc ? rc : candidates_stage(job, err);
}

static int run_stages(struct compensation *job, struct err *err)
{
	const struct model *model = &job->plan->model;

	for (job->stage = 0; job->stage <= model->n_layers; job->stage++) {
		int rc = runner_stage_begin(&job->runner, job->stage, &job->length, err);

		if (ranks_settle(job, rc, err))
			return -1;
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

/* Progress counts the source's bytes of the stages, in equal shares for the run of every sequence
 * of this rank. */
static void begin_progress(struct compensation *job)
{
	const struct compensate_plan *plan = job->plan;
	uint64_t n_runs = plan->own.n + (1 + plan->n_rhos) * plan->n_own_held_out;

	job->work = plan->params.checkpoint->data_bytes / (n_runs * (plan->model.n_layers + 1)) + 1;
	progress_begin(job->progress, PROGRESS_ROUND,
		       job->work * n_runs * (plan->model.n_layers + 1));
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

static int run(struct compensation *job, struct err *err)
{
	if (ranks_settle(job, begin(job, err), err) || run_stages(job, err))
		return -1;
	return ranks_settle(job, end(job, err), err);
}

int compensate_run(const struct compensate_plan *plan, struct store *store,
		   struct progress *progress, struct err *err)
{
	struct compensation job = { .plan = plan, .store = store, .progress = progress };
	bool finished = false;
	int rc = ranks_take_store(&job, &finished, err);

	if (!rc && !finished)
		rc = run(&job, err);
	free(job.done);
	codes_release(&job);
	candidates_release(&job);
	kept_inputs_release(&job);
	bands_release(&job.bands);
	runner_release(&job.runner);
	return rc;
}
