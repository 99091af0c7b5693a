/* SPDX-License-Identifier: Apache-2.0
 *
 * What one thread has ready for a file.  The kernel lets one buffered write into a file at a time
 * and has the others spin: a thread that finds another one writing goes on with its work, and
 * writes all it has when its turn comes.  Direct writes do not exclude each other.
 */
#ifndef FP8CONV_CKPT_WRITE_QUEUE_H
#define FP8CONV_CKPT_WRITE_QUEUE_H

#include "ckpt/writer.h"

#define WRITE_QUEUE_PIECES 64

struct write_queue {
	struct writer *writer; /* the caller sets it for each file, while nothing waits */
	char *memory;	       /* aligned to WRITER_ALIGN */
	size_t size;
	size_t used;
	size_t n_pieces; /* that wait */
	struct write_queue_piece {
		const char *data;
		size_t n;
		uint64_t offset;
	} pieces[WRITE_QUEUE_PIECES];
};

/* Memory for n bytes, n + WRITER_ALIGN <= size, which lies in its block as byte `offset` of the
 * file does.  Writes what waits if that is in the way; NULL if this fails. */
void *write_queue_begin(struct write_queue *queue, size_t n, uint64_t offset, struct err *err);

/* Memory for n more bytes beside those of write_queue_begin(); NULL if there is none left. */
void *write_queue_take(struct write_queue *queue, size_t n);

/* n bytes for offset: they wait if they lie in the queue, and are written at once if not. */
int write_queue_add(struct write_queue *queue, const void *data, size_t n, uint64_t offset,
		    struct err *err);

/* Writes what waits, unless another thread is writing. */
int write_queue_try(struct write_queue *queue, struct err *err);

/* Writes what waits. */
int write_queue_flush(struct write_queue *queue, struct err *err);

#endif
