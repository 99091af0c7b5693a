/* SPDX-License-Identifier: Apache-2.0
 *
 * The codes that compensated rounding has computed, in the output directory until the shards are
 * written: a file for each stage (a layer, or the head) with the codes of its units for each rho,
 * and a record of the files that are whole.  Shards have another order than layers, and the rho
 * that wins is known after the last layer.
 *
 * Order: store_open(); for each stage store_begin(), store_write() from any thread, store_commit();
 * store_choose(); store_read() from any thread; store_close(); store_remove().
 */
#ifndef FP8CONV_COMPENSATE_STORE_H
#define FP8CONV_COMPENSATE_STORE_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/progress.h"
#include "ckpt/outdir.h"
#include "ckpt/writer.h"

#define STORE_RHOS 3 /* at most */

/* The place of a unit's codes. */
struct store_place {
	uint32_t stage;	 /* STORE_NONE: not in the store */
	uint64_t offset; /* of its first code, among its stage's codes */
};

#define STORE_NONE UINT32_MAX

/* What became of the matrices of a stage with one rho. */
struct store_counts {
	uint64_t n_few;	   /* were rounded to nearest, because too few tokens reach them */
	uint64_t n_raised; /* had a pivot that was not positive, and got a larger rho */
};

/* The choice of a rho. */
struct store_outcome {
	bool is_nearest; /* none is better than rounding to nearest, which is kept */
	size_t rho;	 /* index of the chosen one */
	bool measured;	 /* the next three are known: nats on the held-out sequences */
	double nearest_kld;
	double kld[STORE_RHOS];
	double se[STORE_RHOS];	    /* of kld - nearest_kld */
	struct store_counts counts; /* of the chosen rho, over all stages; store_choose() sets it */
};

/* What a store holds; it keeps n_codes. */
struct store_shape {
	const char *job; /* identifies all that decides the codes */
	size_t n_stages;
	const uint64_t *n_codes; /* by stage */
	size_t n_rhos;
};

/* A zeroed struct is safe to close. */
struct store {
	const struct outdir *dir; /* NULL: not open */
	struct store_shape shape;
	json_t *record;
	pthread_mutex_t lock; /* of fds */
	int *fds;	      /* by stage; -1: not open */
	bool has_outcome;
	struct store_outcome outcome;
};

/* Codes of a stage. */
struct store_span {
	size_t stage, rho;
	uint64_t offset;
	size_t n;
};

/* Opens the store in a directory.  Removes the files of another job; forgets those that differ from
 * their checksums. */
int store_open(struct store *store, const struct outdir *dir, const struct store_shape *shape,
	       struct progress *progress, struct err *err);
void store_close(struct store *store);

/* Is the file of the stage whole?  Returns how many are. */
bool store_has(const struct store *store, size_t stage);
size_t store_count(const struct store *store);

/* Write the file of a stage: begin, write all its codes with every rho, commit.  store_write() is
 * thread-safe; the caller releases the writer. */
int store_begin(const struct store *store, size_t stage, struct writer *writer, struct err *err);
int store_write(const struct store *store, struct writer *writer, const struct store_span *span,
		const uint8_t *codes, struct err *err);
int store_commit(struct store *store, size_t stage, struct writer *writer,
		 const struct store_counts *counts, struct err *err);

/* Records the outcome. */
int store_choose(struct store *store, const struct store_outcome *outcome, struct err *err);

/* Reads codes; thread-safe. */
int store_read(struct store *store, const struct store_span *span, uint8_t *codes, struct err *err);

/* Removes the store in a directory, whichever job wrote it. */
int store_remove(const struct outdir *dir, struct err *err);

#endif
