/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv-manifest.json in an output directory: the identity of the job (version, options, input
 * files), its finished shards, and at the end that all are finished.  A rerun makes the missing
 * shards; another job is refused.
 *
 *     { "tool": "fp8conv", "version": "0.1.0", "command": "quantize",
 *       "options": { "recipe": "blockwise", ... },
 *       "inputs": [ { "name", "size", "mtime", "ctime", "inode" [, "sha256"] } ],
 *       "shards": [ { "name", "size", "crc32" [, "preserved_crc32"] } ],  finished ones, by name
 *       "finished": false [, "files": [ { "name", "size", "sha256" } ]] }
 *       "finished": false [, "files": [ { "name", "size", "sha256" } ]] }
 *
 * Order: manifest_load(); then manifest_check() and manifest_update_inputs(), or manifest_start();
 * manifest_add_shard() for each shard; manifest_finish().
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
#define MANIFEST_CRC	       "crc32"
#define MANIFEST_PRESERVED_CRC "preserved_crc32"

/* A finished shard. */
struct shard_record {
	const char *name;
	uint64_t size; /* bytes */
	uint32_t crc;  /* CRC-32, zlib's */
	bool has_preserved;
	uint32_t preserved_crc; /* of the shard of preserved tensors */
};

/* Returns the identity of the job, a new object: a rerun must have an equal one.  options is an
 * object of all options that decide the output's bytes; this function consumes it. */
json_t *manifest_job(const char *version, const char *command, json_t *options,
		     const struct checkpoint *source);

/* Returns the manifest in dir, a new reference.  Returns NULL with *err unchanged if there is none,
 * or with *err set if it cannot be read. */
json_t *manifest_load(const struct outdir *dir, struct err *err);

/* An input file of the recorded size whose contents may have changed. */
struct input_change {
	const char *name; /* as in the job; NULL: no file may have changed */
	const char *what; /* the difference, for messages */
};

/* Returns 0 if a manifest is of this job, else ERR_USAGE that names the difference.
 *
 * An input file is the recorded one if size and modification time are equal; inode and change time
 * may differ, because chmod, ln and copies that keep times change them.  But archives give all
 * files one time in whole seconds, so such a time proves nothing.  *change becomes the first file
 * without a proof: the caller compares its contents. */
int manifest_check(const json_t *manifest, const json_t *job, const struct outdir *dir,
		   struct input_change *change, struct err *err);

/* Writes a copy of the job, without finished shards, to dir. */
int manifest_start(const json_t *job, const struct outdir *dir, struct err *err);

/* Is the shard recorded as finished? */
bool manifest_has_shard(const json_t *manifest, const char *name);

/* Does the record of a finished shard have this CRC?  member: MANIFEST_CRC or
 * MANIFEST_PRESERVED_CRC. */
bool manifest_same_crc(const json_t *manifest, const char *name, const char *member, uint32_t crc);

/* Is the job recorded as finished, and with hashes, do its files have SHA-256 sums? */
bool manifest_finished(const json_t *manifest, bool hashes);

/* Records that the job is not finished, because a shard is missing; changes nothing if it was
 * not. */
int manifest_reopen(json_t *manifest, const struct outdir *dir, struct err *err);

/* Removes the record of a finished shard from the manifest, not from the file. */
void manifest_drop_shard(json_t *manifest, const char *name);

/* Replaces the recorded input files by the job's, and records that the job is not finished.  The
 * recorded shards must be what the job's input files make. */
int manifest_renew_inputs(json_t *manifest, const json_t *job, const struct outdir *dir,
			  struct err *err);

/* Adds a finished shard to the manifest in dir, atomically, also with other parts of the job. */
int manifest_add_shard(const struct outdir *dir, const struct shard_record *shard, struct err *err);

/* Marks the job finished.  With hashes, reads every input and output file and records its SHA-256.
 * progress counts the bytes (PROGRESS_HASH) and may end it: ERR_INTERRUPTED. */
int manifest_finish(const struct outdir *dir, const struct checkpoint *source, bool hashes,
		    struct progress *progress, struct err *err);

#endif
