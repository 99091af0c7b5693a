/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/calibrate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "calibrate/recorder.h"
#include "calibrate/resume.h"
#include "sweep/sweep.h"

/* Bytes of the file, to see before the sweep whether it has room: of a site in the header, with two
 * tensors; and of a pass in a site, three fp32 and an int64. */
#define SITE_HEADER ((uint64_t)256)
#define ROW	    ((uint64_t)20)

/* The state of a running calibration. */
struct calibration {
	const struct calibrate_plan *plan;
	struct sweep_progress *progress;
	struct calibrate_result *result;
	struct amax_stats *stats;

	struct history_file file;
	struct sweep sweep;
	struct recorder *recorder;
	double loss; /* of the tokens of this run */
	uint64_t n_losses;
};

static int stage_begins(void *context, struct sweep *sweep, struct err *err)
{
	struct calibration *calibration = context;
	const struct runner *runner = &sweep->runners[0];

	return recorder_begin(calibration->recorder, runner_layer(runner), runner->stage->heads,
			      sweep->first, err);
}

static int stage_ends(void *context, const struct sweep *sweep, struct err *err)
{
	struct calibration *calibration = context;
	const struct runner *runner = &sweep->runners[0];

	return recorder_end(calibration->recorder, sweep->n_sequences, runner->memory.fetched,
			    runner->n_slots, err);
}

/* Returns the end of the sequences, from s on, that are of the same pass. */
static size_t pass_end(const struct share *share, const struct sweep *sweep, size_t s)
{
	size_t pass = share_pass(share, sweep->first + s);

	while (s < sweep->n_sequences && share_pass(share, sweep->first + s) == pass)
		s++;
	return s;
}

/* Adds the mean loss of each pass, and updates the perplexity. */
static void count_losses(struct calibration *calibration, const struct sweep *sweep)
{
	struct calibrate_result *result = calibration->result;
	const struct runner_memory *memory = &sweep->runners[0].memory;
	const struct share *share = &calibration->plan->share;

	for (size_t s = 0, end; s < sweep->n_sequences; s = end) {
		double nll = 0;
		uint64_t n = 0;

		end = pass_end(share, sweep, s);
		for (size_t i = s; i < end; i++) {
			nll += memory->nll[i];
			n += memory->sequences[i].n_tokens - 1;
			result->n_tokens += memory->sequences[i].n_tokens;
		}
		calibration->loss += nll;
		calibration->n_losses += n;
		ARRAY_GROW(result->nll, result->n_passes);
		result->nll[result->n_passes++] = n ? nll / (double)n : 0;
	}
	result->perplexity = exp(calibration->loss /
				 (double)(calibration->n_losses ? calibration->n_losses : 1));
	atomic_store(&calibration->progress->loss, calibration->loss);
	atomic_store(&calibration->progress->tokens, calibration->n_losses);
}

/* Adds sequences [first, first + n) of the share to the history's fingerprint. */
static void count_data(struct amax_stats *stats, const struct calibrate_plan *plan, size_t first,
		       size_t n)
{
	for (size_t i = first; i < first + n; i++) {
		size_t len = plan->share.own.sequences[i].len;

		amax_stats_data(stats, sweep_plan_tokens(&plan->sweep, i), len * sizeof(uint32_t),
				len);
	}
}

static int sweep_ends(void *context, const struct sweep *sweep, struct err *err)
{
	struct calibration *calibration = context;
	struct amax_stats *stats = calibration->stats;
	const struct calibrate_plan *plan = calibration->plan;

	count_losses(calibration, sweep);
	recorder_commit(calibration->recorder, stats);
	count_data(stats, plan, sweep->first, sweep->n_sequences);
	stats->n_passes = share_passes_done(&plan->share, sweep->first + sweep->n_sequences);
	return group_leads(plan->sweep.params.group)
		       ? amax_stats_put(stats, &calibration->file.place, err)
		       : 0;
}

/* Calls visit for every matrix of the model that has a weight. */
static void each_linear(const struct model *model,
			void (*visit)(void *context, const struct linear_ref *linear),
			void *context)
{
	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		for (size_t l = 0; l < layer_n_linears(layer); l++)
			if (layer_linear_ref(layer, l)->weight)
				visit(context, layer_linear_ref(layer, l));
	}
	visit(context, &model->head);
}

static void expect_linear(void *context, const struct linear_ref *linear)
{
	amax_stats_site(context, linear->module, AMAX_GEMM);
}

static void expect_attention(struct amax_stats *stats, const struct layer_ref *layer)
{
	char *cache = xasprintf("%s" AMAX_LATENT_CACHE, layer->mixer_module);

	amax_stats_site(stats, layer->mixer_module, AMAX_ATTENTION);
	if (layer->linear[LINEAR_KV_B].weight)
		amax_stats_site(stats, cache, AMAX_ATTENTION);
	free(cache);
}

/* Opens the history of the checkpoint, which the model may see in a view. */
static int open_history(struct calibration *calibration, const char *backend, struct err *err)
{
	const struct calibrate_plan *plan = calibration->plan;
	struct source source;
	int rc;

	source_init(&source, calibration->file.params->io, &plan->checkpoint, NULL, -1);
	rc = resume_open(&calibration->file, &source, backend, calibration->stats, err);
	source_release(&source);
	return rc;
}

static int check_resumed(const struct calibration *calibration, struct err *err)
{
	const struct calibrate_plan *plan = calibration->plan;
	const struct amax_stats *stats = calibration->stats;
	struct amax_stats expected;
	uint64_t n_rows = calibration->file.n_passes < stats->history_len
				  ? calibration->file.n_passes
				  : stats->history_len;
	int rc;

	amax_stats_init(&expected, stats->model, stats->precision, stats->backend,
			stats->history_len);
	each_linear(&plan->model, expect_linear, &expected);
	for (size_t i = 0; i < plan->model.n_layers; i++) {
		const struct layer_ref *layer = &plan->model.layers[i];

		if (layer_has_attention(layer))
			expect_attention(&expected, layer);
	}
	count_data(&expected, plan, 0, share_sequences_of(&plan->share, stats->n_passes));
	rc = resume_check(&calibration->file, stats, &expected, err);
	if (!rc && group_leads(plan->sweep.params.group))
		rc = outdir_check_space(&calibration->file.place.dir,
					expected.n_sites * (SITE_HEADER + n_rows * ROW), err);
	amax_stats_release(&expected);
	return rc;
}

static void replay(void *context, const struct linear_ref *linear)
{
	const struct calibration *calibration = context;
	const struct amax_site *site =
		amax_stats_find(calibration->stats, linear->module, AMAX_GEMM);

	for (size_t p = 0; site && p < site->n_passes; p++)
		fp8_forward_update(calibration->sweep.runners[0].fp8, linear,
				   site->history[p][AMAX_X]);
}

/* Sets the state of delayed scaling to that after the earlier passes. */
static int resume_fp8(struct calibration *calibration, struct err *err)
{
	const struct calibrate_plan *plan = calibration->plan;
	const struct amax_stats *stats = calibration->stats;

	if (!calibration->sweep.runners[0].fp8 || !plan->fp8.recipe.needs_history)
		return 0;
	if (stats->n_passes > stats->history_len)
		return err_set(err, ERR_INPUT,
			       "'%s' holds %" PRIu64 " of %" PRIu64
			       " passes, but delayed scaling needs all of them to resume: use "
			       "--restart to start over",
			       calibration->file.params->output, stats->history_len,
			       stats->n_passes);
	each_linear(&plan->model, replay, calibration);
	return 0;
}

static int run(struct calibration *calibration, const struct backend *backend, struct err *err)
{
	const struct calibrate_plan *plan = calibration->plan;
	const struct amax_stats *stats = calibration->stats;
	struct sweep *sweep = &calibration->sweep;
	const struct calibrate_params *asked = calibration->file.params;
	struct sweep_progress *progress = calibration->progress;
	struct sweep_events events = { calibration, .stage_begins = stage_begins,
				       .stage_ends = stage_ends, .sweep_ends = sweep_ends };

	if (sweep_open(sweep, &plan->sweep, backend, asked->stop, progress, err) ||
	    open_history(calibration, backend->executor->name, err) ||
	    group_settle(asked->group, check_resumed(calibration, err), err) ||
	    group_settle(asked->group, resume_fp8(calibration, err), err))
		return -1;
	calibration->stats->n_planned = calibration->file.n_passes;
	calibration->result->n_resumed = stats->n_passes;
	calibration->recorder = recorder_new(&sweep->runners[0], &plan->share, asked->histogram);
	events.observers[0] = recorder_observer(calibration->recorder);
	atomic_store(&progress->total,
		     (plan->sweep.n_tokens - stats->n_tokens) * atomic_load(&progress->token));
	if (sweep_run(sweep, share_sequences_of(&plan->share, stats->n_passes), &events, err) ||
	    sweep_close(sweep, err))
		return resume_failed(&calibration->file, stats, calibration->result->n_resumed,
				     sweep_length_taken(&sweep->length), err);
	return 0;
}

int calibrate_run(const struct calibrate_plan *plan, const struct calibrate_params *params,
		  struct sweep_progress *progress, struct calibrate_result *result,
		  struct amax_stats *stats, struct err *err)
{
	struct calibration calibration = { .plan = plan,
					   .progress = progress,
					   .result = result,
					   .stats = stats,
					   .file = { .params = params,
						     .data = params->n_data == 1 ? params->data[0]
										 : "--data",
						     .n_passes = share_n_passes(&plan->share) } };
	int rc;

	share_place(&plan->share, &plan->data, calibrate_history_len(params),
		    &calibration.file.rank);
	rc = run(&calibration, params->backend, err);
	recorder_free(calibration.recorder);
	outfile_close(&calibration.file.place);
	sweep_release(&calibration.sweep);
	return rc;
}
