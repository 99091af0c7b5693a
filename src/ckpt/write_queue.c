/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/write_queue.h"

#define WRITE_QUEUE_ALIGN 64 /* bytes: write_queue_take() returns memory aligned for any type */

static int write_pieces(struct write_queue *queue, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < queue->n_pieces; i++) {
		const struct write_queue_piece *piece = &queue->pieces[i];

		rc = writer_pwrite(queue->writer, piece->data, piece->n, piece->offset, err);
	}
	queue->n_pieces = 0;
	queue->used = 0;
	return rc;
}

int write_queue_flush(struct write_queue *queue, bool wait, struct err *err)
{
	int rc;

	if (queue->n_pieces == 0)
		return 0;
	if (!writer_takes_turns(queue->writer))
		return write_pieces(queue, err);
	if (wait)
		pthread_mutex_lock(&queue->writer->turn);
	else if (pthread_mutex_trylock(&queue->writer->turn))
		return 0;
	rc = write_pieces(queue, err);
	pthread_mutex_unlock(&queue->writer->turn);
	return rc;
}

void *write_queue_begin(struct write_queue *queue, size_t n, uint64_t offset, struct err *err)
{
	size_t phase = offset % WRITER_ALIGN;
	size_t at = (queue->used + WRITER_ALIGN - 1) / WRITER_ALIGN * WRITER_ALIGN + phase;

	if (at + n > queue->size || queue->n_pieces > WRITE_QUEUE_PIECES / 2) {
		if (write_queue_flush(queue, true, err))
			return NULL;
		at = phase;
	}
	queue->used = at + n;
	return queue->memory + at;
}

void *write_queue_take(struct write_queue *queue, size_t n)
{
	size_t at = (queue->used + WRITE_QUEUE_ALIGN - 1) / WRITE_QUEUE_ALIGN * WRITE_QUEUE_ALIGN;

	if (at > queue->size || n > queue->size - at)
		return NULL;
	queue->used = at + n;
	return queue->memory + at;
}

int write_queue_add(struct write_queue *queue, const void *data, size_t n, uint64_t offset,
		    struct err *err)
{
	const char *bytes = data;

	if (bytes < queue->memory || bytes >= queue->memory + queue->size ||
	    queue->n_pieces == WRITE_QUEUE_PIECES)
		return writer_pwrite(queue->writer, data, n, offset, err);
	queue->pieces[queue->n_pieces++] = (struct write_queue_piece){ bytes, n, offset };
	return 0;
}
