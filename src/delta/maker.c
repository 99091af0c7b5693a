/* SPDX-License-Identifier: Apache-2.0 */
#include "delta/maker.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define HEADER_ROOM 4096 /* bytes of the file before the first frame */
#define WRITE_SIZE  ((size_t)1 << 20)

/* --- the file --- */

static int flush(struct delta_maker *maker, struct err *err)
{
	struct buf *pending = &maker->pending;
	int rc = writer_pwrite(&maker->writer, pending->data, pending->len,
			       maker->size - pending->len, err);

	pending->len = 0;
	return rc;
}

static int append(void *context, const void *data, size_t n, struct err *err)
{
	struct delta_maker *maker = context;

	buf_add(&maker->pending, data, n);
	maker->size += n;
	return maker->pending.len < WRITE_SIZE ? 0 : flush(maker, err);
}

static void add_row(struct buf *table, const struct chunk_row *row)
{
	uint32_t numbers[] = { htole32(row->tensor), htole32(row->chunk), htole32(row->kind),
			       htole32(row->count), htole32(row->size) };

	buf_add(table, numbers, sizeof numbers);
}

/* Writes the header, which tells the parts that begin and end at `at`. */
static int write_header(struct delta_maker *maker, const uint64_t at[5], struct err *err)
{
	uint64_t n_rows = maker->table.len / CHUNK_ROW_SIZE;
	uint64_t shapes[4][2] = { { at[1] - at[0] },
				  { n_rows, CHUNK_ROW_SIZE / 4 },
				  { at[3] - at[2] },
				  { at[4] - at[3] } };
	struct st_tensor tensors[] = {
		{ (char *)"changes", DT_U8, 1, shapes[0], at[0], at[1] },
		{ (char *)"table", DT_U32, 2, shapes[1], at[1], at[2] },
		{ (char *)"texts", DT_U8, 1, shapes[2], at[2], at[3] },
		{ (char *)"about", DT_U8, 1, shapes[3], at[3], at[4] },
	};
	const struct st_metadata metadata[] = { { (char *)"format", (char *)DELTA_FORMAT },
						{ (char *)"base", maker->counts->base },
						{ (char *)"result", maker->counts->result } };
	uint64_t size = htole64(HEADER_ROOM - 8);
	struct buf header = { 0 };
	int rc;

	st_header(tensors, 4, metadata, 3, &header);
	while (header.len < HEADER_ROOM)
		buf_putc(&header, ' ');
	memcpy(header.data, &size, sizeof size);
	rc = writer_pwrite(&maker->writer, header.data, header.len, 0, err);
	buf_release(&header);
	return rc;
}

/* Adds the files of the result and what they are.  at: where the two begin. */
static int append_files(struct delta_maker *maker, const struct delta_result *result, uint64_t *at,
			struct err *err)
{
	struct delta_files files = { .io = maker->params->io, .append = append, .context = maker };
	int rc;

	at[0] = maker->size - HEADER_ROOM;
	rc = delta_files_write(&files, &maker->base.checkpoint, result, maker->progress, err);
	at[1] = maker->size - HEADER_ROOM;
	rc = rc ? rc : delta_about_write(&files, err);
	maker->counts->n_files = files.n_carried;
	maker->counts->n_removed = json_array_size(json_object_get(files.about, "removed"));
	delta_files_release(&files);
	return rc;
}

int maker_finish(struct delta_maker *maker, const struct delta_result *result, struct err *err)
{
	uint64_t at[5] = { 0 };
	uint32_t crc;

	if (source_close(&maker->base.source, 0, err))
		return -1;
	for (int s = 0; s < 2; s++)
		delta_digest(&maker->pairs.sides[s],
			     s ? maker->counts->result : maker->counts->base);
	for (size_t i = 0; i < result->n_shards; i++)
		maker->counts->result_bytes += result->shards[i].file->identity.size;
	/* the numbers of the table begin at a multiple of 8 bytes */
	if (append(maker, "\0\0\0\0\0\0\0", -maker->size % 8, err))
		return -1;
	at[1] = maker->size - HEADER_ROOM;
	if (append(maker, maker->table.data, maker->table.len, err))
		return -1;
	if (append_files(maker, result, at + 2, err))
		return -1;
	at[4] = maker->size - HEADER_ROOM;
	maker->counts->delta_bytes = maker->size;
	if (flush(maker, err) || write_header(maker, at, err))
		return -1;
	maker->writer.size = maker->size;
	return writer_commit(&maker->writer, &crc, err);
}

/* --- chunks --- */

/* Adds a row and its frame, and gives the turn to the next item. */
static int put_chunk(struct delta_maker *maker, const struct chunk_row *row, const void *frame,
		     struct err *err)
{
	maker->turn++;
	if (!row->count)
		return 0;
	add_row(&maker->table, row);
	maker->counts->n_elements += row->count;
	maker->counts->n_changed += row->tensor != maker->last_tensor;
	maker->last_tensor = row->tensor;
	return append(maker, frame, row->size, err);
}

/* Adds those that waited for the turn of the ones before. */
static int put_held(struct delta_maker *maker, struct err *err)
{
	struct held_chunks *held = &maker->held;
	int rc = 0;

	while (!rc && maker->turn < maker->pairs.n_items && held->list[maker->turn].is) {
		rc = held_get(held, maker->turn, err);
		rc = rc ? rc : put_chunk(maker, &held->list[maker->turn].row, held->frame, err);
	}
	return rc;
}

/* Adds what changed in an item, in its turn. */
static int emit(struct delta_maker *maker, size_t i, const struct chunk_row *row, const void *frame,
		struct err *err)
{
	int rc;

	pthread_mutex_lock(&maker->lock);
	while (!maker->held.list && maker->turn != i && !maker->failed)
		pthread_cond_wait(&maker->moved, &maker->lock);
	if (maker->failed) {
		rc = err_set(err, ERR_SYSTEM, "another chunk failed");
		err->follows = true;
	} else if (maker->turn != i)
		rc = held_put(&maker->held, i, row, frame, err);
	else
		rc = put_chunk(maker, row, frame, err);
	if (!rc && maker->held.list)
		rc = put_held(maker, err);
	maker->failed |= rc != 0; /* before another thread reads what is not in the file */
	pthread_cond_broadcast(&maker->moved);
	pthread_mutex_unlock(&maker->lock);
	return rc;
}

/* Reads the chunk of the base, and hashes it and the result's. */
static int hash_item(struct delta_maker *maker, struct maker_worker *worker,
		     const struct delta_item *item, const void *data, size_t n, struct err *err)
{
	const struct delta_pairs *pairs = &maker->pairs;
	size_t base = item->tensors[0];

	if (base != NO_TENSOR) {
		if (source_read_bytes(&maker->base.source, &maker->base.tensors[base],
				      (uint64_t)item->chunk * CHUNK_SIZE, n, worker->data, err))
			return -1;
		atomic_fetch_add(&maker->progress->done, n);
		chunk_hash_make(delta_hash(pairs, item, 0), worker->data, n);
	}
	if (!data)
		return 0;
	if (base != NO_TENSOR && !memcmp(worker->data, data, n))
		*delta_hash(pairs, item, 1) = *delta_hash(pairs, item, 0);
	else
		chunk_hash_make(delta_hash(pairs, item, 1), data, n);
	return 0;
}

static int do_item(struct delta_maker *maker, int w, size_t i, struct err *err)
{
	const struct delta_item *item = &maker->pairs.items[i];
	struct maker_worker *worker = &maker->workers[w];
	bool is_new = item->tensors[0] == NO_TENSOR, is_gone = item->tensors[1] == NO_TENSOR;
	const struct delta_tensors *side = &maker->pairs.sides[!is_gone];
	size_t tensor = item->tensors[!is_gone];
	size_t n = delta_chunk_bytes(side, tensor, item->chunk);
	struct chunk_pair pair = { is_new ? NULL : worker->data, NULL, n,
				   chunk_element_size(side->list[tensor].tensor->dtype) };
	struct chunk_row row = { .tensor = (uint32_t)item->tensors[1], .chunk = item->chunk };

	if (progress_stopped(maker->progress->stop, err) ||
	    (!is_gone && maker->chunk(maker->context, w, i, &pair.is, err)) ||
	    hash_item(maker, worker, item, pair.is, n, err) ||
	    (!is_gone && chunk_encode(&worker->coder, &pair, &row, err)))
		return -1;
	return emit(maker, i, &row, worker->coder.frame, err);
}

int maker_item(void *context, int w, size_t i, struct err *err)
{
	struct delta_maker *maker = context;

	if (!do_item(maker, w, i, err))
		return 0;
	pthread_mutex_lock(&maker->lock);
	maker->failed = true;
	pthread_cond_broadcast(&maker->moved);
	pthread_mutex_unlock(&maker->lock);
	return -1;
}

/* --- the whole --- */

static int workers_init(struct delta_maker *maker, struct err *err)
{
	maker->workers = xcalloc((size_t)maker->params->n_threads, sizeof *maker->workers);
	for (int i = 0; i < maker->params->n_threads; i++) {
		struct maker_worker *worker = &maker->workers[i];

		if (chunk_coder_init(&worker->coder, err) ||
		    buffer_alloc(&worker->data, CHUNK_SIZE, "a chunk", err))
			return -1;
	}
	return 0;
}

int maker_open(struct delta_maker *maker, const struct delta_params *params,
	       struct progress *progress, struct delta_counts *counts, struct err *err)
{
	*counts = (struct delta_counts){ 0 };
	*maker = (struct delta_maker){ .params = params,
				       .counts = counts,
				       .progress = progress,
				       .last_tensor = NO_TENSOR,
				       .lock = PTHREAD_MUTEX_INITIALIZER,
				       .moved = PTHREAD_COND_INITIALIZER };
	return delta_checkpoint_open(&maker->base, params->io, params->base, params->n_threads,
				     err);
}

/* The output is new, or another delta. */
static int open_output(struct delta_maker *maker, struct err *err)
{
	const char *path = maker->params->delta;

	if (io_exists(&io_system, path) && !delta_is_file(&io_system, path))
		return err_set(err, ERR_USAGE,
			       "'%s' exists and is not a delta: choose another output or remove it",
			       path);
	if (outfile_open(&maker->out, maker->params->io, path, err))
		return -1;
	maker->size = HEADER_ROOM;
	return writer_open(&maker->writer, &maker->out.dir, maker->out.name, &(struct buf){ 0 }, 0,
			   err);
}

int maker_begin(struct delta_maker *maker, const struct tensor_ref *result, size_t n,
		size_t n_shards, enum maker_order order, struct err *err)
{
	delta_pairs_make(&maker->pairs, maker->base.tensors, maker->base.n_tensors, result, n,
			 n_shards);
	maker->counts->n_tensors = n;
	if (workers_init(maker, err) || open_output(maker, err))
		return -1;
	return order == MAKER_HOLDS ? held_init(&maker->held, &maker->out.dir, maker->out.name,
						maker->pairs.n_items, err)
				    : 0;
}

void maker_release(struct delta_maker *maker)
{
	for (int i = 0; maker->workers && i < maker->params->n_threads; i++) {
		chunk_coder_release(&maker->workers[i].coder);
		free(maker->workers[i].data);
	}
	free(maker->workers);
	held_release(&maker->held);
	writer_release(&maker->writer);
	outfile_close(&maker->out);
	delta_pairs_release(&maker->pairs);
	delta_checkpoint_release(&maker->base);
	buf_release(&maker->pending);
	buf_release(&maker->table);
}
