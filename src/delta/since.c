/* SPDX-License-Identifier: Apache-2.0
 *
 * Bands arrive in any order, and scales before the last codes of their weight.  Chunks are put
 * together in memory; those that are whole at the end of a window are compared on all threads.
 */
#include "delta/since.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"
#include "ckpt/manifest.h"
#include "delta/maker.h"
#include "execute/exactness.h"
#include "execute/execution.h"
#include "execute/resume.h"
#include "plan/write_index.h"

#define OPEN_CHUNKS	4 /* that a window cuts: codes at both ends, scales; and a held frame */
#define SMALLEST_WINDOW ((uint64_t)2 << 20)

/* A chunk of the result, until it is compared. */
struct open_chunk {
	char *data;
	_Atomic size_t filled; /* bytes */
};

/* A file of the result, in the order of the names. */
struct since_shard {
	size_t shard; /* in the plan */
	struct buf header;
	struct st_file file;
	size_t first; /* its first tensor in since.tensors */
};

struct since {
	const struct since_params *params;
	struct since_result *result;
	struct convert_params convert; /* with the memory that comparing leaves */
	struct execution execution;
	struct delta_maker maker;
	struct delta_params delta; /* with the threads that compare */

	size_t n_shards, n_tensors;
	struct since_shard *shards;
	struct tensor_ref *tensors;   /* of the result, in the order of its files */
	struct shard_record *records; /* for the manifest */
	const struct since_shard *current;

	pthread_mutex_t lock;	   /* of the members below */
	struct open_chunk *chunks; /* by item */
	size_t n_ready;
	uint64_t *ready; /* items whose chunks are whole */
};

/* --- memory --- */

/* How the memory is divided: half of it for threads that compare, a sixteenth for windows. */
struct division {
	int n_threads;	 /* that compare */
	uint64_t window; /* bytes of the source; low-bit weights have twice as many codes */
};

static struct division memory_divide(const struct convert_params *convert)
{
	uint64_t max = convert->max_memory ? convert->max_memory : DEFAULT_MAX_MEMORY;
	uint64_t n = max / 2 / MAKER_WORKER_MEMORY;

	return (struct division){
		.n_threads = n >= (uint64_t)convert->n_threads ? convert->n_threads
			     : n			       ? (int)n
							       : 1,
		.window = max / 32 > SMALLEST_WINDOW ? max / 32 : SMALLEST_WINDOW,
	};
}

uint64_t since_memory(const struct convert_params *convert)
{
	struct division division = memory_divide(convert);

	return (uint64_t)division.n_threads * MAKER_WORKER_MEMORY + 2 * division.window +
	       OPEN_CHUNKS * CHUNK_SIZE;
}

/* --- chunks --- */

/* Returns the memory of an item's chunk of n bytes; NULL with *err set. */
static char *chunk_memory(struct since *since, size_t item, size_t n, struct err *err)
{
	struct open_chunk *chunk = &since->chunks[item];
	char *data;

	pthread_mutex_lock(&since->lock);
	if (!chunk->data)
		chunk->data = malloc(n);
	data = chunk->data;
	pthread_mutex_unlock(&since->lock);
	if (!data)
		err_no_memory(err, "no memory for a chunk of %zu bytes", n);
	return data;
}

static void chunk_ready(struct since *since, size_t item)
{
	pthread_mutex_lock(&since->lock);
	ARRAY_GROW(since->ready, since->n_ready);
	since->ready[since->n_ready++] = item;
	pthread_mutex_unlock(&since->lock);
}

/* Copies bytes of tensor i, from byte `at` on, up to the end of a chunk.  Returns their number, or
 * 0 with *err set. */
static size_t fill(struct since *since, size_t i, const char *data, size_t n, uint64_t at,
		   struct err *err)
{
	const struct delta_tensors *side = &since->maker.pairs.sides[1];
	uint32_t number = (uint32_t)(at / CHUNK_SIZE);
	size_t item = side->first[i] + number, begin = (size_t)(at % CHUNK_SIZE);
	size_t size = delta_chunk_bytes(side, i, number);
	size_t part = n < size - begin ? n : size - begin;
	char *memory = chunk_memory(since, item, size, err);

	if (!memory)
		return 0;
	memcpy(memory + begin, data, part);
	if (atomic_fetch_add(&since->chunks[item].filled, part) + part == size)
		chunk_ready(since, item);
	return part;
}

/* A writer_take_fn. */
static int take_bytes(void *context, const void *data, size_t n, uint64_t offset, struct err *err)
{
	struct since *since = context;
	const struct since_shard *shard = since->current;
	const char *bytes = data;
	uint64_t at = offset - shard->file.data_start;
	size_t i;

	SEARCH(i, shard->file.n_tensors, shard->file.tensors[i].end <= at);
	for (; n; i++) {
		const struct st_tensor *tensor = &shard->file.tensors[i];

		while (n && at < tensor->end) {
			size_t part = fill(since, shard->first + i, bytes,
					   n < tensor->end - at ? n : (size_t)(tensor->end - at),
					   at - tensor->begin, err);

			if (!part)
				return -1;
			bytes += part;
			at += part;
			n -= part;
		}
	}
	return 0;
}

/* A maker_chunk_fn. */
static int give_chunk(void *context, int w, size_t item, const void **data, struct err *err)
{
	const struct since *since = context;

	(void)w, (void)err;
	*data = since->chunks[item].data;
	return 0;
}

static int compare_one(void *context, int w, size_t i, struct err *err)
{
	struct since *since = context;
	struct open_chunk *chunk = &since->chunks[since->ready[i]];
	int rc = maker_item(&since->maker, w, since->ready[i], err);

	free(chunk->data);
	chunk->data = NULL;
	return rc;
}

/* Compares the chunks that are whole. */
static int compare_ready(void *context, struct err *err)
{
	struct since *since = context;
	size_t n = since->n_ready;

	if (n)
		qsort(since->ready, n, sizeof *since->ready, compare_u64);
	since->n_ready = 0;
	return pool_run(since->delta.n_threads, n, compare_one, since, since->maker.progress->stop,
			err);
}

/* Compares what only the base has. */
static int compare_gone(void *context, int w, size_t i, struct err *err)
{
	struct since *since = context;
	const struct delta_tensors *side = &since->maker.pairs.sides[1];

	return maker_item(&since->maker, w, side->first[side->n] + i, err);
}

/* --- files --- */

static int compare_shards(const void *a, const void *b, const void *context)
{
	const struct plan *plan = context;
	const struct since_shard *x = a, *y = b;

	return strcmp(plan->shards[x->shard].name, plan->shards[y->shard].name);
}

/* Lays out the files of the result as a reader finds them. */
static int shards_init(struct since *since, struct err *err)
{
	const struct plan *plan = since->params->plan;

	since->shards = xcalloc(plan->n_shards + 1, sizeof *since->shards);
	for (; since->n_shards < plan->n_shards; since->n_shards++)
		since->shards[since->n_shards].shard = since->n_shards;
	sort_in(since->shards, since->n_shards, sizeof *since->shards, compare_shards, plan);
	for (size_t i = 0; i < since->n_shards; i++) {
		struct since_shard *shard = &since->shards[i];
		const struct output_shard *planned = &plan->shards[shard->shard];
		uint64_t size = output_shard_size(planned);

		output_shard_header(planned, &shard->header);
		shard->file.path = xstrdup(planned->name);
		shard->first = since->n_tensors;
		if (st_parse_header(&shard->file, shard->header.data + 8, shard->header.len - 8,
				    size, err))
			return -1;
		shard->file.identity.size = size;
		since->n_tensors += shard->file.n_tensors;
	}
	since->tensors = xcalloc(since->n_tensors + 1, sizeof *since->tensors);
	for (size_t i = 0; i < since->n_shards; i++)
		for (size_t t = 0; t < since->shards[i].file.n_tensors; t++)
			since->tensors[since->shards[i].first + t] =
				(struct tensor_ref){ &since->shards[i].file.tensors[t], i };
	return 0;
}

static int convert_shard(struct since *since, size_t i, struct err *err)
{
	struct since_shard *shard = &since->shards[i];
	const struct output_shard *planned = &since->params->plan->shards[shard->shard];
	struct convert_result *result = &since->result->converted;
	struct shard_record *record = &since->records[i];
	struct writer writer = { 0 };
	struct figures figures;
	int rc;

	since->current = shard;
	*record = (struct shard_record){ .name = planned->name,
					 .size = output_shard_size(planned),
					 .plan = resume_plan(since->params->plan, shard->shard) };
	rc = writer_open_nowhere(&writer, since->convert.io, planned->name, &shard->header,
				 record->size, err);
	writer.take = take_bytes;
	writer.context = since;
	rc = rc ? rc : execution_shard(&since->execution, shard->shard, &writer, NULL, err);
	rc = rc ? rc : writer_commit(&writer, &record->crc, err);
	writer_release(&writer);
	if (rc)
		return -1;
	pipeline_figures(since->execution.pipeline, shard->shard, &figures);
	figures_add(&result->figures, &figures);
	result->shards_done++;
	return 0;
}

COMPARISON(compare_files, struct result_file, strcmp(x->name, y->name))

/* Adds a file that the conversion writes, in place of a copy of that name. */
static void add_text(struct delta_result *result, const char *name, const struct buf *text)
{
	size_t i = 0;

	if (!text->len)
		return;
	while (i < result->n_files && strcmp(result->files[i].name, name) != 0)
		i++;
	result->files[i] = (struct result_file){ name, text };
	result->n_files += i == result->n_files;
}

/* Lists the files of the result that are not weights.  index and manifest: their texts. */
static void list_files(const struct since *since, struct delta_result *result,
		       const struct listing *copies, const struct buf *index,
		       const struct buf *manifest)
{
	const struct plan_texts *texts = &since->params->plan->files;

	result->files = xcalloc(copies->n + 5, sizeof *result->files);
	for (size_t i = 0; i < copies->n; i++)
		result->files[result->n_files++] = (struct result_file){ copies->items[i], NULL };
	add_text(result, PARAMS_NAME, &texts->params);
	add_text(result, HF_QUANT_CONFIG_NAME, &texts->hf_quant_config);
	add_text(result, INDEX_NAME, index);
	add_text(result, CONFIG_NAME, &texts->config);
	add_text(result, MANIFEST_NAME, manifest);
	qsort(result->files, result->n_files, sizeof *result->files, compare_files);
}

/* Ends the delta with the files of the result. */
static int finish(struct since *since, struct err *err)
{
	const struct plan *plan = since->params->plan;
	const struct checkpoint *source = &plan->source;
	struct delta_result result = { .n_shards = since->n_shards, .dirfd = -1 };
	struct buf index = { 0 }, manifest = { 0 };
	struct listing copies = { 0 };
	char *text = manifest_text(since->execution.identity, since->records, since->n_shards);
	int rc = checkpoint_auxiliary(source, &copies, err);

	buf_puts(&manifest, text);
	free(text);
	if (plan->files.index_size)
		output_index_text(plan->shards, plan->n_shards, &index);
	result.shards = xcalloc(since->n_shards + 1, sizeof *result.shards);
	for (size_t i = 0; i < since->n_shards; i++)
		result.shards[i] =
			(struct result_shard){ since->records[i].name, &since->shards[i].file,
					       &since->shards[i].header };
	list_files(since, &result, &copies, &index, &manifest);
	if (!rc && copies.n) {
		result.dirfd = delta_directory(source, err);
		rc = result.dirfd < 0 ? -1 : 0;
	}
	rc = rc ? rc : maker_finish(&since->maker, &result, err);
	if (result.dirfd >= 0)
		source->io->close(source->io, result.dirfd);
	listing_release(&copies);
	buf_release(&index);
	buf_release(&manifest);
	free(result.shards);
	free(result.files);
	return rc;
}

/* --- the whole --- */

/* Reads what is small and must be known first: the base's headers, and the job's identity. */
static int prepare(struct since *since, struct progress *progress, struct err *err)
{
	struct delta_maker *maker = &since->maker;
	struct division division = memory_divide(&since->convert);
	struct window_end window = { .bytes = division.window,
				     .done = compare_ready,
				     .context = since };

	since->delta.n_threads = division.n_threads;
	since->convert.io_memory += since_memory(&since->convert);
	if (maker_open(maker, &since->delta, progress, &since->result->counts, err) ||
	    shards_init(since, err))
		return -1;
	maker->chunk = give_chunk;
	maker->context = since;
	since->execution.identity = resume_identity(&since->execution, err);
	if (!since->execution.identity ||
	    maker_begin(maker, since->tensors, since->n_tensors, since->n_shards, MAKER_HOLDS,
			err) ||
	    pipeline_new(&since->execution.pipeline, since->params->plan, &since->convert, progress,
			 err))
		return -1;
	since->chunks = xcalloc(maker->pairs.n_items + 1, sizeof *since->chunks);
	since->records = xcalloc(since->n_shards + 1, sizeof *since->records);
	if (since->convert.exact && execution_check_exact(&since->execution, err))
		return -1;
	since->execution.pipeline->window_end = window;
	progress_begin(progress, PROGRESS_WORK,
		       since->params->plan->totals.input_bytes + maker->base.checkpoint.data_bytes);
	return 0;
}

static int run(struct since *since, struct progress *progress, struct err *err)
{
	const struct delta_pairs *pairs = &since->maker.pairs;
	struct convert_result *result = &since->result->converted;

	if (prepare(since, progress, err))
		return -1;
	for (size_t i = 0; i < since->n_shards; i++)
		if (convert_shard(since, i, err))
			return -1;
	if (pool_run(since->delta.n_threads,
		     pairs->n_items - pairs->sides[1].first[since->n_tensors], compare_gone, since,
		     progress->stop, err) ||
	    finish(since, err))
		return -1;
	result->has_figures = result->complete = true;
	return 0;
}

int since_make(const struct since_params *params, struct since_result *result,
	       struct progress *progress, struct err *err)
{
	struct since since = { .params = params,
			       .result = result,
			       .convert = *params->convert,
			       .delta = params->delta,
			       .lock = PTHREAD_MUTEX_INITIALIZER };
	int rc;

	*result = (struct since_result){ 0 };
	since.execution = (struct execution){ .plan = params->plan,
					      .params = &since.convert,
					      .progress = progress,
					      .result = &result->converted };
	rc = run(&since, progress, err);
	pipeline_free(since.execution.pipeline);
	json_decref(since.execution.identity);
	for (size_t i = 0; since.chunks && i < since.maker.pairs.n_items; i++)
		free(since.chunks[i].data);
	maker_release(&since.maker);
	for (size_t i = 0; i < since.n_shards; i++) {
		buf_release(&since.shards[i].header);
		st_release(&since.shards[i].file);
	}
	free(since.shards);
	free(since.tensors);
	free(since.records);
	free(since.chunks);
	free(since.ready);
	return rc;
}
