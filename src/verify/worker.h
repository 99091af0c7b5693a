/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts of the weights, and the memory of the workers that read them: --max-memory bounds it.
 */
#ifndef FP8CONV_VERIFY_WORKER_H
#define FP8CONV_VERIFY_WORKER_H

#include "source/cut.h"

struct verify;

/* One worker's memory for one cut, whose weight is an index in verify.weights. */
struct verify_worker {
	void *memory;	       /* all of the following */
	uint8_t *codes;	       /* of the cut */
	uint8_t *expected;     /* codes that an arithmetic makes of the source */
	char *expected_scales; /* and its scales */
	struct source_buffers source;
};

/* Adds the cuts of all weights that can be read, in their order. */
void verify_cut(const struct verify *verify, struct cuts *cuts);

/* One for each thread, in *workers.  ERR_USAGE where --max-memory is too little for a row of tiles;
 * to be freed after an error too. */
int verify_workers_new(struct verify_worker **workers, const struct verify *verify,
		       struct err *err);
void verify_workers_free(struct verify_worker *workers, int n_workers);

#endif
