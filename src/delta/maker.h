/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a delta in one pass: changes chunk by chunk, in the order of the result's files; then the
 * table of the chunks, headers and files; and the header of the file itself, whose room is kept.
 * The result's chunks are the caller's, who reads or computes them.
 *
 * Order: maker_open(); set chunk and context; maker_begin(); maker_item() once for each of
 * pairs.items, from any thread; maker_finish(); maker_release(), also after a failure.
 */
#ifndef FP8CONV_DELTA_MAKER_H
#define FP8CONV_DELTA_MAKER_H

#include <pthread.h>

#include "ckpt/outdir.h"
#include "ckpt/writer.h"
#include "delta/delta.h"
#include "delta/files.h"
#include "delta/held.h"
#include "delta/tensors.h"

struct maker_worker {
	struct chunk_coder coder;
	void *data; /* a chunk of the base */
};

/* What a worker has at a time, in bytes: the coder's memory, that of zstd and a chunk. */
#define MAKER_WORKER_MEMORY ((uint64_t)18 << 20)

/* Sets *data to the item's chunk of the result, which stays the caller's until the next call of
 * worker w. */
typedef int maker_chunk_fn(void *context, int w, size_t item, const void **data, struct err *err);

/* What becomes of an item before its turn: items that begin in the order of the list may wait; in
 * any other order, what changed is held in a file. */
enum maker_order { MAKER_WAITS, MAKER_HOLDS };

struct delta_maker {
	const struct delta_params *params;
	struct progress *progress;
	struct delta_counts *counts;
	maker_chunk_fn *chunk;
	void *context; /* of chunk() */
	struct delta_checkpoint base;
	struct delta_pairs pairs;
	struct maker_worker *workers; /* (params->n_threads) */
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
	struct held_chunks held; /* zeroed: MAKER_WAITS */
	bool failed;
};

/* Opens the base.  ERR_INPUT, ERR_USAGE. */
int maker_open(struct delta_maker *maker, const struct delta_params *params,
	       struct progress *progress, struct delta_counts *counts, struct err *err);

/* Pairs the base with the n tensors of the result, which lie in n_shards files and stay the
 * caller's, and opens the file to write.  ERR_USAGE where that is another file. */
int maker_begin(struct delta_maker *maker, const struct tensor_ref *result, size_t n,
		size_t n_shards, enum maker_order order, struct err *err);

/* Compares an item; a pool_fn for a maker.  A chunk that is the same on both sides is hashed
 * once. */
int maker_item(void *maker, int w, size_t item, struct err *err);

/* Ends the file with the headers and other files of the result. */
int maker_finish(struct delta_maker *maker, const struct delta_result *result, struct err *err);
void maker_release(struct delta_maker *maker);

#endif
