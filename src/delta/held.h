/* SPDX-License-Identifier: Apache-2.0
 *
 * What changed in chunks that came before their turn: the frames wait in a file without a name, so
 * that memory does not depend on how much changed.
 */
#ifndef FP8CONV_DELTA_HELD_H
#define FP8CONV_DELTA_HELD_H

#include "ckpt/outdir.h"
#include "delta/chunk.h"

struct held_chunk {
	bool is;
	struct chunk_row row; /* count 0: nothing changed, and no frame */
	uint64_t offset;      /* of its frame in the file */
};

/* Begins zeroed. */
struct held_chunks {
	const struct outdir *dir;
	char *name, *path; /* of the file while it had one */
	struct file file;
	uint64_t size;
	struct held_chunk *list; /* by item */
	void *frame;		 /* (CHUNK_FRAME_MAX) */
};

/* Begins with none of n items; dir, and the name of the file to write in it, are where the frames
 * go. */
int held_init(struct held_chunks *held, const struct outdir *dir, const char *name, size_t n,
	      struct err *err);

/* Keeps a row and its frame.  ERR_SYSTEM. */
int held_put(struct held_chunks *held, size_t i, const struct chunk_row *row, const void *frame,
	     struct err *err);

/* Reads the frame of an item that is held to held->frame. */
int held_get(struct held_chunks *held, size_t i, struct err *err);
void held_release(struct held_chunks *held);

#endif
