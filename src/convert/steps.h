/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: the steps of making a plan, then those of executing it.
 */
#ifndef FP8CONV_CONVERT_STEPS_H
#define FP8CONV_CONVERT_STEPS_H

#include <jansson.h>

#include "ckpt/outdir.h"
#include "convert/pipeline.h"
#include "convert/quantize.h"
#include "convert/repack.h"

/* Every plan: write_index.c. */

/* Whether all names differ, and the index's size.  ERR_INPUT: two outputs of one name. */
int plan_index(struct plan *plan, struct err *err);

/* The plan of quantize: quantize_outputs.c, quantize_identity.c. */

/* Outputs, shards, layouts and totals, from the selection and its specs. */
int quantize_outputs(struct plan *plan, bool preserve, struct err *err);

/* All that decides the output's bytes, for the manifest. */
json_t *quantize_identity(const struct plan *plan, const struct quantize_params *params);

/* Static scales of quantize: static_scales.c, static_scales_apply.c, static_scales_kv.c. */

/* The site of a unit's module.  ERR_INPUT naming it if there is none, or one without passes. */
int static_scales_site(const struct static_scales *scales, const struct unit *unit,
		       const struct amax_site **site, struct err *err);

/* The amax of one column that stands for all passes.  ERR_INPUT: it is infinite. */
int static_scales_amax(const struct static_scales *scales, const struct amax_site *site, int column,
		       const struct qspec *spec, float *amax, struct err *err);

/* Fills plan.caches. */
int static_scales_kv(const struct static_scales *scales, struct plan *plan, struct err *err);

/* Whether enough tokens reached the module. */
bool static_scales_covers(const struct static_scales *scales, const struct amax_site *site);

/* The plan of repack: repack_check.c, repack_outputs.c. */

/* Reads the scales of all blocks: those that become exponents must be powers of two (ERR_USAGE),
 * and spec.pow2 of the others says whether they all are. */
int repack_check_blocks(struct plan *plan, const struct io *io, struct err *err);

/* Outputs, shards, layouts and totals of units that have recipe and spec. */
int repack_outputs(struct plan *plan, const struct detection *detection, struct err *err);

/* The execution: convert.c. */

#define LOCK_NAME ".fp8conv.lock"

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

/* pipeline_shard(), counted in the result. */
int execution_shard(struct execution *execution, size_t i, struct writer *writer,
		    struct writer *preserved, struct err *err);

/* Bytes of the file. */
uint64_t output_shard_size(const struct output_shard *shard);

/* Whether two paths lead to one file or directory that exists. */
bool directory_same_path(const char *a, const char *b);

/* ERR_USAGE if directory/name (directory NULL: name is the path) is one of the source's files, by
 * device and inode. */
int output_check_not_input(const struct plan *plan, const char *directory, const char *name,
			   struct err *err);

/* writer_open() with the shard's header, under a name in dir. */
int output_shard_open(const struct output_shard *shard, struct writer *writer,
		      const struct outdir *dir, const char *name, struct err *err);

/* The same, of which nothing is written: for its checksum. */
int output_shard_open_nowhere(const struct output_shard *shard, struct writer *writer,
			      const struct io *io, struct err *err);

/* write_index.c: the index of n shards, put into dir. */
int output_index_put(const struct output_shard *shards, size_t n, const struct outdir *dir,
		     struct err *err);

/* directory.c: the output as a directory, resumed where it was left. */
int directory_run(struct execution *execution, struct err *err);

/* resume.c: the manifest against this job, in the order of calls. */

/* What the job is, for the manifest.  NULL with *err set. */
json_t *resume_identity(const struct execution *execution, struct err *err);

/* Continues the job that the output directory holds, or begins it.  *finished: nothing is left to
 * do. */
int resume_take(struct execution *execution, bool *finished, struct err *err);

/* resume_source.c: converts the source of finished shards anew, without writing, and compares
 * checksums; then the manifest takes over times and inodes.  ERR_USAGE: the shards were made of
 * other contents, or --part is given, where contents are not compared. */
int resume_check_source(const struct execution *execution, json_t *manifest,
			const struct input_change *change, struct err *err);

/* Reads the finished shards that are this run's to make.  Those that differ from their record are
 * to be made again. */
int resume_check_contents(struct execution *execution, struct err *err);

/* ERR_SYSTEM unless there is space for what this run has to write. */
int resume_check_space(struct execution *execution, struct err *err);

/* Whether this run is to make shard i: --part I/N. */
bool resume_has_shard(const struct execution *execution, size_t i);

/* The manifest of the output directory, a new reference; NULL: there is none.  Clears *err. */
int resume_manifest(const struct execution *execution, json_t **manifest, struct err *err);

/* Whether shard i is finished: recorded, and its files are there. */
bool resume_shard_done(const struct execution *execution, const json_t *manifest, size_t i);

#endif
