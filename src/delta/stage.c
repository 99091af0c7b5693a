/* SPDX-License-Identifier: Apache-2.0
 *
 * Files wait in a staging directory of the output, complete and flushed, until all of them are
 * there.  The journal in it is the moment of the change: without it the output is what it was, and
 * with it the same command does the rest.  config.json is away while weights change, so that no
 * engine loads a mixture.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/text.h"
#include "delta/steps.h"

#define JOURNAL	      ".journal"
#define JOURNAL_LIMIT ((size_t)256 << 20)
#define PIECE	      ((size_t)1 << 20)
#define PAGE	      ((size_t)4096)

/* The name of a file that waits, by its place in the list. */
struct stage_name {
	char text[24];
};

static struct stage_name name_of_file(size_t i)
{
	struct stage_name name;

	snprintf(name.text, sizeof name.text, "f%zu", i);
	return name;
}

/* --- opening --- */

static bool is_any(const void *context, const char *name)
{
	(void)context;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, OUTDIR_LOCK) != 0;
}

static bool is_shown(const void *context, const char *name)
{
	(void)context;
	return name[0] != '.';
}

/* Removes all that is staged, the journal first. */
static int clear(struct delta_job *job, struct err *err)
{
	const struct directory directory = { job->stage.io, job->stage.fd, ".", job->stage.path };
	struct listing names = { 0 };
	int rc = outdir_remove(&job->stage, JOURNAL, err);

	rc = rc ? rc : listing_names(&names, &directory, is_any, NULL, err);
	for (size_t i = 0; i < names.n && !rc; i++)
		rc = outdir_remove(&job->stage, names.items[i], err);
	listing_release(&names);
	return rc;
}

/* Sets hex to the SHA-256 of what the result has beside the bytes of its tensors. */
static void digest_files(const struct delta_file *delta, char hex[SHA256_HEX])
{
	struct chunk_hash hash;
	struct buf all = { 0 };

	for (size_t i = 0; i < delta->n_shards; i++) {
		buf_add(&all, delta->shards[i].name, strlen(delta->shards[i].name) + 1);
		buf_add(&all, delta->shards[i].header.data, delta->shards[i].header.len);
	}
	for (size_t i = 0; i < delta->n_files; i++) {
		buf_add(&all, delta->files[i].name, strlen(delta->files[i].name) + 1);
		buf_add(&all, delta->files[i].sha256, SHA256_HEX);
	}
	for (size_t i = 0; i < delta->n_removed; i++)
		buf_add(&all, delta->removed[i], strlen(delta->removed[i]) + 1);
	chunk_hash_make(&hash, all.data, all.len);
	text_hex(hex, hash.bytes, sizeof hash.bytes);
	buf_release(&all);
}

/* Takes a journal up: it must be of this delta. */
static int read_journal(struct delta_job *job, struct err *err)
{
	const struct delta_file *delta = &job->delta;
	char digest[SHA256_HEX];
	struct buf text = { 0 };
	json_t *journal = NULL, *name;
	size_t i;
	int rc = -1;

	digest_files(delta, digest);
	if (io_read_file(job->out.io, job->stage.fd, JOURNAL, JOURNAL_LIMIT, &text, err))
		goto out;
	journal = json_decode((struct json_text){ text.data, text.len }, err);
	if (!journal) {
		err_wrap(err, "'%s/" STAGE_NAME "/" JOURNAL "'", job->out.path);
		goto out;
	}
	if (strcmp(json_member_text(journal, "base"), delta->base) != 0 ||
	    strcmp(json_member_text(journal, "result"), delta->result) != 0 ||
	    strcmp(json_member_text(journal, "files"), digest) != 0) {
		err_set(err, ERR_USAGE,
			"'%s' is partly changed by another delta, whose result has tensors with "
			"SHA-256 %s and files with %s: apply that one first",
			job->out.path, json_member_text(journal, "result"),
			json_member_text(journal, "files"));
		goto out;
	}
	json_array_foreach(json_object_get(journal, "patched"), i, name)
	{
		for (size_t s = 0; s < delta->n_shards && json_is_string(name); s++)
			job->patched[s] |= !strcmp(json_string_value(name), delta->shards[s].name);
	}
	rc = 0;
out:
	json_decref(journal);
	buf_release(&text);
	return rc;
}

/* Finds whether an output that is not empty is the result already. */
static int look_at_output(struct delta_job *job, bool *already, struct err *err)
{
	const struct directory directory = { job->out.io, job->out.fd, ".", job->out.path };
	struct listing names = { 0 };
	int rc = listing_names(&names, &directory, is_shown, NULL, err);

	if (!rc && names.n)
		rc = apply_look(job, job->out.path, already, err);
	if (!rc && names.n && !*already)
		rc = err_set(err, ERR_USAGE, "'%s' is not empty: give another output, or remove it",
			     job->out.path);
	listing_release(&names);
	return rc;
}

static int check_place(const struct delta_params *params, struct err *err)
{
	struct stat base, output;

	if (!params->output && (stat(params->base, &base) || !S_ISDIR(base.st_mode)))
		return err_set(err, ERR_INPUT,
			       "'%s' is not a directory: give that of the checkpoint",
			       params->base);
	if (params->output && !stat(params->base, &base) && !stat(params->output, &output) &&
	    base.st_dev == output.st_dev && base.st_ino == output.st_ino)
		return err_set(err, ERR_USAGE,
			       "base and output are the same directory '%s': give option "
			       "'--in-place' to change it",
			       params->output);
	return 0;
}

int stage_open(struct delta_job *job, bool *resumes, bool *already, struct err *err)
{
	const struct delta_params *params = job->params;
	const char *path = params->output ? params->output : params->base;
	char *stage = xasprintf("%s/" STAGE_NAME, path);
	int rc = -1;

	if (check_place(params, err) ||
	    outdir_open(&job->out, params->io, path, OUTDIR_LOCK, false, err))
		goto out;
	*resumes = outdir_has(&job->out, STAGE_NAME "/" JOURNAL);
	if (!*resumes && params->output && look_at_output(job, already, err))
		goto out;
	if (outdir_open(&job->stage, params->io, stage, OUTDIR_LOCK, false, err))
		goto out;
	rc = *resumes ? read_journal(job, err) : clear(job, err);
out:
	free(stage);
	return rc;
}

/* Removes the staging directory, which is empty. */
static void stage_close(struct delta_job *job)
{
	if (!job->stage.path)
		return;
	outdir_close(&job->stage);
	job->out.io->unlinkat(job->out.io, job->out.fd, STAGE_NAME, AT_REMOVEDIR);
}

void stage_discard(struct delta_job *job)
{
	struct err ignored;

	if (job->stage.path)
		clear(job, &ignored);
	stage_close(job);
}

/* --- files that are not weights --- */

/* Writes what a frame of the delta holds. */
static int unpack(struct delta_job *job, const struct delta_entry *entry, struct writer *writer,
		  struct err *err)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	char *memory = malloc(2 * PIECE);
	uint64_t read = 0, written = 0;
	size_t left = 1;
	int rc = context && memory ? 0 : err_no_memory(err, "no memory for '%s'", entry->name);

	while (!rc && left && read < entry->n_frame) {
		uint64_t rest = entry->n_frame - read;
		ZSTD_inBuffer in = { memory, rest < PIECE ? (size_t)rest : PIECE, 0 };

		rc = io_pread_full(&job->delta.file, memory, in.size, entry->offset + read, err);
		read += in.size;
		while (!rc && left && in.pos < in.size) {
			ZSTD_outBuffer out = { memory + PIECE, PIECE, 0 };

			left = ZSTD_decompressStream(context, &out, &in);
			if (ZSTD_isError(left) || written + out.pos > entry->size)
				left = 0, written = UINT64_MAX - PIECE;
			else
				rc = writer_pwrite(writer, out.dst, out.pos, written, err);
			written += out.pos;
		}
	}
	if (!rc && written != entry->size)
		rc = err_set(err, ERR_INPUT,
			     "'%s' is damaged: file '%s' is not %" PRIu64
			     " bytes: copy or make it again",
			     job->delta.file.name, entry->name, entry->size);
	ZSTD_freeDCtx(context);
	free(memory);
	return rc;
}

static int copy(int dirfd, const struct delta_entry *entry, struct writer *writer, struct err *err)
{
	struct file file = { writer->io, -1, entry->name };
	struct file_identity identity;
	char *memory = xmalloc(PIECE);
	uint64_t at = 0;
	int rc = io_open_regular(file.io, dirfd, entry->name, &file.fd, &identity, err);

	while (!rc && at < entry->size) {
		size_t n = entry->size - at < PIECE ? (size_t)(entry->size - at) : PIECE;

		rc = io_pread_full(&file, memory, n, at, err);
		rc = rc ? rc : writer_pwrite(writer, memory, n, at, err);
		at += n;
	}
	if (file.fd >= 0)
		file.io->close(file.io, file.fd);
	free(memory);
	return rc;
}

/* ERR_INPUT unless the file in that directory has the recorded SHA-256. */
static int check_file(struct delta_job *job, int dirfd, const char *name,
		      const struct delta_entry *entry, struct err *err)
{
	struct progress unwatched = { .stop = job->progress->stop };
	struct sha256 sha256;

	if (checksum_sha256(job->out.io, dirfd, name, &unwatched, &sha256, err))
		return -1;
	if (!strcmp(sha256.hex, entry->sha256))
		return 0;
	return err_set(err, ERR_INPUT,
		       "file '%s' of '%s' has SHA-256 %s, but '%s' applies to %s: restore the "
		       "file",
		       entry->name, job->params->base, sha256.hex, job->delta.file.name,
		       entry->sha256);
}

/* Stages file i, or checks that the base has it. */
static int stage_file(struct delta_job *job, size_t i, int base, struct err *err)
{
	const struct delta_entry *entry = &job->delta.files[i];
	struct stage_name name = name_of_file(i);
	struct writer writer = { 0 };
	uint32_t crc;
	int rc = -1;

	if (!entry->n_frame && check_file(job, base, entry->name, entry, err))
		return -1;
	if (!entry->n_frame && !job->params->output)
		return 0;
	if (writer_open(&writer, &job->stage, name.text, &(struct buf){ 0 }, entry->size, err) ||
	    (entry->n_frame ? unpack(job, entry, &writer, err) : copy(base, entry, &writer, err)) ||
	    writer_commit(&writer, &crc, err))
		goto out;
	rc = check_file(job, job->stage.fd, name.text, entry, err);
out:
	writer_release(&writer);
	return rc;
}

int stage_files(struct delta_job *job, struct err *err)
{
	json_t *journal, *patched = json_array();
	char digest[SHA256_HEX];
	int base = delta_directory(&job->base.checkpoint, err), rc = base < 0 ? -1 : 0;
	char *text;

	for (size_t i = 0; i < job->delta.n_files && !rc; i++)
		rc = stage_file(job, i, base, err);
	if (base >= 0)
		job->base.checkpoint.io->close(job->base.checkpoint.io, base);
	for (size_t i = 0; i < job->delta.n_shards; i++)
		if (job->patched[i])
			json_array_append_new(patched, json_string(job->delta.shards[i].name));
	digest_files(&job->delta, digest);
	journal = json_pack("{s:s, s:s, s:s, s:o}", "base", job->delta.base, "result",
			    job->delta.result, "files", digest, "patched", patched);
	text = json_dumps(journal, JSON_COMPACT);
	rc = rc ? rc : progress_stopped(job->progress->stop, err);
	rc = rc ? rc : outdir_put(&job->stage, JOURNAL, text, strlen(text), err);
	free(text);
	json_decref(journal);
	return rc;
}

/* --- the change --- */

/* A weight file that gets its changes where it is. */
struct shard_patch {
	struct delta_job *job;
	struct file file;
	const struct st_file *layout;
	const struct chunk_row *rows;
};

/* Writes the pages of a chunk that changed, those that lie together at once. */
static int write_pages(const struct shard_patch *patch, const char *was, const char *is, size_t n,
		       uint64_t offset, struct err *err)
{
	size_t begin = 0, end = 0;

	for (size_t at = 0; at < n; at += PAGE) {
		size_t size = n - at < PAGE ? n - at : PAGE;

		if (!memcmp(was + at, is + at, size))
			continue;
		if (at != end) {
			if (io_pwrite_full(&patch->file, is + begin, end - begin, offset + begin,
					   err))
				return -1;
			begin = at;
		}
		end = at + size;
	}
	return io_pwrite_full(&patch->file, is + begin, end - begin, offset + begin, err);
}

static int patch_row(void *context, int w, size_t i, struct err *err)
{
	const struct shard_patch *patch = context;
	struct apply_worker *worker = &patch->job->workers[w];
	const struct chunk_row *row = &patch->rows[i];
	const struct st_tensor *tensor = patch->job->delta.tensors[row->tensor].tensor;
	uint64_t begin = (uint64_t)row->chunk * CHUNK_SIZE, left = st_tensor_size(tensor) - begin;
	uint64_t offset = patch->layout->data_start + tensor->begin + begin;
	size_t n = left < CHUNK_SIZE ? (size_t)left : CHUNK_SIZE;

	if (io_pread_full(&patch->file, worker->data[0], n, offset, err))
		return -1;
	memcpy(worker->data[1], worker->data[0], n);
	if (apply_row(patch->job, worker, row, worker->data[1], n, err))
		return -1;
	return write_pages(patch, worker->data[0], worker->data[1], n, offset, err);
}

/* Changes weight file s in place: its rows are first to last - 1. */
static int patch_shard(struct delta_job *job, size_t s, size_t first, size_t last, struct err *err)
{
	const struct delta_shard *shard = &job->delta.shards[s];
	struct shard_patch patch = {
		job, { job->out.io, -1, shard->name }, &shard->file, job->delta.rows + first
	};
	int rc;

	if (first == last)
		return 0;
	patch.file.fd = io_openat(job->out.io, job->out.fd, shard->name,
				  O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	if (patch.file.fd < 0)
		return err_errno(err, "cannot open '%s/%s'", job->out.path, shard->name);
	rc = pool_run(job->params->n_threads, last - first, patch_row, &patch, NULL, err);
	if (!rc && job->out.io->fsync(job->out.io, patch.file.fd))
		rc = err_errno(err, "cannot write '%s/%s'", job->out.path, shard->name);
	if (job->out.io->close(job->out.io, patch.file.fd) && !rc)
		rc = err_errno(err, "cannot write '%s/%s'", job->out.path, shard->name);
	return rc;
}

/* Gives a staged file its name; one that is not there has it already. */
static int put_name(struct delta_job *job, const char *staged, const char *name, struct err *err)
{
	const struct io *io = job->out.io;
	const char *base;
	int parent, rc = 0;

	if (!outdir_has(&job->stage, staged))
		return 0;
	if (outdir_parent(&job->out, name, true, &parent, &base, err))
		return -1;
	if (io->renameat(io, job->stage.fd, staged, parent, base) || io->fsync(io, parent))
		rc = err_errno(err, "cannot rename '%s' to '%s/%s'", staged, job->out.path, name);
	io->close(io, parent);
	return rc;
}

/* Takes config.json away until all else is there. */
static int hide_config(struct delta_job *job, size_t config, struct err *err)
{
	const struct io *io = job->out.io;
	struct stage_name name = name_of_file(config);

	if (config == job->delta.n_files || !outdir_has(&job->out, CONFIG_NAME))
		return 0;
	if (outdir_has(&job->stage, name.text))
		return outdir_remove(&job->out, CONFIG_NAME, err);
	if (io->renameat(io, job->out.fd, CONFIG_NAME, job->stage.fd, name.text) ||
	    io->fsync(io, job->stage.fd))
		return err_errno(err, "cannot rename '%s/" CONFIG_NAME "' to '%s/%s'",
				 job->out.path, job->stage.path, name.text);
	return outdir_sync(&job->out, err);
}

static int put_weights(struct delta_job *job, struct err *err)
{
	const struct delta_file *delta = &job->delta;
	size_t first, last = 0;

	for (size_t s = 0; s < delta->n_shards; s++) {
		const char *name = delta->shards[s].name;

		first = last;
		while (last < delta->n_rows && delta->tensors[delta->rows[last].tensor].shard == s)
			last++;
		if (job->patched[s] ? patch_shard(job, s, first, last, err)
				    : put_name(job, name, name, err))
			return -1;
	}
	return 0;
}

int stage_finish(struct delta_job *job, struct err *err)
{
	const struct delta_file *delta = &job->delta;
	size_t config = 0;

	while (config < delta->n_files && strcmp(delta->files[config].name, CONFIG_NAME) != 0)
		config++;
	if (hide_config(job, config, err) || put_weights(job, err))
		return -1;
	for (size_t i = 0; i < delta->n_files; i++)
		if (i != config && put_name(job, name_of_file(i).text, delta->files[i].name, err))
			return -1;
	for (size_t i = 0; i < delta->n_removed && !job->params->output; i++)
		if (outdir_has(&job->out, delta->removed[i]) &&
		    outdir_remove(&job->out, delta->removed[i], err))
			return -1;
	if (outdir_sync(&job->out, err) ||
	    (config < delta->n_files &&
	     put_name(job, name_of_file(config).text, CONFIG_NAME, err)) ||
	    clear(job, err))
		return -1;
	stage_close(job);
	return 0;
}
