/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a delta in one pass: changes chunk by chunk, in the order of the result's files; then the
 * table of the chunks, headers and files; and the header of the file itself, whose room is kept.
 */
#include "delta/delta.h"

#include <endian.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "ckpt/outdir.h"
#include "ckpt/writer.h"
#include "delta/files.h"
#include "delta/tensors.h"
#include "source/source.h"

#define HEADER_ROOM 4096 /* bytes of the file before the first frame */
#define WRITE_SIZE  ((size_t)1 << 20)

struct maker_worker {
	struct chunk_coder coder;
	void *data[2]; /* a chunk of each side */
};

struct delta_maker {
	const struct delta_params *params;
	struct progress *progress;
	struct delta_counts *counts;
	struct checkpoint sides[2];
	struct source sources[2];
	struct delta_pairs pairs;
	struct maker_worker *workers;
	struct outfile out;
	struct writer writer;
	struct buf pending; /* ends at byte `size` of the file */
	uint64_t size;
	struct buf table;
	size_t last_tensor; /* of the table, for the count */
	/* chunks are written in their order */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	size_t turn;
	bool failed;
};

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

/* Writes all that follows the changes. */
static int finish(struct delta_maker *maker, struct err *err)
{
	struct delta_files files = { .io = maker->params->io, .append = append, .context = maker };
	uint64_t at[5] = { 0 };
	uint32_t crc;

	/* the numbers of the table begin at a multiple of 8 bytes */
	if (append(maker, "\0\0\0\0\0\0\0", -maker->size % 8, err))
		return -1;
	at[1] = maker->size - HEADER_ROOM;
	if (append(maker, maker->table.data, maker->table.len, err))
		return -1;
	at[2] = maker->size - HEADER_ROOM;
	if (delta_files_write(&files, maker->sides, maker->progress, err))
		return -1;
	at[3] = maker->size - HEADER_ROOM;
	if (delta_about_write(&files, err))
		return -1;
	at[4] = maker->size - HEADER_ROOM;
	maker->counts->n_files = files.n_carried;
	maker->counts->delta_bytes = maker->size;
	delta_files_release(&files);
	if (flush(maker, err) || write_header(maker, at, err))
		return -1;
	maker->writer.size = maker->size;
	return writer_commit(&maker->writer, &crc, err);
}

/* --- chunks --- */

/* Adds a row and its frame, in the turn of the item. */
static int emit(struct delta_maker *maker, size_t i, const struct chunk_row *row, const void *frame,
		struct err *err)
{
	int rc = 0;

	pthread_mutex_lock(&maker->lock);
	while (maker->turn != i && !maker->failed)
		pthread_cond_wait(&maker->moved, &maker->lock);
	if (maker->failed)
		rc = err_set(err, ERR_SYSTEM, "another chunk failed");
	else if (row->count) {
		add_row(&maker->table, row);
		maker->counts->n_elements += row->count;
		maker->counts->n_changed += row->tensor != maker->last_tensor;
		maker->last_tensor = row->tensor;
		rc = append(maker, frame, row->size, err);
	}
	maker->turn = i + 1;
	pthread_cond_broadcast(&maker->moved);
	pthread_mutex_unlock(&maker->lock);
	return rc;
}

/* Reads the chunk of each side, and hashes it.  Equal ones are hashed once. */
static int read_item(struct delta_maker *maker, struct maker_worker *worker,
		     const struct delta_item *item, size_t *n, struct err *err)
{
	for (int s = 0; s < 2; s++) {
		size_t tensor = item->tensors[s];

		if (tensor == NO_TENSOR)
			continue;
		*n = delta_chunk_bytes(&maker->pairs.sides[s], tensor, item->chunk);
		if (source_read_bytes(&maker->sources[s], &maker->pairs.sides[s].list[tensor],
				      (uint64_t)item->chunk * CHUNK_SIZE, *n, worker->data[s], err))
			return -1;
		atomic_fetch_add(&maker->progress->done, *n);
	}
	for (int s = 0; s < 2; s++) {
		if (item->tensors[s] == NO_TENSOR)
			continue;
		if (s && item->tensors[0] != NO_TENSOR &&
		    !memcmp(worker->data[0], worker->data[1], *n))
			*delta_hash(&maker->pairs, item, 1) = *delta_hash(&maker->pairs, item, 0);
		else
			chunk_hash_make(delta_hash(&maker->pairs, item, s), worker->data[s], *n);
	}
	return 0;
}

static int do_item(struct delta_maker *maker, int w, size_t i, struct err *err)
{
	const struct delta_item *item = &maker->pairs.items[i];
	struct maker_worker *worker = &maker->workers[w];
	bool has_base = item->tensors[0] != NO_TENSOR;
	const struct st_tensor *tensor;
	struct chunk_pair pair;
	struct chunk_row row = { .tensor = (uint32_t)item->tensors[1], .chunk = item->chunk };
	size_t n = 0;

	if (progress_stopped(maker->progress->stop, err) || read_item(maker, worker, item, &n, err))
		return -1;
	if (item->tensors[1] == NO_TENSOR)
		return emit(maker, i, &row, NULL, err);
	tensor = maker->pairs.sides[1].list[item->tensors[1]].tensor;
	pair = (struct chunk_pair){ has_base ? worker->data[0] : NULL, worker->data[1], n,
				    chunk_element_size(tensor->dtype) };
	if (chunk_encode(&worker->coder, &pair, &row, err))
		return -1;
	return emit(maker, i, &row, worker->coder.frame, err);
}

static int make_item(void *context, int w, size_t i, struct err *err)
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

		if (chunk_coder_init(&worker->coder, err))
			return -1;
		for (int s = 0; s < 2; s++)
			if (buffer_alloc(&worker->data[s], CHUNK_SIZE, "a chunk", err))
				return -1;
	}
	return 0;
}

static int open_sides(struct delta_maker *maker, struct err *err)
{
	const struct delta_params *params = maker->params;
	const char *paths[2] = { params->base, params->result };

	for (int s = 0; s < 2; s++) {
		if (checkpoint_open(&maker->sides[s], params->io, paths[s], params->n_threads, err))
			return -1;
		source_init(&maker->sources[s], params->io, &maker->sides[s], NULL, -1);
		if (delta_check_layout(&maker->sides[s], err))
			return -1;
	}
	delta_pairs_make(&maker->pairs, maker->sides[0].tensors, maker->sides[0].n_tensors,
			 maker->sides[1].tensors, maker->sides[1].n_tensors,
			 maker->sides[1].n_shards);
	maker->counts->n_tensors = maker->sides[1].n_tensors;
	for (size_t i = 0; i < maker->sides[1].n_shards; i++)
		maker->counts->result_bytes += maker->sides[1].shards[i].file.identity.size;
	return 0;
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

static int make_all(struct delta_maker *maker, struct err *err)
{
	int rc;

	if (open_sides(maker, err) || workers_init(maker, err) || open_output(maker, err))
		return -1;
	progress_begin(maker->progress, PROGRESS_WORK, maker->pairs.bytes);
	rc = pool_run(maker->params->n_threads, maker->pairs.n_items, make_item, maker,
		      maker->progress->stop, err);
	for (int s = 0; s < 2; s++)
		rc = source_close(&maker->sources[s], rc, err);
	if (rc)
		return -1;
	delta_digest(&maker->pairs.sides[0], maker->counts->base);
	delta_digest(&maker->pairs.sides[1], maker->counts->result);
	return finish(maker, err);
}

int delta_make(const struct delta_params *params, struct delta_counts *counts,
	       struct progress *progress, struct err *err)
{
	struct delta_maker maker = { .params = params,
				     .counts = counts,
				     .progress = progress,
				     .last_tensor = NO_TENSOR,
				     .lock = PTHREAD_MUTEX_INITIALIZER,
				     .moved = PTHREAD_COND_INITIALIZER };
	int rc;

	*counts = (struct delta_counts){ 0 };
	rc = make_all(&maker, err);
	for (int i = 0; maker.workers && i < params->n_threads; i++) {
		chunk_coder_release(&maker.workers[i].coder);
		free(maker.workers[i].data[0]);
		free(maker.workers[i].data[1]);
	}
	free(maker.workers);
	writer_release(&maker.writer);
	outfile_close(&maker.out);
	delta_pairs_release(&maker.pairs);
	for (int s = 0; s < 2; s++) {
		if (maker.sources[s].checkpoint)
			source_release(&maker.sources[s]);
		checkpoint_release(&maker.sides[s]);
	}
	buf_release(&maker.pending);
	buf_release(&maker.table);
	return rc;
}
