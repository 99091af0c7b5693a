/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts of the weights, and the memory of the workers that read them, which --max-memory bounds.
 *
 * Order: verify_cut(); verify_workers_new(); the readings (values.c); verify_workers_free().
 */
#ifndef FP8CONV_VERIFY_VALUES_WORKER_H
#define FP8CONV_VERIFY_VALUES_WORKER_H

#include "source/cut.h"

struct verify;

/* The memory of one worker for one cut. */
struct verify_worker {
	void *memory;	       /* the block that has all of the following */
	uint8_t *codes;	       /* of the cut */
	uint8_t *expected;     /* codes that an arithmetic makes from the source */
	char *expected_scales; /* scales that it makes */
	struct source_buffers source;
};

/* Adds the cuts of all weights that can be read, in the order of verify->weights. */
void verify_cut(const struct verify *verify, struct cuts *cuts);

/* Returns the bytes of verify_worker.codes that every worker has: those of a cut, unless a row of
 * tiles is larger. */
uint64_t verify_worker_bytes(const struct verify *verify);

/* Sets *workers to an array with one worker for each thread, which the caller frees, also on
 * failure.  ERR_USAGE where --max-memory is too small for a row of tiles. */
int verify_workers_new(struct verify_worker **workers, const struct verify *verify,
		       struct err *err);
void verify_workers_free(struct verify_worker *workers, int n_workers);

#endif
