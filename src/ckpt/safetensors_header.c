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

enum { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4 };

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
	if (json_check(member->value, err)) /* an unknown field, which must still be JSON */
		return err_wrap(err, "field '%s' of tensor '%s' in '%s' (byte %" PRIu64 ")",
				member->key, tensor->name, reader->file->path,
				offset_of(reader, member->value));
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
	if (rc)
		return err_wrap(err, "tensor '%s' in '%s'", tensor->name, reader->file->path);
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
	if (rc)
		err_wrap(err, "__metadata__ of '%s'", file->path);
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
	if (rc)
		err_wrap(err, "header of '%s'", file->path);
out:
	json_members_release(&walk);
	json_members_release(&reader.fields);
	buf_release(&reader.text);
	return rc;
}
