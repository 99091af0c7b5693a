/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv-manifest.json in an output directory: which job this is (tool version, options, input
 * files), which of its shards are finished, and at the end that all is.  A rerun does what is
 * missing; another job is refused.
 *
 *     { "tool": "fp8conv", "version": "0.1.0", "command": "quantize",
 *       "options": { "recipe": "blockwise", ... },
 *       "inputs": [ { "name", "size", "mtime", "ctime", "inode" [, "sha256"] } ],
 *       "shards": [ { "name", "size", "crc32" [, "preserved_crc32"] } ],  finished ones, by name
 *       "finished": false [, "files": [ { "name", "size", "sha256" } ]] }
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
#define MANIFEST_CRC	       "crc32"
#define MANIFEST_PRESERVED_CRC "preserved_crc32"

/* A finished shard. */
struct shard_record {
	const char *name;
	uint64_t size; /* bytes */
	uint32_t crc;  /* CRC-32, zlib's */
	bool has_preserved;
	uint32_t preserved_crc; /* of the shard of what was preserved */
};

/* The job's identity, a new object: what must be equal for a rerun to go on.  options is an object
 * of what decides the output's bytes; it is consumed. */
json_t *manifest_job(const char *version, const char *command, json_t *options,
		     const struct checkpoint *source);

/* The manifest in dir, a new reference, or NULL: there is none (*err untouched), or it cannot be
 * read (*err set). */
json_t *manifest_load(const struct outdir *dir, struct err *err);

/* An input file of the recorded size that may hold other contents now. */
struct input_change {
	const char *name; /* the job's; NULL: there is no such file */
	const char *what; /* what differs */
};

/* Whether a manifest is of this job; ERR_USAGE naming what differs.
 *
 * An input file is the recorded one if size and modification time are, whatever its inode and
 * change time: chmod, ln and copies that keep times change those.  But archives give one time, in
 * whole seconds, to all files: such a time is no evidence.  *change is the first file without it:
 * only its contents can tell. */
int manifest_check(const json_t *manifest, const json_t *job, const struct outdir *dir,
		   struct input_change *change, struct err *err);

/* Records times and inodes of the job's input files, which hold what the recorded ones held. */
int manifest_update_inputs(json_t *manifest, const json_t *job, const struct outdir *dir,
			   struct err *err);

/* A copy of the job with no shard finished, written to dir. */
int manifest_start(const json_t *job, const struct outdir *dir, struct err *err);

bool manifest_has_shard(const json_t *manifest, const char *name);

/* Whether the record of a finished shard has this CRC; member: MANIFEST_CRC or
 * MANIFEST_PRESERVED_CRC. */
bool manifest_same_crc(const json_t *manifest, const char *name, const char *member, uint32_t crc);

/* Whether all is done; with hashes: they too. */
bool manifest_finished(const json_t *manifest, bool hashes);

/* Takes back that all is done, if it says so: a shard is missing. */
int manifest_reopen(json_t *manifest, const struct outdir *dir, struct err *err);

/* Adds a finished shard to the manifest in dir, atomically, also against other parts of the job. */
int manifest_add_shard(const struct outdir *dir, const struct shard_record *shard, struct err *err);

/* Marks the job finished.  With hashes, reads every input and output file and records its SHA-256;
 * progress counts them (PROGRESS_HASH) and may end that. */
int manifest_finish(const struct outdir *dir, const struct checkpoint *source, bool hashes,
		    struct progress *progress, struct err *err);

#endif
