/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two checkpoints, chunk by chunk.
 */
#include "delta/delta.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "delta/maker.h"

struct comparison {
	struct delta_maker maker;
	struct delta_checkpoint result;
	void **chunks; /* of the result, by worker */
};

/* A maker_chunk_fn. */
static int read_chunk(void *context, int w, size_t i, const void **data, struct err *err)
{
	struct comparison *comparison = context;
	const struct delta_pairs *pairs = &comparison->maker.pairs;
	const struct delta_item *item = &pairs->items[i];
	size_t tensor = item->tensors[1];
	size_t n = delta_chunk_bytes(&pairs->sides[1], tensor, item->chunk);

	*data = comparison->chunks[w];
	if (source_read_bytes(&comparison->result.source, &comparison->result.tensors[tensor],
			      (uint64_t)item->chunk * CHUNK_SIZE, n, comparison->chunks[w], err))
		return -1;
	atomic_fetch_add(&comparison->maker.progress->done, n);
	return 0;
}

static int open_result(struct comparison *comparison, const struct delta_params *params,
		       struct err *err)
{
	if (delta_checkpoint_open(&comparison->result, params->io, params->result,
				  params->n_threads, err))
		return -1;
	comparison->chunks = xcalloc((size_t)params->n_threads, sizeof *comparison->chunks);
	for (int i = 0; i < params->n_threads; i++)
		if (buffer_alloc(&comparison->chunks[i], CHUNK_SIZE, "a chunk", err))
			return -1;
	return 0;
}

/* Ends the delta with the files of the result's directory. */
static int finish(struct comparison *comparison, struct err *err)
{
	const struct checkpoint *checkpoint = &comparison->result.checkpoint;
	struct delta_result result = { .dirfd = delta_directory(checkpoint, err) };
	struct listing names = { 0 };
	int rc = result.dirfd < 0 ? -1 : delta_files_list(checkpoint, result.dirfd, &names, err);

	result.shards = xcalloc(checkpoint->n_shards + 1, sizeof *result.shards);
	result.files = xcalloc(names.n + 1, sizeof *result.files);
	for (; result.n_shards < checkpoint->n_shards; result.n_shards++)
		result.shards[result.n_shards] =
			(struct result_shard){ checkpoint->shards[result.n_shards].name,
					       &checkpoint->shards[result.n_shards].file, NULL };
	for (; result.n_files < names.n; result.n_files++)
		result.files[result.n_files] =
			(struct result_file){ names.items[result.n_files], NULL };
	rc = rc ? rc : maker_finish(&comparison->maker, &result, err);
	if (result.dirfd >= 0)
		checkpoint->io->close(checkpoint->io, result.dirfd);
	free(result.shards);
	free(result.files);
	listing_release(&names);
	return rc;
}

static int compare(struct comparison *comparison, const struct delta_params *params,
		   struct progress *progress, struct delta_counts *counts, struct err *err)
{
	struct delta_maker *maker = &comparison->maker;
	struct delta_checkpoint *result = &comparison->result;
	int rc;

	if (maker_open(maker, params, progress, counts, err) ||
	    open_result(comparison, params, err))
		return -1;
	maker->chunk = read_chunk;
	maker->context = comparison;
	if (maker_begin(maker, result->tensors, result->n_tensors, result->checkpoint.n_shards,
			MAKER_WAITS, err))
		return -1;
	progress_begin(progress, PROGRESS_WORK, maker->pairs.bytes);
	rc = pool_run(params->n_threads, maker->pairs.n_items, maker_item, maker, progress->stop,
		      err);
	rc = source_close(&result->source, rc, err);
	return rc ? rc : finish(comparison, err);
}

int delta_make(const struct delta_params *params, struct delta_counts *counts,
	       struct progress *progress, struct err *err)
{
	struct comparison comparison = { 0 };
	int rc = compare(&comparison, params, progress, counts, err);

	for (int i = 0; comparison.chunks && i < params->n_threads; i++)
		free(comparison.chunks[i]);
	free(comparison.chunks);
	delta_checkpoint_release(&comparison.result);
	maker_release(&comparison.maker);
	return rc;
}
