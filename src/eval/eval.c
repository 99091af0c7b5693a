/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/eval.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "eval/unfinished.h"
#include "sweep/sweep.h"

/* The state of a running evaluation.  The source, if there is one, is the first model. */
struct evaluation {
	const struct eval_plan *plan;
	const struct eval_params *params;
	struct sweep_progress *progress;
	struct sweep sweep;
	struct samples samples;
	struct unfinished unfinished;
	struct layers *layers;		/* NULL without --by-layer */
	float *cache_scales;		/* of OUT, in the executor's memory; NULL: none */
	struct divergence *divergences; /* by worker: (longest sequence) */
	/* by model: the matrix of each slot of each sequence, for messages */
	const struct linear_ref **outputs[SWEEP_MODELS];
};

static struct runner *runner_of_out(struct evaluation *evaluation)
{
	return &evaluation->sweep.runners[evaluation->plan->sweep.params.n_models - 1];
}

/* Notes which matrix has the value stats of a slot. */
static void note_output(struct evaluation *evaluation, size_t model,
			const struct observation *observation)
{
	const struct sweep *sweep = &evaluation->sweep;
	size_t sequence = observation->sequence - sweep->first;

	if (observation->what == OBSERVED_Y)
		evaluation->outputs[model][sequence * sweep->runners[model].n_slots +
					   observation->slot] = observation->linear;
}

static void observe(struct evaluation *evaluation, int model, const struct observation *observation)
{
	note_output(evaluation, (size_t)model, observation);
	if (evaluation->layers) {
		struct observer observer = layers_observer(evaluation->layers, model);

		observer.observe(observer.context, observation);
	}
}

static void observe_first(void *context, const struct observation *observation)
{
	observe(context, 0, observation);
}

static void observe_second(void *context, const struct observation *observation)
{
	observe(context, 1, observation);
}

static int stage_begins(void *context, struct sweep *sweep, struct err *err)
{
	struct evaluation *evaluation = context;
	const struct eval_plan *plan = evaluation->plan;
	struct stage *stage = runner_of_out(evaluation)->stage;

	for (size_t m = 0; m < sweep->plan.params.n_models; m++)
		memset(evaluation->outputs[m], 0,
		       sweep->n_sequences * sweep->runners[m].n_slots *
			       sizeof *evaluation->outputs[m]);
	if (!stage->layers->ref) {
		engine_inputs_mark(&plan->inputs, stage->heads);
		return 0;
	}
	engine_inputs_mark_layer(&plan->inputs, stage->layers);
	cache_scales_set(&plan->caches, evaluation->cache_scales, stage->layers);
	return evaluation->layers ? layers_begin(evaluation->layers, err) : 0;
}

/* Runs the head of one model, or of both, and keeps the numbers of the positions that count. */
static int run_head(struct evaluation *evaluation, int worker, size_t sequence, struct err *err)
{
	const struct eval_plan *plan = evaluation->plan;
	struct sweep *sweep = &evaluation->sweep;
	const struct head_pass q = runner_head_pass(runner_of_out(evaluation), worker, sequence);
	const struct head_pass p = runner_head_pass(&sweep->runners[0], worker, sequence);
	struct divergence *divergences =
		evaluation->divergences + (size_t)worker * plan->sweep.longest;

	if (plan->has_source ? forward_heads(&p, &q, divergences, err)
			     : forward_head(&q, NULL, err))
		return -1;
	samples_add(&evaluation->samples, sweep->first + sequence, p.losses, q.losses, divergences);
	return 0;
}

static int run_sequences(void *context, struct sweep *sweep, int worker, struct span sequences,
			 struct err *err)
{
	struct evaluation *evaluation = context;
	bool is_head = !runner_layer(&sweep->runners[0]);
	int rc = 0;

	if (!is_head && !evaluation->layers) {
		for (size_t m = 0; m < sweep->plan.params.n_models && !rc; m++)
			rc = runner_run(&sweep->runners[m], worker, sequences, err);
		return rc;
	}
	for (size_t i = 0; i < sequences.n && !rc; i++) {
		size_t sequence = sequences.first + i;

		rc = is_head ? run_head(evaluation, worker, sequence, err)
			     : layers_run(evaluation->layers, worker, sequence, err);
	}
	return rc;
}

/* Fails for the first output that is not finite. */
static int check_outputs(const struct evaluation *evaluation, size_t model, struct err *err)
{
	const struct sweep *sweep = &evaluation->sweep;
	bool is_out = model + 1 == sweep->plan.params.n_models;
	const struct eval_params *params = evaluation->params;
	const struct runner *runner = &sweep->runners[model];

	for (size_t i = 0; i < sweep->n_sequences * runner->n_slots; i++) {
		const struct linear_ref *linear = evaluation->outputs[model][i];
		uint64_t n = runner->memory.fetched[i].n_nonfinite;

		if (linear && n)
			return err_set(err, ERR_INPUT,
				       "the output of '%s' in '%s' has %" PRIu64
				       " %s NaN or infinite, in sequence %zu",
				       linear->module, is_out ? params->input : params->source, n,
				       n == 1 ? "value that is" : "values that are",
				       sweep->first + i / runner->n_slots);
	}
	return 0;
}

static int stage_ends(void *context, const struct sweep *sweep, struct err *err)
{
	struct evaluation *evaluation = context;

	if (evaluation->layers && runner_layer(&sweep->runners[0]) &&
	    layers_end(evaluation->layers, err))
		return -1;
	for (size_t m = 0; m < sweep->plan.params.n_models; m++)
		if (check_outputs(evaluation, m, err))
			return -1;
	return 0;
}

/* ERR_INPUT where the mean loss of a model is beyond what exp() holds. */
static int check_perplexity(const struct estimate *perplexity, const char *model, struct err *err)
{
	if (isfinite(perplexity->value))
		return 0;
	return err_set(err, ERR_INPUT,
		       "the perplexity of '%s' is not finite: its logits are too far apart", model);
}

static int compute_quality(struct evaluation *evaluation, struct quality *quality, struct err *err)
{
	const struct eval_params *params = evaluation->params;

	quality_compute(quality, &evaluation->samples);
	if (check_perplexity(&quality->of[QUALITY_PERPLEXITY], params->input, err))
		return -1;
	return quality->has_source ? check_perplexity(&quality->of[QUALITY_SOURCE_PERPLEXITY],
						      params->source, err)
				   : 0;
}

/* Keeps what is measured, and updates the perplexity that is shown. */
static int sweep_ends(void *context, const struct sweep *sweep, struct err *err)
{
	struct evaluation *evaluation = context;
	struct samples *samples = &evaluation->samples;
	size_t n = samples->target_first[sweep->first + sweep->n_sequences];
	double loss = 0;

	if (samples_unite(samples, evaluation->params->group, sweep->first, sweep->n_sequences,
			  err))
		return -1;
	for (size_t i = 0; i < n; i++)
		loss += samples->loss_q[i];
	atomic_store(&evaluation->progress->loss, loss);
	atomic_store(&evaluation->progress->tokens, n);
	return unfinished_put(&evaluation->unfinished, sweep->first + sweep->n_sequences, err);
}

static int prepare(struct evaluation *evaluation, struct err *err)
{
	const struct eval_plan *plan = evaluation->plan;
	const struct sweep_params *params = &plan->sweep.params;
	struct sweep *sweep = &evaluation->sweep;

	for (size_t m = 0; m < params->n_models; m++)
		evaluation->outputs[m] =
			xcalloc(plan->sweep.max_sequences * sweep->runners[m].n_slots,
				sizeof *evaluation->outputs[m]);
	evaluation->divergences = xcalloc((size_t)params->n_threads * plan->sweep.longest,
					  sizeof *evaluation->divergences);
	if (cache_scales_send(&plan->caches, runner_stream(runner_of_out(evaluation)),
			      &evaluation->cache_scales, err))
		return -1;
	return samples_init(&evaluation->samples, &plan->data, plan->first_counted,
			    plan->has_source, err);
}

/* Takes what an earlier run has measured, and shows what is left. */
static int resume(struct evaluation *evaluation, struct eval_result *result, struct err *err)
{
	const struct eval_plan *plan = evaluation->plan;
	struct sweep_progress *progress = evaluation->progress;
	uint64_t n_tokens = plan->sweep.n_tokens;

	evaluation->unfinished = (struct unfinished){ .plan = plan,
						      .params = evaluation->params,
						      .samples = &evaluation->samples,
						      .result = result };
	if (unfinished_open(&evaluation->unfinished, err))
		return -1;
	result->n_resumed = evaluation->unfinished.n;
	for (size_t i = 0; i < result->n_resumed; i++)
		n_tokens -= plan->data.sequences[i].len;
	atomic_store(&progress->total, n_tokens * atomic_load(&progress->token));
	return 0;
}

static int run(struct evaluation *evaluation, struct eval_result *result, struct err *err)
{
	const struct eval_params *params = evaluation->params;
	const struct sweep_events events = {
		.context = evaluation,
		.observers = { { evaluation, !evaluation->layers, observe_first },
			       { evaluation, !evaluation->layers, observe_second } },
		.stage_begins = stage_begins,
		.run = run_sequences,
		.stage_ends = stage_ends,
		.sweep_ends = sweep_ends
	};
	struct sweep *sweep = &evaluation->sweep;

	if (sweep_open(sweep, &evaluation->plan->sweep, params->backend, params->stop,
		       evaluation->progress, err) ||
	    group_settle(params->group, prepare(evaluation, err), err))
		return -1;
	if (params->by_layer) {
		result->n_layers = evaluation->plan->out.model.n_layers;
		result->layers = xcalloc(result->n_layers, sizeof *result->layers);
		evaluation->layers = layers_new(sweep, result->layers);
	}
	if (resume(evaluation, result, err))
		return -1;
	if (sweep_run(sweep, result->n_resumed, &events, err) || sweep_close(sweep, err))
		return err->kind == ERR_INTERRUPTED
			       ? unfinished_interrupted(&evaluation->unfinished,
							sweep_length_taken(&sweep->length), err)
			       : -1;
	dataset_sha256(&evaluation->plan->data, result->data_sha256);
	return group_settle(params->group, compute_quality(evaluation, &result->quality, err), err);
}

int eval_run(const struct eval_plan *plan, const struct eval_params *params,
	     struct sweep_progress *progress, struct eval_result *result, struct err *err)
{
	struct evaluation evaluation = { .plan = plan, .params = params, .progress = progress };
	int rc;

	*result = (struct eval_result){ 0 };
	rc = run(&evaluation, result, err);
	if (rc)
		eval_result_release(result);
	unfinished_close(&evaluation.unfinished);
	samples_release(&evaluation.samples);
	layers_free(evaluation.layers);
	if (evaluation.cache_scales)
		runner_of_out(&evaluation)
			->forward.executor->ops->memory_free(
				runner_of_out(&evaluation)->forward.executor,
				evaluation.cache_scales);
	for (size_t m = 0; m < SWEEP_MODELS; m++)
		free(evaluation.outputs[m]);
	free(evaluation.divergences);
	sweep_release(&evaluation.sweep);
	return rc;
}

void eval_result_release(struct eval_result *result)
{
	for (size_t i = 0; i < result->n_layers; i++)
		free(result->layers[i].modules);
	free(result->layers);
	*result = (struct eval_result){ 0 };
}
