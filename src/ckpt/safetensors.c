/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a safetensors file: checks every size against that of the file before it is used or memory
 * is allocated for it.
 */
#include "ckpt/safetensors.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ckpt/mistaken.h"
#include "ckpt/safetensors_header.h"

static int check_header_size(const char *path, uint64_t n, uint64_t file_size, struct err *err)
{
	if (!file_size)
		return err_set(err, ERR_INPUT, "'%s' is empty: copy or download it again", path);
	if (file_size < 8)
		return err_set(err, ERR_INPUT,
			       "'%s' is %" PRIu64
			       " bytes long, too short for a safetensors file (8)",
			       path, file_size);
	if (n > file_size - 8 && n > ST_MAX_HEADER)
		return err_set(err, ERR_INPUT,
			       "'%s' is not a safetensors file: its header would be %" PRIu64
			       " bytes long, of a file of %" PRIu64,
			       path, n, file_size);
	if (n > file_size - 8)
		return err_set(err, ERR_INPUT,
			       "header of '%s' is %" PRIu64
			       " bytes long, past the end of the file (%" PRIu64 "): copy or "
			       "download it again",
			       path, n, file_size);
	if (n > ST_MAX_HEADER)
		return err_set(err, ERR_INPUT,
			       "header of '%s' is %" PRIu64 " bytes long, more than the limit (%d)",
			       path, n, ST_MAX_HEADER);
	return 0;
}

int st_parse_header(struct st_file *file, const char *header, size_t n, uint64_t file_size,
		    struct err *err)
{
	size_t good;

	if (!file->path)
		file->path = xstrdup("-");
	if (check_header_size(file->path, n, file_size, err))
		return -1;
	good = json_utf8_prefix((struct json_text){ header, n });
	if (good != n)
		return err_set(err, ERR_INPUT,
			       "header of '%s' is not UTF-8 (byte %" PRIu64
			       "): copy or download it again",
			       file->path, 8 + (uint64_t)good);
	file->data_start = 8 + (uint64_t)n;
	file->header_crc = crc32_gzip_refl(0, (const unsigned char *)header, n);
	if (st_header_read(file, header, n, err))
		return -1;
	return st_header_check(file, file_size - file->data_start, err);
}

static int read_header(struct st_file *file, const struct io *io, int fd, struct err *err)
{
	uint64_t file_size = file->identity.size;
	uint64_t n = 0;
	void *header = NULL;
	int rc = -1;

	if (check_header_size(file->path, 0, file_size, err) ||
	    io_pread_full(&(struct file){ io, fd, file->path }, &n, sizeof n, 0, err))
		return -1;
	if (mistaken_file(file->path, (const unsigned char *)&n, file_size, err))
		return -1;
	n = le64toh(n);
	if (check_header_size(file->path, n, file_size, err) ||
	    buffer_alloc(&header, n, "a safetensors header", err) ||
	    io_pread_full(&(struct file){ io, fd, file->path }, header, (size_t)n, 8, err) ||
	    st_parse_header(file, header, (size_t)n, file_size, err))
		goto out;
	rc = io_check_unchanged(&(struct file){ io, fd, file->path }, &file->identity, err);
out:
	free(header);
	return rc;
}

int st_open_fd(struct st_file *file, const struct io *io, int fd, const char *path, struct err *err)
{
	*file = (struct st_file){ .path = xstrdup(path) };
	if (io_identity(io, fd, &file->identity, path, err) || read_header(file, io, fd, err)) {
		st_release(file);
		return -1;
	}
	return 0;
}

int st_open(struct st_file *file, const struct io *io, const char *path, struct err *err)
{
	struct file_identity identity;
	int fd, rc;

	*file = (struct st_file){ 0 };
	if (io_open_regular(io, AT_FDCWD, path, &fd, &identity, err))
		return -1;
	rc = st_open_fd(file, io, fd, path, err);
	io->close(io, fd);
	return rc;
}

const char *st_metadata_find(const struct st_file *file, const char *key)
{
	for (size_t i = 0; i < file->n_metadata; i++)
		if (!strcmp(file->metadata[i].key, key))
			return file->metadata[i].value;
	return NULL;
}

void st_release(struct st_file *file)
{
	arena_release(&file->texts);
	free(file->tensors);
	free(file->by_name);
	free(file->metadata);
	free(file->path);
	*file = (struct st_file){ 0 };
}

bool st_has_control(const char *text)
{
	return text[text_control(text)];
}

bool st_same_shape(const struct st_tensor *a, const struct st_tensor *b)
{
	return a->n_dims == b->n_dims &&
	       (!a->n_dims || !memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape));
}

uint64_t st_tensor_size(const struct st_tensor *tensor)
{
	return tensor->end - tensor->begin;
}

uint64_t st_n_elements(const uint64_t *shape, int n_dims)
{
	uint64_t n = 1;

	for (int i = 0; i < n_dims; i++)
		n *= shape[i];
	return n;
}

uint64_t *st_shape_copy(struct arena *arena, const uint64_t *shape, int n_dims)
{
	size_t size = (size_t)n_dims * sizeof *shape;

	return memcpy(arena_alloc(arena, size), shape, size);
}

void st_shape_format(struct buf *buf, const uint64_t *shape, int n_dims)
{
	buf_putc(buf, '[');
	for (int i = 0; i < n_dims; i++) {
		if (i)
			buf_puts(buf, ", ");
		buf_u64(buf, shape[i]);
	}
	buf_putc(buf, ']');
}

struct st_shape_text st_shape(const struct st_tensor *tensor)
{
	struct st_shape_text shape;
	struct buf text = { 0 };

	st_shape_format(&text, tensor->shape, tensor->n_dims);
	memcpy(shape.text, text.data, text.len + 1);
	buf_release(&text);
	return shape;
}
