/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of convert_run().
 */
#ifndef FP8CONV_CONVERT_CONVERT_INTERNAL_H
#define FP8CONV_CONVERT_CONVERT_INTERNAL_H

#include <jansson.h>

#include "ckpt/outdir.h"
#include "convert/pipeline.h"
#include "convert/convert.h"

#define LOCK_NAME  ".fp8conv.lock"
#define INDEX_NAME "model.safetensors.index.json"

/* convert_run() while it runs. */
struct execution {
	const struct plan *plan;
	const struct convert_params *params;
	struct progress *progress;
	struct convert_result *result;
	struct pipeline *pipeline;
	struct outdir out;
	struct outdir part_lock; /* --part: the same directory, a lock of the part's own */
	struct outdir preserve;
	json_t *identity;
	bool *done;   /* by shard: finished, and its file is there */
	bool started; /* this run wrote the manifest */
};

/* Bytes of the file. */
uint64_t output_shard_size(const struct output_shard *shard);

/* Whether two paths lead to one file or directory that exists. */
bool directory_same_path(const char *a, const char *b);

/* ERR_USAGE if directory/name (NULL: name is the path) is one of the source's files, by device and
 * inode. */
int output_check_not_input(const struct plan *plan, const char *directory, const char *name,
			   struct err *err);

/* writer_open() with the shard's header, under a name in dir. */
int output_shard_open(const struct output_shard *shard, struct writer *writer,
		      const struct outdir *dir, const char *name, struct err *err);

/* plan_index.c: the index of n shards, put into dir. */
int output_index_put(const struct output_shard *shards, size_t n, const struct outdir *dir,
		     struct err *err);

/* convert_directory.c: the output as a directory, resumed where it was left. */
int directory_run(struct execution *execution, struct err *err);

/* convert_resume.c: the manifest against this execution. */

/* What the job is, for the manifest. */
json_t *resume_identity(const struct execution *execution);

/* The manifest of the output directory, a new reference; NULL: there is none.  What err held
 * goes. */
int resume_manifest(const struct execution *execution, json_t **manifest, struct err *err);

/* Takes up the job that the output directory holds, or begins it.  *finished: there is nothing left
 * to do. */
int resume_take(struct execution *execution, bool *finished, struct err *err);

/* Reads the finished shards that are this run's to make: those that are not what was recorded are
 * to be made again. */
int resume_check_contents(struct execution *execution, struct err *err);

/* ERR_SYSTEM unless there is space for what this run has to write. */
int resume_check_space(struct execution *execution, struct err *err);

/* Whether shard i is finished: recorded, and its files are there. */
bool resume_shard_done(const struct execution *execution, const json_t *manifest, size_t i);

/* Whether this run is to make shard i: --part I/N. */
bool resume_has_shard(const struct execution *execution, size_t i);

#endif
