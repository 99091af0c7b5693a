/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "calibrate/steps.h"
#include "source/fingerprint.h"

enum { SLOT_X, SLOT_Y, N_SLOTS };

/* What one thread works with. */
struct worker {
	struct executor_stream *stream;
	float *host; /* rows of inputs as they are read */
	struct value_stats host_stats[N_SLOTS];
	float *x, *y;		   /* the executor's: rows of inputs, of outputs */
	uint16_t *rounded;	   /* the inputs in bf16 */
	struct value_stats *stats; /* (N_SLOTS), of these rows */
	uint64_t *counts;	   /* (AMAX_BINS, 2), of the module; NULL: no histogram */
};

/* What a module showed in one pass. */
struct shown {
	float amax[3];
	int64_t n_tokens;
};

struct sweep {
	const struct dumps_plan *plan;
	const struct calibrate_params *params;
	struct calibrate_progress *progress;
	struct calibrate_result *result;
	struct amax_stats *stats;

	struct model model; /* the checkpoint alone: nothing else is known */
	struct forward forward;
	struct weights weights;
	struct sweep_length length;
	struct amax_place place;
	struct worker *workers;
	size_t first, n_passes; /* of the sweep */
	struct dump *dumps;
	struct shown *shown;		  /* (modules, n_passes) */
	uint64_t (*counts)[AMAX_BINS][2]; /* (modules), with histograms */
};

static int refuse(const char *what, const struct linear *linear, const char *path, uint64_t n,
		  struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "the %s of '%s' holds %llu values that are NaN or infinite, in '%s'", what,
		       linear->ref->module, (unsigned long long)n, path);
}

static void count(const struct worker *worker, const float *values, size_t n, int slot)
{
	if (worker->counts)
		worker->stream->executor->ops->histogram(worker->stream, values, n,
							 worker->counts + (slot == SLOT_Y));
}

/* The inputs, and their product, of n_rows rows. */
static void multiply(const struct forward *forward, const struct worker *worker,
		     const struct linear *linear, size_t n_rows)
{
	const struct executor_ops *ops = worker->stream->executor->ops;
	size_t n = linear->ref->n, k = linear->ref->k;
	const void *input = worker->x;

	ops->zero(worker->stream, worker->stats, N_SLOTS * sizeof *worker->stats);
	ops->put(worker->stream, worker->x, worker->host, n_rows * k * sizeof(float));
	if (forward->round)
		ops->round_amax(worker->stream, worker->x, n_rows * k, &worker->stats[SLOT_X]);
	else
		ops->amax(worker->stream, worker->x, n_rows * k, &worker->stats[SLOT_X]);
	count(worker, worker->x, n_rows * k, SLOT_X);
	if (forward->input == DT_BF16) {
		ops->round_bf16(worker->stream, worker->x, n_rows * k, worker->rounded);
		input = worker->rounded;
	}
	ops->multiply(worker->stream, &linear->weight, input, n_rows, worker->y);
	if (linear->bias)
		ops->add_row(worker->stream, worker->y, linear->bias, n_rows, n);
	ops->amax(worker->stream, worker->y, n_rows * n, &worker->stats[SLOT_Y]);
	count(worker, worker->y, n_rows * n, SLOT_Y);
}

/* Some rows of an input, which lie in worker->host, and their product. */
static int dumps_rows(const struct sweep *sweep, struct worker *worker, const struct linear *linear,
		      size_t n_rows, const char *path, struct shown *shown, struct err *err)
{
	static const struct {
		int slot, column;
		const char *what;
	} looked[N_SLOTS] = { { SLOT_X, AMAX_X, "input" }, { SLOT_Y, AMAX_Y, "output" } };
	const struct executor_ops *ops = worker->stream->executor->ops;

	multiply(&sweep->forward, worker, linear, n_rows);
	ops->fetch(worker->stream, worker->host_stats, worker->stats, sizeof worker->host_stats);
	if (ops->wait(worker->stream, err))
		return -1;
	for (int i = 0; i < N_SLOTS; i++) {
		const struct value_stats *stats = &worker->host_stats[looked[i].slot];
		float *amax = &shown->amax[looked[i].column];

		if (stats->n_nonfinite)
			return refuse(looked[i].what, linear, path, stats->n_nonfinite, err);
		*amax = stats->amax > *amax ? stats->amax : *amax;
	}
	return 0;
}

static int dumps_pass(struct sweep *sweep, struct worker *worker, const struct linear *linear,
		      size_t pass, struct shown *shown, struct err *err)
{
	struct dump *dump = &sweep->dumps[pass];
	const char *path = sweep->plan->dumps.items[sweep->first + pass];
	const struct tensor_ref *input = dump_find(dump, linear->ref->module);
	size_t n_tokens = input ? (size_t)input->tensor->shape[0] : 0,
	       rows = dumps_block_rows(linear->ref);
	const atomic_int *stop = sweep->progress->stop;

	*shown = (struct shown){ .amax = { [AMAX_W] = linear->amax },
				 .n_tokens = (int64_t)n_tokens };
	for (size_t row = 0; row < n_tokens; row += rows) {
		size_t n = n_tokens - row < rows ? n_tokens - row : rows;

		if (stop && atomic_load(stop))
			return err_set(err, ERR_INTERRUPTED, "interrupted");
		if (source_read_floats(&dump->source, input, false, row * linear->ref->k,
				       n * linear->ref->k, worker->host, err) ||
		    dumps_rows(sweep, worker, linear, n, path, shown, err))
			return -1;
	}
	atomic_fetch_add(&sweep->progress->done, dump->n_tokens);
	return 0;
}

/* One module, all passes of the sweep. */
static int see_module(void *context, int number, size_t item, struct err *err)
{
	struct sweep *sweep = context;
	struct worker *worker = &sweep->workers[number];
	const struct executor_ops *ops = worker->stream->executor->ops;
	struct linear linear;
	double began = sweep_length_now(&sweep->length);
	int rc = weights_load_linear(&sweep->weights, number, worker->stream,
				     &sweep->plan->linears[item], &linear, err);

	sweep_length_loaded(&sweep->length, began, 1);
	if (worker->counts)
		ops->zero(worker->stream, worker->counts, sizeof *sweep->counts);
	for (size_t p = 0; !rc && p < sweep->n_passes; p++)
		rc = dumps_pass(sweep, worker, &linear, p,
				&sweep->shown[item * sweep->n_passes + p], err);
	if (!rc && worker->counts) {
		ops->fetch(worker->stream, sweep->counts[item], worker->counts,
			   sizeof *sweep->counts);
		rc = ops->wait(worker->stream, err);
	}
	linear_release(&linear);
	return rc;
}

static void dumps_release(struct sweep *sweep)
{
	for (size_t p = 0; sweep->dumps && p < sweep->n_passes; p++)
		dump_release(&sweep->dumps[p]);
	free(sweep->dumps);
	sweep->dumps = NULL;
}

/* The headers were looked at before: they must be the same still. */
static int dumps_open(struct sweep *sweep, struct err *err)
{
	const struct dumps_plan *plan = sweep->plan;

	sweep->dumps = xcalloc(sweep->n_passes, sizeof *sweep->dumps);
	for (size_t p = 0; p < sweep->n_passes; p++) {
		const char *path = plan->dumps.items[sweep->first + p];

		if (dump_open(&sweep->dumps[p], sweep->params->io, path, err))
			return -1;
		for (size_t i = 0; i < plan->n_linears; i++) {
			const struct tensor_ref *input =
				dump_find(&sweep->dumps[p], plan->linears[i].module);

			if (input && dumps_check_input(&plan->linears[i], input, path, err))
				return -1;
		}
	}
	return 0;
}

static int dumps_close(struct sweep *sweep, struct err *err)
{
	int rc = 0;

	for (size_t p = 0; !rc && p < sweep->n_passes; p++)
		rc = dump_close(&sweep->dumps[p], err);
	return rc;
}

/* The fingerprint of a dump is that of a sequence. */
static int count_dump(struct amax_stats *stats, struct dump *dump, struct err *err)
{
	char fingerprint[FINGERPRINT_SIZE];

	if (fingerprint_make(&dump->source, fingerprint, err))
		return -1;
	amax_stats_data(stats, fingerprint, strlen(fingerprint), dump->n_tokens);
	return 0;
}

static int count_sweep(struct sweep *sweep, struct err *err)
{
	for (size_t p = 0; p < sweep->n_passes; p++)
		if (count_dump(sweep->stats, &sweep->dumps[p], err))
			return -1;
	sweep->stats->n_passes += sweep->n_passes;
	return 0;
}

static void keep_rows(struct sweep *sweep)
{
	for (size_t i = 0; i < sweep->plan->n_linears; i++) {
		struct amax_site *site =
			amax_stats_site(sweep->stats, sweep->plan->linears[i].module, AMAX_GEMM);
		uint64_t(*sum)[2] = sweep->counts ? amax_site_histogram(site) : NULL;

		for (size_t p = 0; p < sweep->n_passes; p++) {
			const struct shown *shown = &sweep->shown[i * sweep->n_passes + p];

			amax_site_append(site, shown->amax, shown->n_tokens);
		}
		for (size_t b = 0; sum && b < AMAX_BINS; b++)
			for (int column = 0; column < 2; column++)
				sum[b][column] += sweep->counts[i][b][column];
	}
}

static int sweep_run(struct sweep *sweep, struct err *err)
{
	size_t n = sweep->plan->n_linears;
	int rc = -1;

	sweep->shown = xcalloc(n * sweep->n_passes, sizeof *sweep->shown);
	if (sweep->params->histogram)
		sweep->counts = xcalloc(n, sizeof *sweep->counts);
	if (dumps_open(sweep, err) ||
	    pool_run(sweep->params->n_threads, n, see_module, sweep, sweep->progress->stop, err) ||
	    count_sweep(sweep, err) || dumps_close(sweep, err))
		goto out;
	for (size_t p = 0; p < sweep->n_passes; p++)
		sweep->result->n_tokens += sweep->dumps[p].n_tokens;
	keep_rows(sweep);
	rc = amax_stats_put(sweep->stats, &sweep->place, err);
out:
	dumps_release(sweep);
	free(sweep->shown);
	free(sweep->counts);
	sweep->shown = NULL;
	sweep->counts = NULL;
	return rc;
}

#define MOST_FILES 64 /* that are open at once */

static int run_sweeps(struct sweep *sweep, struct err *err)
{
	const struct dumps_plan *plan = sweep->plan;
	size_t n = sweep_length_begin(&sweep->length, MOST_FILES);

	sweep->first = sweep->stats->n_passes;
	while (sweep->first < plan->dumps.n) {
		size_t left = plan->dumps.n - sweep->first;

		sweep->n_passes = left < n ? left : n;
		if (sweep_run(sweep, err))
			return -1;
		sweep->first += sweep->n_passes;
		n = sweep_length_next(&sweep->length, sweep->n_passes, sweep->params->n_threads);
	}
	return 0;
}

static int worker_init(struct sweep *sweep, struct worker *worker, size_t x_size, size_t y_size,
		       struct err *err)
{
	static const char what[] = "some activations";
	struct executor *executor = sweep->forward.executor;
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
			       (sweep->params->histogram &&
				ops->memory_new(executor, (void **)&worker->counts,
						sizeof *sweep->counts, what, err))
		       ? -1
		       : 0;
}

static int workers_new(struct sweep *sweep, struct err *err)
{
	const struct dumps_plan *plan = sweep->plan;
	size_t x_size = 0, y_size = 0;

	for (size_t i = 0; i < plan->n_linears; i++) {
		size_t rows = dumps_block_rows(&plan->linears[i]);
		size_t x = rows * plan->linears[i].k, y = rows * plan->linears[i].n;

		x_size = x > x_size ? x : x_size;
		y_size = y > y_size ? y : y_size;
	}
	sweep->workers = xcalloc((size_t)sweep->params->n_threads, sizeof *sweep->workers);
	for (int i = 0; i < sweep->params->n_threads; i++)
		if (worker_init(sweep, &sweep->workers[i], x_size, y_size, err))
			return -1;
	return 0;
}

static void worker_release(struct worker *worker, struct executor *executor)
{
	void *memory[] = { worker->x, worker->rounded, worker->y, worker->stats, worker->counts };

	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
		executor->ops->memory_free(executor, memory[i]);
	if (worker->stream)
		executor->ops->stream_free(worker->stream);
	free(worker->host);
}

static void sweep_release(struct sweep *sweep)
{
	for (int i = 0; sweep->workers && i < sweep->params->n_threads; i++)
		worker_release(&sweep->workers[i], sweep->forward.executor);
	free(sweep->workers);
	weights_release(&sweep->weights);
	forward_release(&sweep->forward);
}

/* The passes that a file holds are of the first dumps. */
static int count_first(void *context, struct amax_stats *wanted, uint64_t n_passes, struct err *err)
{
	const struct sweep *sweep = context;

	for (size_t i = 0; i < sweep->plan->n_linears; i++)
		amax_stats_site(wanted, sweep->plan->linears[i].module, AMAX_GEMM);
	for (uint64_t p = 0; p < n_passes; p++) {
		struct dump dump;
		int rc = dump_open(&dump, sweep->params->io, sweep->plan->dumps.items[p], err) ||
			 count_dump(wanted, &dump, err);

		dump_release(&dump);
		if (rc)
			return -1;
	}
	return 0;
}

/* Whose sums a history of dumps holds: another executor than the CPU's is told. */
static char *backend_text(const struct executor_ops *executor)
{
	return executor == backend_executor("cpu") ? xstrdup("activations")
						   : xasprintf("activations+%s", executor->name);
}

int dumps_run(const struct dumps_plan *plan, const struct calibrate_params *params,
	      struct calibrate_progress *progress, struct calibrate_result *result,
	      struct amax_stats *stats, struct err *err)
{
	const struct backend *backend =
		backend_select_forward(params->backend ? params->backend : "auto", err);
	struct sweep sweep = {
		.plan = plan,
		.params = params,
		.progress = progress,
		.result = result,
		.stats = stats,
		.length = { .now = params->now,
			    .first = 1 + backend_executor(params->backend)->tokens_per_load /
						 plan->n_tokens[0] },
		.model = { .checkpoint = &plan->checkpoint }
	};
	char *computed_by = backend ? backend_text(backend->executor) : NULL;
	const struct beginning beginning = { .params = params,
					     .place = &sweep.place,
					     .source = &sweep.weights.source,
					     .backend = computed_by,
					     .data = params->activations,
					     .n_passes = plan->dumps.n,
					     .context = &sweep,
					     .count = count_first };
	int rc = -1;

	if (!backend || forward_init(&sweep.forward, backend->executor, &sweep.model,
				     calibrate_is_f32(params), err))
		goto out;
	if (weights_open(&sweep.weights, &sweep.forward, params->io, backend, params->n_threads,
			 progress->stop, err) ||
	    calibrate_begin(&beginning, stats, err) || workers_new(&sweep, err))
		goto out;
	result->n_resumed = stats->n_passes;
	atomic_store(&progress->total, (plan->n_all_tokens - stats->n_tokens) * plan->n_linears);
	rc = run_sweeps(&sweep, err) || weights_close(&sweep.weights, err)
		     ? calibrate_failed(&beginning, stats, result->n_resumed, err)
		     : 0;
out:
	amax_place_close(&sweep.place);
	sweep_release(&sweep);
	free(computed_by);
	return rc;
}
