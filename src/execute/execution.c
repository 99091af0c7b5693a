/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/execution.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

uint64_t output_shard_size(const struct output_shard *shard)
{
	return shard->header_size + shard->data_size;
}

int output_shard_open(const struct output_shard *shard, struct writer *writer,
		      const struct outdir *dir, const char *name, struct err *err)
{
	struct buf header = { 0 };
	int rc;

	output_shard_header(shard, &header);
	rc = writer_open(writer, dir, name, &header, output_shard_size(shard), err);
	buf_release(&header);
	return rc;
}

int pipeline_shard_nowhere(struct pipeline *pipeline, size_t shard, struct err *err)
{
	const struct output_shard *out = &pipeline->plan->shards[shard];
	struct writer writer = { 0 };
	struct buf header = { 0 };
	int rc;

	output_shard_header(out, &header);
	rc = writer_open_nowhere(&writer, pipeline->params->io, out->name, &header,
				 output_shard_size(out), err);
	rc = rc ? rc : pipeline_shard(pipeline, shard, &writer, NULL, err);
	writer_release(&writer);
	buf_release(&header);
	return rc;
}

int output_check_not_input(const struct plan *plan, const char *directory, const char *name,
			   struct err *err)
{
	char *path = directory ? xasprintf("%s/%s", directory, name) : xstrdup(name);
	struct stat st;
	int rc = 0;

	for (size_t i = 0; !stat(path, &st) && i < plan->source.n_files && !rc; i++) {
		const struct file_identity *id = &plan->source.files[i].file.identity;

		if (st.st_dev == id->device && st.st_ino == id->inode)
			rc = err_set(err, ERR_USAGE, "input and output are the same file '%s'",
				     path);
	}
	free(path);
	return rc;
}

bool directory_same_path(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool directory_holds(const char *directory, const char *path)
{
	char *inner = realpath(path, NULL), *outer = realpath(directory, NULL);
	size_t n = outer ? strlen(outer) : 0;
	bool held = inner && n && !strncmp(inner, outer, n) && (n == 1 || inner[n] == '/');

	free(inner);
	free(outer);
	return held;
}

int execution_shard(struct execution *execution, size_t i, struct writer *writer,
		    struct writer *preserved, struct err *err)
{
	if (pipeline_shard(execution->pipeline, i, writer, preserved, err))
		return -1;
	execution->result->bytes += execution->plan->shards[i].input_bytes;
	return 0;
}
