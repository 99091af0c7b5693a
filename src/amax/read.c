/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads fp8conv-amax(5).  st_open_fd() has checked names, offsets and sizes against the file, so
 * this allocates at most twice the file's size.
 */
#include "amax/amax.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct amax_reader {
	struct amax_stats *stats;
	const struct io *io;
	int fd;
	const struct st_file *file;
};

/* Returns a text that must exist; NULL with ERR_INPUT. */
static const char *metadata_get(const struct st_file *file, const char *key, struct err *err)
{
	const char *value = st_metadata_find(file, key);

	if (value && *value && !st_has_control(value))
		return value;
	err_set(err, ERR_INPUT, "metadata '%s' of '%s' is %s", key, file->path,
		!value	 ? "missing"
		: *value ? "a string with control characters"
			 : "empty");
	return NULL;
}

static int read_version(const struct st_file *file, struct err *err)
{
	const char *version = st_metadata_find(file, AMAX_VERSION_KEY);

	if (!version)
		return err_set(err, ERR_INPUT, "'%s' is not an amax file: its metadata has no '%s'",
			       file->path, AMAX_VERSION_KEY);
	if (strcmp(version, AMAX_VERSION) != 0)
		return err_set(err, ERR_INPUT, "'%s' is an amax file of version '%s', not %s",
			       file->path, version, AMAX_VERSION);
	return 0;
}

/* Reads a decimal number without sign, blanks or leading zeros. */
static int read_count(const struct st_file *file, const struct amax_count *count, uint64_t *value,
		      struct err *err)
{
	const char *text = metadata_get(file, count->key, err);
	size_t n;

	if (!text)
		return -1;
	n = strspn(text, "0123456789");
	*value = n < 20 ? strtoull(text, NULL, 10) : UINT64_MAX;
	if (text[n] || (*text == '0' && n > 1) || *value < count->min || *value > count->max)
		return err_set(err, ERR_INPUT,
			       "metadata '%s' of '%s' is '%s', not an integer from %" PRIu64
			       " to %" PRIu64,
			       count->key, file->path, text, count->min, count->max);
	return 0;
}

static int read_data(const struct st_file *file, uint64_t data[2], struct err *err)
{
	const char *text = metadata_get(file, "data", err);
	char half[17] = { 0 };

	if (!text)
		return -1;
	if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		return err_set(err, ERR_INPUT,
			       "metadata 'data' of '%s' is '%s', not 32 hexadecimal digits",
			       file->path, text);
	memcpy(half, text, 16);
	data[0] = strtoull(half, NULL, 16);
	data[1] = strtoull(text + 16, NULL, 16);
	return 0;
}

/* Reads "I/N" and the fingerprint, which only the history of a rank has. */
static int read_rank(const struct st_file *file, struct amax_rank *rank, struct err *err)
{
	const char *text = metadata_get(file, AMAX_RANK_KEY, err), *job;
	char *end = NULL, *canonical;
	bool good;

	if (!text)
		return -1;
	rank->index = strtoull(text, &end, 10);
	rank->n = *end == '/' ? strtoull(end + 1, NULL, 10) : 0;
	canonical = xasprintf("%" PRIu64 "/%" PRIu64, rank->index, rank->n);
	good = !strcmp(text, canonical) && rank->index >= 1 && rank->index <= rank->n &&
	       rank->n <= AMAX_RANKS_MAX;
	free(canonical);
	if (!good)
		return err_set(err, ERR_INPUT,
			       "metadata '" AMAX_RANK_KEY
			       "' of '%s' is '%s', not I/N with I from 1 to N, at most %d",
			       file->path, text, AMAX_RANKS_MAX);
	job = metadata_get(file, AMAX_JOB_KEY, err);
	if (!job)
		return -1;
	if (strlen(job) != sizeof rank->job - 1 || strspn(job, "0123456789abcdef") != strlen(job))
		return err_set(err, ERR_INPUT,
			       "metadata '" AMAX_JOB_KEY
			       "' of '%s' is '%s', not 32 hexadecimal digits",
			       file->path, job);
	memcpy(rank->job, job, sizeof rank->job);
	return 0;
}

static int read_metadata(struct amax_stats *stats, const struct st_file *file, struct err *err)
{
	char *base = (char *)stats;

	if (read_version(file, err) || read_data(file, stats->data, err))
		return -1;
	for (const struct amax_count *count = amax_counts; count->key; count++)
		if (read_count(file, count, (uint64_t *)(base + count->offset), err))
			return -1;
	if (st_metadata_find(file, amax_planned.key) &&
	    read_count(file, &amax_planned, &stats->n_planned, err))
		return -1;
	if ((st_metadata_find(file, AMAX_RANK_KEY) || st_metadata_find(file, AMAX_JOB_KEY)) &&
	    read_rank(file, &stats->rank, err))
		return -1;
	for (const struct amax_text *row = amax_texts; row->key; row++) {
		const char *text = metadata_get(file, row->key, err);

		if (!text)
			return -1;
		*(char **)(base + row->offset) = xstrdup(text);
	}
	return 0;
}

/* Returns the part of a site that a tensor's name means; N_AMAX_PARTS if none. */
static enum amax_part part_of(const char *name)
{
	const char *dot = strrchr(name, '.');
	int i = 0;

	if (!dot || dot == name)
		return N_AMAX_PARTS;
	while (i < N_AMAX_PARTS && strcmp(dot, amax_tensors[i].suffix) != 0)
		i++;
	return (enum amax_part)i;
}

static int check_form(const struct st_file *file, const struct st_tensor *tensor,
		      enum amax_part part, struct err *err)
{
	const struct amax_tensor *row = &amax_tensors[part];
	bool good = tensor->dtype == row->dtype && tensor->n_dims == row->n_dims;

	for (int i = 0; good && i < row->n_dims; i++)
		good = !row->shape[i] || tensor->shape[i] == row->shape[i];
	if (good)
		return 0;
	return err_set(err, ERR_INPUT, "tensor '%s' in '%s' is %s %s, not %s", tensor->name,
		       file->path, dtype_name(tensor->dtype), st_shape(tensor).text, row->text);
}

/* Reads rows of row_size bytes into memory that ARRAY_GROW() can extend. */
static int read_rows(const struct amax_reader *reader, const struct st_tensor *tensor,
		     size_t n_rows, size_t row_size, void *rows, struct err *err)
{
	void **memory = rows;
	size_t room = 1;

	while (room < n_rows)
		room *= 2;
	*memory = xreallocarray(NULL, room, row_size);
	if (io_pread_full(&(struct file){ reader->io, reader->fd, reader->file->path }, *memory,
			  (size_t)st_tensor_size(tensor), reader->file->data_start + tensor->begin,
			  err))
		return err_wrap(err, "tensor '%s'", tensor->name);
	return 0;
}

static int check_magnitude(const struct amax_reader *reader, const struct st_tensor *tensor,
			   float value, size_t row, int column, struct err *err)
{
	if (isnan(value))
		return err_set(err, ERR_INPUT, "tensor '%s' in '%s' has NaN at [%zu, %d]",
			       tensor->name, reader->file->path, row, column);
	if (signbit(value))
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' has %g at [%zu, %d], not a magnitude",
			       tensor->name, reader->file->path, (double)value, row, column);
	return 0;
}

static int check_history(const struct amax_reader *reader, const struct st_tensor *tensor,
			 const struct amax_site *site, struct err *err)
{
	for (size_t row = 0; row < site->n_passes; row++)
		for (int column = 0; column < 3; column++)
			if (check_magnitude(reader, tensor, site->history[row][column], row, column,
					    err))
				return -1;
	return 0;
}

static int read_history(const struct amax_reader *reader, const struct st_tensor *tensor,
			enum amax_part part, char *name, struct err *err)
{
	enum amax_kind kind = part == AMAX_PART_QKV ? AMAX_ATTENTION : AMAX_GEMM;
	struct amax_site *site = amax_stats_site(reader->stats, name, kind);

	if (!site)
		return err_set(err, ERR_INPUT, "'%s' in '%s' is both a module and an attention",
			       name, reader->file->path);
	if (tensor->shape[0] > site->limit)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' has %" PRIu64 " passes, more than its "
			       "amax_history_len (%" PRIu64 ")",
			       tensor->name, reader->file->path, tensor->shape[0], site->limit);
	site->n_passes = (size_t)tensor->shape[0];
	if (read_rows(reader, tensor, site->n_passes, sizeof *site->history, &site->history, err))
		return -1;
	return check_history(reader, tensor, site, err);
}

static int read_tokens(const struct amax_reader *reader, const struct st_tensor *tensor,
		       struct amax_site *site, struct err *err)
{
	if (tensor->shape[0] != site->n_passes)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' has %" PRIu64
			       " passes, but the history has %zu",
			       tensor->name, reader->file->path, tensor->shape[0], site->n_passes);
	if (read_rows(reader, tensor, site->n_passes, sizeof *site->tokens, &site->tokens, err))
		return -1;
	for (size_t i = 0; i < site->n_passes; i++)
		if (site->tokens[i] < 0)
			return err_set(err, ERR_INPUT,
				       "tensor '%s' in '%s' has %" PRId64 " at [%zu], not a count",
				       tensor->name, reader->file->path, site->tokens[i], i);
	return 0;
}

/* Reads tokens or a histogram of a site whose history was read. */
static int read_partner(const struct amax_reader *reader, const struct st_tensor *tensor,
			enum amax_part part, const char *name, struct err *err)
{
	struct amax_site *site = amax_stats_find(reader->stats, name, AMAX_GEMM);

	if (!site && part == AMAX_PART_TOKENS)
		site = amax_stats_find(reader->stats, name, AMAX_ATTENTION);
	if (!site)
		return err_set(err, ERR_INPUT, "tensor '%s' in '%s' has no history", tensor->name,
			       reader->file->path);
	if (part == AMAX_PART_TOKENS)
		return read_tokens(reader, tensor, site, err);
	return read_rows(reader, tensor, AMAX_BINS, sizeof *site->histogram, &site->histogram, err);
}

static int read_tensor(const struct amax_reader *reader, const struct st_tensor *tensor,
		       enum amax_part part, struct err *err)
{
	char *name =
		xstrndup(tensor->name, strlen(tensor->name) - strlen(amax_tensors[part].suffix));
	bool history = part == AMAX_PART_HISTORY || part == AMAX_PART_QKV;
	int rc = history ? read_history(reader, tensor, part, name, err)
			 : read_partner(reader, tensor, part, name, err);

	free(name);
	return rc;
}

/* Reads all histories, or all other tensors. */
static int read_tensors(const struct amax_reader *reader, bool histories, struct err *err)
{
	const struct st_file *file = reader->file;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct st_tensor *tensor = file->by_name[i];
		enum amax_part part = part_of(tensor->name);

		if (part == N_AMAX_PARTS)
			return err_set(err, ERR_INPUT,
				       "tensor '%s' in '%s' does not belong in an amax file",
				       tensor->name, file->path);
		if (histories != (part == AMAX_PART_HISTORY || part == AMAX_PART_QKV))
			continue;
		if (check_form(file, tensor, part, err) || read_tensor(reader, tensor, part, err))
			return -1;
	}
	return 0;
}

static int check_partners(const struct amax_reader *reader, struct err *err)
{
	for (size_t i = 0; i < reader->stats->n_sites; i++)
		if (!reader->stats->sites[i]->tokens)
			return err_set(err, ERR_INPUT, "'%s' in '%s' has a history, but no '%s%s'",
				       reader->stats->sites[i]->name, reader->file->path,
				       reader->stats->sites[i]->name,
				       amax_tensors[AMAX_PART_TOKENS].suffix);
	return 0;
}

int amax_stats_read(struct amax_stats *stats, const struct io *io, const char *path,
		    struct err *err)
{
	struct st_file file = { 0 };
	struct amax_reader reader = { .stats = stats, .io = io, .fd = -1, .file = &file };
	struct file_identity identity;
	int rc = -1;

	*stats = (struct amax_stats){ 0 };
	if (io_open_regular(io, AT_FDCWD, path, &reader.fd, &identity, err))
		return -1;
	if (st_open_fd(&file, io, reader.fd, path, err) || read_metadata(stats, &file, err) ||
	    read_tensors(&reader, true, err) || read_tensors(&reader, false, err) ||
	    check_partners(&reader, err) ||
	    io_check_unchanged(&(struct file){ io, reader.fd, path }, &file.identity, err))
		goto out;
	rc = 0;
out:
	if (rc)
		amax_stats_release(stats);
	st_release(&file);
	io->close(io, reader.fd);
	return rc;
}

bool amax_is_file(const struct st_file *file)
{
	return st_metadata_find(file, AMAX_VERSION_KEY) != NULL;
}
