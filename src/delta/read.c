/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a delta.  Nothing of it is trusted: sizes are checked before memory is taken, names before
 * they are paths, and every row before its frame is read.
 */
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "ckpt/index.h"
#include "delta/delta.h"
#include "delta/files.h"

#define ABOUT_LIMIT   ((uint64_t)256 << 20) /* bytes: a million files */
#define HEADERS_LIMIT ((uint64_t)1 << 30)   /* bytes of all headers */

static const char *metadata_of(const struct st_file *st, const char *key)
{
	const char *value = st_metadata_find(st, key);

	return value ? value : "";
}

bool delta_is_file(const struct io *io, const char *path)
{
	struct st_file st = { 0 };
	struct err ignored;
	struct stat stat;
	/* what is read once, as a pipe, is left to others */
	bool is_delta = !io->fstatat(io, AT_FDCWD, path, &stat, 0) && S_ISREG(stat.st_mode) &&
			!st_open(&st, io, path, &ignored) &&
			!strcmp(metadata_of(&st, "format"), DELTA_FORMAT);

	st_release(&st);
	return is_delta;
}

/* --- the file itself --- */

static int damaged(const struct delta_file *delta, struct err *err, const char *what)
{
	return err_set(err, ERR_INPUT, "'%s' is damaged: %s: copy or make it again",
		       delta->file.name, what);
}

int delta_wrap(const struct delta_file *delta, const char *part, const char *name, struct err *err)
{
	struct err inner = *err;

	if (err->kind != ERR_INPUT)
		return -1;
	return err_set(err, ERR_INPUT, "'%s' is damaged: %s '%s': %s: copy or make it again",
		       delta->file.name, part, name, inner.message);
}

static int get_digest(const struct delta_file *delta, const char *key, char hex[SHA256_HEX],
		      struct err *err)
{
	const char *value = metadata_of(&delta->st, key);

	if (strlen(value) != SHA256_HEX - 1 || value[strspn(value, "0123456789abcdef")])
		return damaged(delta, err, "its metadata has no SHA-256 of base and result");
	memcpy(hex, value, SHA256_HEX);
	return 0;
}

/* Finds a part of the file.  Returns NULL with *err set where it is missing. */
static const struct st_tensor *part(const struct delta_file *delta, const char *name,
				    enum dtype dtype, struct err *err)
{
	for (size_t i = 0; i < delta->st.n_tensors; i++) {
		const struct st_tensor *tensor = &delta->st.tensors[i];

		if (!strcmp(tensor->name, name) && tensor->dtype == dtype)
			return tensor;
	}
	err_set(err, ERR_INPUT,
		"'%s' is damaged: it has no tensor '%s' of type %s: copy or "
		"make it again",
		delta->file.name, name, dtype_name(dtype));
	return NULL;
}

static int open_file(struct delta_file *delta, struct err *err)
{
	struct file_identity identity;
	struct stat stat;

	if (!delta->file.io->fstatat(delta->file.io, AT_FDCWD, delta->file.name, &stat, 0) &&
	    S_ISDIR(stat.st_mode))
		return err_set(err, ERR_INPUT,
			       "'%s' is a directory, not a delta: give the checkpoint first, and "
			       "then a file of 'fp8conv delta'",
			       delta->file.name);
	if (st_open(&delta->st, delta->file.io, delta->file.name, err))
		return -1;
	if (strcmp(metadata_of(&delta->st, "format"), DELTA_FORMAT) != 0)
		return err_set(err, ERR_INPUT,
			       "'%s' is not a delta, whose metadata has format '%s': make one by "
			       "'fp8conv delta'",
			       delta->file.name, DELTA_FORMAT);
	if (get_digest(delta, "base", delta->base, err) ||
	    get_digest(delta, "result", delta->result, err) ||
	    io_open_regular(delta->file.io, AT_FDCWD, delta->file.name, &delta->file.fd, &identity,
			    err))
		return -1;
	return io_check_unchanged(&delta->file, &delta->st.identity, err);
}

/* Reads a frame of at most `limit` bytes of contents. */
static int read_frame(const struct delta_file *delta, uint64_t offset, uint64_t n, uint64_t limit,
		      struct buf *text, struct err *err)
{
	char *frame = malloc((size_t)n + 1);
	unsigned long long size;
	size_t got;
	int rc = -1;

	if (!frame) {
		err_no_memory(err, "no memory for the %" PRIu64 " bytes of a frame of '%s'", n,
			      delta->file.name);
		goto out;
	}
	if (io_pread_full(&delta->file, frame, (size_t)n, offset, err))
		goto out;
	size = ZSTD_getFrameContentSize(frame, (size_t)n);
	if (size > limit) { /* or unknown, or not a frame */
		damaged(delta, err, "a frame is not of zstd, or is too large");
		goto out;
	}
	text->len = 0;
	buf_reserve(text, (size_t)size);
	got = ZSTD_decompress(text->data, (size_t)size, frame, (size_t)n);
	if (ZSTD_isError(got) || got != size) {
		damaged(delta, err, ZSTD_isError(got) ? ZSTD_getErrorName(got) : "a frame is cut");
		goto out;
	}
	text->len = got;
	text->data[got] = '\0';
	rc = 0;
out:
	free(frame);
	return rc;
}

/* --- what describes the files --- */

/* Reads a member that counts bytes; a missing one is 0. */
static bool get_size(const json_t *record, const char *key, uint64_t *size)
{
	const json_t *value = json_object_get(record, key);

	*size = value ? (uint64_t)json_integer_value(value) : 0;
	return !value || (json_is_integer(value) && json_integer_value(value) >= 0);
}

/* Gives the record's frame, if it has one, the next bytes of `texts`. */
static bool take_frame(uint64_t n, uint64_t end, uint64_t *at, uint64_t *offset)
{
	*offset = *at;
	if (n > end - *at)
		return false;
	*at += n;
	return true;
}

static int read_shard(struct delta_file *delta, const json_t *record, uint64_t frame[2],
		      uint64_t *left, struct err *err)
{
	struct delta_shard *shard = &delta->shards[delta->n_shards];
	uint64_t size, stated;

	shard->name = json_member_text(record, "name");
	if (shard_name_problem(shard->name, false) || !get_size(record, "size", &size) ||
	    (delta->n_shards && strcmp(shard[-1].name, shard->name) >= 0))
		return damaged(delta, err, "names or sizes of weight files are wrong");
	delta->n_shards++;
	if (read_frame(delta, frame[0], frame[1],
		       *left < ST_MAX_HEADER + 8 ? *left : ST_MAX_HEADER + 8, &shard->header, err))
		return -1;
	*left -= shard->header.len;
	shard->file.path = xstrdup(shard->name);
	memcpy(&stated,
	       shard->header.len < 8 ? "\377\377\377\377\377\377\377\377" : shard->header.data, 8);
	if (le64toh(stated) != shard->header.len - 8)
		return damaged(delta, err, "a header has another size than it says");
	if (st_parse_header(&shard->file, shard->header.data + 8, shard->header.len - 8, size, err))
		return delta_wrap(delta, "the header of", shard->name, err);
	delta->n_tensors += shard->file.n_tensors;
	return 0;
}

static int read_entry(struct delta_file *delta, const json_t *record, struct err *err)
{
	struct delta_entry *entry = &delta->files[delta->n_files];

	entry->name = json_member_text(record, "name");
	entry->sha256 = json_member_text(record, "sha256");
	if (delta_name_problem(entry->name) || strlen(entry->sha256) != SHA256_HEX - 1 ||
	    !get_size(record, "size", &entry->size) ||
	    !get_size(record, "frame", &entry->n_frame) ||
	    (delta->n_files && strcmp(entry[-1].name, entry->name) >= 0))
		return damaged(delta, err, "names or sizes of files are wrong");
	delta->n_files++;
	return 0;
}

/* Has the result a weight file of that name? */
static bool has_shard(const struct delta_file *delta, const char *name)
{
	size_t i;

	SEARCH(i, delta->n_shards, strcmp(delta->shards[i].name, name) < 0);
	return i < delta->n_shards && !strcmp(delta->shards[i].name, name);
}

/* Has it another file of that name? */
static bool has_file(const struct delta_file *delta, const char *name)
{
	size_t i;

	SEARCH(i, delta->n_files, strcmp(delta->files[i].name, name) < 0);
	return i < delta->n_files && !strcmp(delta->files[i].name, name);
}

static int read_removed(struct delta_file *delta, const json_t *list, struct err *err)
{
	delta->removed = xcalloc(json_array_size(list) + 1, sizeof *delta->removed);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (!name || delta_name_problem(name) || has_shard(delta, name) ||
		    has_file(delta, name))
			return damaged(delta, err, "names of removed files are wrong");
		delta->removed[delta->n_removed++] = name;
	}
	return 0;
}

/* Reads the lists of files, whose frames lie one after another in `texts`. */
static int read_files(struct delta_file *delta, const struct st_tensor *texts, struct err *err)
{
	json_t *weights = json_object_get(delta->about, "weights");
	json_t *files = json_object_get(delta->about, "files"), *record;
	uint64_t at = delta->st.data_start + texts->begin, left = HEADERS_LIMIT, frame[2];
	uint64_t end = delta->st.data_start + texts->end;
	size_t i;

	delta->shards = xcalloc(json_array_size(weights) + 1, sizeof *delta->shards);
	delta->files = xcalloc(json_array_size(files) + 1, sizeof *delta->files);
	json_array_foreach(weights, i, record)
	{
		if (!get_size(record, "frame", &frame[1]) ||
		    !take_frame(frame[1], end, &at, &frame[0]))
			return damaged(delta, err, "a frame ends past its tensor");
		if (read_shard(delta, record, frame, &left, err))
			return -1;
	}
	json_array_foreach(files, i, record)
	{
		if (read_entry(delta, record, err))
			return -1;
		if (has_shard(delta, delta->files[i].name))
			return damaged(delta, err, "a file has the name of a weight file");
		if (!take_frame(delta->files[i].n_frame, end, &at, &delta->files[i].offset))
			return damaged(delta, err, "a frame ends past its tensor");
	}
	return read_removed(delta, json_object_get(delta->about, "removed"), err);
}

static int read_about(struct delta_file *delta, struct err *err)
{
	const struct st_tensor *texts = part(delta, "texts", DT_U8, err);
	const struct st_tensor *about = texts ? part(delta, "about", DT_U8, err) : NULL;
	struct buf text = { 0 };
	int rc = -1;

	if (!about || read_frame(delta, delta->st.data_start + about->begin, st_tensor_size(about),
				 ABOUT_LIMIT, &text, err))
		goto out;
	delta->about = json_decode((struct json_text){ text.data, text.len }, err);
	rc = delta->about ? read_files(delta, texts, err)
			  : delta_wrap(delta, "tensor", "about", err);
out:
	buf_release(&text);
	return rc;
}

/* --- the table --- */

COMPARISON(compare_tensor_names, struct st_tensor *const, strcmp((*x)->name, (*y)->name))

static int list_tensors(struct delta_file *delta, struct err *err)
{
	const struct st_tensor **names = xcalloc(delta->n_tensors + 1, sizeof *names);
	size_t n = 0;
	int rc = 0;

	delta->tensors = xcalloc(delta->n_tensors + 1, sizeof *delta->tensors);
	for (size_t i = 0; i < delta->n_shards; i++)
		for (size_t j = 0; j < delta->shards[i].file.n_tensors; j++) {
			names[n] = &delta->shards[i].file.tensors[j];
			delta->tensors[n] = (struct tensor_ref){ names[n], i };
			n++;
		}
	sort(names, n, sizeof *names, compare_tensor_names);
	for (size_t i = 1; i < n && !rc; i++)
		if (!strcmp(names[i - 1]->name, names[i]->name))
			rc = damaged(delta, err, "a tensor is in two files");
	free(names);
	return rc;
}

/* Checks row i, and adds its frame to *at. */
static int check_row(struct delta_file *delta, size_t i, uint64_t end, uint64_t *at,
		     struct err *err)
{
	const struct chunk_row *row = &delta->rows[i];
	const struct st_tensor *tensor;
	uint64_t size, begin = (uint64_t)row->chunk * CHUNK_SIZE;

	if (row->tensor >= delta->n_tensors)
		return damaged(delta, err, "its table names a tensor that does not exist");
	tensor = delta->tensors[row->tensor].tensor;
	size = st_tensor_size(tensor);
	if (begin >= size ||
	    (i && (row[-1].tensor > row->tensor ||
		   (row[-1].tensor == row->tensor && row[-1].chunk >= row->chunk))))
		return damaged(delta, err, "the chunks of its table are not in order");
	if (chunk_row_check(row, chunk_element_size(tensor->dtype),
			    size - begin < CHUNK_SIZE ? (size_t)(size - begin) : CHUNK_SIZE, err))
		return delta_wrap(delta, "tensor", tensor->name, err);
	if (!take_frame(row->size, end, at, &delta->offsets[i]))
		return damaged(delta, err, "a frame ends past its tensor");
	return 0;
}

static int read_table(struct delta_file *delta, struct err *err)
{
	const struct st_tensor *table = part(delta, "table", DT_U32, err);
	const struct st_tensor *changes = table ? part(delta, "changes", DT_U8, err) : NULL;
	uint64_t at;

	if (!changes)
		return -1;
	if (table->n_dims != 2 || table->shape[1] != CHUNK_ROW_SIZE / 4)
		return damaged(delta, err, "its table has another shape than [n, 5]");
	delta->n_rows = (size_t)table->shape[0];
	delta->rows = malloc(delta->n_rows * sizeof *delta->rows + 1);
	delta->offsets = malloc(delta->n_rows * sizeof *delta->offsets + 1);
	if (!delta->rows || !delta->offsets)
		return err_no_memory(err, "no memory for the table of '%s'", delta->file.name);
	if (io_pread_full(&delta->file, delta->rows, delta->n_rows * CHUNK_ROW_SIZE,
			  delta->st.data_start + table->begin, err))
		return -1;
	at = delta->st.data_start + changes->begin;
	for (size_t i = 0; i < delta->n_rows; i++) {
		struct chunk_row *row = &delta->rows[i];

		*row = (struct chunk_row){ le32toh(row->tensor), le32toh(row->chunk),
					   le32toh(row->kind), le32toh(row->count),
					   le32toh(row->size) };
		if (check_row(delta, i, delta->st.data_start + changes->end, &at, err))
			return -1;
	}
	return 0;
}

int delta_open(struct delta_file *delta, const struct io *io, const char *path, struct err *err)
{
	*delta = (struct delta_file){ .file = { io, -1, path } };
	if (!open_file(delta, err) && !read_about(delta, err) && !list_tensors(delta, err) &&
	    !read_table(delta, err))
		return 0;
	delta_release(delta);
	return -1;
}

void delta_release(struct delta_file *delta)
{
	if (delta->file.io && delta->file.fd >= 0)
		delta->file.io->close(delta->file.io, delta->file.fd);
	for (size_t i = 0; i < delta->n_shards; i++) {
		buf_release(&delta->shards[i].header);
		st_release(&delta->shards[i].file);
	}
	free(delta->shards);
	free(delta->files);
	free(delta->removed);
	free(delta->tensors);
	free(delta->rows);
	free(delta->offsets);
	json_decref(delta->about);
	st_release(&delta->st);
	*delta = (struct delta_file){ 0 };
}
