/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "calibrate/dump_file.h"
#include "calibrate/dumps.h"
#include "calibrate/resume.h"
#include "source/fingerprint.h"
#include "sweep/length.h"
#include "sweep/weights.h"

enum { SLOT_X, SLOT_Y, N_SLOTS };

/* The memory of one thread. */
struct dumps_worker {
	struct executor_stream *stream;
	const char *path; /* of the current dump */
	float *host;	  /* rows of inputs from the file */
	struct value_stats host_stats[N_SLOTS];
	float *x, *y;		   /* the executor's: rows of inputs and of outputs */
	uint16_t *rounded;	   /* the inputs in bf16 */
	struct value_stats *stats; /* (N_SLOTS), of these rows */
	uint64_t *counts;	   /* (AMAX_BINS, 2), of the module; NULL: no histogram */
};

/* The values of a module in one pass. */
struct pass_values {
	float amax[3];
	int64_t n_tokens;
};

struct dumps_run {
	const struct dumps_plan *plan;
	const struct calibrate_params *params;
	struct sweep_progress *progress;
	struct calibrate_result *result;
	struct amax_stats *stats;

	struct model model; /* only its checkpoint is set */
	struct forward forward;
	struct weights weights;
	struct sweep_length length;
	struct history_file file;
	struct dumps_worker *workers;
	size_t first, n_passes; /* of the sweep */
	struct dump *dumps;
	struct pass_values *shown;	  /* (modules, n_passes) */
	uint64_t (*counts)[AMAX_BINS][2]; /* (modules), with histograms */
};

static int refuse(const char *what, const struct linear *linear, const char *path, uint64_t n,
		  struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "the %s of '%s' holds %" PRIu64 " values that are NaN or infinite, in '%s'",
		       what, linear->ref->module, n, path);
}

/* Adds n values to the stats and to the counts; rounded: the stats have them. */
static void count(const struct dumps_worker *worker, const float *values, size_t n, int slot,
		  bool rounded)
{
	const struct measure_args args = { .x = values,
					   .n = n,
					   .stats = rounded ? NULL : &worker->stats[slot],
					   .counts = worker->counts
							     ? worker->counts + (slot == SLOT_Y)
							     : NULL };

	worker->stream->executor->ops->measure(worker->stream, &args);
}

/* Computes n_rows rows of inputs and of their product. */
static void multiply(const struct forward *forward, const struct dumps_worker *worker,
		     const struct linear *linear, size_t n_rows)
{
	const struct executor_ops *ops = worker->stream->executor->ops;
	size_t n = linear->ref->n, k = linear->ref->k;
	const void *input = worker->x;
	const struct round_args round = {
		.x = worker->x,
		.n = n_rows * k,
		.y = worker->x,
		.rounded = { &worker->stats[SLOT_X],
			     forward->input == DT_BF16 ? worker->rounded : NULL },
	};
	struct multiply_args product = { .weight = &linear->weight, .m = n_rows, .y = worker->y };
	const struct add_args bias = {
		.x = worker->y, .y = linear->bias, .n_rows = n_rows, .n = n
	};

	ops->zero(worker->stream, worker->stats, N_SLOTS * sizeof *worker->stats);
	ops->put(worker->stream, worker->x, worker->host, n_rows * k * sizeof(float));
	if (forward->round)
		ops->round(worker->stream, &round);
	count(worker, worker->x, n_rows * k, SLOT_X, forward->round);
	if (forward->input == DT_BF16)
		input = worker->rounded;
	product.x = input;
	ops->multiply(worker->stream, &product);
	if (linear->bias)
		ops->add(worker->stream, &bias);
	count(worker, worker->y, n_rows * n, SLOT_Y, false);
}

/* Runs some rows of an input, in worker->host, and adds their statistics to shown. */
static int run_rows(const struct dumps_run *run, struct dumps_worker *worker,
		    const struct linear *linear, size_t n_rows, struct pass_values *shown,
		    struct err *err)
{
	static const struct {
		int slot, column;
		const char *what;
	} looked[N_SLOTS] = { { SLOT_X, AMAX_X, "input" }, { SLOT_Y, AMAX_Y, "output" } };
	const struct executor_ops *ops = worker->stream->executor->ops;

	multiply(&run->forward, worker, linear, n_rows);
	ops->fetch(worker->stream, worker->host_stats, worker->stats, sizeof worker->host_stats);
	if (ops->wait(worker->stream, err))
		return -1;
	for (int i = 0; i < N_SLOTS; i++) {
		const struct value_stats *stats = &worker->host_stats[looked[i].slot];
		float *amax = &shown->amax[looked[i].column];

		if (stats->n_nonfinite)
			return refuse(looked[i].what, linear, worker->path, stats->n_nonfinite,
				      err);
		*amax = stats->amax > *amax ? stats->amax : *amax;
	}
	return 0;
}

static int run_pass(struct dumps_run *run, struct dumps_worker *worker, const struct linear *linear,
		    size_t pass, struct pass_values *shown, struct err *err)
{
	struct dump *dump = &run->dumps[pass];
	const struct tensor_ref *input = dump_find(dump, linear->ref->module);
	size_t n_tokens = input ? (size_t)input->tensor->shape[0] : 0,
	       rows = dumps_block_rows(linear->ref);
	const atomic_int *stop = run->params->stop;

	worker->path = run->plan->dumps.items[run->first + pass];
	*shown = (struct pass_values){ .amax = { [AMAX_W] = linear->amax },
				       .n_tokens = (int64_t)n_tokens };
	for (size_t row = 0; row < n_tokens; row += rows) {
		size_t n = n_tokens - row < rows ? n_tokens - row : rows;
		struct floats_request request = { .ref = input,
						  .first = row * linear->ref->k,
						  .n = n * linear->ref->k };

		if (stop && atomic_load(stop))
			return err_set(err, ERR_INTERRUPTED, "interrupted");
		if (source_read_floats(&dump->source, &request, worker->host, err) ||
		    run_rows(run, worker, linear, n, shown, err))
			return -1;
	}
	atomic_fetch_add(&run->progress->done, dump->n_tokens);
	return 0;
}

/* Runs one module through all passes of the sweep. */
static int run_module(void *context, int number, size_t item, struct err *err)
{
	struct dumps_run *run = context;
	struct dumps_worker *worker = &run->workers[number];
	const struct executor_ops *ops = worker->stream->executor->ops;
	struct linear linear;
	double began = sweep_length_now(&run->length);
	int rc = weights_load_linear(&run->weights, number, &worker->stream,
				     &run->plan->linears[item], &linear, err);

	sweep_length_loaded(&run->length, began, 1);
	if (worker->counts)
		ops->zero(worker->stream, worker->counts, sizeof *run->counts);
	for (size_t p = 0; !rc && p < run->n_passes; p++)
		rc = run_pass(run, worker, &linear, p, &run->shown[item * run->n_passes + p], err);
	if (!rc && worker->counts) {
		ops->fetch(worker->stream, run->counts[item], worker->counts, sizeof *run->counts);
		rc = ops->wait(worker->stream, err);
	}
	linear_release(&linear);
	return rc;
}

static void dumps_release(struct dumps_run *run)
{
	for (size_t p = 0; run->dumps && p < run->n_passes; p++)
		dump_release(&run->dumps[p]);
	free(run->dumps);
	run->dumps = NULL;
}

/* Opens the dumps of the sweep again, and checks that their headers have not changed. */
static int dumps_open(struct dumps_run *run, struct err *err)
{
	const struct dumps_plan *plan = run->plan;

	run->dumps = xcalloc(run->n_passes, sizeof *run->dumps);
	for (size_t p = 0; p < run->n_passes; p++) {
		const char *path = plan->dumps.items[run->first + p];

		if (dump_open(&run->dumps[p], run->params->io, path, err))
			return -1;
		for (size_t i = 0; i < plan->n_linears; i++) {
			const struct tensor_ref *input =
				dump_find(&run->dumps[p], plan->linears[i].module);

			if (input && dumps_check_input(&plan->linears[i], input, path, err))
				return -1;
		}
	}
	return 0;
}

static int dumps_close(struct dumps_run *run, struct err *err)
{
	int rc = 0;

	for (size_t p = 0; !rc && p < run->n_passes; p++)
		rc = dump_close(&run->dumps[p], err);
	return rc;
}

/* Adds a dump to the history, with its fingerprint in place of a sequence's. */
static int count_dump(struct amax_stats *stats, struct dump *dump, struct err *err)
{
	char fingerprint[FINGERPRINT_SIZE];

	if (fingerprint_make(&dump->source, fingerprint, err))
		return -1;
	amax_stats_data(stats, fingerprint, strlen(fingerprint), dump->n_tokens);
	return 0;
}

static int count_sweep(struct dumps_run *run, struct err *err)
{
	for (size_t p = 0; p < run->n_passes; p++)
		if (count_dump(run->stats, &run->dumps[p], err))
			return -1;
	run->stats->n_passes += run->n_passes;
	return 0;
}

static void keep_rows(struct dumps_run *run)
{
	for (size_t i = 0; i < run->plan->n_linears; i++) {
		struct amax_site *site =
			amax_stats_site(run->stats, run->plan->linears[i].module, AMAX_GEMM);
		uint64_t(*sum)[2] = run->counts ? amax_site_histogram(site) : NULL;

		for (size_t p = 0; p < run->n_passes; p++) {
			const struct pass_values *shown = &run->shown[i * run->n_passes + p];

			amax_site_append(site, shown->amax, shown->n_tokens);
		}
		for (size_t b = 0; sum && b < AMAX_BINS; b++)
			for (int column = 0; column < 2; column++)
				sum[b][column] += run->counts[i][b][column];
	}
}

static int run_sweep(struct dumps_run *run, struct err *err)
{
	size_t n = run->plan->n_linears;
	int rc = -1;

	run->shown = xcalloc(n * run->n_passes, sizeof *run->shown);
	if (run->params->histogram)
		run->counts = xcalloc(n, sizeof *run->counts);
	if (dumps_open(run, err) ||
	    pool_run(run->params->n_threads, n, run_module, run, run->params->stop, err) ||
	    count_sweep(run, err) || dumps_close(run, err))
		goto out;
	for (size_t p = 0; p < run->n_passes; p++)
		run->result->n_tokens += run->dumps[p].n_tokens;
	keep_rows(run);
	rc = amax_stats_put(run->stats, &run->file.place, err);
out:
	dumps_release(run);
	free(run->shown);
	free(run->counts);
	run->shown = NULL;
	run->counts = NULL;
	return rc;
}

#define MOST_FILES 64 /* open at once */

static int run_sweeps(struct dumps_run *run, struct err *err)
{
	const struct dumps_plan *plan = run->plan;
	size_t n = sweep_length_begin(&run->length, MOST_FILES);

	run->first = run->stats->n_passes;
	while (run->first < plan->dumps.n) {
		size_t left = plan->dumps.n - run->first;

		run->n_passes = left < n ? left : n;
		if (run_sweep(run, err))
			return -1;
		run->first += run->n_passes;
		n = sweep_length_next(&run->length, run->n_passes, run->params->n_threads);
	}
	return 0;
}

static int worker_init(struct dumps_run *run, struct dumps_worker *worker, size_t x_size,
		       size_t y_size, struct err *err)
{
	static const char what[] = "some activations";
	struct executor *executor = run->forward.executor;
	const struct executor_ops *ops = executor->ops;

	return ops->stream_new(&worker->stream, executor, err) ||
			       buffer_alloc((void **)&worker->host, x_size * sizeof(float), what,
					    err) ||
			       ops->memory_new(executor, (void **)&worker->x,
					       x_size * sizeof(float), what, err) ||
			       ops->memory_new(executor, (void **)&worker->rounded,
					       x_size * sizeof(uint16_t), what, err) ||
			       ops->memory_new(executor, (void **)&worker->y,
					       y_size * sizeof(float),
					       "the outputs of some activations", err) ||
			       ops->memory_new(executor, (void **)&worker->stats,
					       N_SLOTS * sizeof *worker->stats, what, err) ||
			       (run->params->histogram &&
				ops->memory_new(executor, (void **)&worker->counts,
						sizeof *run->counts, what, err))
		       ? -1
		       : 0;
}

static int workers_new(struct dumps_run *run, struct err *err)
{
	const struct dumps_plan *plan = run->plan;
	size_t x_size = 0, y_size = 0;

	for (size_t i = 0; i < plan->n_linears; i++) {
		size_t rows = dumps_block_rows(&plan->linears[i]);
		size_t x = rows * plan->linears[i].k, y = rows * plan->linears[i].n;

		x_size = x > x_size ? x : x_size;
		y_size = y > y_size ? y : y_size;
	}
	run->workers = xcalloc((size_t)run->params->n_threads, sizeof *run->workers);
	for (int i = 0; i < run->params->n_threads; i++)
		if (worker_init(run, &run->workers[i], x_size, y_size, err))
			return -1;
	return 0;
}

static void worker_release(struct dumps_worker *worker, struct executor *executor)
{
	void *memory[] = { worker->x, worker->rounded, worker->y, worker->stats, worker->counts };

	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
		executor->ops->memory_free(executor, memory[i]);
	if (worker->stream)
		executor->ops->stream_free(worker->stream);
	free(worker->host);
}

static void dumps_run_release(struct dumps_run *run)
{
	for (int i = 0; run->workers && i < run->params->n_threads; i++)
		worker_release(&run->workers[i], run->forward.executor);
	free(run->workers);
	weights_release(&run->weights);
	forward_release(&run->forward);
}

/* Checks that the first dumps gave the passes of the file. */
static int check_resumed(const struct dumps_run *run, struct err *err)
{
	const struct amax_stats *stats = run->stats;
	struct amax_stats expected;
	int rc = 0;

	amax_stats_init(&expected, stats->model, stats->precision, stats->backend,
			stats->history_len);
	for (size_t i = 0; i < run->plan->n_linears; i++)
		amax_stats_site(&expected, run->plan->linears[i].module, AMAX_GEMM);
	for (uint64_t p = 0; p < stats->n_passes && !rc; p++) {
		struct dump dump;

		rc = dump_open(&dump, run->params->io, run->plan->dumps.items[p], err);
		if (!rc)
			rc = count_dump(&expected, &dump, err);
		dump_release(&dump);
	}
	if (!rc)
		rc = resume_check(&run->file, stats, &expected, err);
	amax_stats_release(&expected);
	return rc;
}

/* Returns the backend for the metadata: names the executor if it is not the CPU's. */
static char *backend_text(const struct backend *backend)
{
	return backend->on_device ? xasprintf("activations+%s", backend->executor->name)
				  : xstrdup("activations");
}

static int run_all(struct dumps_run *run, const struct backend *backend, const char *computed_by,
		   struct err *err)
{
	const struct dumps_plan *plan = run->plan;
	const struct calibrate_params *params = run->params;
	const struct amax_stats *stats = run->stats;
	const struct weights_params weights = { &run->forward, params->io, params->n_threads,
						params->stop };

	if (forward_init(&run->forward, backend->executor, &run->model, calibrate_is_f32(params),
			 err) ||
	    weights_open(&run->weights, &weights, err) ||
	    resume_open(&run->file, &run->weights.source, computed_by, run->stats, err) ||
	    check_resumed(run, err) || workers_new(run, err))
		return -1;
	run->stats->n_planned = run->file.n_passes;
	run->result->n_resumed = stats->n_passes;
	atomic_store(&run->progress->total,
		     (plan->n_all_tokens - stats->n_tokens) * plan->n_linears);
	if (run_sweeps(run, err) || weights_close(&run->weights, err))
		return resume_failed(&run->file, stats, run->result->n_resumed, err);
	return 0;
}

int dumps_run(const struct dumps_plan *plan, const struct calibrate_params *params,
	      struct sweep_progress *progress, struct calibrate_result *result,
	      struct amax_stats *stats, struct err *err)
{
	size_t worth = params->backend->executor->tokens_per_load / plan->n_tokens[0];
	struct dumps_run run = {
		.plan = plan,
		.params = params,
		.progress = progress,
		.result = result,
		.stats = stats,
		.length = { .now = params->now, .first = 1 + worth },
		.model = { .checkpoint = &plan->checkpoint },
		.file = { .params = params, .data = params->activations, .n_passes = plan->dumps.n }
	};
	char *computed_by;
	int rc;

	computed_by = backend_text(params->backend);
	rc = run_all(&run, params->backend, computed_by, err);
	outfile_close(&run.file.place);
	dumps_run_release(&run);
	free(computed_by);
	return rc;
}
