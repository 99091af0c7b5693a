/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory as output: one shard after the other under a lock, each recorded when it is whole;
 * then auxiliary files, index and config.json, which make the directory a checkpoint.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/manifest.h"
#include "convert/convert_internal.h"

static int convert_shard(struct convert_job *job, size_t i, struct err *err)
{
	const struct output_shard *shard = &job->plan->shards[i];
	const struct output_shard *kept = job->plan->preserved ? &job->plan->preserved[i] : NULL;
	struct writer writer = { 0 }, preserved = { 0 };
	struct shard_record record = { shard->name, shard_size(shard),
				       .has_preserved = kept != NULL };
	int rc = -1;

	if (shard_open(shard, &writer, &job->out, shard->name, err) ||
	    (kept && shard_open(kept, &preserved, &job->preserve, kept->name, err)) ||
	    converter_shard(job->converter, i, &writer, kept ? &preserved : NULL, err) ||
	    (kept && writer_commit(&preserved, &record.preserved_crc, err)) ||
	    writer_commit(&writer, &record.crc, err) || manifest_add_shard(&job->out, &record, err))
		goto out;
	job->done[i] = true;
	job->result->shards_done++;
	rc = 0;
out:
	writer_release(&preserved);
	writer_release(&writer);
	return rc;
}

static int check_places(const struct convert_job *job, struct err *err)
{
	const char *in = job->plan->source.directory;
	const char *out = job->params->output;
	const char *preserve = job->params->preserve;

	if (in && same_path(in, out))
		return err_set(err, ERR_USAGE, "input and output are the same directory '%s'", out);
	for (size_t i = 0; i < job->plan->n_shards; i++) {
		const char *name = job->plan->shards[i].name;

		if (check_not_input(job->plan, out, name, err) ||
		    (preserve && check_not_input(job->plan, preserve, name, err)))
			return -1;
	}
	if (preserve && (same_path(preserve, out) || !strcmp(preserve, out)))
		return err_set(err, ERR_USAGE,
			       "--preserve-high-precision and output are the same directory '%s'",
			       out);
	if (preserve && in && same_path(preserve, in))
		return err_set(err, ERR_USAGE,
			       "--preserve-high-precision and input are the same directory '%s'",
			       preserve);
	return 0;
}

static int open_places(struct convert_job *job, struct err *err)
{
	const struct convert_params *params = job->params;
	bool shared = params->part || params->part_finish;

	if (check_places(job, err) ||
	    outdir_open(&job->out, params->io, params->output, LOCK_NAME, shared, err))
		return -1;
	if (params->part) {
		char *lock =
			xasprintf(".fp8conv.part-%d-of-%d.lock", params->part, params->n_parts);
		int rc = outdir_open(&job->part_lock, params->io, params->output, lock, false, err);

		free(lock);
		if (rc)
			return -1;
	}
	/* Now that it is there, under whatever spelling. */
	if (params->preserve && same_path(params->preserve, params->output))
		return err_set(err, ERR_USAGE,
			       "--preserve-high-precision and output are the same directory '%s'",
			       params->output);
	if (params->preserve)
		return outdir_open(&job->preserve, params->io, params->preserve, LOCK_NAME, shared,
				   err);
	return 0;
}

static int copy_auxiliary(struct convert_job *job, struct err *err)
{
	const struct checkpoint *source = &job->plan->source;
	char **paths;
	size_t n;
	int rc = 0;

	if (!source->directory)
		return 0;
	if (checkpoint_auxiliary(source, &paths, &n, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (!rc)
			rc = outdir_copy(&job->out, source->directory, paths[i],
					 job->progress->stop, err);
		free(paths[i]);
	}
	free(paths);
	return rc;
}

static int finish(struct convert_job *job, struct err *err)
{
	const struct plan *plan = job->plan;

	if (copy_auxiliary(job, err) ||
	    (plan->preserved && index_put(plan->preserved, plan->n_shards, &job->preserve, err)) ||
	    outdir_put_text(&job->out, "hf_quant_config.json", &plan->hf_quant_config, err) ||
	    (plan->index_size && index_put(plan->shards, plan->n_shards, &job->out, err)) ||
	    outdir_put_text(&job->out, "config.json", &plan->config, err) ||
	    manifest_finish(&job->out, &plan->source, job->params->hashes, job->progress->stop,
			    err))
		return -1;
	job->result->complete = true;
	return 0;
}

/* Whoever finds every shard recorded and there writes the end: of several parts, exactly one
 * does. */
static int finish_if_last(struct convert_job *job, struct err *err)
{
	size_t missing = 0, first = 0;
	json_t *manifest;
	int guard;
	int rc = -1;

	if (outdir_guard(&job->out, &guard, err))
		return -1;
	if (job_manifest(job, &manifest, err))
		goto out;
	for (size_t i = 0; i < job->plan->n_shards; i++) {
		if (!job_shard_done(job, manifest, i) && !missing++)
			first = i;
	}
	if (!missing)
		rc = finish(job, err);
	else if (job->params->part_finish)
		rc = err_set(
			err, ERR_USAGE,
			"%zu of %zu shards are missing in '%s', the first is '%s': run their parts",
			missing, job->plan->n_shards, job->out.path, job->plan->shards[first].name);
	else if (!job->params->part)
		rc = err_set(err, ERR_SYSTEM, "'%s/%s' went away while the job ran", job->out.path,
			     job->plan->shards[first].name);
	else
		rc = 0;
out:
	json_decref(manifest);
	outdir_unguard(&job->out, guard);
	return rc;
}

/* What is left of it: shards of other parts and of earlier runs are not. */
static void count_work(const struct convert_job *job)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < job->plan->n_shards; i++) {
		const struct st_file *file = &job->plan->source.shards[i].file;

		if (!job->done[i] && job_has_shard(job, i))
			bytes += file->identity.size - file->data_start;
	}
	progress_begin(job->progress, PROGRESS_WORK, bytes);
}

static int convert_shards(struct convert_job *job, struct err *err)
{
	for (size_t i = 0; i < job->plan->n_shards; i++) {
		if (!job->done[i] && job_has_shard(job, i) && convert_shard(job, i, err))
			return -1;
	}
	return 0;
}

static void job_release(struct convert_job *job, bool failed)
{
	struct err ignored;

	/* A job that failed in its first shard leaves no trace; of a shard that has its name, the
	 * record must stay. */
	for (size_t i = 0; job->started && i < job->plan->n_shards; i++)
		job->started = !outdir_has(&job->out, job->plan->shards[i].name) &&
			       (!job->plan->preserved ||
				!outdir_has(&job->preserve, job->plan->shards[i].name));
	if (failed && job->started && !job->params->part && job->result->shards_done == 0)
		outdir_remove(&job->out, MANIFEST_NAME, &ignored);
	json_decref(job->identity);
	free(job->done);
	outdir_close(&job->preserve);
	outdir_close(&job->part_lock);
	outdir_close(&job->out);
}

int run_directory(struct convert_job *job, struct err *err)
{
	const struct plan *plan = job->plan;
	bool finished = false;
	int rc = -1;

	if (job->params->restart && (job->params->part || job->params->part_finish))
		return err_set(err, ERR_USAGE,
			       "--restart begins the whole job anew, and --part is one of several: "
			       "remove '%s/%s' first",
			       job->params->output, MANIFEST_NAME);
	job->done = xcalloc(plan->n_shards, sizeof *job->done);
	job->identity = job_identity(job);
	if (!job->identity ||
	    json_array_size(json_object_get(job->identity, "inputs")) != plan->n_shards) {
		err_set(err, ERR_INPUT,
			"the name of an input file, '%s', is not UTF-8, which %s cannot record",
			plan->shards[0].name, MANIFEST_NAME);
		goto out;
	}
	if (open_places(job, err) || job_take_up(job, &finished, err))
		goto out;
	if (finished) {
		job->result->complete = true;
		rc = 0;
		goto out;
	}
	if (job_check_contents(job, err))
		goto out;
	count_work(job);
	if (job_check_space(job, err) || convert_shards(job, err) || finish_if_last(job, err))
		goto out;
	rc = 0;
out:
	job_release(job, rc != 0);
	return rc;
}
