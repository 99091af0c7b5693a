/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/sweep.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"

static size_t n_models(const struct sweep *sweep)
{
	return sweep->plan.params.n_models;
}

static size_t n_devices(const struct sweep *sweep)
{
	return sweep->plan.params.n_devices;
}

static int runners_open(struct sweep *sweep, const struct backend *backend, struct err *err)
{
	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_open(&sweep->runners[m], &sweep->plan, &sweep->plan.params.models[m],
				backend, sweep->stop, err))
			return -1;
	return 0;
}

/* Opens the runners, with fewer sequences where a device has less memory than it reported. */
static int open_all(struct sweep *sweep, const struct backend *backend, struct err *err)
{
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

int sweep_open(struct sweep *sweep, const struct sweep_plan *plan, const struct backend *backend,
	       const atomic_int *stop, struct sweep_progress *progress, struct err *err)
{
	size_t max;

	*sweep = (struct sweep){ .plan = *plan,
				 .stop = stop,
				 .progress = progress,
				 .length = { .now = plan->params.now,
					     .first = plan->first_passes,
					     .step = plan->step_passes } };
	sweep->parts = xcalloc(n_devices(sweep), sizeof *sweep->parts);
	sweep->groups = xcalloc(n_devices(sweep), sizeof *sweep->groups);
	if (group_settle(plan->params.group, open_all(sweep, backend, err), err))
		return -1;
	max = sweep->plan.max_sequences;
	if (group_least(plan->params.group, &max, err))
		return -1;
	sweep_plan_limit(&sweep->plan, max);
	atomic_store(&progress->token, sweep_plan_token_work(plan));
	return 0;
}

int sweep_close(struct sweep *sweep, struct err *err)
{
	int rc = 0;

	for (size_t m = 0; m < n_models(sweep) && !rc; m++)
		rc = runner_close(&sweep->runners[m], err);
	return group_settle(sweep->plan.params.group, rc, err);
}

void sweep_release(struct sweep *sweep)
{
	for (size_t m = 0; m < SWEEP_MODELS; m++)
		runner_release(&sweep->runners[m]);
	free(sweep->parts);
	free(sweep->groups);
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
		atomic_fetch_add(&sweep->progress->done,
				 all[sequences.first + i].n_tokens * sweep->work);
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

static size_t n_groups(const struct sweep *sweep, size_t device)
{
	return (sweep->parts[device].n + sweep->groups[device] - 1) / sweep->groups[device];
}

/* Returns the first piece that a device's threads load in the current step.  Steps have their share
 * of the pieces by their sequences; in a step devices share them evenly. */
static size_t first_piece(const struct sweep *sweep, size_t device)
{
	const struct span *step = &sweep->step;
	size_t n = 0, first, end;

	for (size_t m = 0; m < n_models(sweep); m++)
		n += runner_n_pieces(&sweep->runners[m]);
	first = n * step->first / sweep->n_sequences;
	end = n * (step->first + step->n) / sweep->n_sequences;
	return first + (end - first) * device / n_devices(sweep);
}

static size_t n_pieces(const struct sweep *sweep, size_t device)
{
	return first_piece(sweep, device + 1) - first_piece(sweep, device);
}

/* Returns how many of the first `item` items of a device load a piece.  Threads that compute load
 * after the last sequence.  Where a device computes, pieces lie evenly among the sequences, so that
 * reading, copying and multiplying go on at the same time. */
static size_t pieces_before(const struct sweep *sweep, size_t device, size_t item)
{
	size_t groups = n_groups(sweep, device), pieces = n_pieces(sweep, device);

	if (sweep->plan.params.executor->load.streams)
		return item * pieces / (groups + pieces);
	return item > groups ? item - groups : 0;
}

/* Runs a group of sequences, or loads a piece of a next stage. */
static int run_item(void *context, int worker, size_t item, struct err *err)
{
	struct sweep *sweep = context;
	size_t device = (size_t)worker % n_devices(sweep), group = sweep->groups[device];
	size_t piece = pieces_before(sweep, device, item);
	size_t at = (item - piece) * group, left = sweep->parts[device].n - at;
	const struct span sequences = { sweep->parts[device].first + at,
					left < group ? left : group };

	return pieces_before(sweep, device, item + 1) > piece
		       ? load_piece(sweep, worker, first_piece(sweep, device) + piece, err)
		       : run_sequences(sweep, worker, sequences, err);
}

/* Runs the sequences of each device, and loads the pieces. */
static int run_items(struct sweep *sweep, struct err *err)
{
	size_t *n = xcalloc(n_devices(sweep), sizeof *n);
	const struct pool_queues queues = { n_devices(sweep), n };
	int rc;

	for (size_t d = 0; d < n_devices(sweep); d++) {
		sweep->groups[d] = runner_group(&sweep->runners[0], sweep->parts[d].n);
		n[d] = n_groups(sweep, d) + n_pieces(sweep, d);
	}
	rc = pool_run_queues(sweep->plan.params.n_threads, &queues, run_item, sweep, sweep->stop,
			     err);
	free(n);
	return rc;
}

static int run_step(struct sweep *sweep, struct err *err)
{
	size_t n_begun = 0;
	struct err second = { 0 };
	int rc = 0;

	for (; n_begun < n_models(sweep) && !rc; n_begun++)
		rc = runner_step_begin(&sweep->runners[n_begun], err);
	if (rc)
		n_begun--;
	else
		rc = run_items(sweep, err);
	if (!rc)
		rc = runner_take_amaxes(&sweep->runners[0], err);
	rc = group_settle(sweep->plan.params.group, rc, err);
	for (size_t m = 0; m < n_begun; m++)
		if (runner_step_end(&sweep->runners[m], rc ? &second : err))
			rc = -1;
	return rc;
}

/* Runs all sequences of this rank through the current stage, step by step. */
static int run_steps(struct sweep *sweep, struct err *err)
{
	struct span *step = &sweep->step;

	for (size_t first = 0; first < sweep->n_sequences; first += step->n) {
		*step = sweep_plan_step(&sweep->plan, first, sweep->n_sequences);
		for (size_t d = 0; d < n_devices(sweep); d++)
			sweep->parts[d] = sweep_plan_part(&sweep->plan, *step, d);
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
	sweep->work = sweep_plan_work(&sweep->plan, i);
}

static int stage_begin(struct sweep *sweep, size_t i, struct err *err)
{
	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_stage_begin(&sweep->runners[m], i, &sweep->length, err) ||
		    runner_stats_clear(&sweep->runners[m], sweep->n_sequences, err))
			return -1;
	show_stage(sweep, i);
	return sweep->events->stage_begins(sweep->events->context, sweep, err);
}

static int stats_fetch(struct sweep *sweep, struct err *err)
{
	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_stats_fetch(&sweep->runners[m], sweep->n_sequences, err))
			return -1;
	return 0;
}

/* Completes the value stats of all sequences with the other ranks'. */
static int stats_unite(struct sweep *sweep, struct err *err)
{
	for (size_t m = 0; m < n_models(sweep); m++) {
		struct runner *runner = &sweep->runners[m];
		struct value_stats *fetched = runner->memory.fetched;

		if (group_reduce(sweep->plan.params.group, GROUP_UNION, fetched,
				 sweep->n_sequences * runner->n_slots * sizeof *fetched, err))
			return -1;
	}
	return 0;
}

/* Counts the tokens that other ranks ran through a stage. */
static void show_others(struct sweep *sweep)
{
	const struct sequence *all = sweep->runners[0].memory.sequences;

	for (size_t i = 0; i < sweep->n_sequences; i++)
		if (!all[i].residual)
			atomic_fetch_add(&sweep->progress->done, all[i].n_tokens * sweep->work);
}

static int sweep_stage(struct sweep *sweep, size_t i, struct err *err)
{
	const struct sweep_events *events = sweep->events;
	const struct group *group = sweep->plan.params.group;

	if (group_settle(group, stage_begin(sweep, i, err), err) || run_steps(sweep, err) ||
	    group_settle(group, stats_fetch(sweep, err), err) || stats_unite(sweep, err) ||
	    group_settle(group, events->stage_ends(events->context, sweep, err), err))
		return -1;
	show_others(sweep);
	for (size_t m = 0; m < n_models(sweep); m++)
		runner_stage_end(&sweep->runners[m]);
	return 0;
}

static int embed_sequence(void *context, int worker, size_t item, struct err *err)
{
	struct sweep *sweep = context;
	const struct runner_memory *memory = &sweep->runners[0].memory;

	if (!memory->sequences[item].residual || /* of another rank */
	    memory->devices[item] != (size_t)worker % n_devices(sweep))
		return 0;
	for (size_t m = 0; m < n_models(sweep); m++)
		if (runner_embed(&sweep->runners[m], worker, item, err))
			return -1;
	return 0;
}

/* Completes the losses of all sequences with the other ranks'. */
static int losses_unite(struct sweep *sweep, struct err *err)
{
	for (size_t m = 0; m < n_models(sweep); m++) {
		double *nll = sweep->runners[m].memory.nll;

		if (group_reduce(sweep->plan.params.group, GROUP_UNION, nll,
				 sweep->n_sequences * sizeof *nll, err))
			return -1;
	}
	return 0;
}

/* Embeds all sequences of this rank; the threads of each device skip the sequences of others. */
static int embed_all(struct sweep *sweep, struct err *err)
{
	size_t *n = xcalloc(n_devices(sweep), sizeof *n);
	const struct pool_queues queues = { n_devices(sweep), n };
	int rc;

	for (size_t d = 0; d < n_devices(sweep); d++)
		n[d] = sweep->n_sequences;
	rc = pool_run_queues(sweep->plan.params.n_threads, &queues, embed_sequence, sweep,
			     sweep->stop, err);
	free(n);
	return rc;
}

static int sweep_sequences(struct sweep *sweep, struct err *err)
{
	const struct sweep_params *params = &sweep->plan.params;
	const struct sweep_events *events = sweep->events;

	for (size_t m = 0; m < n_models(sweep); m++)
		runner_begin(&sweep->runners[m], sweep->first, sweep->n_sequences);
	if (group_settle(params->group, embed_all(sweep, err), err))
		return -1;
	for (size_t i = 0; i <= params->models[0].model->n_layers; i++)
		if (sweep_stage(sweep, i, err))
			return -1;
	if (losses_unite(sweep, err))
		return -1;
	return group_settle(params->group, events->sweep_ends(events->context, sweep, err), err);
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

		if (group_least(plan->params.group, &n, err))
			return -1;
		sweep->n_sequences = left < n * batch ? left : n * batch;
		if (sweep_sequences(sweep, err))
			return -1;
		n = sweep_length_next(&sweep->length, (sweep->n_sequences + batch - 1) / batch,
				      plan->params.n_threads);
	}
	return 0;
}
