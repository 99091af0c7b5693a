/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"

/* Source bytes between two looks: well inside the page cache of any machine that extents this. */
#define WINDOW_BYTES ((uint64_t)512 << 20)

/* The program itself, its libraries and stacks. */
#define BASE_MEMORY ((uint64_t)24 << 20)

int pipeline_memory(const struct convert_params *params, struct band_limits *limits,
		    uint64_t *bytes, struct err *err)
{
	uint64_t max = params->max_memory ? params->max_memory : DEFAULT_MAX_MEMORY;
	uint64_t n = (uint64_t)params->n_threads;

	if (band_limits_fit(limits, max > BASE_MEMORY ? (max - BASE_MEMORY) / n : 0,
			    params->backend->band, err))
		return -1;
	*bytes = BASE_MEMORY + n * band_limits_memory(limits);
	return 0;
}

static int worker_init(struct pipeline_worker *worker, const struct band_limits *limits,
		       struct err *err)
{
	char *at;

	if (buffer_alloc(&worker->memory, band_limits_memory(limits), "a worker's buffers", err))
		return -1;
	at = worker->memory;
	worker->queue = (struct write_queue){ .memory = at, .size = limits->max + WRITER_ALIGN };
	at += worker->queue.size;
	worker->buffers = (struct source_buffers){ at, at + limits->max, limits->max };
	worker->scales = at + 2 * limits->max;
	return 0;
}

int pipeline_new(struct pipeline **out, const struct plan *plan,
		 const struct convert_params *params, struct progress *progress, struct err *err)
{
	size_t n_units = plan->selection.n_units;
	struct pipeline *pipeline = xcalloc(1, sizeof *pipeline);
	uint64_t bytes;

	*out = NULL;
	pipeline->plan = plan;
	pipeline->params = params;
	pipeline->progress = progress;
	pthread_mutex_init(&pipeline->lock, NULL);
	pipeline->backend = params->backend;
	if (pipeline_memory(params, &pipeline->limits, &bytes, err))
		goto fail;
	source_init(&pipeline->source, params->io, &plan->source, pipeline->backend,
		    plan->stream_fd);
	pipeline->stats = xcalloc(n_units, sizeof *pipeline->stats);
	pipeline->unit_amax = xcalloc(n_units, sizeof *pipeline->unit_amax);
	pipeline->nonfinite = xcalloc(n_units, sizeof *pipeline->nonfinite);
	pipeline->group_amax =
		xcalloc(plan->selection.n_scale_groups, sizeof *pipeline->group_amax);
	pipeline->group_known =
		xcalloc(plan->selection.n_scale_groups, sizeof *pipeline->group_known);
	for (size_t g = 0; plan->group_amax && g < plan->selection.n_scale_groups; g++) {
		pipeline->group_known[g] = !isnan(plan->group_amax[g]);
		if (pipeline->group_known[g])
			pipeline->group_amax[g] = plan->group_amax[g];
	}
	pipeline->workers = xcalloc((size_t)params->n_threads, sizeof *pipeline->workers);
	for (; pipeline->n_workers < params->n_threads; pipeline->n_workers++) {
		if (worker_init(&pipeline->workers[pipeline->n_workers], &pipeline->limits, err))
			goto fail;
	}
	*out = pipeline;
	return 0;
fail:
	pipeline_free(pipeline);
	return -1;
}

void pipeline_free(struct pipeline *pipeline)
{
	if (!pipeline)
		return;
	for (int i = 0; i < pipeline->n_workers; i++)
		free(pipeline->workers[i].memory);
	source_release(&pipeline->source);
	band_list_release(&pipeline->list);
	pthread_mutex_destroy(&pipeline->lock);
	free(pipeline->workers);
	free(pipeline->stats);
	free(pipeline->unit_amax);
	free(pipeline->nonfinite);
	free(pipeline->group_amax);
	free(pipeline->group_known);
	free(pipeline);
}

/* A source larger than half of the machine's memory would push everything else out of the page
 * cache. */
static bool source_is_large(const struct pipeline *pipeline)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return pipeline->plan->source.data_bytes / 2 > pages / 4 * page;
}

static int convert_window(struct pipeline *pipeline, struct band_list *work, size_t first,
			  size_t end, struct err *err)
{
	int rc;

	if (pipeline_amax(pipeline, work, first, end, err))
		return -1;
	pipeline->list = *work;
	pipeline->extents = work->extents + first;
	pipeline->n_extents = end - first;
	rc = pool_run(pipeline->n_workers, end - first, pipeline_cast, pipeline,
		      pipeline->progress->stop, err);
	for (int w = 0; !rc && w < pipeline->n_workers; w++)
		rc = write_queue_flush(&pipeline->workers[w].queue, err);
	pipeline->list = (struct band_list){ 0 };
	if (source_is_large(pipeline))
		source_drop_cache(&pipeline->source);
	return rc;
}

static int convert_windows(struct pipeline *pipeline, struct band_list *work, struct err *err)
{
	size_t first = 0;

	while (first < work->n_extents) {
		uint64_t bytes = 0;
		size_t end = first;

		while (end < work->n_extents && bytes < WINDOW_BYTES)
			bytes += work->extents[end++].input_bytes;
		if (convert_window(pipeline, work, first, end, err))
			return -1;
		first = end;
	}
	return 0;
}

/* Row amax is of use in its own shard only. */
static void release_row_amax(struct pipeline *pipeline)
{
	for (size_t u = 0; u < pipeline->plan->selection.n_units; u++) {
		free(pipeline->unit_amax[u]);
		pipeline->unit_amax[u] = NULL;
	}
}

/* Scales that are dropped, or read with their weights, are in no extent: the shard is done with all
 * the same. */
static void count_rest(struct pipeline *pipeline, size_t shard, const struct band_list *work)
{
	const struct st_file *file = &pipeline->plan->source.shards[shard].file;
	uint64_t rest = file->identity.size - file->data_start;

	pipeline->bytes += rest;
	for (size_t r = 0; r < work->n_extents; r++)
		rest -= work->extents[r].input_bytes < rest ? work->extents[r].input_bytes : rest;
	atomic_fetch_add(&pipeline->progress->done, rest);
}

int pipeline_shard(struct pipeline *pipeline, size_t shard, struct writer *writer,
		   struct writer *preserved, struct err *err)
{
	struct band_list work = { 0 };
	struct err ignored; /* the first error is the one to tell */
	int rc;

	pipeline->shard = &pipeline->plan->shards[shard];
	pipeline->writer = writer;
	for (int w = 0; w < pipeline->n_workers; w++)
		pipeline->workers[w].queue.writer = writer;
	pipeline->preserved = preserved;
	atomic_store(&pipeline->progress->name, pipeline->shard->name);
	bands_cut_shard(&work, pipeline->plan, shard, &pipeline->limits, writer_is_direct(writer));
	rc = convert_windows(pipeline, &work, err);
	if (!rc)
		count_rest(pipeline, shard, &work);
	band_list_release(&work);
	release_row_amax(pipeline);
	if (source_close(&pipeline->source, rc ? &ignored : err))
		rc = -1;
	return rc;
}

void pipeline_result(const struct pipeline *pipeline, struct convert_result *result)
{
	double worst = INFINITY;

	result->bytes = pipeline->bytes;
	result->saturated = pipeline->counts.saturated;
	result->nonfinite = pipeline->counts.nonfinite;
	for (size_t u = 0; u < pipeline->plan->selection.n_units; u++) {
		const struct unit_stats *stats = &pipeline->stats[u];

		if (stats->noise > 0 && stats->signal / stats->noise < worst) {
			worst = stats->signal / stats->noise;
			result->worst = pipeline->plan->selection.units[u].name;
			result->worst_sqnr = 10 * log10(worst);
		}
	}
}
