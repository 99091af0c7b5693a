/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv-manifest.json in an output directory: the identity of the job (version, options, input
 * files), its finished shards, and at the end that all are finished.  A rerun makes the missing
 * shards; another job is refused.
 *
 *     { "tool": "fp8conv", "version": "1.2.3", "command": "quantize",
 *       "options": { "recipe": "blockwise", ... },
 *       "inputs": [ { "name", "size", "mtime", "header_crc32", "state" [, "sha256"] },  weights
 *                   { "name", "size", "sha256" } ],                             all other files
 *       "shards": [ { "name", "size", "plan", "crc32" [, "preserved_crc32"] } ],  finished ones
 *       "finished": false [, "files": [ { "name", "size", "sha256" } ]] }
 *
 * "state" is a checksum of inode and change time; "plan" one of what was planned for the shard.
 *
 * Order: manifest_load(); then manifest_check() or manifest_start(); manifest_add_shard() for each
 * shard; manifest_finish().
 */
#ifndef FP8CONV_CKPT_MANIFEST_H
#define FP8CONV_CKPT_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/progress.h"
#include "ckpt/checkpoint.h"
#include "ckpt/outdir.h"

#define MANIFEST_NAME	       "fp8conv-manifest.json"
#define MANIFEST_LIMIT	       (256 << 20) /* bytes: a million shards */
#define MANIFEST_PLAN	       "plan"
#define MANIFEST_CRC	       "crc32"
#define MANIFEST_PRESERVED_CRC "preserved_crc32"

/* A finished shard. */
struct shard_record {
	const char *name;
	uint64_t size; /* bytes */
	uint32_t plan; /* checksum of what was planned for it */
	uint32_t crc;  /* CRC-32, zlib's */
	bool has_preserved;
	uint32_t preserved_crc; /* of the shard of preserved tensors */
};

/* Returns the records of the source's files, a new array; reads those that are not weights.  NULL
 * with *err set where that fails.  progress->stop may end it. */
json_t *manifest_inputs(const struct checkpoint *source, struct progress *progress,
			struct err *err);

/* Is it a record of weights? */
bool manifest_is_weights(const json_t *input);

/* Returns the record of a file that is not weights, or NULL. */
const json_t *manifest_input(const json_t *inputs, const char *name);

/* Returns the identity of the job, a new object: a rerun must have an equal one.  options is an
 * object of all options that decide the output's bytes; this function consumes it, and inputs. */
json_t *manifest_job(const char *version, const char *command, json_t *options, json_t *inputs);

/* Reads the manifest beside a checkpoint, a new reference, with checked values.  *manifest becomes
 * NULL where there is none; ERR_INPUT where it cannot be understood, ERR_SYSTEM where it cannot be
 * read. */
int manifest_read(json_t **manifest, const struct checkpoint *checkpoint, struct err *err);

/* Checks the type and the range of each member that readers use; the message names the member.
 * ERR_INPUT. */
int manifest_values_check(const json_t *manifest, struct err *err);

/* Does it say that codes compensate each other's errors, and are not the nearest? */
bool manifest_is_compensated(const json_t *manifest);

/* Sets *manifest to the one in dir, a new reference, or to NULL if there is none.  Fails if it
 * cannot be read. */
int manifest_load(json_t **manifest, const struct outdir *dir, struct err *err);

/* Returns 0 if a manifest is of this job, else ERR_USAGE that names the difference.
 *
 * Weights are the recorded ones if size, modification time and header are equal: chmod, ln and
 * copies that keep times change none of them.  But archives give all files one time in whole
 * seconds: such a time proves something only together with the same inode and change time. */
int manifest_check(const json_t *manifest, const json_t *job, const struct outdir *dir,
		   struct err *err);

/* Returns the first member in which two objects of options differ, hashes last; NULL: they are
 * equal, or no objects. */
const char *manifest_option_that_differs(const json_t *was, const json_t *is);

/* The part of manifest_check() that compares inputs; directory is for messages. */
int manifest_inputs_compare(const json_t *was, const json_t *is, const char *directory,
			    struct err *err);

/* Writes a copy of the job, without finished shards, to dir. */
int manifest_start(const json_t *job, const struct outdir *dir, struct err *err);

/* Is the shard recorded as finished? */
bool manifest_has_shard(const json_t *manifest, const char *name);

/* Does the record of a finished shard have this CRC?  member: MANIFEST_PLAN, of
 * what was planned, MANIFEST_CRC or MANIFEST_PRESERVED_CRC. */
bool manifest_same_crc(const json_t *manifest, const char *name, const char *member, uint32_t crc);

/* Is the job recorded as finished, and with hashes, do its files have SHA-256 sums? */
bool manifest_finished(const json_t *manifest, bool hashes);

/* Records that the job is not finished, because a shard is missing; changes nothing if it was
 * not. */
int manifest_reopen(json_t *manifest, const struct outdir *dir, struct err *err);

/* Adds a finished shard to the manifest in dir, atomically, also with other parts of the job. */
int manifest_add_shard(const struct outdir *dir, const struct shard_record *shard, struct err *err);

/* Sets a member of the manifest in dir; consumes the value. */
int manifest_add_member(const struct outdir *dir, const char *key, json_t *value, struct err *err);

/* Records size and SHA-256 of n files that were added to a finished output, if the manifest in dir
 * has them for all files. */
int manifest_add_files(const struct outdir *dir, const char *const *names, size_t n,
		       struct progress *progress, struct err *err);

/* Is it a path that "files" does not list: hidden, a link, the manifest or its signature? */
bool manifest_leaves_out(const char *path, mode_t type);

/* Returns the text of the manifest of a finished job with these n shards, which are sorted by name;
 * the caller frees it. */
char *manifest_text(const json_t *job, const struct shard_record *shards, size_t n);

/* Writes the manifest. */
int manifest_save(const json_t *manifest, const struct outdir *dir, struct err *err);

/* Marks the job finished, with the inputs of `job`.  With hashes, reads every file of weights and
 * every output file and records its SHA-256.  progress counts the bytes (PROGRESS_HASH) and may end
 * it: ERR_INTERRUPTED. */
int manifest_finish(const struct outdir *dir, const json_t *job, const struct checkpoint *source,
		    bool hashes, struct progress *progress, struct err *err);

#endif
