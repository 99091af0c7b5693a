/* SPDX-License-Identifier: Apache-2.0
 *
 * A running conversion: what the ways to write its output share.
 */
#ifndef FP8CONV_EXECUTE_EXECUTION_H
#define FP8CONV_EXECUTE_EXECUTION_H

#include "ckpt/outdir.h"
#include "execute/pipeline.h"

/* The state of execute_plan(). */
struct execution {
	const struct plan *plan;
	const struct convert_params *params;
	struct progress *progress;
	struct convert_result *result;
	struct pipeline *pipeline;
	struct outdir out;
	struct outdir part_lock; /* --part: the same directory, with a lock for this part */
	struct outdir preserve;
	json_t *identity;
	bool *done;	    /* by shard: finished as planned, and its file exists */
	uint32_t *plans;    /* by shard: resume_plan() */
	bool copied;	    /* an earlier run ended the job, and made the copies */
	struct store store; /* of compensated codes; zeroed: none */
	bool started;	    /* this run wrote the manifest */
};

/* Calls pipeline_shard(), and adds the shard to the result. */
int execution_shard(struct execution *execution, size_t i, struct writer *writer,
		    struct writer *preserved, struct err *err);

/* Returns the bytes of the shard's file. */
uint64_t output_shard_size(const struct output_shard *shard);

/* Calls writer_open() with the shard's header, for a name in dir. */
int output_shard_open(const struct output_shard *shard, struct writer *writer,
		      const struct outdir *dir, const char *name, struct err *err);

/* pipeline_shard() without a file, for the figures. */
int pipeline_shard_nowhere(struct pipeline *pipeline, size_t shard, struct err *err);

/* ERR_USAGE if directory/name (with directory NULL: name) is one of the source's files, by device
 * and inode. */
int output_check_not_input(const struct plan *plan, const char *directory, const char *name,
			   struct err *err);

/* Do two paths lead to one existing file or directory? */
bool directory_same_path(const char *a, const char *b);

/* Does an existing file or directory lie in a directory, at any depth, or is it that directory? */
bool directory_holds(const char *directory, const char *path);

#endif
