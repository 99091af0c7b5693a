/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"

/* Source bytes of a window.  The amax and cast passes both read them, so they must fit the page
 * cache. */
#define WINDOW_BYTES ((uint64_t)512 << 20)

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

/* Sets the amax of a scale group to what the plan knows. */
static void reset_group_amax(struct known_amax *amax, const struct plan *plan, size_t group)
{
	amax->has_group[group] = !isnan(plan->groups[group].amax);
	amax->groups[group] = amax->has_group[group] ? plan->groups[group].amax : 0;
}

static void known_amax_init(struct known_amax *amax, const struct plan *plan)
{
	size_t n_groups = plan->selection.n_scale_groups;

	amax->units = xcalloc(plan->selection.n_units, sizeof *amax->units);
	amax->groups = xcalloc(n_groups, sizeof *amax->groups);
	amax->has_group = xcalloc(n_groups, sizeof *amax->has_group);
	for (size_t g = 0; plan->groups && g < n_groups; g++)
		reset_group_amax(amax, plan, g);
}

int pipeline_new(struct pipeline **out, const struct plan *plan,
		 const struct convert_params *params, struct progress *progress, struct err *err)
{
	struct pipeline *pipeline = xcalloc(1, sizeof *pipeline);
	size_t n_outputs = 0;
	uint64_t bytes;

	*out = NULL;
	pipeline->plan = plan;
	pipeline->params = params;
	pipeline->progress = progress;
	pthread_mutex_init(&pipeline->lock, NULL);
	pipeline->backend = params->backend;
	if (band_limits_plan(params, &pipeline->limits, &bytes, err))
		goto fail;
	source_init(&pipeline->source, params->io, &plan->source, pipeline->backend,
		    plan->stream_fd);
	pipeline->source.check_scales = true;
	for (size_t i = 0; i < plan->n_shards; i++)
		if (n_outputs < plan->shards[i].n_tensors)
			n_outputs = plan->shards[i].n_tensors;
	pipeline->outputs = xcalloc(n_outputs, sizeof *pipeline->outputs);
	known_amax_init(&pipeline->amax, plan);
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
	pthread_mutex_destroy(&pipeline->lock);
	free(pipeline->workers);
	free(pipeline->outputs);
	free(pipeline->amax.units);
	free(pipeline->amax.groups);
	free(pipeline->amax.has_group);
	free(pipeline);
}

/* A source larger than half of the machine's memory would push all other data out of the page
 * cache. */
static bool source_is_large(const struct pipeline *pipeline)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return pipeline->plan->source.data_bytes / 2 > pages / 4 * page;
}

static int convert_window(struct pipeline *pipeline, const struct band_list *list, size_t first,
			  size_t end, struct err *err)
{
	int rc;

	if (pipeline_amax(pipeline, list, first, end, err))
		return -1;
	pipeline->work.all = list;
	pipeline->work.extents = list->extents + first;
	pipeline->work.n_extents = end - first;
	rc = pool_run(pipeline->n_workers, end - first, pipeline_cast, pipeline,
		      pipeline->progress->stop, err);
	for (int w = 0; !rc && w < pipeline->n_workers; w++)
		rc = write_queue_flush(&pipeline->workers[w].queue, true, err);
	if (source_is_large(pipeline))
		source_drop_cache(&pipeline->source);
	if (rc || !pipeline->window_end.done)
		return rc;
	return pipeline->window_end.done(pipeline->window_end.context, err);
}

static int convert_windows(struct pipeline *pipeline, const struct band_list *list, struct err *err)
{
	uint64_t window = pipeline->window_end.done ? pipeline->window_end.bytes : WINDOW_BYTES;
	size_t first = 0;

	while (first < list->n_extents) {
		uint64_t bytes = 0;
		size_t end = first;

		while (end < list->n_extents && bytes < window)
			bytes += list->extents[end++].input_bytes;
		if (convert_window(pipeline, list, first, end, err))
			return -1;
		first = end;
	}
	return 0;
}

/* The amax of rows is used in its own shard only. */
static void release_row_amax(struct pipeline *pipeline, const struct band_list *list)
{
	for (size_t b = 0; b < list->n_bands; b++) {
		size_t u = list->bands[b].unit;

		free(pipeline->amax.units[u]);
		pipeline->amax.units[u] = NULL;
	}
}

/* Counts scales that are dropped, or read with their weights: no extent has them, but the shard is
 * done. */
static void count_rest(struct pipeline *pipeline, size_t shard, const struct band_list *list)
{
	uint64_t rest = pipeline->plan->shards[shard].input_bytes;

	for (size_t e = 0; e < list->n_extents; e++)
		rest -= list->extents[e].input_bytes < rest ? list->extents[e].input_bytes : rest;
	atomic_fetch_add(&pipeline->progress->done, rest);
}

/* A shard may be converted again, after a pass that wrote nothing. */
static void forget_figures(struct pipeline *pipeline, size_t shard)
{
	pipeline->counts = (struct quant_stats){ 0 };
	pipeline->n_compensated = pipeline->n_moved = 0;
	for (size_t i = 0; i < pipeline->plan->shards[shard].n_tensors; i++)
		pipeline->outputs[i] = (struct output_figures){ 0 };
}

static int convert_outputs(struct pipeline *pipeline, size_t shard, const struct output_set *set,
			   struct band_list *list, struct err *err)
{
	struct writer *writer = pipeline->work.writer;
	int rc;

	pipeline->work.shard = &pipeline->plan->shards[shard];
	for (int w = 0; w < pipeline->n_workers; w++)
		pipeline->workers[w].queue.writer = writer;
	atomic_store(&pipeline->progress->name, pipeline->work.shard->name);
	atomic_store(&pipeline->progress->syncing, false);
	bands_cut_shard(list, pipeline->plan, shard, set, &pipeline->limits,
			writer_is_direct(writer));
	rc = convert_windows(pipeline, list, err);
	atomic_store(&pipeline->progress->syncing, rc == 0);
	release_row_amax(pipeline, list);
	return source_close(&pipeline->source, rc, err);
}

int pipeline_shard(struct pipeline *pipeline, size_t shard, struct writer *writer,
		   struct writer *preserved, struct err *err)
{
	struct band_list list = { 0 };
	int rc;

	pipeline->work = (struct shard_work){ .writer = writer, .preserved = preserved };
	forget_figures(pipeline, shard);
	rc = convert_outputs(pipeline, shard, &(struct output_set){ 0 }, &list, err);
	if (!rc)
		count_rest(pipeline, shard, &list);
	band_list_release(&list);
	return rc;
}

int pipeline_outputs(struct pipeline *pipeline, size_t shard, const struct output_set *set,
		     struct writer *writer, struct err *err)
{
	const struct plan *plan = pipeline->plan;
	struct band_list list = { 0 };
	int rc;

	pipeline->work = (struct shard_work){ .writer = writer };
	pipeline->counts = (struct quant_stats){ 0 };
	rc = convert_outputs(pipeline, shard, set, &list, err);
	for (size_t b = 0; b < list.n_bands; b++) {
		const struct unit *unit = &plan->selection.units[list.bands[b].unit];

		for (size_t m = 0; unit->recipe && m < unit_matrices(unit); m++)
			reset_group_amax(&pipeline->amax, plan, unit->scale_group + m);
	}
	band_list_release(&list);
	return rc;
}

void pipeline_take_codes(struct pipeline *pipeline, struct store *store)
{
	pipeline->store = store;
	pipeline->places = pipeline->plan->rounding->plan.places;
}

void pipeline_figures(const struct pipeline *pipeline, size_t shard, struct figures *figures)
{
	const struct selection *selection = &pipeline->plan->selection;
	const char *name = NULL;
	double worst = INFINITY;
	const struct output_shard *out = &pipeline->plan->shards[shard];

	*figures = (struct figures){ .saturated = pipeline->counts.saturated,
				     .nonfinite = pipeline->counts.nonfinite,
				     .n_compensated = pipeline->n_compensated,
				     .n_moved = pipeline->n_moved };

	for (size_t i = 0; i < out->n_tensors; i = output_unit_end(out, i)) {
		const struct output_figures *output = &pipeline->outputs[i];
		const struct error_stats *error = &output->error;
		const char *unit = selection->units[out->outputs[i].unit].name;

		if (output->n_changed && !figures->n_inexact++)
			figures->inexact = unit;
		figures->n_changed += output->n_changed;
		if (error->noise <= 0 || error->signal / error->noise >= worst)
			continue;
		worst = error->signal / error->noise;
		name = unit;
	}
	figures->worst = name;
	figures->worst_sqnr = name ? 10 * log10(worst) : 0;
}
