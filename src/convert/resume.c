/* SPDX-License-Identifier: Apache-2.0
 *
 * What the output directory holds already: nothing, this job unfinished, or something that is not
 * ours to touch.
 */
#include <fcntl.h>
#include <string.h>

#include "ckpt/checksum.h"
#include "ckpt/manifest.h"
#include "convert/convert_internal.h"

int job_manifest(const struct convert_job *job, json_t **manifest, struct err *err)
{
	*err = (struct err){ 0 };
	*manifest = manifest_load(&job->out, err);
	return err->kind ? -1 : 0;
}

/* The part a shard belongs to, from 1: equal shares of the bytes, in order. */
static int shard_part(const struct plan *plan, size_t shard, int n_parts)
{
	uint64_t before = 0, total = 0;

	for (size_t i = 0; i < plan->n_shards; i++) {
		uint64_t size = plan->source.shards[i].file.identity.size;

		if (i < shard)
			before += size;
		else if (i == shard)
			before += size / 2;
		total += size;
	}
	return 1 + (int)((double)before * n_parts / (double)(total ? total : 1));
}

bool job_has_shard(const struct convert_job *job, size_t i)
{
	if (job->params->part_finish)
		return false;
	return !job->params->part ||
	       shard_part(job->plan, i, job->params->n_parts) == job->params->part;
}

int job_check_space(struct convert_job *job, struct err *err)
{
	uint64_t bytes = job->plan->disk_bytes;
	uint64_t preserved = 0;
	struct stat x, y;

	for (size_t i = 0; i < job->plan->n_shards; i++) {
		bool needed = !job->done[i] && job_has_shard(job, i);

		if (!needed)
			bytes -= shard_size(&job->plan->shards[i]);
		else if (job->plan->preserved)
			preserved += shard_size(&job->plan->preserved[i]);
	}
	if (!preserved)
		return outdir_check_space(&job->out, bytes, err);
	if (!fstat(job->out.fd, &x) && !fstat(job->preserve.fd, &y) && x.st_dev == y.st_dev)
		return outdir_check_space(&job->out, bytes + preserved, err);
	if (outdir_check_space(&job->preserve, preserved, err))
		return -1;
	return outdir_check_space(&job->out, bytes, err);
}

/* Takes away the names that make a directory a checkpoint, lastingly, before anything else of it
 * goes. */
static int unmake_checkpoint(struct convert_job *job, struct err *err)
{
	if (outdir_remove(&job->out, "config.json", err) ||
	    outdir_remove(&job->out, INDEX_NAME, err) ||
	    outdir_remove(&job->out, "hf_quant_config.json", err) || outdir_sync(&job->out, err))
		return -1;
	if (!job->plan->preserved)
		return 0;
	return outdir_remove(&job->preserve, INDEX_NAME, err) || outdir_sync(&job->preserve, err)
		       ? -1
		       : 0;
}

static bool is_planned(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n_shards; i++)
		if (!strcmp(plan->shards[i].name, name))
			return true;
	return false;
}

/* A manifest is somebody's word: nothing is removed for it that would not be replaced.  But weights
 * that another job left would be loaded with ours. */
static int check_foreign(const struct convert_job *job, const json_t *manifest, struct err *err)
{
	size_t i;
	json_t *shard;

	json_array_foreach(json_object_get(manifest, "shards"), i, shard)
	{
		const char *name = json_string_value(json_object_get(shard, "name"));

		if (name && !strchr(name, '/') && output_kind(name) == OUTPUT_FILE &&
		    !is_planned(job->plan, name) && outdir_has(&job->out, name))
			return err_set(err, ERR_USAGE,
				       "'%s' has '%s' of another job, which this one does not "
				       "write: remove it, or give another output",
				       job->out.path, name);
	}
	return 0;
}

/* The record goes before the shards it spoke of. */
static int forget_job(struct convert_job *job, const json_t *manifest, struct err *err)
{
	if (check_foreign(job, manifest, err) || unmake_checkpoint(job, err) ||
	    outdir_remove(&job->out, MANIFEST_NAME, err))
		return -1;
	for (size_t i = 0; i < job->plan->n_shards; i++)
		if (manifest_has_shard(manifest, job->plan->shards[i].name) &&
		    outdir_remove(&job->out, job->plan->shards[i].name, err))
			return -1;
	return 0;
}

/* A directory that holds files by our names, and no manifest, is somebody else's. */
static int check_vacant(const struct convert_job *job, struct err *err)
{
	const char *taken = NULL;

	for (size_t i = 0; i < job->plan->n_shards && !taken; i++) {
		if (outdir_has(&job->out, job->plan->shards[i].name))
			taken = job->plan->shards[i].name;
		else if (job->plan->preserved && !job->params->restart &&
			 outdir_has(&job->preserve, job->plan->preserved[i].name))
			return err_set(err, ERR_USAGE,
				       "'%s' has a '%s' of another origin: give another folder, or "
				       "--restart to replace it",
				       job->preserve.path, job->plan->preserved[i].name);
	}
	if (!taken && outdir_has(&job->out, "config.json"))
		taken = "config.json";
	if (!taken || job->params->restart)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' has a '%s' of another origin: give another output, or --restart to "
		       "replace it",
		       job->out.path, taken);
}

static bool shard_is_there(const struct outdir *dir, const struct output_shard *shard)
{
	struct stat st;

	return !fstatat(dir->fd, shard->name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size == shard_size(shard);
}

bool job_shard_done(const struct convert_job *job, const json_t *manifest, size_t i)
{
	const struct output_shard *shard = &job->plan->shards[i];

	return manifest_has_shard(manifest, shard->name) && shard_is_there(&job->out, shard) &&
	       (!job->plan->preserved || shard_is_there(&job->preserve, &job->plan->preserved[i]));
}

static bool text_is_there(const struct convert_job *job, const char *name, uint64_t size)
{
	return size == 0 || outdir_has(&job->out, name);
}

/* What of this job is done, and whether all is. */
static int resume(struct convert_job *job, json_t *manifest, bool *finished, struct err *err)
{
	const struct plan *plan = job->plan;

	for (size_t i = 0; i < plan->n_shards; i++) {
		job->done[i] = job_shard_done(job, manifest, i);
		job->result->shards_found += job->done[i];
	}
	if (job->result->shards_found < plan->n_shards)
		return unmake_checkpoint(job, err) || manifest_reopen(manifest, &job->out, err) ? -1
												: 0;
	*finished = manifest_finished(manifest, job->params->hashes) &&
		    text_is_there(job, "config.json", plan->config.len) &&
		    text_is_there(job, INDEX_NAME, plan->index_size) &&
		    text_is_there(job, "hf_quant_config.json", plan->hf_quant_config.len);
	return 0;
}

static int same_contents(const struct convert_job *job, const json_t *manifest, size_t i,
			 bool *same, struct err *err)
{
	const struct output_shard *shard = &job->plan->shards[i];
	const atomic_int *stop = job->progress->stop;
	uint32_t crc;

	if (checksum_crc32(job->out.io, job->out.fd, shard->name, stop, &crc, err))
		return -1;
	*same = manifest_same_crc(manifest, shard->name, MANIFEST_CRC, crc);
	if (!*same || !job->plan->preserved)
		return 0;
	if (checksum_crc32(job->out.io, job->preserve.fd, job->plan->preserved[i].name, stop, &crc,
			   err))
		return -1;
	*same = manifest_same_crc(manifest, shard->name, MANIFEST_PRESERVED_CRC, crc);
	return 0;
}

/* Not a shard any more, for no part of the job. */
static int take_back(struct convert_job *job, size_t i, struct err *err)
{
	json_t *manifest = NULL;
	int guard;
	int rc = -1;

	if (outdir_guard(&job->out, &guard, err))
		return -1;
	if (!job_manifest(job, &manifest, err) && !unmake_checkpoint(job, err) &&
	    !manifest_reopen(manifest, &job->out, err))
		rc = outdir_remove(&job->out, job->plan->shards[i].name, err);
	json_decref(manifest);
	outdir_unguard(&job->out, guard);
	job->done[i] = false;
	job->result->shards_found--;
	return rc;
}

int job_check_contents(struct convert_job *job, struct err *err)
{
	json_t *manifest;
	int rc = job_manifest(job, &manifest, err);

	for (size_t i = 0; i < job->plan->n_shards && !rc; i++) {
		bool same = true;

		if (job->done[i] && job_has_shard(job, i))
			rc = same_contents(job, manifest, i, &same, err);
		if (!rc && !same)
			rc = take_back(job, i, err);
	}
	json_decref(manifest);
	return rc;
}

int job_take_up(struct convert_job *job, bool *finished, struct err *err)
{
	json_t *manifest = NULL;
	int guard;
	int rc = -1;

	if (outdir_guard(&job->out, &guard, err))
		return -1;
	/* What --restart throws away need not be sound, but it must be read: it says which shards
	 * are to go. */
	if (job_manifest(job, &manifest, err) && (err->kind == ERR_SYSTEM || !job->params->restart))
		goto out;
	if (job->params->restart && forget_job(job, manifest, err))
		goto out;
	if (manifest && !job->params->restart) {
		if (!manifest_check(manifest, job->identity, &job->out, err))
			rc = resume(job, manifest, finished, err);
		goto out;
	}
	if (check_vacant(job, err) || job_check_space(job, err))
		goto out;
	job->started = true;
	rc = manifest_start(job->identity, &job->out, err);
out:
	json_decref(manifest);
	outdir_unguard(&job->out, guard);
	return rc;
}

json_t *job_identity(const struct convert_job *job)
{
	return manifest_job(FP8CONV_VERSION, job->plan->command, json_incref(job->plan->options),
			    &job->plan->source);
}
