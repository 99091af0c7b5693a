/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/gathered.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "ckpt/safetensors_header.h"

COMPARISON(compare_records, struct slice_record, strcmp(x->name, y->name))

static const char *part_path(const void *context, size_t file)
{
	const struct checkpoint *checkpoint = context;

	return checkpoint->parts[file].file.path;
}

/* A shard while it is put together. */
struct gathering {
	const struct checkpoint *checkpoint;
	struct gathered *gathered;
	struct st_file *file;
	size_t n_pieces;
	uint64_t n_bits;
};

static bool is_empty(const struct slice_record *record)
{
	for (int i = 0; i < record->n_dims; i++)
		if (!record->piece.sizes[i])
			return true;
	return false;
}

/* Are two slices of one tensor alike in all but their place? */
static int check_alike(const struct gathering *gathering, const struct slice_record *a,
		       const struct slice_record *b, struct err *err)
{
	const char *one = part_path(gathering->checkpoint, a->piece.file);
	const char *other = part_path(gathering->checkpoint, b->piece.file);

	if (a->n_dims != b->n_dims)
		return err_set(err, ERR_INPUT,
			       "slices of tensor '%s' have %d dimensions in '%s' and %d in '%s'",
			       a->name, a->n_dims, one, b->n_dims, other);
	if (a->dtype != b->dtype)
		return err_set(err, ERR_INPUT,
			       "slices of tensor '%s' have the type %s in '%s' and %s in '%s'",
			       a->name, dtype_name(a->dtype), one, dtype_name(b->dtype), other);
	return 0;
}

/* Returns the shape of the tensor whose slices are the n records. */
static int find_shape(const struct gathering *gathering, const struct slice_record *records,
		      size_t n, uint64_t *shape, struct err *err)
{
	const struct slice_record *first = records;

	memset(shape, 0, (size_t)first->n_dims * sizeof *shape);
	for (size_t i = 0; i < n; i++) {
		const struct slice_record *record = &records[i];

		if (check_alike(gathering, first, record, err))
			return -1;
		for (int d = 0; d < first->n_dims; d++) {
			uint64_t end;

			if (__builtin_add_overflow(record->piece.offsets[d], record->piece.sizes[d],
						   &end))
				return err_set(
					err, ERR_INPUT,
					"a slice of tensor '%s' in '%s' ends after 2^64-1",
					first->name,
					part_path(gathering->checkpoint, record->piece.file));
			if (end > shape[d])
				shape[d] = end;
		}
	}
	if (first->shape && first->n_dims)
		memcpy(shape, first->shape, (size_t)first->n_dims * sizeof *shape);
	return 0;
}

/* All tensors together must have less than 2^64 bits: what has strides of 0 may claim more. */
static int check_size(struct gathering *gathering, const struct st_tensor *tensor, struct err *err)
{
	uint64_t bits = dtype_bits(tensor->dtype);

	for (int i = 0; i < tensor->n_dims; i++)
		if (__builtin_mul_overflow(bits, tensor->shape[i], &bits))
			return err_set(err, ERR_INPUT, "tensor '%s' has more than 2^64-1 bits: %s",
				       tensor->name, st_shape(tensor).text);
	if (__builtin_add_overflow(gathering->n_bits, bits, &gathering->n_bits))
		return err_set(err, ERR_INPUT, "the tensors of '%s' have more than 2^64-1 bits",
			       gathering->checkpoint->path);
	return 0;
}

/* Adds the tensor of the n records. */
static int add_tensor(struct gathering *gathering, const struct slice_record *records, size_t n,
		      struct err *err)
{
	struct gathered *gathered = gathering->gathered;
	struct view_piece *pieces = gathered->pieces + gathering->n_pieces;
	struct st_tensor *tensor = &gathering->file->tensors[gathered->n];
	const struct view_names names = { records->name, part_path, gathering->checkpoint };
	uint64_t shape[ST_MAX_DIMS];
	struct tensor_view *view = &gathered->views[gathered->n];

	if (find_shape(gathering, records, n, shape, err))
		return -1;
	*tensor = (struct st_tensor){
		.name = arena_text(&gathered->texts, records->name, strlen(records->name)),
		.dtype = records->dtype,
		.n_dims = records->n_dims,
		.shape = st_shape_copy(&gathered->texts, shape, records->n_dims),
	};
	*view = (struct tensor_view){ .n_dims = tensor->n_dims,
				      .shape = tensor->shape,
				      .element = dtype_bits(tensor->dtype) / 8,
				      .pieces = pieces };
	if (check_size(gathering, tensor, err))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!is_empty(&records[i]))
			pieces[view->n_pieces++] = records[i].piece;
	gathering->n_pieces += view->n_pieces;
	gathered->n++;
	return view_check(view, pieces, &names, err);
}

/* The views are in the order of names: brings them into that of the tensors of the file. */
static int lay_out(struct gathering *gathering, struct err *err)
{
	struct gathered *gathered = gathering->gathered;
	struct st_file *file = gathering->file;
	struct tensor_view *views = xcalloc(gathered->n + 1, sizeof *views);
	uint64_t header_size, data_size;
	int rc;

	file->n_tensors = gathered->n;
	st_layout(file->tensors, file->n_tensors, NULL, 0, &header_size, &data_size);
	file->identity.size = data_size;
	rc = st_header_check(file, data_size, err);
	for (size_t i = 0; i < gathered->n && !rc; i++)
		views[file->by_name[i] - file->tensors] = gathered->views[i];
	free(gathered->views);
	gathered->views = views;
	return rc;
}

int gathered_add(struct checkpoint *checkpoint, const char *name, struct slice_record *records,
		 size_t n, struct arena *texts, struct err *err)
{
	struct gathered *gathered = xcalloc(1, sizeof *gathered);
	struct st_file file = { .path = xstrdup(checkpoint->path) };
	struct gathering gathering = { checkpoint, gathered, &file, 0, 0 };
	int rc = 0;

	gathered->texts = *texts;
	*texts = (struct arena){ 0 };
	gathered->views = xcalloc(n + 1, sizeof *gathered->views);
	gathered->pieces = xcalloc(n + 1, sizeof *gathered->pieces);
	file.tensors = xcalloc(n + 1, sizeof *file.tensors);
	sort(records, n, sizeof *records, compare_records);
	for (size_t first = 0, end; first < n && !rc; first = end) {
		for (end = first + 1; end < n && !strcmp(records[end].name, records[first].name);)
			end++;
		rc = add_tensor(&gathering, &records[first], end - first, err);
	}
	if (rc || lay_out(&gathering, err)) {
		st_release(&file);
		gathered_free(gathered);
		return -1;
	}
	ARRAY_GROW(checkpoint->shards, checkpoint->n_shards);
	checkpoint->shards[checkpoint->n_shards++] =
		(struct shard){ xstrdup(name), file, gathered };
	return 0;
}

int gathered_read(const struct shard *shard, const struct view_range *range, view_pread_fn *pread,
		  void *context, struct err *err)
{
	size_t i;
	struct view_range in_tensor = *range;

	if (!range->n)
		return 0;
	/* the last tensor that begins at or before the byte: no empty one */
	SEARCH(i, shard->file.n_tensors, shard->file.tensors[i].begin <= range->begin);
	i--;
	in_tensor.begin -= shard->file.tensors[i].begin;
	return view_read(&shard->gathered->views[i], &in_tensor, pread, context, err);
}

void gathered_free(struct gathered *gathered)
{
	if (!gathered)
		return;
	free(gathered->views);
	free(gathered->pieces);
	arena_release(&gathered->texts);
	free(gathered);
}

void gathered_add_part(struct checkpoint *checkpoint, const struct st_file *file)
{
	ARRAY_GROW(checkpoint->parts, checkpoint->n_parts);
	checkpoint->parts[checkpoint->n_parts++] =
		(struct shard){ xstrdup(text_after(file->path, '/')), *file, NULL };
}
