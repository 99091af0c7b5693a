/* SPDX-License-Identifier: Apache-2.0
 *
 * The finished pieces of one thread for a file.  The kernel lets one buffered write into a file at
 * a time, and other writers spin.  So a thread that finds another one writing goes on with its
 * work, and writes all its pieces when it gets its turn.  Direct writes do not exclude each other.
 *
 * Order, for each file: set writer; write_queue_begin(), write_queue_take(), write_queue_add() for
 * each piece, with write_queue_flush() between pieces, and at the end.
 */
#ifndef FP8CONV_CKPT_WRITE_QUEUE_H
#define FP8CONV_CKPT_WRITE_QUEUE_H

#include "ckpt/writer.h"

#define WRITE_QUEUE_PIECES 64

struct write_queue {
	struct writer *writer; /* set by the caller for each file, while no piece waits */
	char *memory;	       /* aligned to WRITER_ALIGN */
	size_t size;
	size_t used;
	size_t n_pieces; /* pieces that wait to be written */
	struct write_queue_piece {
		const char *data;
		size_t n;
		uint64_t offset;
	} pieces[WRITE_QUEUE_PIECES];
};

/* Returns memory for n bytes, n + WRITER_ALIGN <= size, with the alignment of byte `offset` of the
 * file in its block.  Writes the waiting pieces if their memory is needed; NULL if that fails. */
void *write_queue_begin(struct write_queue *queue, size_t n, uint64_t offset, struct err *err);

/* Returns memory for n more bytes behind write_queue_begin()'s; NULL if there is no room. */
void *write_queue_take(struct write_queue *queue, size_t n);

/* Adds n bytes for offset: they wait if they lie in the queue's memory, else they are written at
 * once. */
int write_queue_add(struct write_queue *queue, const void *data, size_t n, uint64_t offset,
		    struct err *err);

/* Writes the waiting pieces; wait false: unless another thread is writing. */
int write_queue_flush(struct write_queue *queue, bool wait, struct err *err);

#endif
