/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "sensitivity/replace.h"
#include "sweep/series.h"

/* Variants [first, first + n) of a round in one stage. */
struct variant_turn {
	struct round *round;
	const struct variant_stage *stage;
	size_t first, n;
	bool begins; /* their streams are the model's so far */
};

static size_t n_sequences(const struct round *round)
{
	return round->plan->data.n;
}

static size_t n_layers(const struct round *round)
{
	return round->plan->model.n_layers;
}

/* Returns the stage of a group: its layer, or that of the head. */
static size_t group_stage(const struct round *round, size_t group)
{
	size_t layer = round->plan->table.groups[group].layer;

	return layer == SIZE_MAX ? n_layers(round) : layer;
}

static size_t current_stage(const struct round *round)
{
	const struct layer *layer = runner_layer(&round->sweep.runners[0]);

	return layer ? (size_t)(layer->ref - round->plan->model.layers) : n_layers(round);
}

static int run_item(void *context, int worker, size_t item, struct err *err)
{
	const struct variant_turn *turn = context;
	struct round *round = turn->round;
	struct model_variant *variant = &round->list[turn->first + item / round->own.n];
	size_t sequence = round->own.first + item % round->own.n;

	if ((turn->begins && variant_begin(variant, worker, sequence, err)) ||
	    variant_run(variant, turn->stage, worker, sequence, err))
		return -1;
	atomic_fetch_add(&round->progress->sweep.done,
			 round->plan->data.sequences[sequence].len * round->sweep.work);
	return 0;
}

/* Returns the number of shares of the variants, each with the head of the model: enough that every
 * thread has one. */
static size_t head_shares(const struct variant_turn *turn)
{
	size_t n_threads = (size_t)turn->round->params->n_threads;
	size_t n = (n_threads + turn->round->own.n - 1) / turn->round->own.n;

	return n < turn->n ? n : turn->n;
}

/* Runs the heads of a share of the variants over a sequence, beside that of the model. */
static int run_heads(void *context, int worker, size_t item, struct err *err)
{
	const struct variant_turn *turn = context;
	struct round *round = turn->round;
	size_t shares = head_shares(turn), share = item / round->own.n;
	size_t sequence = round->own.first + item % round->own.n, first = turn->first;
	size_t begin = first + turn->n * share / shares;
	size_t n = first + turn->n * (share + 1) / shares - begin;
	const struct head_pass p = runner_head_pass(&round->sweep.runners[0], worker, sequence);
	struct head_pass *q = xcalloc(n, sizeof *q);
	double *sums = xcalloc(n, sizeof *sums);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		struct model_variant *variant = &round->list[begin + i];

		if (turn->begins)
			rc = variant_begin(variant, worker, sequence, err);
		q[i] = variant_head(variant, turn->stage, worker, sequence);
	}
	rc = rc ? rc : forward_heads_many(&p, q, n, sums, &round->progress->sweep.done, err);
	for (size_t i = 0; i < n && !rc; i++)
		round->sums[(begin + i) * n_sequences(round) + sequence] = sums[i];
	free(q);
	free(sums);
	return rc;
}

/* Runs the sequences of this rank. */
static int turn_run(struct variant_turn *turn, struct err *err)
{
	struct round *round = turn->round;
	const struct sensitivity_params *params = round->params;
	bool is_head = !turn->stage->layer.ref;
	size_t n = round->own.n;

	if (n && pool_run(params->n_threads, (is_head ? head_shares(turn) : turn->n) * n,
			  is_head ? run_heads : run_item, turn, params->stop, err))
		return -1;
	atomic_fetch_add(&round->progress->sweep.done,
			 turn->n * round->others_tokens * round->sweep.work);
	return 0;
}

/* Runs the variants that began in earlier stages. */
static int run_earlier(struct round *round, struct err *err)
{
	struct variant_stage stage = { 0 };
	struct variant_turn turn = { .round = round, .stage = &stage, .n = round->begun };
	int rc;

	variant_stage_begin(&stage, &round->variants);
	rc = turn_run(&turn, err);
	variant_stage_end(&stage);
	return rc;
}

/* Begins the variant of the next group, and runs it through the current stage. */
static int run_new(struct round *round, struct err *err)
{
	struct variant_stage stage = { 0 };
	struct variant_turn turn = {
		.round = round, .stage = &stage, .first = round->begun, .n = 1, .begins = true
	};
	size_t group = round->first + round->begun, *sequences;
	int rc;

	sequences = xcalloc(round->own.n, sizeof *sequences);
	for (size_t i = 0; i < round->own.n; i++)
		sequences[i] = round->own.first + i;
	rc = variant_open(&round->list[round->begun++], &round->variants, sequences, round->own.n,
			  err);
	free(sequences);
	if (rc)
		return -1;
	variant_stage_begin(&stage, &round->variants);
	rc = replace_group(round, group, &stage, err);
	rc = rc ? rc : turn_run(&turn, err);
	variant_stage_end(&stage);
	if (rc)
		return err_wrap(err, "group '%s'", round->plan->table.groups[group].name);
	return 0;
}

static int stage_begins(void *context, struct sweep *sweep, struct err *err)
{
	struct round *round = context;
	double (*now)(void) = round->params->now, began = now ? now() : 0;
	size_t stage = current_stage(round);

	(void)sweep;
	if (round->begun && run_earlier(round, err))
		return -1;
	while (round->begun < round->n &&
	       group_stage(round, round->first + round->begun) == stage) {
		if (run_new(round, err))
			return -1;
		atomic_store(&round->progress->n_groups, round->begun);
	}
	round->seconds += now ? now() - began : 0;
	return 0;
}

/* Runs the unquantized model through a layer; run_heads() has run its head. */
static int run_sequences(void *context, struct sweep *sweep, int worker, struct span sequences,
			 struct err *err)
{
	struct runner *runner = &sweep->runners[0];

	(void)context;
	return runner_layer(runner) ? runner_run(runner, worker, sequences, err) : 0;
}

/* Fails if the unquantized model has values that are not finite: nothing could be compared with
 * them. */
static int stage_ends(void *context, const struct sweep *sweep, struct err *err)
{
	const struct runner *runner = &sweep->runners[0];
	struct round *round = context;

	for (size_t i = 0; i < n_sequences(round) * runner->n_slots; i++)
		if (runner->memory.fetched[i].n_nonfinite)
			return err_set(err, ERR_INPUT,
				       "layer %zu of '%s' has values that are NaN or infinite, in "
				       "sequence %zu: 'fp8conv eval' names the module",
				       current_stage(round), round->plan->plans[0].source.path,
				       i / runner->n_slots);
	return 0;
}

/* Enters the means of all groups of the round into the table: each rank adds the sums of all
 * sequences, in their order. */
static int sweep_ends(void *context, const struct sweep *sweep, struct err *err)
{
	struct round *round = context;

	(void)sweep;
	if (group_reduce(round->params->group, GROUP_UNION, round->sums,
			 round->n * n_sequences(round) * sizeof *round->sums, err))
		return -1;
	for (size_t i = 0; i < round->n; i++) {
		struct kld_group *group = &round->plan->table.groups[round->first + i];
		struct series series = series_new(n_sequences(round));
		struct estimate mean;

		for (size_t s = 0; s < n_sequences(round); s++)
			series_add(&series, round->sums[i * n_sequences(round) + s],
				   round->plan->data.sequences[s].len);
		mean = series_mean(&series);
		series_release(&series);
		if (!isfinite(mean.value))
			return err_set(err, ERR_INPUT,
				       "the divergence of group '%s' with recipe '%s' is not a "
				       "number: the model, or its quantized form, has outputs that "
				       "are NaN or infinite",
				       group->name, round->plan->table.recipes[group->recipe].name);
		group->measured = true;
		group->mean = mean.value;
		group->se = mean.se;
	}
	return 0;
}

static void observe(void *context, const struct observation *observation)
{
	(void)context;
	(void)observation;
}

/* Finds the sequences of this rank: one step takes all of a sweep. */
static void divide(struct round *round)
{
	const struct sweep_plan *sweep = &round->sweep.plan;
	size_t end;

	round->own = sweep_plan_part(sweep, sweep_plan_step(sweep, 0, n_sequences(round)), 0);
	end = round->own.first + round->own.n;
	for (size_t s = 0; s < n_sequences(round); s++)
		if (s < round->own.first || s >= end)
			round->others_tokens += round->plan->data.sequences[s].len;
}

int round_open(struct round *round, struct err *err)
{
	struct sensitivity_plan *plan = round->plan;
	const struct sensitivity_params *params = round->params;
	size_t n_threads = (size_t)params->n_threads;
	int rc;

	round->list = xcalloc(plan->n_at_once, sizeof *round->list);
	round->sums = xcalloc(plan->n_at_once * n_sequences(round), sizeof *round->sums);
	round->values = xcalloc(n_threads, sizeof *round->values);
	if (sweep_open(&round->sweep, &plan->sweep, params->backend, params->stop,
		       &round->progress->sweep, err))
		return -1;
	divide(round);
	rc = variants_open(&round->variants, &round->sweep.runners[0], err);
	return group_settle(params->group, rc, err);
}

static void variants_end(struct round *round)
{
	for (size_t i = 0; i < round->begun; i++)
		variant_release(&round->list[i]);
	round->begun = 0;
}

int round_run(struct round *round, size_t first, size_t n, struct err *err)
{
	const struct sweep_events events = { .context = round,
					     .observers = { { .context = round,
							      .observe = observe } },
					     .stage_begins = stage_begins,
					     .run = run_sequences,
					     .stage_ends = stage_ends,
					     .sweep_ends = sweep_ends };
	int rc;

	round->first = first;
	round->n = n;
	round->seconds = 0;
	memset(round->sums, 0, n * n_sequences(round) * sizeof *round->sums);
	rc = sweep_run(&round->sweep, 0, &events, err);
	variants_end(round);
	return rc;
}

void round_release(struct round *round)
{
	variants_end(round);
	variants_release(&round->variants);
	sweep_release(&round->sweep);
	for (int i = 0; round->values && i < round->params->n_threads; i++) {
		buffer_release(&round->values[i].read);
		buffer_release(&round->values[i].codes);
		buffer_release(&round->values[i].scales);
		buffer_release(&round->values[i].joined);
	}
	free(round->values);
	free(round->sums);
	free(round->list);
}
