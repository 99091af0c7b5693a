/* SPDX-License-Identifier: Apache-2.0
 *
 * What one thread has ready for a file.  The kernel lets one buffered write into a file at a time
 * and has the others spin: a thread that finds another one writing goes on with its work, and
 * writes all it has when its turn comes.  Direct writes do not exclude each other.
 */
#ifndef FP8CONV_CKPT_WRITE_QUEUE_H
#define FP8CONV_CKPT_WRITE_QUEUE_H

#include "ckpt/writer.h"

#define OUTBOX_PIECES 64

struct outbox {
	struct writer *writer; /* the caller sets it for each file, while nothing waits */
	char *memory;	       /* aligned to WRITER_ALIGN */
	size_t size;
	size_t used;
	size_t n_pieces; /* that wait */
	struct outbox_piece {
		const char *data;
		size_t n;
		uint64_t offset;
	} pieces[OUTBOX_PIECES];
};

/* Memory for n bytes, n + WRITER_ALIGN <= size, which lies in its block as byte `offset` of the
 * file does.  Writes what waits if that is in the way; NULL if this fails. */
void *outbox_begin(struct outbox *box, size_t n, uint64_t offset, struct err *err);

/* Memory for n more bytes beside those of outbox_begin(); NULL if there is none left. */
void *outbox_take(struct outbox *box, size_t n);

/* n bytes for offset: they wait if they lie in the box, and are written at once if not. */
int outbox_add(struct outbox *box, const void *data, size_t n, uint64_t offset, struct err *err);

/* Writes what waits, unless another thread is writing. */
int outbox_try(struct outbox *box, struct err *err);

/* Writes what waits. */
int outbox_flush(struct outbox *box, struct err *err);

#endif
