/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/sweep.h"

#include "base/pool.h"

static size_t n_models(const struct sweep *sweep)
{
	return sweep->plan.params.n_models;
}

static int runners_open(struct sweep *sweep, const struct backend *backend, struct err *err)
{
	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_open(&sweep->runners[m], &sweep->plan, &sweep->plan.params.models[m],
				backend, sweep->stop, err))
			return -1;
	return 0;
}

int sweep_open(struct sweep *sweep, const struct sweep_plan *plan, const struct backend *backend,
	       const atomic_int *stop, struct sweep_progress *progress, struct err *err)
{
	*sweep = (struct sweep){ .plan = *plan,
				 .stop = stop,
				 .progress = progress,
				 .length = { .now = plan->params.now,
					     .first = plan->first_passes,
					     .step = plan->step_passes } };
	while (runners_open(sweep, backend, err)) {
		if (!err->no_memory)
			return -1;
		for (size_t m = 0; m < SWEEP_MODELS; m++)
			runner_release(&sweep->runners[m]);
		if (!sweep_plan_reduce(&sweep->plan))
			return -1;
	}
	return 0;
}

int sweep_close(struct sweep *sweep, struct err *err)
{
	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_close(&sweep->runners[m], err))
			return -1;
	return 0;
}

void sweep_release(struct sweep *sweep)
{
	for (size_t m = 0; m < SWEEP_MODELS; m++)
		runner_release(&sweep->runners[m]);
	*sweep = (struct sweep){ 0 };
}

static int run_sequences(struct sweep *sweep, int worker, struct span sequences, struct err *err)
{
	const struct sequence *all = sweep->runners[0].memory.sequences;
	const struct sweep_events *events = sweep->events;
	int rc = 0;

	if (events->run)
		rc = events->run(events->context, sweep, worker, sequences, err);
	else
		for (size_t m = 0; m < n_models(sweep) && !rc; m++)
			rc = runner_run(&sweep->runners[m], worker, sequences, err);
	for (size_t i = 0; i < sequences.n; i++)
		atomic_fetch_add(&sweep->progress->done, all[sequences.first + i].n_tokens);
	return rc;
}

static int load_piece(struct sweep *sweep, int worker, size_t i, struct err *err)
{
	double began = sweep_length_now(&sweep->length);
	struct runner *runner = sweep->runners;
	int rc;

	for (; i >= runner_n_pieces(runner); runner++)
		i -= runner_n_pieces(runner);
	rc = runner_load_piece(runner, worker, i, err);
	sweep_length_loaded(&sweep->length, began, 1);
	return rc;
}

static size_t n_groups(const struct sweep *sweep)
{
	return (sweep->step.n + sweep->group - 1) / sweep->group;
}

static size_t n_pieces(const struct sweep *sweep)
{
	size_t n = 0;

	for (size_t m = 0; m < n_models(sweep); m++)
		n += runner_n_pieces(&sweep->runners[m]);
	return n;
}

/* Returns how many of the first `item` items load a piece.  Threads that compute load after the
 * last sequence.  Where a device computes, pieces lie evenly among the sequences, so that reading,
 * copying and multiplying go on at the same time. */
static size_t pieces_before(const struct sweep *sweep, size_t item)
{
	size_t groups = n_groups(sweep), pieces = n_pieces(sweep);

	if (sweep->plan.params.executor->max_streams)
		return item * pieces / (groups + pieces);
	return item > groups ? item - groups : 0;
}

/* Runs a group of sequences, or loads a piece of a next stage. */
static int run_item(void *context, int worker, size_t item, struct err *err)
{
	struct sweep *sweep = context;
	size_t piece = pieces_before(sweep, item);
	size_t at = (item - piece) * sweep->group, left = sweep->step.n - at;
	const struct span sequences = { sweep->step.first + at,
					left < sweep->group ? left : sweep->group };

	return pieces_before(sweep, item + 1) > piece
		       ? load_piece(sweep, worker, piece, err)
		       : run_sequences(sweep, worker, sequences, err);
}

static int run_step(struct sweep *sweep, struct err *err)
{
	size_t n, n_begun = 0;
	struct err second = { 0 };
	int rc = 0;

	sweep->group = runner_group(&sweep->runners[0], sweep->step.n);
	n = n_groups(sweep) + n_pieces(sweep);
	for (; n_begun < n_models(sweep) && !rc; n_begun++)
		rc = runner_step_begin(&sweep->runners[n_begun], err);
	if (rc)
		n_begun--;
	else
		rc = pool_run(sweep->plan.params.n_threads, n, run_item, sweep, sweep->stop, err);
	for (size_t m = 0; m < n_begun; m++)
		if (runner_step_end(&sweep->runners[m], rc ? &second : err))
			rc = -1;
	return rc;
}

/* Runs all sequences through the current stage: at once, or with delayed scaling pass by pass. */
static int run_steps(struct sweep *sweep, struct err *err)
{
	const struct sweep_params *params = &sweep->plan.params;
	const struct fp8_selection *fp8 = params->models[0].fp8;
	size_t max = fp8 && fp8->recipe.needs_history ? params->batch : sweep->n_sequences;

	for (size_t first = 0; first < sweep->n_sequences; first += max) {
		size_t left = sweep->n_sequences - first;

		sweep->step = (struct span){ first, left < max ? left : max };
		if (run_step(sweep, err))
			return -1;
	}
	return 0;
}

/* Shows that stage i begins. */
static void show_stage(struct sweep *sweep, size_t i)
{
	struct sweep_progress *progress = sweep->progress;
	size_t left = sweep->plan.params.data->n - sweep->first;
	size_t n = (left + sweep->n_sequences - 1) / sweep->n_sequences;

	if (i == 0)
		atomic_fetch_add(&progress->sweep, 1);
	atomic_store(&progress->n_sweeps, atomic_load(&progress->sweep) + n - 1);
	atomic_store(&progress->layer, i + 1);
}

static int sweep_stage(struct sweep *sweep, size_t i, struct err *err)
{
	const struct sweep_events *events = sweep->events;
	size_t n = sweep->n_sequences;

	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_stage_begin(&sweep->runners[m], i, &sweep->length, err) ||
		    runner_stats_clear(&sweep->runners[m], n, err))
			return -1;
	show_stage(sweep, i);
	if (events->stage_begins(events->context, sweep, err) || run_steps(sweep, err))
		return -1;
	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_stats_fetch(&sweep->runners[m], n, err))
			return -1;
	if (events->stage_ends(events->context, sweep, err))
		return -1;
	for (size_t m = 0; m < n_models(sweep); m++)
		runner_stage_end(&sweep->runners[m]);
	return 0;
}

static int embed_sequence(void *context, int worker, size_t item, struct err *err)
{
	struct sweep *sweep = context;

	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_embed(&sweep->runners[m], worker, item, err))
			return -1;
	return 0;
}

static int sweep_sequences(struct sweep *sweep, struct err *err)
{
	const struct sweep_params *params = &sweep->plan.params;

	for (size_t m = 0; m < n_models(sweep); m++)
		runner_begin(&sweep->runners[m], sweep->first, sweep->n_sequences);
	if (pool_run(params->n_threads, sweep->n_sequences, embed_sequence, sweep, sweep->stop,
		     err))
		return -1;
	for (size_t i = 0; i <= params->models[0].model->n_layers; i++)
		if (sweep_stage(sweep, i, err))
			return -1;
	return sweep->events->sweep_ends(sweep->events->context, sweep, err);
}

int sweep_run(struct sweep *sweep, size_t first, const struct sweep_events *events, struct err *err)
{
	const struct sweep_plan *plan = &sweep->plan;
	size_t batch = plan->params.batch;
	size_t n = sweep_length_begin(&sweep->length, plan->max_sequences / batch);

	sweep->events = events;
	for (size_t m = 0; m < n_models(sweep); m++)
		sweep->runners[m].forward.observer = &events->observers[m];
	for (sweep->first = first; sweep->first < plan->params.data->n;
	     sweep->first += sweep->n_sequences) {
		size_t left = plan->params.data->n - sweep->first;

		sweep->n_sequences = left < n * batch ? left : n * batch;
		if (sweep_sequences(sweep, err))
			return -1;
		n = sweep_length_next(&sweep->length, (sweep->n_sequences + batch - 1) / batch,
				      plan->params.n_threads);
	}
	return 0;
}
