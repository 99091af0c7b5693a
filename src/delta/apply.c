/* SPDX-License-Identifier: Apache-2.0 */
#include "delta/delta.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/pool.h"
#include "delta/steps.h"

/* --- chunks --- */

int apply_row(struct delta_job *job, struct apply_worker *worker, const struct chunk_row *row,
	      void *data, size_t n, struct err *err)
{
	const struct delta_file *delta = &job->delta;
	const struct st_tensor *tensor = delta->tensors[row->tensor].tensor;

	if (io_pread_full(&delta->file, worker->coder.frame, row->size,
			  delta->offsets[row - delta->rows], err))
		return -1;
	if (chunk_decode(&worker->coder, row, chunk_element_size(tensor->dtype), data, n, err))
		return delta_wrap(delta, "tensor", tensor->name, err);
	return 0;
}

/* Reads the chunk of the base, and hashes it. */
static int read_base(struct delta_job *job, const struct delta_item *item, void *data,
		     struct err *err)
{
	size_t tensor = item->tensors[0];
	size_t n = delta_chunk_bytes(&job->pairs.sides[0], tensor, item->chunk);

	if (source_read_bytes(&job->base.source, &job->base.tensors[tensor],
			      (uint64_t)item->chunk * CHUNK_SIZE, n, data, err))
		return -1;
	chunk_hash_make(delta_hash(&job->pairs, item, 0), data, n);
	atomic_fetch_add(&job->progress->done, n);
	return 0;
}

static int compute_item(void *context, int w, size_t i, struct err *err)
{
	struct delta_job *job = context;
	struct apply_worker *worker = &job->workers[w];
	const struct delta_item *item = &job->pairs.items[i];
	const struct chunk_row *row = job->rows[i];
	bool has_base = item->tensors[0] != NO_TENSOR;
	uint64_t offset = 0;
	char *data;
	size_t n;

	if (item->tensors[1] != NO_TENSOR && job->file)
		offset = job->file->data_start +
			 job->delta.tensors[item->tensors[1]].tensor->begin +
			 (uint64_t)item->chunk * CHUNK_SIZE;
	data = worker->data[0] + offset % WRITER_ALIGN;
	if (progress_stopped(job->progress->stop, err) ||
	    (has_base && read_base(job, item, data, err)))
		return -1;
	if (item->tensors[1] == NO_TENSOR)
		return 0;
	if (!has_base && (!row || row->kind != CHUNK_WHOLE)) {
		job->unbased = true;
		return 0;
	}
	n = delta_chunk_bytes(&job->pairs.sides[1], item->tensors[1], item->chunk);
	if (row && apply_row(job, worker, row, data, n, err))
		return -1;
	if (row)
		chunk_hash_make(delta_hash(&job->pairs, item, 1), data, n);
	else
		*delta_hash(&job->pairs, item, 1) = *delta_hash(&job->pairs, item, 0);
	return job->writer ? writer_pwrite(job->writer, data, n, offset, err) : 0;
}

/* Computes items first to last - 1. */
struct item_range {
	struct delta_job *job;
	size_t first;
};

static int range_item(void *context, int w, size_t i, struct err *err)
{
	const struct item_range *range = context;

	return compute_item(range->job, w, range->first + i, err);
}

static int compute_items(struct delta_job *job, size_t first, size_t last, struct err *err)
{
	struct item_range range = { job, first };

	return pool_run(job->params->n_threads, last - first, range_item, &range,
			job->progress->stop, err);
}

/* --- weight files --- */

/* Sets *can: is the base's file of that name the same but for changes, and nobody else's?  A link,
 * or a file with a second name, is replaced. */
static int can_patch(struct delta_job *job, const struct delta_shard *shard, bool *can,
		     struct err *err)
{
	struct buf header = { 0 };
	struct stat st;
	int rc = 0;

	*can = false;
	if (fstatat(job->out.fd, shard->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    st.st_nlink != 1)
		return 0;
	for (size_t i = 0; i < job->base.checkpoint.n_shards && !*can && !rc; i++) {
		const struct shard *was = &job->base.checkpoint.shards[i];

		if (strcmp(was->name, shard->name) != 0 ||
		    was->file.data_start != shard->header.len ||
		    was->file.n_tensors != shard->file.n_tensors)
			continue;
		buf_reserve(&header, shard->header.len);
		rc = source_read_file(&job->base.source, i, 0, shard->header.len, header.data, err);
		*can = !rc && !memcmp(header.data, shard->header.data, shard->header.len) &&
		       (uint64_t)st.st_size == was->file.identity.size;
	}
	buf_release(&header);
	return rc;
}

/* Returns the bytes of a weight file. */
static uint64_t shard_size(const struct delta_shard *shard)
{
	uint64_t size = shard->header.len;

	for (size_t t = 0; t < shard->file.n_tensors; t++)
		size += st_tensor_size(&shard->file.tensors[t]);
	return size;
}

/* ERR_SYSTEM unless there is space for the files that will wait in the staging directory. */
static int check_space(const struct delta_job *job, struct err *err)
{
	const struct delta_file *delta = &job->delta;
	uint64_t bytes = 0;

	for (size_t i = 0; i < delta->n_shards; i++)
		bytes += job->patched[i] ? 0 : shard_size(&delta->shards[i]);
	for (size_t i = 0; i < delta->n_files; i++)
		if (delta->files[i].n_frame || job->params->output)
			bytes += delta->files[i].size;
	if (!job->stage.path || job->unbased)
		return 0;
	return outdir_check_space(&job->stage, bytes, err);
}

static int compute_shard(struct delta_job *job, size_t i, struct err *err)
{
	const struct delta_shard *shard = &job->delta.shards[i];
	struct writer writer = { 0 };
	uint32_t crc;
	int rc = -1;

	job->file = &shard->file;
	if (job->stage.path && !job->patched[i]) {
		if (writer_open(&writer, &job->stage, shard->name, &shard->header,
				shard_size(shard), err))
			goto out;
		job->writer = &writer;
	}
	rc = compute_items(job, job->pairs.shard_first[i], job->pairs.shard_first[i + 1], err);
	if (!rc && job->writer && !job->unbased)
		rc = writer_commit(&writer, &crc, err);
out:
	job->writer = NULL;
	job->file = NULL;
	writer_release(&writer);
	return rc;
}

static int check_digests(struct delta_job *job, struct err *err)
{
	const struct delta_file *delta = &job->delta;

	delta_digest(&job->pairs.sides[0], job->digests[0]);
	delta_digest(&job->pairs.sides[1], job->digests[1]);
	if (strcmp(job->digests[0], delta->base) != 0 &&
	    strcmp(job->digests[0], delta->result) != 0)
		return err_set(err, ERR_INPUT,
			       "the tensors of '%s' have SHA-256 %s, but '%s' applies to %s: apply "
			       "it to the checkpoint that it was made from",
			       job->params->base, job->digests[0], delta->file.name, delta->base);
	if (job->unbased || strcmp(job->digests[1], delta->result) != 0)
		return err_set(err, ERR_INPUT,
			       "'%s' is damaged: tensors with SHA-256 %s come out, but its header "
			       "says %s: copy or make it again",
			       delta->file.name, job->digests[1], delta->result);
	return 0;
}

/* Pairs base and result.  A result of more chunks than base and delta have needs another base: only
 * the digest of this one is found. */
static void pair(struct delta_job *job)
{
	const struct delta_file *delta = &job->delta;
	uint64_t needed = 0, has = delta->n_rows;
	size_t n_result = delta->n_tensors, row = 0;

	for (size_t i = 0; i < delta->n_tensors; i++)
		needed += (st_tensor_size(delta->tensors[i].tensor) + CHUNK_SIZE - 1) / CHUNK_SIZE;
	for (size_t i = 0; i < job->base.n_tensors; i++)
		has += (st_tensor_size(job->base.tensors[i].tensor) + CHUNK_SIZE - 1) / CHUNK_SIZE;
	if (needed > has) {
		job->unbased = true;
		n_result = 0;
	}
	delta_pairs_make(&job->pairs, job->base.tensors, job->base.n_tensors, delta->tensors,
			 n_result, delta->n_shards);
	job->rows = xcalloc(job->pairs.n_items + 1, sizeof *job->rows);
	for (size_t i = 0; i < job->pairs.n_items && row < delta->n_rows; i++) {
		const struct delta_item *item = &job->pairs.items[i];

		if (delta->rows[row].tensor == item->tensors[1] &&
		    delta->rows[row].chunk == item->chunk)
			job->rows[i] = &delta->rows[row++];
	}
}

int apply_compute(struct delta_job *job, struct err *err)
{
	bool in_place = job->out.path && !job->params->output;
	int rc = 0;

	pair(job);
	progress_begin(job->progress, PROGRESS_WORK, job->base.checkpoint.data_bytes);
	for (size_t i = 0; i < job->delta.n_shards && in_place && !rc; i++)
		rc = can_patch(job, &job->delta.shards[i], &job->patched[i], err);
	rc = rc ? rc : check_space(job, err);
	for (size_t i = 0; i < job->delta.n_shards && !rc; i++)
		rc = compute_shard(job, i, err);
	if (!rc)
		rc = compute_items(job, job->pairs.shard_first[job->delta.n_shards],
				   job->pairs.n_items, err);
	rc = source_close(&job->base.source, rc, err);
	return rc ? -1 : check_digests(job, err);
}

/* --- is it the result? --- */

static int files_equal(struct delta_job *job, const struct checkpoint *checkpoint, bool *equal,
		       struct err *err)
{
	struct progress unwatched = { .stop = job->progress->stop };
	int dirfd = delta_directory(checkpoint, err), rc = 0;
	struct sha256 sha256;

	if (dirfd < 0)
		return -1;
	for (size_t i = 0; i < job->delta.n_files && *equal && !rc; i++) {
		const struct delta_entry *entry = &job->delta.files[i];
		struct stat st;

		if (checkpoint->io->fstatat(checkpoint->io, dirfd, entry->name, &st, 0))
			*equal = false;
		else
			rc = checksum_sha256(checkpoint->io, dirfd, entry->name, &unwatched,
					     &sha256, err);
		*equal = *equal && !rc && !strcmp(sha256.hex, entry->sha256);
	}
	for (size_t i = 0; i < job->delta.n_removed && *equal; i++)
		*equal =
			!io_exists_in(checkpoint->io, checkpoint->directory, job->delta.removed[i]);
	checkpoint->io->close(checkpoint->io, dirfd);
	return rc;
}

static int headers_equal(const struct delta_job *job, const struct checkpoint *checkpoint,
			 bool *equal, struct err *err)
{
	struct buf header = { 0 };
	struct source source;
	int rc = 0;

	source_init(&source, checkpoint->io, checkpoint, NULL, -1);
	*equal = checkpoint->n_shards == job->delta.n_shards;
	for (size_t i = 0; i < job->delta.n_shards && *equal && !rc; i++) {
		const struct delta_shard *shard = &job->delta.shards[i];
		const struct shard *is = &checkpoint->shards[i];

		*equal = !strcmp(is->name, shard->name) && is->file.data_start == shard->header.len;
		if (!*equal)
			break;
		buf_reserve(&header, shard->header.len);
		rc = source_read_file(&source, i, 0, shard->header.len, header.data, err);
		*equal = !rc && !memcmp(header.data, shard->header.data, shard->header.len);
	}
	rc = source_close(&source, rc, err);
	source_release(&source);
	buf_release(&header);
	return rc;
}

static int is_result(struct delta_job *job, const struct checkpoint *checkpoint, bool *is,
		     struct err *err)
{
	if (headers_equal(job, checkpoint, is, err))
		return -1;
	return *is ? files_equal(job, checkpoint, is, err) : 0;
}

static int open_base(struct delta_job *job, const char *path, struct err *err)
{
	const struct delta_params *params = job->params;

	return delta_checkpoint_open(&job->base, params->io, path, params->n_threads, err);
}

static void release_base(struct delta_job *job)
{
	free(job->rows);
	job->rows = NULL;
	delta_pairs_release(&job->pairs);
	delta_checkpoint_release(&job->base);
}

int apply_look(struct delta_job *job, const char *path, bool *is, struct err *err)
{
	struct err reason;
	int rc = 0;

	if (open_base(job, path, &reason) == 0) {
		delta_pairs_make(&job->pairs, job->base.tensors, job->base.n_tensors, NULL, 0, 0);
		job->rows = xcalloc(job->pairs.n_items + 1, sizeof *job->rows);
		rc = is_result(job, &job->base.checkpoint, is, err);
		if (!rc && *is)
			rc = compute_items(job, 0, job->pairs.n_items, err);
		if (!rc && *is) {
			delta_digest(&job->pairs.sides[0], job->digests[0]);
			*is = !strcmp(job->digests[0], job->delta.result);
		}
	}
	release_base(job);
	return rc;
}

/* --- the whole --- */

static int job_open(struct delta_job *job, struct err *err)
{
	const struct delta_params *params = job->params;

	if (delta_open(&job->delta, params->io, params->delta, err))
		return -1;
	job->patched = xcalloc(job->delta.n_shards + 1, sizeof *job->patched);
	job->workers = xcalloc((size_t)params->n_threads, sizeof *job->workers);
	for (int i = 0; i < params->n_threads; i++) {
		struct apply_worker *worker = &job->workers[i];

		if (chunk_coder_init(&worker->coder, err))
			return -1;
		for (int s = 0; s < 2; s++)
			if (buffer_alloc((void **)&worker->data[s], CHUNK_SIZE + WRITER_ALIGN,
					 "a chunk", err))
				return -1;
	}
	return 0;
}

static void job_release(struct delta_job *job)
{
	for (int i = 0; job->workers && i < job->params->n_threads; i++) {
		chunk_coder_release(&job->workers[i].coder);
		free(job->workers[i].data[0]);
		free(job->workers[i].data[1]);
	}
	free(job->workers);
	free(job->patched);
	release_base(job);
	delta_release(&job->delta);
	outdir_close(&job->stage);
	outdir_close(&job->out);
}

static void count(const struct delta_job *job, struct delta_counts *counts)
{
	const struct delta_file *delta = &job->delta;

	counts->n_tensors = delta->n_tensors;
	for (size_t i = 0; i < delta->n_rows; i++) {
		counts->n_changed += !i || delta->rows[i].tensor != delta->rows[i - 1].tensor;
		counts->n_elements += delta->rows[i].count;
	}
	for (size_t i = 0; i < delta->n_files; i++)
		counts->n_files += delta->files[i].n_frame != 0;
	counts->n_removed = delta->n_removed;
	for (size_t i = 0; i < delta->n_shards; i++)
		counts->result_bytes += shard_size(&delta->shards[i]);
	counts->delta_bytes = delta->st.identity.size;
	memcpy(counts->base, delta->base, sizeof counts->base);
	memcpy(counts->result, delta->result, sizeof counts->result);
}

/* Does all before the output changes.  *already: there is nothing to change. */
static int prepare(struct delta_job *job, bool *already, struct err *err)
{
	if (open_base(job, job->params->base, err) || apply_compute(job, err))
		return -1;
	*already = false;
	if (!job->params->output && !strcmp(job->digests[0], job->delta.result) &&
	    is_result(job, &job->base.checkpoint, already, err))
		return -1;
	return *already ? 0 : stage_files(job, err);
}

static int apply(struct delta_job *job, struct delta_counts *counts, struct err *err)
{
	bool resumes = false;

	if (job_open(job, err) || stage_open(job, &resumes, &counts->already, err))
		return -1;
	if (!counts->already && !resumes && prepare(job, &counts->already, err)) {
		stage_discard(job);
		return -1;
	}
	if (counts->already)
		stage_discard(job);
	else if (stage_finish(job, err))
		return -1;
	count(job, counts);
	return 0;
}

int delta_apply(const struct delta_params *params, struct delta_counts *counts,
		struct progress *progress, struct err *err)
{
	struct delta_job job = { .params = params, .progress = progress };
	int rc;

	*counts = (struct delta_counts){ 0 };
	rc = apply(&job, counts, err);
	job_release(&job);
	return rc;
}

int delta_verify(const struct delta_params *params, struct delta_counts *counts,
		 struct progress *progress, struct err *err)
{
	struct delta_job job = { .params = params, .progress = progress };
	int rc = -1;

	*counts = (struct delta_counts){ 0 };
	if (!job_open(&job, err) && !open_base(&job, params->base, err) &&
	    !apply_compute(&job, err)) {
		count(&job, counts);
		rc = 0;
	}
	job_release(&job);
	return rc;
}
