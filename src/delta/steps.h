/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of delta_apply().  Nothing of the output changes before the last one:
 *
 *     apply_compute()  reads the base, hashes it and what comes out, and writes weight files that
 *                      are new or laid out otherwise to the staging directory
 *     stage_files()    the other files likewise; then the journal
 *     stage_finish()   patches weight files in place, renames the others, removes the staging
 *                      directory; it can be repeated, because bytes are absolute
 */
#ifndef FP8CONV_DELTA_STEPS_H
#define FP8CONV_DELTA_STEPS_H

#include "ckpt/outdir.h"
#include "ckpt/writer.h"
#include "delta/delta.h"
#include "delta/files.h"
#include "delta/tensors.h"

#define STAGE_NAME ".fp8conv-apply" /* in the output: the staging directory */

struct apply_worker {
	struct chunk_coder coder;
	char *data[2]; /* each CHUNK_SIZE, and a block to be aligned like the file */
};

struct delta_job {
	const struct delta_params *params;
	struct progress *progress;
	struct delta_file delta;
	struct apply_worker *workers;
	struct outdir out, stage;
	bool *patched; /* by weight file: it is in the base as it is, and gets its changes there */

	/* of apply_compute(); zeroed where the journal says that it is done */
	struct delta_checkpoint base;
	struct delta_pairs pairs;
	const struct chunk_row **rows; /* by item; NULL: no change */
	atomic_bool unbased;	       /* a chunk needs a tensor that the base has not */
	char digests[2][SHA256_HEX];   /* of the base and of what comes out */
	struct writer *writer;	       /* of the current weight file, or NULL */
	const struct st_file *file;    /* the current weight file */
};

/* ERR_INPUT where the base is another one. */
int apply_compute(struct delta_job *job, struct err *err);

/* Is there the result already at path: tensors, files and all?  Before apply_compute(). */
int apply_look(struct delta_job *job, const char *path, bool *is, struct err *err);

/* Reads the row's frame, and changes the n bytes of its chunk. */
int apply_row(struct delta_job *job, struct apply_worker *worker, const struct chunk_row *row,
	      void *data, size_t n, struct err *err);

/* Opens the staging directory, an empty one unless it has a journal: *resumes.  *already: the
 * output is the result.  ERR_USAGE where the journal is of another delta, or the output something
 * else. */
int stage_open(struct delta_job *job, bool *resumes, bool *already, struct err *err);
int stage_files(struct delta_job *job, struct err *err);
int stage_finish(struct delta_job *job, struct err *err);

/* Removes what a failed run has staged. */
void stage_discard(struct delta_job *job);

#endif
