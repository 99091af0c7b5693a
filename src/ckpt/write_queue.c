/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/write_queue.h"

#define OUTBOX_ALIGN 64 /* bytes: what outbox_take() gives is good for any type */

static int write_pieces(struct outbox *box, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < box->n_pieces; i++) {
		const struct outbox_piece *piece = &box->pieces[i];

		rc = writer_pwrite(box->writer, piece->data, piece->n, piece->offset, err);
	}
	box->n_pieces = 0;
	box->used = 0;
	return rc;
}

static int write_in_turn(struct outbox *box, bool wait, struct err *err)
{
	int rc;

	if (box->n_pieces == 0)
		return 0;
	if (writer_is_direct(box->writer))
		return write_pieces(box, err);
	if (wait)
		pthread_mutex_lock(&box->writer->turn);
	else if (pthread_mutex_trylock(&box->writer->turn))
		return 0;
	rc = write_pieces(box, err);
	pthread_mutex_unlock(&box->writer->turn);
	return rc;
}

int outbox_try(struct outbox *box, struct err *err)
{
	return write_in_turn(box, false, err);
}

int outbox_flush(struct outbox *box, struct err *err)
{
	return write_in_turn(box, true, err);
}

void *outbox_begin(struct outbox *box, size_t n, uint64_t offset, struct err *err)
{
	size_t phase = offset % WRITER_ALIGN;
	size_t at = (box->used + WRITER_ALIGN - 1) / WRITER_ALIGN * WRITER_ALIGN + phase;

	if (at + n > box->size || box->n_pieces > OUTBOX_PIECES / 2) {
		if (outbox_flush(box, err))
			return NULL;
		at = phase;
	}
	box->used = at + n;
	return box->memory + at;
}

void *outbox_take(struct outbox *box, size_t n)
{
	size_t at = (box->used + OUTBOX_ALIGN - 1) / OUTBOX_ALIGN * OUTBOX_ALIGN;

	if (at > box->size || n > box->size - at)
		return NULL;
	box->used = at + n;
	return box->memory + at;
}

int outbox_add(struct outbox *box, const void *data, size_t n, uint64_t offset, struct err *err)
{
	const char *bytes = data;

	if (bytes < box->memory || bytes >= box->memory + box->size ||
	    box->n_pieces == OUTBOX_PIECES)
		return writer_pwrite(box->writer, data, n, offset, err);
	box->pieces[box->n_pieces++] = (struct outbox_piece){ bytes, n, offset };
	return 0;
}
