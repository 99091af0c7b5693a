/* SPDX-License-Identifier: Apache-2.0
 *
 * Resuming a conversion: what the output directory contains (nothing, this job unfinished, or files
 * of others, which stay untouched), and which shards need not be written again.
 */
#ifndef FP8CONV_EXECUTE_RESUME_H
#define FP8CONV_EXECUTE_RESUME_H

#include "execute/execution.h"

/* Returns the identity of the job for the manifest; NULL with *err set. */
json_t *resume_identity(const struct execution *execution, struct err *err);

/* Resumes the job in the output directory, or begins it.  *finished: nothing is left to do. */
int resume_take(struct execution *execution, bool *finished, struct err *err);

/* Reads the finished shards of this run.  Those that differ from their record will be made
 * again. */
int resume_check_contents(struct execution *execution, struct err *err);

/* ERR_SYSTEM unless there is space for all that this run writes. */
int resume_check_space(struct execution *execution, struct err *err);

/* Does this run make shard i (--part I/N)? */
bool resume_has_shard(const struct execution *execution, size_t i);

/* Is shard i finished: recorded, and do its files exist? */
bool resume_shard_done(const struct execution *execution, const json_t *manifest, size_t i);

/* Returns a checksum of all that decides the bytes of a shard, besides the options of the job and
 * the values of its weights. */
uint32_t resume_plan(const struct plan *plan, size_t shard);

#endif
