/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"

/* Source bytes between two looks: well inside the page cache of any machine that runs this. */
#define WINDOW_BYTES ((uint64_t)512 << 20)

/* The program itself, its libraries and stacks. */
#define BASE_MEMORY ((uint64_t)24 << 20)

int converter_memory(const struct convert_params *params, struct band_limits *limits,
		     uint64_t *bytes, struct err *err)
{
	uint64_t most = params->max_memory ? params->max_memory : DEFAULT_MAX_MEMORY;
	uint64_t n = (uint64_t)params->n_threads;
	uint64_t band = backend_band(params->backend ? params->backend : "auto");

	if (band_limits_fit(limits, most > BASE_MEMORY ? (most - BASE_MEMORY) / n : 0, band, err))
		return -1;
	*bytes = BASE_MEMORY + n * band_limits_memory(limits);
	return 0;
}

static int worker_init(struct worker *worker, const struct band_limits *limits, struct err *err)
{
	char *at;

	if (buffer_alloc(&worker->memory, band_limits_memory(limits), "a worker's buffers", err))
		return -1;
	at = worker->memory;
	worker->queue = (struct write_queue){ .memory = at, .size = limits->most + WRITER_ALIGN };
	at += worker->queue.size;
	worker->buffers = (struct source_buffers){ at, at + limits->most, limits->most };
	worker->scales = at + 2 * limits->most;
	return 0;
}

int converter_new(struct converter **out, const struct plan *plan,
		  const struct convert_params *params, struct progress *progress, struct err *err)
{
	size_t n_units = plan->selection.n_units;
	struct converter *converter = xcalloc(1, sizeof *converter);
	uint64_t bytes;

	*out = NULL;
	converter->plan = plan;
	converter->params = params;
	converter->progress = progress;
	pthread_mutex_init(&converter->lock, NULL);
	converter->backend = backend_select(params->backend ? params->backend : "auto", err);
	if (!converter->backend || converter_memory(params, &converter->limits, &bytes, err))
		goto fail;
	source_init(&converter->source, params->io, &plan->source, converter->backend,
		    plan->stream_fd);
	converter->stats = xcalloc(n_units, sizeof *converter->stats);
	converter->unit_amax = xcalloc(n_units, sizeof *converter->unit_amax);
	converter->nonfinite = xcalloc(n_units, sizeof *converter->nonfinite);
	converter->group_amax =
		xcalloc(plan->selection.n_scale_groups, sizeof *converter->group_amax);
	converter->group_known =
		xcalloc(plan->selection.n_scale_groups, sizeof *converter->group_known);
	for (size_t g = 0; plan->group_amax && g < plan->selection.n_scale_groups; g++) {
		converter->group_known[g] = !isnan(plan->group_amax[g]);
		if (converter->group_known[g])
			converter->group_amax[g] = plan->group_amax[g];
	}
	converter->workers = xcalloc((size_t)params->n_threads, sizeof *converter->workers);
	for (; converter->n_workers < params->n_threads; converter->n_workers++) {
		if (worker_init(&converter->workers[converter->n_workers], &converter->limits, err))
			goto fail;
	}
	*out = converter;
	return 0;
fail:
	converter_free(converter);
	return -1;
}

void converter_free(struct converter *converter)
{
	if (!converter)
		return;
	for (int i = 0; i < converter->n_workers; i++)
		free(converter->workers[i].memory);
	source_release(&converter->source);
	band_list_release(&converter->list);
	pthread_mutex_destroy(&converter->lock);
	free(converter->workers);
	free(converter->stats);
	free(converter->unit_amax);
	free(converter->nonfinite);
	free(converter->group_amax);
	free(converter->group_known);
	free(converter);
}

/* A source larger than half of the machine's memory would push everything else out of the page
 * cache. */
static bool source_is_large(const struct converter *converter)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return converter->plan->source.data_bytes / 2 > pages / 4 * page;
}

static int convert_window(struct converter *converter, struct band_list *work, size_t first,
			  size_t end, struct err *err)
{
	int rc;

	if (converter_amax(converter, work, first, end, err))
		return -1;
	converter->list = *work;
	converter->runs = work->runs + first;
	converter->n_runs = end - first;
	rc = pool_run(converter->n_workers, end - first, converter_run, converter,
		      converter->progress->stop, err);
	for (int w = 0; !rc && w < converter->n_workers; w++)
		rc = write_queue_flush(&converter->workers[w].queue, err);
	converter->list = (struct band_list){ 0 };
	if (source_is_large(converter))
		source_drop_cache(&converter->source);
	return rc;
}

static int convert_windows(struct converter *converter, struct band_list *work, struct err *err)
{
	size_t first = 0;

	while (first < work->n_runs) {
		uint64_t bytes = 0;
		size_t end = first;

		while (end < work->n_runs && bytes < WINDOW_BYTES)
			bytes += work->runs[end++].input_bytes;
		if (convert_window(converter, work, first, end, err))
			return -1;
		first = end;
	}
	return 0;
}

/* Row amax is of use in its own shard only. */
static void release_row_amax(struct converter *converter)
{
	for (size_t u = 0; u < converter->plan->selection.n_units; u++) {
		free(converter->unit_amax[u]);
		converter->unit_amax[u] = NULL;
	}
}

/* Scales that are dropped, or read with their weights, are in no run: the shard is done with all
 * the same. */
static void count_rest(struct converter *converter, size_t shard, const struct band_list *work)
{
	const struct st_file *file = &converter->plan->source.shards[shard].file;
	uint64_t rest = file->identity.size - file->data_start;

	converter->bytes += rest;
	for (size_t r = 0; r < work->n_runs; r++)
		rest -= work->runs[r].input_bytes < rest ? work->runs[r].input_bytes : rest;
	atomic_fetch_add(&converter->progress->done, rest);
}

int converter_shard(struct converter *converter, size_t shard, struct writer *writer,
		    struct writer *preserved, struct err *err)
{
	struct band_list work = { 0 };
	struct err ignored; /* the first error is the one to tell */
	int rc;

	converter->shard = &converter->plan->shards[shard];
	converter->writer = writer;
	for (int w = 0; w < converter->n_workers; w++)
		converter->workers[w].queue.writer = writer;
	converter->preserved = preserved;
	atomic_store(&converter->progress->name, converter->shard->name);
	bands_cut_shard(&work, converter->plan, shard, &converter->limits,
			writer_is_direct(writer));
	rc = convert_windows(converter, &work, err);
	if (!rc)
		count_rest(converter, shard, &work);
	band_list_release(&work);
	release_row_amax(converter);
	if (source_close(&converter->source, rc ? &ignored : err))
		rc = -1;
	return rc;
}

void converter_result(const struct converter *converter, struct convert_result *result)
{
	double worst = INFINITY;

	result->bytes = converter->bytes;
	result->saturated = converter->counts.saturated;
	result->nonfinite = converter->counts.nonfinite;
	for (size_t u = 0; u < converter->plan->selection.n_units; u++) {
		const struct unit_stats *stats = &converter->stats[u];

		if (stats->noise > 0 && stats->signal / stats->noise < worst) {
			worst = stats->signal / stats->noise;
			result->worst = converter->plan->selection.units[u].name;
			result->worst_sqnr = 10 * log10(worst);
		}
	}
}
