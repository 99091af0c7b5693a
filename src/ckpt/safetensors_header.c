/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the JSON of a safetensors header member by member: no tree, no memory except the tensor
 * table.  Byte offsets in messages count from the start of the file.
 */
#include "ckpt/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"

enum { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4 };

#define AGAIN "copy or download it again" /* no writer makes such JSON */

#define FIELD_LIMIT (1 << 20) /* bytes of an unknown field: checking it takes a tree */

struct header_reader {
	struct st_file *file;
	const char *header;
	struct buf text;	    /* the last string that was read */
	struct json_members fields; /* of the last tensor that was read */
	bool has_metadata;
};

/* Returns the file offset of a part of the header. */
static uint64_t offset_of(const struct header_reader *reader, struct json_text text)
{
	return 8 + (uint64_t)(text.data - reader->header);
}

static bool key_is(const struct json_member *member, const char *key)
{
	return member->key_len == strlen(key) && !memcmp(member->key, key, member->key_len);
}

static int read_dtype(struct header_reader *reader, struct st_tensor *tensor,
		      struct json_text value, struct err *err)
{
	if (!json_text_string(value, &reader->text))
		return err_set(err, ERR_INPUT,
			       "dtype of tensor '%s' in '%s' is not a string (byte %" PRIu64 ")",
			       tensor->name, reader->file->path, offset_of(reader, value));
	if (!dtype_from_name(&tensor->dtype, reader->text.data, reader->text.len))
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' has the unknown type '%s' (byte %" PRIu64 ")",
			       tensor->name, reader->file->path, reader->text.data,
			       offset_of(reader, value));
	return 0;
}

static int read_shape(struct header_reader *reader, struct st_tensor *tensor,
		      struct json_text value, struct err *err)
{
	const struct st_file *file = reader->file;
	const struct st_tensor *before =
		file->n_tensors ? &file->tensors[file->n_tensors - 1] : NULL;
	uint64_t shape[ST_MAX_DIMS];
	int64_t n = json_text_uints(value, shape, ST_MAX_DIMS);

	if (n < 0)
		return err_set(err, ERR_INPUT,
			       "shape of tensor '%s' in '%s' is not a list of integers from 0 to "
			       "2^64-1 (byte %" PRIu64 ")",
			       tensor->name, reader->file->path, offset_of(reader, value));
	if (n > ST_MAX_DIMS)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' has %" PRId64
			       " dimensions, more than the limit (%d)",
			       tensor->name, reader->file->path, n, ST_MAX_DIMS);
	tensor->n_dims = (int)n;
	/* neighbors mostly have one shape, and share it */
	if (before && n == before->n_dims &&
	    !memcmp(shape, before->shape, (size_t)n * sizeof *shape))
		tensor->shape = before->shape;
	else
		tensor->shape = st_shape_copy(&reader->file->texts, shape, tensor->n_dims);
	return 0;
}

static int read_offsets(struct header_reader *reader, struct st_tensor *tensor,
			struct json_text value, struct err *err)
{
	uint64_t offsets[2];

	if (json_text_uints(value, offsets, 2) != 2)
		return err_set(err, ERR_INPUT,
			       "data_offsets of tensor '%s' in '%s' are not two integers from 0 to "
			       "2^64-1 (byte %" PRIu64 ")",
			       tensor->name, reader->file->path, offset_of(reader, value));
	tensor->begin = offsets[0];
	tensor->end = offsets[1];
	return 0;
}

static int read_field(struct header_reader *reader, struct st_tensor *tensor,
		      const struct json_member *member, unsigned *seen, struct err *err)
{
	static const struct {
		const char *name;
		int (*read)(struct header_reader *, struct st_tensor *, struct json_text,
			    struct err *);
	} fields[] = { { "dtype", read_dtype },
		       { "shape", read_shape },
		       { "data_offsets", read_offsets } };

	for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++) {
		if (!key_is(member, fields[i].name))
			continue;
		if (*seen & 1u << i)
			return err_set(err, ERR_INPUT,
				       "duplicate member '%s' of tensor '%s' in '%s' (byte %" PRIu64
				       ")",
				       fields[i].name, tensor->name, reader->file->path,
				       offset_of(reader, member->value));
		*seen |= 1u << i;
		return fields[i].read(reader, tensor, member->value, err);
	}
	if (member->value.len > FIELD_LIMIT)
		return err_set(err, ERR_INPUT,
			       "field '%s' of tensor '%s' in '%s' is %zu bytes long, more than the "
			       "limit (%d) (byte %" PRIu64 ")",
			       member->key, tensor->name, reader->file->path, member->value.len,
			       FIELD_LIMIT, offset_of(reader, member->value));
	if (json_check(member->value, err)) { /* an unknown field, which must still be JSON */
		err_advise(err, AGAIN);
		return err_wrap(err, "field '%s' of tensor '%s' in '%s' (byte %" PRIu64 ")",
				member->key, tensor->name, reader->file->path,
				offset_of(reader, member->value));
	}
	return 0;
}

static int read_fields(struct header_reader *reader, struct st_tensor *tensor,
		       struct json_text value, struct err *err)
{
	struct json_member member;
	unsigned seen = 0;
	int rc;

	json_members_begin(&reader->fields, value, (size_t)offset_of(reader, value));
	while ((rc = json_members_next(&reader->fields, &member, err)) > 0)
		if (read_field(reader, tensor, &member, &seen, err))
			return -1;
	if (rc) {
		err_advise(err, AGAIN);
		return err_wrap(err, "tensor '%s' in '%s'", tensor->name, reader->file->path);
	}
	if (seen != 7)
		return err_set(err, ERR_INPUT, "tensor '%s' in '%s' has no %s (byte %" PRIu64 ")",
			       tensor->name, reader->file->path,
			       !(seen & 1)   ? "dtype"
			       : !(seen & 2) ? "shape"
					     : "data_offsets",
			       offset_of(reader, value));
	return 0;
}

static int check_name(const struct header_reader *reader, const struct json_member *member,
		      struct err *err)
{
	const char *what = !member->key_len		 ? "is empty"
			   : st_has_control(member->key) ? "contains a control character"
							 : NULL;

	if (what)
		return err_set(err, ERR_INPUT, "name of tensor '%s' in '%s' %s (byte %" PRIu64 ")",
			       member->key, reader->file->path, what, 8 + (uint64_t)member->begin);
	return 0;
}

static int read_tensor(struct header_reader *reader, const struct json_member *member,
		       struct err *err)
{
	struct st_file *file = reader->file;
	struct st_tensor tensor = { 0 };

	if (check_name(reader, member, err))
		return -1;
	tensor.name = arena_text(&file->texts, member->key, member->key_len);
	if (member->value.data[0] != '{')
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' is not an object (byte %" PRIu64 ")",
			       member->key, file->path, offset_of(reader, member->value));
	if (read_fields(reader, &tensor, member->value, err))
		return -1;
	ARRAY_GROW(file->tensors, file->n_tensors);
	file->tensors[file->n_tensors++] = tensor;
	return 0;
}

static int read_metadata(struct header_reader *reader, struct json_text value, struct err *err)
{
	struct json_members walk = { .text = value, .base = (size_t)offset_of(reader, value) };
	struct st_file *file = reader->file;
	struct json_member member;
	int rc = 0;

	if (reader->has_metadata)
		return err_set(err, ERR_INPUT,
			       "duplicate member '__metadata__' in '%s' (byte %" PRIu64 ")",
			       file->path, offset_of(reader, value));
	reader->has_metadata = true;
	if (json_text_is_null(value))
		return 0;
	while ((rc = json_members_next(&walk, &member, err)) > 0) {
		if (!json_text_string(member.value, &reader->text)) {
			rc = err_set(
				err, ERR_INPUT,
				"metadata '%s' in '%s' is not a string without NUL (byte %" PRIu64
				")",
				member.key, file->path, offset_of(reader, member.value));
			goto out;
		}
		ARRAY_GROW(file->metadata, file->n_metadata);
		file->metadata[file->n_metadata++] = (struct st_metadata){
			arena_text(&file->texts, member.key, member.key_len),
			arena_text(&file->texts, reader->text.data, reader->text.len),
		};
	}
	if (rc) {
		err_advise(err, AGAIN);
		err_wrap(err, "__metadata__ of '%s'", file->path);
	}
out:
	json_members_release(&walk);
	return rc;
}

int st_header_read(struct st_file *file, const char *header, size_t n, struct err *err)
{
	struct header_reader reader = { .file = file, .header = header };
	struct json_members walk = { .text = { header, n }, .base = 8 };
	struct json_member member;
	int rc;

	while ((rc = json_members_next(&walk, &member, err)) > 0) {
		rc = key_is(&member, "__metadata__") ? read_metadata(&reader, member.value, err)
						     : read_tensor(&reader, &member, err);
		if (rc)
			goto out;
	}
	if (rc) {
		err_advise(err, AGAIN);
		err_wrap(err, "header of '%s'", file->path);
	}
out:
	json_members_release(&walk);
	json_members_release(&reader.fields);
	buf_release(&reader.text);
	return rc;
}

/* --- the statements of a header: the tensors, sorted by offset, tile the data from 0 to its last
 * byte, each has the size of its type and shape, and no name occurs twice.  Only sorts and compares
 * neighbors: n log n.  Offsets in these messages are data offsets, as in the header --- */

/* An empty tensor comes before another one at its offset. */
COMPARISON(compare_offsets, struct st_tensor, ORDER(x->begin, y->begin) ?: ORDER(x->end, y->end))

COMPARISON(compare_names, struct st_tensor *const, strcmp((*x)->name, (*y)->name))

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

COMPARISON(compare_keys, struct st_metadata *const, strcmp((*x)->key, (*y)->key))

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
			       ", past the end of the file (%" PRIu64 "): copy or "
			       "download it again",
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
