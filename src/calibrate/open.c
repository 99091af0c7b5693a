/* SPDX-License-Identifier: Apache-2.0
 *
 * The decisions of a calibration before it computes: the model, the data, the number of passes, the
 * memory.
 */
#include <stdlib.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "sweep/weights.h"
#include "tokenizer/tokenizer.h"

#define DEFAULT_SEQ_LEN 512
#define DEFAULT_PASSES	128
#define ADVICE		": record its history in torch (man 7 fp8conv-python)"

static size_t or_default(int value, size_t otherwise)
{
	return value ? (size_t)value : otherwise;
}

static int open_data(struct calibrate_plan *plan, const struct calibrate_params *params,
		     struct err *err)
{
	size_t n = or_default(params->passes, DEFAULT_PASSES) * or_default(params->batch, 1);
	struct dataset_params data = {
		.io = params->io,
		.paths = params->data,
		.n_paths = params->n_data,
		.seq_len = or_default(params->seq_len, DEFAULT_SEQ_LEN),
		.vocab_size = plan->model.head.n,
		.max_sequences = params->seed ? SIZE_MAX : n,
		.stop = params->stop,
	};
	struct tokenizer *tokenizer;
	int rc;

	if (dataset_tokenizer(&tokenizer, params->io, plan->checkpoint.directory, err))
		return -1;
	data.tokenizer = tokenizer;
	rc = dataset_open(&plan->data, &data, err);
	if (!rc && params->seed)
		dataset_draw(&plan->data, (uint64_t)params->seed, n);
	tokenizer_free(tokenizer);
	return rc;
}

static size_t count_modules(const struct model *model)
{
	size_t n = 1; /* the head */

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		for (size_t l = 0; l < layer_n_linears(layer); l++)
			n += layer_linear_ref(layer, l)->weight != NULL;
	}
	return n;
}

/* Returns the bytes of the counts of all sites: of a sweep, of the history, and, for each worker,
 * of the current layer, with a copy on the host. */
static uint64_t histogram_size(const struct calibrate_plan *plan, int n_threads)
{
	const uint64_t site_bytes = (uint64_t)AMAX_BINS * 2 * sizeof(uint64_t);
	const struct model *model = &plan->model;
	uint64_t max = 0;

	for (size_t i = 0; i < model->n_layers; i++) {
		uint64_t n = 1 + layer_n_linears(&model->layers[i]);

		max = n > max ? n : max;
	}
	return (2 * (uint64_t)plan->n_modules + 2 * (uint64_t)n_threads * max) * site_bytes;
}

static bool is_f32(const struct calibrate_params *params)
{
	return params->precision && !strcmp(params->precision, "f32");
}

uint64_t calibrate_history_len(const struct calibrate_params *params)
{
	return or_default(params->history_len, AMAX_HISTORY_LEN);
}

/* Delayed scaling uses as many passes as the file keeps, but no more than there are. */
static void plan_history(struct calibrate_plan *plan, const struct calibrate_params *params)
{
	uint64_t len = calibrate_history_len(params);
	size_t n_passes = share_n_passes(&plan->share);

	plan->fp8.recipe.amax_history_len = (int)(len < n_passes ? len : n_passes);
}

/* Takes the sequences of this rank. */
static int open_share(struct calibrate_plan *plan, const struct calibrate_params *params,
		      struct err *err)
{
	bool shared = params->n_ranks > 1;
	const struct rank rank = { shared ? (size_t)params->rank - 1 : 0,
				   shared ? (size_t)params->n_ranks : 1 };

	if (shared && params->fp8.forward && plan->fp8.recipe.needs_history)
		return err_set(err, ERR_USAGE,
			       "option '--ranks' cannot be combined with --fp8-forward and recipe "
			       "'%s': its scales depend on the earlier passes of all ranks",
			       plan->fp8.recipe.name);
	return share_open(&plan->share, &plan->data, or_default(params->batch, 1), rank, err);
}

static int plan_make(struct calibrate_plan *plan, const struct calibrate_params *params,
		     struct err *err)
{
	struct sweep_params sweep = {
		.io = params->io,
		.models = { { .model = &plan->model,
			      .fp8 = params->fp8.forward ? &plan->fp8 : NULL } },
		.n_models = 1,
		.data = &plan->share.own,
		.executor = params->backend->executor,
		.is_f32 = is_f32(params),
		.n_devices = (size_t)params->n_devices,
		.n_threads = params->n_threads,
		.max_memory = params->max_memory,
		.now = params->now,
		.group = params->group,
	};

	if (checkpoint_open(&plan->checkpoint, params->io, params->input, params->n_threads, err) ||
	    checkpoint_rename(&plan->checkpoint, &params->renames, err) ||
	    weights_open_model(&plan->model, &plan->view, &plan->checkpoint, ADVICE, err) ||
	    fp8_select_make(&plan->fp8, &params->fp8, &plan->checkpoint, &plan->model, err) ||
	    open_data(plan, params, err) || open_share(plan, params, err))
		return -1;
	plan_history(plan, params);
	sweep.batch = share_unit(&plan->share);
	if (sweep_plan_make(&plan->sweep, &sweep, err))
		return -1;
	plan->n_modules = count_modules(&plan->model);
	plan->memory_bytes = plan->sweep.memory_bytes;
	if (params->histogram)
		plan->memory_bytes += histogram_size(plan, params->n_threads);
	return 0;
}

int calibrate_plan_make(struct calibrate_plan *plan, const struct calibrate_params *params,
			struct err *err)
{
	*plan = (struct calibrate_plan){ 0 };
	if (plan_make(plan, params, err)) {
		calibrate_plan_release(plan);
		return -1;
	}
	return 0;
}

void calibrate_plan_release(struct calibrate_plan *plan)
{
	share_release(&plan->share);
	dataset_release(&plan->data);
	fp8_select_release(&plan->fp8);
	model_release(&plan->model);
	low_bit_view_release(&plan->view);
	checkpoint_release(&plan->checkpoint);
	*plan = (struct calibrate_plan){ 0 };
}
