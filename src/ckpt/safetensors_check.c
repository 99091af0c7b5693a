/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the statements of a header: the tensors, sorted by offset, tile the data from 0 to its
 * last byte, each has the size of its type and shape, and no name occurs twice.  Only sorts and
 * compares neighbors: n log n.  Offsets in these messages are data offsets, as in the header.
 */
#include "ckpt/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

static int compare_offsets(const void *a, const void *b)
{
	const struct st_tensor *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	/* an empty tensor comes before another one at its offset */
	return (x->end > y->end) - (x->end < y->end);
}

static int compare_names(const void *a, const void *b)
{
	const struct st_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int check_names(struct st_file *file, struct err *err)
{
	file->by_name = xreallocarray(NULL, file->n_tensors, sizeof *file->by_name);
	for (size_t i = 0; i < file->n_tensors; i++)
		file->by_name[i] = &file->tensors[i];
	sort(file->by_name, file->n_tensors, sizeof *file->by_name, compare_names);
	for (size_t i = 1; i < file->n_tensors; i++) {
		const struct st_tensor *a = file->by_name[i - 1], *b = file->by_name[i];

		if (!strcmp(a->name, b->name))
			return err_set(err, ERR_INPUT,
				       "duplicate tensor '%s' in '%s', with data at bytes %" PRIu64
				       " and %" PRIu64,
				       a->name, file->path, a->begin, b->begin);
	}
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	const struct st_metadata *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

static int check_metadata(const struct st_file *file, struct err *err)
{
	const struct st_metadata **sorted = xreallocarray(NULL, file->n_metadata, sizeof(void *));
	int rc = 0;

	for (size_t i = 0; i < file->n_metadata; i++)
		sorted[i] = &file->metadata[i];
	qsort(sorted, file->n_metadata, sizeof *sorted, compare_keys);
	for (size_t i = 1; i < file->n_metadata && !rc; i++)
		if (!strcmp(sorted[i - 1]->key, sorted[i]->key))
			rc = err_set(err, ERR_INPUT, "duplicate metadata '%s' in '%s'",
				     sorted[i]->key, file->path);
	free(sorted);
	return rc;
}

/* Checks the tensor's place: it begins where the tensor before it ends, and ends within the
 * data. */
static int check_place(const struct st_file *file, size_t i, uint64_t data_size, struct err *err)
{
	const struct st_tensor *tensor = &file->tensors[i];
	const struct st_tensor *before = i ? tensor - 1 : NULL;
	uint64_t start = before ? before->end : 0;

	if (tensor->end < tensor->begin)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' ends at byte %" PRIu64
			       ", before it begins (%" PRIu64 ")",
			       tensor->name, file->path, tensor->end, tensor->begin);
	if (tensor->end > data_size)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' ends at byte %" PRIu64
			       ", past the end of the file (%" PRIu64 ")",
			       tensor->name, file->path, tensor->end, data_size);
	if (before && tensor->begin < before->end)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' begins at byte %" PRIu64
			       ", before the end of tensor '%s' (%" PRIu64 ")",
			       tensor->name, file->path, tensor->begin, before->name, start);
	if (tensor->begin > start)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' begins at byte %" PRIu64
			       ", after a gap: the data before it ends at %" PRIu64,
			       tensor->name, file->path, tensor->begin, start);
	return 0;
}

static int bad_size(const struct st_file *file, const struct st_tensor *tensor,
		    const uint64_t *bits, struct err *err)
{
	const struct st_shape_text shape = st_shape(tensor);
	const char *type = dtype_name(tensor->dtype);

	if (!bits)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' has more than 2^64-1 bits: %s %s", tensor->name,
			       file->path, type, shape.text);
	if (*bits % 8)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' does not fill whole bytes: %s %s is %" PRIu64
			       " bits",
			       tensor->name, file->path, type, shape.text, *bits);
	return err_set(err, ERR_INPUT,
		       "tensor '%s' in '%s' has %" PRIu64 " bytes at byte %" PRIu64
		       ", but %s %s needs %" PRIu64,
		       tensor->name, file->path, tensor->end - tensor->begin, tensor->begin, type,
		       shape.text, *bits / 8);
}

/* Checks the tensor's size by its type and shape.  Multiplies in the order of the reference: a 0
 * after an overflow does not repair it. */
static int check_size(const struct st_file *file, const struct st_tensor *tensor, struct err *err)
{
	uint64_t bits = 1;

	for (int i = 0; i < tensor->n_dims; i++)
		if (__builtin_mul_overflow(bits, tensor->shape[i], &bits))
			return bad_size(file, tensor, NULL, err);
	if (__builtin_mul_overflow(bits, dtype_bits(tensor->dtype), &bits))
		return bad_size(file, tensor, NULL, err);
	if (bits % 8 || bits / 8 != tensor->end - tensor->begin)
		return bad_size(file, tensor, &bits, err);
	return 0;
}

int st_header_check(struct st_file *file, uint64_t data_size, struct err *err)
{
	uint64_t end;

	sort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_offsets);
	if (check_names(file, err) || check_metadata(file, err))
		return -1;
	for (size_t i = 0; i < file->n_tensors; i++)
		if (check_place(file, i, data_size, err) ||
		    check_size(file, &file->tensors[i], err))
			return -1;
	end = file->n_tensors ? file->tensors[file->n_tensors - 1].end : 0;
	if (end != data_size)
		return err_set(err, ERR_INPUT,
			       "the tensors of '%s' end at byte %" PRIu64
			       ", before the end of the file (%" PRIu64 ")",
			       file->path, end, data_size);
	return 0;
}
