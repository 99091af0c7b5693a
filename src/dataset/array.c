/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of integers in a .npy file.
 *
 * Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
#include <ctype.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dataset/steps.h"

#define MAX_NPY_HEADER 65536
#define CHUNK	       65536 /* bytes, a multiple of every item's */

/* Integers in a file, row by row. */
struct id_array {
	uint64_t offset; /* of the first integer, in bytes */
	uint64_t rows, cols;
	int n_dims; /* 1: rows is 1 */
	size_t item_size;
	bool is_signed;
};

/* Reads an integer.  A value that does not fit becomes one that no vocabulary has. */
static int64_t item_at(const struct id_array *array, const unsigned char *p)
{
	uint64_t value = 0;
	unsigned shift = (unsigned)(64 - 8 * array->item_size);

	memcpy(&value, p, array->item_size);
	value = le64toh(value);
	if (array->is_signed)
		return (int64_t)(value << shift) >> shift;
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* Adds n items from index `first` on. */
static int add_items(const struct dataset_reader *reader, int fd, const struct id_array *array,
		     uint64_t first, uint64_t n, struct err *err)
{
	unsigned char chunk[CHUNK];

	while (n) {
		size_t part = CHUNK / array->item_size;

		part = n < part ? (size_t)n : part;
		if (io_pread_full(&(struct file){ reader->params->io, fd, reader->path }, chunk,
				  part * array->item_size, array->offset + first * array->item_size,
				  err))
			return -1;
		for (size_t i = 0; i < part; i++)
			if (dataset_add_id(reader, item_at(array, chunk + i * array->item_size),
					   err))
				return err_wrap(err, "'%s', element %llu", reader->path,
						(unsigned long long)(first + i));
		first += part;
		n -= part;
	}
	return 0;
}

static int read_array(const struct dataset_reader *reader, int fd, const struct id_array *array,
		      struct err *err)
{
	size_t n = dataset_needed(reader) - reader->data->ids.n;

	if (array->n_dims == 1 ? dataset_begin_document(reader, err)
			       : dataset_begin_sequence(reader, err))
		return err_wrap(err, "'%s'", reader->path);
	if (array->n_dims == 1)
		return add_items(reader, fd, array, 0, array->cols < n ? array->cols : n, err);
	if (!array->rows || !array->cols)
		return err_set(err, ERR_INPUT, "'%s' contains no tokens", reader->path);
	if (array->cols > MAX_SEQUENCE)
		return err_set(err, ERR_INPUT,
			       "a sequence of '%s' has %llu tokens, more than the limit (%zu): "
			       "divide it",
			       reader->path, (unsigned long long)array->cols, MAX_SEQUENCE);
	for (uint64_t row = 0; row < array->rows && !dataset_has_enough(reader); row++) {
		size_t begin = reader->data->ids.n;

		if (add_items(reader, fd, array, row * array->cols, array->cols, err))
			return -1;
		dataset_add_sequence(reader, begin);
	}
	return 0;
}

/* Checks that rows x cols items fill the file from offset to its end. */
static int check_size(const struct dataset_reader *reader, const struct id_array *array,
		      uint64_t file_size, struct err *err)
{
	uint64_t n, end;

	if (__builtin_mul_overflow(array->rows, array->cols, &n) ||
	    __builtin_mul_overflow(n, array->item_size, &n) ||
	    __builtin_add_overflow(n, array->offset, &end))
		end = UINT64_MAX;
	if (end > file_size)
		return err_set(
			err, ERR_INPUT, "'%s' is %llu bytes long, too short for its array (%llu)",
			reader->path, (unsigned long long)file_size, (unsigned long long)end);
	return 0;
}

/* Returns the text after "'key':" in the header, a dict of Python; NULL without the key. */
static const char *value_of(const char *header, const char *key)
{
	const char *p = strstr(header, key);

	if (!p)
		return NULL;
	for (p += strlen(key); *p == ' '; p++)
		;
	if (*p++ != ':')
		return NULL;
	while (*p == ' ')
		p++;
	return p;
}

/* Reads "(3, 4)" or "(12,)". */
static bool parse_shape(struct id_array *array, const char *p)
{
	uint64_t dims[2];
	char *end;

	if (!p || *p++ != '(')
		return false;
	for (array->n_dims = 0; array->n_dims < 2 && isdigit((unsigned char)*p); array->n_dims++) {
		dims[array->n_dims] = strtoull(p, &end, 10);
		for (p = end; *p == ' ' || *p == ','; p++)
			;
	}
	if (*p != ')' || !array->n_dims)
		return false;
	array->rows = array->n_dims == 2 ? dims[0] : 1;
	array->cols = dims[array->n_dims - 1];
	return true;
}

/* Reads "'<i4'"; the type must be little-endian or of one byte. */
static bool parse_type(struct id_array *array, const char *p)
{
	size_t size;

	if (!p || *p++ != '\'' || (*p != '<' && *p != '|'))
		return false;
	size = (size_t)(p[1] && p[2] ? p[2] - '0' : 0);
	if ((p[1] != 'i' && p[1] != 'u') || (size != 1 && size != 2 && size != 4 && size != 8) ||
	    p[3] != '\'' || (*p == '|' && size != 1))
		return false;
	array->is_signed = p[1] == 'i';
	array->item_size = size;
	return true;
}

static int parse_npy(const struct dataset_reader *reader, struct id_array *array,
		     const char *header, struct err *err)
{
	const char *order = value_of(header, "'fortran_order'");

	if (!parse_type(array, value_of(header, "'descr'")))
		return err_set(err, ERR_INPUT,
			       "'%s' does not contain little-endian integers of 1, 2, 4 or 8 bytes",
			       reader->path);
	if (!order || strncmp(order, "False", 5) != 0)
		return err_set(err, ERR_INPUT, "'%s' is not in C order", reader->path);
	if (!parse_shape(array, value_of(header, "'shape'")))
		return err_set(err, ERR_INPUT, "'%s' has neither 1 nor 2 dimensions", reader->path);
	return 0;
}

static int read_npy_header(const struct dataset_reader *reader, int fd, uint64_t file_size,
			   struct id_array *array, struct err *err)
{
	unsigned char start[12] = { 0 };
	char *header;
	size_t n;
	int rc;

	if (file_size >= sizeof start &&
	    io_pread_full(&(struct file){ reader->params->io, fd, reader->path }, start,
			  sizeof start, 0, err))
		return -1;
	if (memcmp(start, "\x93NUMPY", 6) != 0 || !start[6] || start[6] > 3)
		return err_set(err, ERR_INPUT, "'%s' is not a .npy file of version 1 to 3",
			       reader->path);
	n = start[8] | (size_t)start[9] << 8;
	if (start[6] > 1)
		n |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
	array->offset = (start[6] > 1 ? 12 : 10) + n;
	if (n > MAX_NPY_HEADER || array->offset > file_size)
		return err_set(
			err, ERR_INPUT,
			"header of '%s' is %zu bytes long, more than the file or the limit (%d)",
			reader->path, n, MAX_NPY_HEADER);
	header = xcalloc(n + 1, 1);
	rc = io_pread_full(&(struct file){ reader->params->io, fd, reader->path }, header, n,
			   array->offset - n, err);
	if (!rc)
		rc = parse_npy(reader, array, header, err);
	if (!rc)
		rc = check_size(reader, array, file_size, err);
	free(header);
	return rc;
}

int dataset_read_npy(const struct dataset_reader *reader, int fd, struct err *err)
{
	struct file_identity identity = { 0 };
	struct id_array array = { 0 };

	if (io_identity(reader->params->io, fd, &identity, reader->path, err) ||
	    read_npy_header(reader, fd, identity.size, &array, err))
		return -1;
	return read_array(reader, fd, &array, err);
}
