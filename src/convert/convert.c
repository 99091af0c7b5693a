/* SPDX-License-Identifier: Apache-2.0
 *
 * Executing the plan, by the kind of output.
 */
#include "convert/convert.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "convert/convert_internal.h"
#include "source/spool.h"

uint64_t shard_size(const struct output_shard *shard)
{
	return shard->header_size + shard->data_size;
}

int shard_open(const struct output_shard *shard, struct writer *writer, const struct outdir *dir,
	       const char *name, struct err *err)
{
	struct buf header = { 0 };
	int rc;

	shard_header(shard, &header);
	rc = writer_open(writer, dir, name, &header, shard_size(shard), err);
	buf_release(&header);
	return rc;
}

bool same_path(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int check_not_input(const struct plan *plan, const char *directory, const char *name,
		    struct err *err)
{
	char *path = directory ? xasprintf("%s/%s", directory, name) : xstrdup(name);
	struct stat st;
	int rc = 0;

	for (size_t i = 0; !stat(path, &st) && i < plan->n_shards && !rc; i++) {
		const struct file_identity *id = &plan->source.shards[i].file.identity;

		if (st.st_dev == id->device && st.st_ino == id->inode)
			rc = err_set(err, ERR_USAGE, "input and output are the same file '%s'",
				     path);
	}
	free(path);
	return rc;
}

/* The file, and what is preserved, are neither each other's nor the input's. */
static int check_file_places(const struct convert_job *job, const char *directory, const char *name,
			     struct err *err)
{
	const struct output_shard *kept = job->plan->preserved;
	const char *preserve = job->params->preserve;

	if (check_not_input(job->plan, NULL, job->params->output, err))
		return -1;
	if (!kept)
		return 0;
	if (!strcmp(kept->name, name) && same_path(preserve, directory))
		return err_set(err, ERR_USAGE,
			       "--preserve-high-precision would write '%s', which is the output",
			       job->params->output);
	return check_not_input(job->plan, preserve, kept->name, err);
}

static int run_file(struct convert_job *job, struct err *err)
{
	const struct output_shard *shard = &job->plan->shards[0];
	const struct output_shard *kept = job->plan->preserved;
	const char *slash = strrchr(job->params->output, '/');
	const char *name = slash ? slash + 1 : job->params->output;
	char *directory =
		slash ? xstrndup(job->params->output, (size_t)(slash - job->params->output) + 1)
		      : xstrdup(".");
	char *lock = outdir_own_name(name, "lock");
	struct writer writer = { 0 }, preserved = { 0 };
	uint32_t crc;
	int rc = -1;

	if (outdir_open(&job->out, job->params->io, directory, lock, false, err) ||
	    check_file_places(job, directory, name, err) ||
	    outdir_check_space(&job->out, shard_size(shard), err) ||
	    shard_open(shard, &writer, &job->out, name, err))
		goto out;
	if (kept && (outdir_open(&job->preserve, job->params->io, job->params->preserve, LOCK_NAME,
				 false, err) ||
		     shard_open(kept, &preserved, &job->preserve, kept->name, err)))
		goto out;
	if (converter_shard(job->converter, 0, &writer, kept ? &preserved : NULL, err) ||
	    (kept && (writer_commit(&preserved, &crc, err) ||
		      index_put(kept, job->plan->n_shards, &job->preserve, err))) ||
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

static int run_stream(struct convert_job *job, struct err *err)
{
	const struct output_shard *shard = &job->plan->shards[0];
	struct writer writer = { 0 };
	struct buf header = { 0 };
	uint32_t crc;
	int rc = -1;

	if (job->params->preserve)
		return err_set(
			err, ERR_USAGE,
			"--preserve-high-precision needs a directory or file as output, not '-'");
	shard_header(shard, &header);
	if (writer_open_anonymous(&writer, job->params->io, job->params->temp_dir, &header,
				  shard_size(shard), err) ||
	    converter_shard(job->converter, 0, &writer, NULL, err) ||
	    writer_commit(&writer, &crc, err) ||
	    spool_send(job->params->io, writer.fd, shard_size(shard), job->progress, err))
		goto out;
	job->result->shards_done = 1;
	job->result->complete = true;
	rc = 0;
out:
	writer_release(&writer);
	buf_release(&header);
	return rc;
}

int convert_run(const struct plan *plan, const struct convert_params *params,
		struct progress *progress, struct convert_result *result, struct err *err)
{
	static int (*const run[])(struct convert_job *, struct err *) = {
		[OUTPUT_STREAM] = run_stream,
		[OUTPUT_FILE] = run_file,
		[OUTPUT_DIRECTORY] = run_directory,
	};
	struct convert_job job = {
		.plan = plan, .params = params, .progress = progress, .result = result
	};
	int rc;

	*result = (struct convert_result){ 0 };
	malloc_trim(0); /* what planning needed goes back before buffers are filled */
	if (converter_new(&job.converter, plan, params, progress, err))
		return -1;
	rc = run[output_kind(params->output)](&job, err);
	converter_result(job.converter, result);
	converter_free(job.converter);
	return rc;
}
