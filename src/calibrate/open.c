/* SPDX-License-Identifier: Apache-2.0
 *
 * What a calibration decides before it computes: the model, the data, how many passes, and where to
 * go on.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "calibrate/steps.h"
#include "tokenizer/tokenizer.h"

#define DEFAULT_SEQ_LEN	   512
#define DEFAULT_PASSES	   128
#define DEFAULT_MEMORY	   ((uint64_t)1 << 30)
#define TOKENIZER_MAX_SIZE ((size_t)256 << 20)
/* a second layer takes at most this part of the memory for sequences */
#define AHEAD_SHARE 4

static size_t or_default(int value, size_t otherwise)
{
	return value ? (size_t)value : otherwise;
}

/* The model's tokenizer.json beside its weights; NULL where there is none. */
static int open_tokenizer(const struct calibrate_plan *plan, const struct io *io,
			  struct tokenizer **tokenizer, struct err *err)
{
	const char *directory = plan->checkpoint.directory;
	struct buf text = { 0 };
	struct stat status;
	char *path;
	int rc;

	*tokenizer = NULL;
	if (!directory)
		return 0;
	path = xasprintf("%s/tokenizer.json", directory);
	if (stat(path, &status)) {
		free(path);
		return 0;
	}
	rc = io_read_file(io, AT_FDCWD, path, TOKENIZER_MAX_SIZE, &text, err) ||
			     tokenizer_new(tokenizer, &text, path, err)
		     ? -1
		     : 0;
	buf_release(&text);
	free(path);
	return rc;
}

static int open_data(struct calibrate_plan *plan, const struct calibrate_params *params,
		     struct err *err)
{
	size_t seq_len = or_default(params->seq_len, DEFAULT_SEQ_LEN);
	size_t wanted = or_default(params->passes, DEFAULT_PASSES) * plan->batch;
	size_t most = params->seed ? SIZE_MAX : wanted;
	struct tokenizer *tokenizer;
	int rc;

	if (open_tokenizer(plan, params->io, &tokenizer, err))
		return -1;
	rc = dataset_open(&plan->data, params->io, params->data, tokenizer, seq_len,
			  plan->model.vocab_size, most, err);
	if (!rc && params->seed)
		dataset_draw(&plan->data, (uint64_t)params->seed, wanted);
	tokenizer_free(tokenizer);
	return rc;
}

static size_t count_modules(const struct model *model)
{
	size_t n = 1; /* the head */

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		for (int l = 0; l < N_LINEARS; l++)
			n += layer->linear[l].weight != NULL;
		for (size_t e = 0; e < layer->n_experts; e++)
			for (int l = 0; l < N_EXPERT_ROLES; l++)
				n += layer->experts[e][l].weight != NULL;
	}
	return n;
}

/* Counts of all sites: those of a sweep, of the history, and, by lane, of the layer under way, with
 * a copy of the host. */
static uint64_t histogram_size(const struct calibrate_plan *plan, int n_threads)
{
	const uint64_t a_site = (uint64_t)AMAX_BINS * 2 * sizeof(uint64_t);
	const struct model *model = &plan->model;
	uint64_t most = 0;

	for (size_t i = 0; i < model->n_layers; i++) {
		uint64_t n = 1 + N_LINEARS + (uint64_t)model->layers[i].n_experts * N_EXPERT_ROLES;

		most = n > most ? n : most;
	}
	return (2 * (uint64_t)plan->n_modules + 2 * (uint64_t)n_threads * most) * a_site;
}

bool calibrate_is_f32(const struct calibrate_params *params)
{
	return params->precision && !strcmp(params->precision, "f32");
}

/* Enough for a pass, and a sequence for each thread, whatever the threads take. */
static uint64_t default_memory(uint64_t lanes, uint64_t a_pass, uint64_t for_each_thread)
{
	uint64_t least = lanes + (a_pass > for_each_thread ? a_pass : for_each_thread);

	return least > DEFAULT_MEMORY ? least : DEFAULT_MEMORY;
}

static int plan_sweep(struct calibrate_plan *plan, const struct calibrate_params *params,
		      struct err *err)
{
	const struct model *model = &plan->model;
	const struct executor_ops *executor = backend_executor(params->backend);
	uint64_t stream = (uint64_t)plan->longest * model->hidden * sizeof(float);
	uint64_t lane = workspace_size(executor, model, plan->longest, params->fp8.forward) +
			embed_size(model, plan->longest);
	uint64_t lanes = lane * (uint64_t)params->n_threads;
	uint64_t fp8 = fp8_forward_size(&plan->fp8, plan->longest, params->n_threads);
	bool is_f32 = calibrate_is_f32(params) ||
		      (params->fp8.forward && !fp8_select_is_bf16(&plan->fp8));
	const struct weights_kind kind = { .executor = executor,
					   .dtype = is_f32 ? DT_F32 : executor->bf16_type(),
					   .quantized = params->fp8.forward };
	uint64_t a_sequence = stream + 2 * forward_slots(model) * sizeof(struct value_stats);
	uint64_t a_pass = a_sequence * plan->batch;
	uint64_t memory =
		params->max_memory
			? params->max_memory
			: default_memory(lanes, a_pass, a_sequence * (uint64_t)params->n_threads);
	uint64_t room = memory > lanes ? memory - lanes : 0,
		 weights = weights_layer_size(model, &kind, params->n_threads, false);
	uint64_t second = weights_layer_size(model, &kind, params->n_threads, true) - weights, fit;

	plan->ahead = !params->fp8.forward && second <= room / AHEAD_SHARE &&
		      (room - second) / a_pass > 0;
	if (plan->ahead) {
		room -= second;
		weights += second;
	}
	fit = room / a_pass;
	if (fit == 0)
		return err_set(
			err, ERR_USAGE,
			"option '--max-memory': %llu bytes do not hold one pass, which takes %llu: "
			"fewer threads (--threads), or shorter sequences (--seq-len) need less",
			(unsigned long long)memory, (unsigned long long)(lanes + a_pass));
	fit = fit < plan->n_passes ? fit : plan->n_passes;
	plan->sweep = (size_t)fit * plan->batch;
	plan->memory_bytes = lanes + fp8 + fit * a_pass + weights;
	if (params->histogram)
		plan->memory_bytes += histogram_size(plan, params->n_threads);
	return 0;
}

/* Delayed scaling looks back as far as the file does, and never behind the first pass. */
static void plan_history(struct calibrate_plan *plan, const struct calibrate_params *params)
{
	size_t len = or_default(params->history_len, AMAX_HISTORY_LEN);

	plan->fp8.recipe.amax_history_len = (int)(len < plan->n_passes ? len : plan->n_passes);
}

int calibrate_plan_make(struct calibrate_plan *plan, const struct calibrate_params *params,
			struct err *err)
{
	*plan = (struct calibrate_plan){ .batch = or_default(params->batch, 1) };
	if (checkpoint_open(&plan->checkpoint, params->io, params->input, params->n_threads, err) ||
	    model_open(&plan->model, &plan->checkpoint, err) ||
	    fp8_select_make(&plan->fp8, &params->fp8, &plan->model, err) ||
	    open_data(plan, params, err)) {
		calibrate_plan_release(plan);
		return -1;
	}
	plan->n_sequences = plan->data.n;
	if (plan->batch > plan->n_sequences)
		plan->batch = plan->n_sequences;
	plan->n_passes = (plan->n_sequences + plan->batch - 1) / plan->batch;
	plan->n_modules = count_modules(&plan->model);
	for (size_t i = 0; i < plan->n_sequences; i++) {
		size_t len = plan->data.sequences[i].len;

		plan->n_tokens += len;
		plan->longest = len > plan->longest ? len : plan->longest;
	}
	plan_history(plan, params);
	if (plan_sweep(plan, params, err)) {
		calibrate_plan_release(plan);
		return -1;
	}
	return 0;
}

void calibrate_plan_release(struct calibrate_plan *plan)
{
	dataset_release(&plan->data);
	fp8_select_release(&plan->fp8);
	model_release(&plan->model);
	checkpoint_release(&plan->checkpoint);
	*plan = (struct calibrate_plan){ 0 };
}
