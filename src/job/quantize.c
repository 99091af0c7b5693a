/* SPDX-License-Identifier: Apache-2.0
 *
 * Executing the plan: one shard after the other under a lock, each recorded when it is whole; then auxiliary files, index
 * and config.json, which make the directory a checkpoint.
 */
#include "job/quantize.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "ckpt/manifest.h"
#include "job/quantize_internal.h"
#include "job/stream.h"

#define LOCK_NAME  ".fp8conv.lock"
#define INDEX_NAME "model.safetensors.index.json"

struct quantize_job {
	const struct quantize_plan *plan;
	const struct quantize_params *params;
	struct progress *progress;
	struct quantize_result *result;
	struct converter *converter;
	struct outdir out;
	struct outdir part_lock; /* --part: the same directory, a lock of the part's own */
	struct outdir preserve;
	json_t *identity;
	bool *done;   /* by shard: finished, and its file is there */
	bool started; /* this run wrote the manifest */
};

/* --- one shard --- */

static uint64_t shard_size(const struct output_shard *shard)
{
	return shard->header.len + shard->data_size;
}

static int convert_shard(struct quantize_job *job, size_t i, struct err *err)
{
	const struct output_shard *shard = &job->plan->shards[i];
	const struct output_shard *kept = job->plan->preserved ? &job->plan->preserved[i] : NULL;
	struct writer writer = { 0 }, preserved = { 0 };
	uint32_t crc, ignored;
	int rc = -1;

	if (writer_open(&writer, &job->out, shard->name, &shard->header, shard_size(shard), err) ||
	    (kept &&
	     writer_open(&preserved, &job->preserve, kept->name, &kept->header, shard_size(kept), err)) ||
	    converter_shard(job->converter, i, &writer, kept ? &preserved : NULL, err) ||
	    (kept && writer_commit(&preserved, &ignored, err)) || writer_commit(&writer, &crc, err) ||
	    manifest_add_shard(&job->out, shard->name, shard_size(shard), crc, err))
		goto out;
	job->done[i] = true;
	job->result->shards_done++;
	rc = 0;
out:
	writer_release(&preserved);
	writer_release(&writer);
	return rc;
}

/* The part a shard belongs to, from 1: equal shares of the bytes, in order. */
static int shard_part(const struct quantize_plan *plan, size_t shard, int n_parts)
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

static bool shard_is_ours(const struct quantize_job *job, size_t i)
{
	if (job->params->part_finish)
		return false;
	return !job->params->part || shard_part(job->plan, i, job->params->n_parts) == job->params->part;
}

/* --- places --- */

static bool same_directory(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int check_places(const struct quantize_job *job, struct err *err)
{
	const char *in = job->plan->source.directory;
	const char *out = job->params->output;
	const char *preserve = job->params->preserve;

	if (in && same_directory(in, out))
		return err_set(err, ERR_USAGE, "input and output are the same directory '%s'", out);
	for (size_t i = 0; !in && i < job->plan->n_shards; i++) {
		char *path = xasprintf("%s/%s", out, job->plan->shards[i].name);
		bool same = same_directory(job->plan->source.shards[i].file.path, path);

		free(path);
		if (same)
			return err_set(err, ERR_USAGE, "input '%s' lies in the output directory '%s'",
				       job->params->input, out);
	}
	if (preserve && (same_directory(preserve, out) || !strcmp(preserve, out)))
		return err_set(err, ERR_USAGE,
			       "--preserve-high-precision and output are the same directory '%s'", out);
	if (preserve && in && same_directory(preserve, in))
		return err_set(err, ERR_USAGE,
			       "--preserve-high-precision and input are the same directory '%s'", preserve);
	return 0;
}

static int open_places(struct quantize_job *job, struct err *err)
{
	const struct quantize_params *params = job->params;
	bool shared = params->part || params->part_finish;

	if (check_places(job, err) || outdir_open(&job->out, params->io, params->output, LOCK_NAME, shared, err))
		return -1;
	if (params->part) {
		char *lock = xasprintf(".fp8conv.part-%d-of-%d.lock", params->part, params->n_parts);
		int rc = outdir_open(&job->part_lock, params->io, params->output, lock, false, err);

		free(lock);
		if (rc)
			return -1;
	}
	if (params->preserve)
		return outdir_open(&job->preserve, params->io, params->preserve, LOCK_NAME, shared, err);
	return 0;
}

/* Space for what this run has to write. */
static int check_space(struct quantize_job *job, struct err *err)
{
	uint64_t bytes = job->plan->disk_bytes;
	uint64_t preserved = 0;
	struct stat x, y;

	for (size_t i = 0; i < job->plan->n_shards; i++) {
		bool needed = !job->done[i] && shard_is_ours(job, i);

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

/* --- the manifest --- */

static json_t *spec_json(const struct qspec *spec)
{
	return json_pack("{s:i, s:i, s:i, s:b, s:i, s:i, s:f, s:i}", "fp8_format", spec->format, "tile_rows",
			 (int)spec->tile.rows, "tile_cols", (int)spec->tile.cols, "pow2", spec->pow2,
			 "scale_arith", spec->arith, "mx_rule", spec->mx_rule, "amax_epsilon",
			 (double)spec->amax_epsilon, "margin", spec->margin);
}

/* What decides the output's bytes: by its effect, so that a default given in full is the same job. */
static json_t *job_options(const struct quantize_job *job)
{
	static const char *const nonfinite[] = { "error", "saturate", "skip" };
	const struct quantize_plan *plan = job->plan;
	json_t *tensors = json_array();
	json_t *spec = NULL;

	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const struct recipe *recipe = plan->selection.units[u].recipe;

		if (recipe == plan->recipe && !spec)
			spec = spec_json(&plan->specs[u]);
		if (recipe != plan->recipe)
			json_array_append_new(tensors, json_pack("[s, s?]", plan->selection.units[u].name,
								 recipe ? recipe->name : NULL));
	}
	return json_pack("{s:s, s:s, s:s, s:o*, s:o, s:s, s:b, s:b}", "recipe", plan->recipe->name, "format",
			 plan->format->name, "target", engine_name(plan->target), "scales", spec,
			 "other_tensors", tensors, "on_nonfinite", nonfinite[job->params->on_nonfinite],
			 "preserve_high_precision", job->params->preserve != NULL, "requantize",
			 job->params->select.requantize);
}

/* The names that make a directory a checkpoint go first, then the record, then the shards it spoke of. */
static int forget_job(struct quantize_job *job, const json_t *manifest, struct err *err)
{
	static const char *const files[] = { "config.json", INDEX_NAME, "hf_quant_config.json", MANIFEST_NAME };
	size_t i;
	json_t *shard;

	for (i = 0; i < sizeof files / sizeof *files; i++) {
		if (outdir_remove(&job->out, files[i], err))
			return -1;
	}
	json_array_foreach(json_object_get(manifest, "shards"), i, shard) {
		const char *name = json_string_value(json_object_get(shard, "name"));

		if (name && !strchr(name, '/') && outdir_remove(&job->out, name, err))
			return -1;
	}
	return 0;
}

/* A directory that holds files by our names, and no manifest, is somebody else's. */
static int check_vacant(const struct quantize_job *job, struct err *err)
{
	const char *taken = NULL;

	for (size_t i = 0; i < job->plan->n_shards && !taken; i++) {
		if (outdir_has(&job->out, job->plan->shards[i].name))
			taken = job->plan->shards[i].name;
	}
	if (!taken && outdir_has(&job->out, "config.json"))
		taken = "config.json";
	if (!taken || job->params->restart)
		return 0;
	return err_set(err, ERR_USAGE, "'%s' has a '%s' of another origin: give another output, or --restart to replace it",
		       job->out.path, taken);
}

static void find_done(struct quantize_job *job, const json_t *manifest)
{
	for (size_t i = 0; i < job->plan->n_shards; i++) {
		const struct output_shard *shard = &job->plan->shards[i];
		struct stat st;

		job->done[i] = manifest_has_shard(manifest, shard->name) &&
			       !fstatat(job->out.fd, shard->name, &st, AT_SYMLINK_NOFOLLOW) &&
			       (uint64_t)st.st_size == shard_size(shard);
		job->result->shards_found += job->done[i];
	}
}

/* Takes up the job that the directory holds, or begins it.  *finished: there is nothing left to do. */
static int take_up(struct quantize_job *job, bool *finished, struct err *err)
{
	json_t *manifest = NULL;
	int guard;
	int rc = -1;

	if (outdir_guard(&job->out, &guard, err))
		return -1;
	*err = (struct err){ 0 };
	manifest = manifest_load(&job->out, err);
	if (err->kind && !job->params->restart)
		goto out;
	if (job->params->restart && forget_job(job, manifest, err))
		goto out;
	if (manifest && !job->params->restart) {
		if (manifest_check(manifest, job->identity, &job->out, err))
			goto out;
		find_done(job, manifest);
		*finished = manifest_finished(manifest) && job->result->shards_found == job->plan->n_shards &&
			    outdir_has(&job->out, "config.json");
		rc = 0;
		goto out;
	}
	rc = check_vacant(job, err) ? -1 : 0;
	if (!rc)
		rc = check_space(job, err);
	if (!rc)
		rc = manifest_start(job->identity, &job->out, err);
	job->started = !rc;
out:
	json_decref(manifest);
	outdir_unguard(&job->out, guard);
	return rc;
}

/* --- the end --- */

static int copy_auxiliary(struct quantize_job *job, struct err *err)
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
			rc = outdir_copy(&job->out, source->directory, paths[i], err);
		free(paths[i]);
	}
	free(paths);
	return rc;
}

static int put_text(const struct outdir *dir, const char *name, const struct buf *text, struct err *err)
{
	return text->len ? outdir_put(dir, name, text->data, text->len, err) : 0;
}

static int finish(struct quantize_job *job, struct err *err)
{
	const struct quantize_plan *plan = job->plan;

	if (copy_auxiliary(job, err) ||
	    (plan->preserved && put_text(&job->preserve, INDEX_NAME, &plan->preserved_index, err)) ||
	    put_text(&job->out, "hf_quant_config.json", &plan->hf_quant_config, err) ||
	    put_text(&job->out, INDEX_NAME, &plan->index, err) ||
	    put_text(&job->out, "config.json", &plan->config, err) ||
	    manifest_finish(&job->out, &plan->source, job->params->hashes, err))
		return -1;
	job->result->complete = true;
	return 0;
}

/* Whoever finds every shard recorded writes the end: of several parts, exactly one does. */
static int finish_if_last(struct quantize_job *job, struct err *err)
{
	size_t missing = 0, first = 0;
	json_t *manifest;
	int guard;
	int rc = -1;

	if (outdir_guard(&job->out, &guard, err))
		return -1;
	*err = (struct err){ 0 };
	manifest = manifest_load(&job->out, err);
	if (err->kind)
		goto out;
	for (size_t i = 0; i < job->plan->n_shards; i++) {
		if (!manifest_has_shard(manifest, job->plan->shards[i].name) && !missing++)
			first = i;
	}
	if (!missing)
		rc = finish(job, err);
	else if (job->params->part_finish)
		rc = err_set(err, ERR_USAGE, "%zu of %zu shards are missing in '%s', the first is '%s': run their parts",
			     missing, job->plan->n_shards, job->out.path, job->plan->shards[first].name);
	else
		rc = 0;
out:
	json_decref(manifest);
	outdir_unguard(&job->out, guard);
	return rc;
}

/* --- the three kinds of output --- */

static int convert_shards(struct quantize_job *job, struct err *err)
{
	for (size_t i = 0; i < job->plan->n_shards; i++) {
		if (!job->done[i] && shard_is_ours(job, i) && convert_shard(job, i, err))
			return -1;
	}
	return 0;
}

static void job_release(struct quantize_job *job, bool failed)
{
	struct err ignored;

	/* A job that failed in its first shard leaves no trace. */
	if (failed && job->started && !job->params->part && job->result->shards_done == 0)
		outdir_remove(&job->out, MANIFEST_NAME, &ignored);
	json_decref(job->identity);
	free(job->done);
	outdir_close(&job->preserve);
	outdir_close(&job->part_lock);
	outdir_close(&job->out);
}

static int run_directory(struct quantize_job *job, struct err *err)
{
	const struct quantize_plan *plan = job->plan;
	bool finished = false;
	int rc = -1;

	if (job->params->restart && (job->params->part || job->params->part_finish))
		return err_set(err, ERR_USAGE,
			       "--restart begins the whole job anew, and --part is one of several: remove '%s/%s' first",
			       job->params->output, MANIFEST_NAME);
	job->done = xcalloc(plan->n_shards, sizeof *job->done);
	job->identity = manifest_job(FP8CONV_VERSION, "quantize", job_options(job), &plan->source);
	if (open_places(job, err) || take_up(job, &finished, err))
		goto out;
	if (finished) {
		job->result->complete = true;
		rc = 0;
		goto out;
	}
	if (check_space(job, err) || convert_shards(job, err) || finish_if_last(job, err))
		goto out;
	rc = 0;
out:
	job_release(job, rc != 0);
	return rc;
}

static int check_not_input(const struct quantize_job *job, struct err *err)
{
	if (same_directory(job->plan->source.shards[0].file.path, job->params->output))
		return err_set(err, ERR_USAGE, "input and output are the same file '%s'", job->params->output);
	return 0;
}

static int run_file(struct quantize_job *job, struct err *err)
{
	const struct output_shard *shard = &job->plan->shards[0];
	const struct output_shard *kept = job->plan->preserved;
	const char *slash = strrchr(job->params->output, '/');
	const char *name = slash ? slash + 1 : job->params->output;
	char *directory = slash ? xstrndup(job->params->output, (size_t)(slash - job->params->output) + 1)
				: xstrdup(".");
	char *lock = xasprintf(".%s.lock", name);
	struct writer writer = { 0 }, preserved = { 0 };
	uint32_t crc;
	int rc = -1;

	if (check_not_input(job, err) ||
	    outdir_open(&job->out, job->params->io, directory, lock, false, err) ||
	    outdir_check_space(&job->out, shard_size(shard), err) ||
	    writer_open(&writer, &job->out, name, &shard->header, shard_size(shard), err))
		goto out;
	if (kept && (outdir_open(&job->preserve, job->params->io, job->params->preserve, LOCK_NAME, false, err) ||
		     writer_open(&preserved, &job->preserve, kept->name, &kept->header, shard_size(kept), err)))
		goto out;
	if (converter_shard(job->converter, 0, &writer, kept ? &preserved : NULL, err) ||
	    (kept && (writer_commit(&preserved, &crc, err) ||
		      put_text(&job->preserve, INDEX_NAME, &job->plan->preserved_index, err))) ||
	    writer_commit(&writer, &crc, err))
		goto out;
	job->result->shards_done = 1;
	job->result->complete = true;
	rc = 0;
out:
	writer_release(&preserved);
	writer_release(&writer);
	outdir_close(&job->preserve);
	outdir_close(&job->out);
	free(lock);
	free(directory);
	return rc;
}

static int run_stream(struct quantize_job *job, struct err *err)
{
	const struct output_shard *shard = &job->plan->shards[0];
	struct writer writer = { 0 };
	uint32_t crc;
	int rc = -1;

	if (job->params->preserve)
		return err_set(err, ERR_USAGE, "--preserve-high-precision needs a directory or file as output, not '-'");
	if (writer_open_anonymous(&writer, job->params->io, job->params->temp_dir, &shard->header,
				  shard_size(shard), err) ||
	    converter_shard(job->converter, 0, &writer, NULL, err) || writer_commit(&writer, &crc, err) ||
	    stream_send(job->params->io, writer.fd, shard_size(shard), job->progress->stop, err))
		goto out;
	job->result->shards_done = 1;
	job->result->complete = true;
	rc = 0;
out:
	writer_release(&writer);
	return rc;
}

int quantize_run(const struct quantize_plan *plan, const struct quantize_params *params,
		 struct progress *progress, struct quantize_result *result, struct err *err)
{
	static int (*const run[])(struct quantize_job *, struct err *) = {
		[OUTPUT_STREAM] = run_stream,
		[OUTPUT_FILE] = run_file,
		[OUTPUT_DIRECTORY] = run_directory,
	};
	struct quantize_job job = { .plan = plan, .params = params, .progress = progress, .result = result };
	int rc;

	*result = (struct quantize_result){ 0 };
	if (converter_new(&job.converter, plan, params, progress, err))
		return -1;
	rc = run[output_kind(params->output)](&job, err);
	converter_result(job.converter, result);
	converter_free(job.converter);
	return rc;
}
