/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this folder: the steps of making a plan, then those of executing it.
 */
#ifndef FP8CONV_CONVERT_STEPS_H
#define FP8CONV_CONVERT_STEPS_H

#include <jansson.h>

#include "ckpt/outdir.h"
#include "convert/pipeline.h"
#include "convert/quantize.h"
#include "convert/repack.h"

/* Every plan: write_index.c. */

/* Checks that all names differ (else ERR_INPUT), and computes the index's size. */
int plan_index(struct plan *plan, struct err *err);

/* The plan of quantize: quantize_keep.c, quantize_outputs.c, quantize_identity.c. */

/* Finds the FP8 weights of the source that keep codes and scales: sets same_codes, and spec.pow2 to
 * what their scales are.  Reads the scales of those that may. */
int quantize_keep(struct plan *plan, const struct quantize_params *params, struct err *err);

/* Makes outputs, shards, layouts and totals, from the selection and its specs. */
int quantize_outputs(struct plan *plan, bool preserve, struct err *err);

/* Returns all options that decide the output's bytes, for the manifest. */
json_t *quantize_identity(const struct plan *plan, const struct quantize_params *params);

/* The recipe's numbers in that. */
json_t *quantize_spec_json(const struct qspec *spec);

/* quantize_sensitive.c: checks the options of --keep against each other. */
int quantize_check_keep(const struct keep_params *keep, struct err *err);

/* Keeps what --keep says, or gives it another recipe: fills plan.keep.  selection_settle() must
 * follow.  ERR_INPUT, ERR_USAGE for a table that cannot be read or does not fit the plan. */
int quantize_sensitive(struct plan *plan, const struct quantize_params *params,
		       const struct static_scales *scales, struct err *err);

/* quantize.c: returns the options of a selection by a recipe for all. */
struct select_options quantize_select_options(const struct plan *plan,
					      const struct quantize_params *params,
					      const struct recipe *recipe);

/* Makes the spec of a recipe that is not that of the job: of the tuning it gets only the FP8
 * format. */
int quantize_other_spec(const struct quantize_params *params, const struct recipe *recipe,
			struct qspec *spec, struct err *err);

/* Returns what the manifest says about that. */
json_t *quantize_keep_json(const struct plan *plan, const struct keep_params *keep);

/* compensated.c: plans compensated rounding where params ask for it; releases that plan; returns
 * what decides its codes, for the manifest. */
int compensated_plan(struct plan *plan, const struct quantize_params *params, struct err *err);
void compensated_release(struct plan *plan);
json_t *compensated_identity(const struct plan *plan);

/* Static scales of quantize: static_scales.c, static_scales_apply.c, static_scales_kv.c. */

/* Finds the site of a unit's module.  ERR_INPUT naming the module if there is none, or none with
 * passes. */
int static_scales_site(const struct static_scales *scales, const struct unit *unit,
		       const struct amax_site **site, struct err *err);

/* Computes the amax of one column over all passes.  ERR_INPUT if it is infinite. */
int static_scales_amax(const struct static_scales *scales, const struct amax_site *site, int column,
		       const struct qspec *spec, float *amax, struct err *err);

/* Fills plan.caches. */
int static_scales_kv(const struct static_scales *scales, struct plan *plan, struct err *err);

/* Did enough tokens reach the module? */
bool static_scales_covers(const struct static_scales *scales, const struct amax_site *site);

/* The plan of repack: repack_check.c, repack_outputs.c. */

/* Reads the scales of all blocks.  Those that become exponents must be powers of two (else
 * ERR_USAGE); for the others, spec.pow2 becomes whether all are. */
int repack_check_blocks(struct plan *plan, const struct io *io, struct err *err);

/* Makes outputs, shards, layouts and totals of units that have recipe and spec. */
int repack_outputs(struct plan *plan, const struct detection *detection, struct err *err);

/* Adds a scale of the source to the outputs of unit u under another name and shape, and in another
 * type if that differs.  change: its values or their number differ too.  ERR_USAGE if the format
 * has another number of elements. */
int repack_scale(struct plan *plan, size_t u, const struct tensor_ref *source,
		 struct scale_decl *decl, bool change, struct err *err);

/* The execution: convert.c. */

/* The state of convert_run(). */
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

/* exactness.c: converts all shards without writing.  ERR_INPUT if a value of a low-bit weight would
 * change. */
int execution_check_exact(struct execution *execution, struct err *err);

/* Returns the bytes of the shard's file. */
uint64_t output_shard_size(const struct output_shard *shard);

/* Do two paths lead to one existing file or directory? */
bool directory_same_path(const char *a, const char *b);

/* ERR_USAGE if directory/name (with directory NULL: name) is one of the source's files, by device
 * and inode. */
int output_check_not_input(const struct plan *plan, const char *directory, const char *name,
			   struct err *err);

/* Calls writer_open() with the shard's header, for a name in dir. */
int output_shard_open(const struct output_shard *shard, struct writer *writer,
		      const struct outdir *dir, const char *name, struct err *err);

/* The same without a file, for the checksum. */
int output_shard_open_nowhere(const struct output_shard *shard, struct writer *writer,
			      const struct io *io, struct err *err);

/* write_index.c: writes the index of n shards to dir. */
int output_index_put(const struct output_shard *shards, size_t n, const struct outdir *dir,
		     struct err *err);

/* directory.c: writes the output to a directory, and resumes where an earlier run stopped. */
int directory_run(struct execution *execution, struct err *err);

/* copies.c: removes the copies that a manifest records of files that are gone from the source. */
int copies_discard(const struct execution *execution, const json_t *manifest, struct err *err);

/* Copies the source's auxiliary files, unless an earlier run did. */
int copies_make(const struct execution *execution, struct err *err);

/* compensated.c: computes the codes, or finds those of an earlier run, before the first shard;
 * needed: there are shards to write.  Of several ranks, the leading one says whether they are
 * needed, and has the store. */
int compensated_run(struct execution *execution, bool needed, struct err *err);

/* ERR_USAGE on all ranks unless their plans are the same. */
int compensated_agree(const struct plan *plan, const struct group *group, struct err *err);

/* Records that codes which are those of the source are compensated there.  Called with the guard of
 * the manifest. */
int compensated_inherit(const struct execution *execution, struct err *err);

/* resume_plan.c: returns a checksum of what was planned for a shard. */
uint32_t resume_plan(const struct plan *plan, size_t shard);

/* resume.c: compares the manifest with this job, in the order of calls. */

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

/* Reads the manifest of the output directory, a new reference; NULL if there is none.  Clears
 * *err. */
int resume_manifest(const struct execution *execution, json_t **manifest, struct err *err);

/* Is shard i finished: recorded, and do its files exist? */
bool resume_shard_done(const struct execution *execution, const json_t *manifest, size_t i);

#endif
