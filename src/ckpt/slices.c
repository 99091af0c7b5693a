/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/slices.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "ckpt/gathered.h"
#include "ckpt/mistaken.h"

#define DIGITS	 "[0-9][0-9][0-9][0-9][0-9]"
#define PATTERN	 "shard-" DIGITS "-model-" DIGITS "-of-" DIGITS ".safetensors"
#define RANK_LEN strlen("shard-00001-")

bool slices_is_name(const char *name)
{
	return !fnmatch(PATTERN, name, 0);
}

/* The slices of the files of one output. */
struct slice_list {
	size_t n;
	struct slice_record *records;
	struct arena texts;
};

/* Reads where a slice begins. */
static int read_offsets(const json_t *info, const struct st_file *file,
			const struct st_tensor *tensor, uint64_t *offsets, struct err *err)
{
	const json_t *list = json_object_get(json_object_get(info, tensor->name), "saved_offsets");

	if (!json_is_array(list) || json_array_size(list) != (size_t)tensor->n_dims)
		return err_set(err, ERR_INPUT,
			       SHARDING_KEY " of '%s' has no %d saved_offsets for tensor '%s'",
			       file->path, tensor->n_dims, tensor->name);
	for (int i = 0; i < tensor->n_dims; i++) {
		const json_t *offset = json_array_get(list, (size_t)i);

		if (!json_is_integer(offset) || json_integer_value(offset) < 0)
			return err_set(err, ERR_INPUT,
				       "saved_offsets of tensor '%s' in '%s' are not integers from "
				       "0 to 2^63-1",
				       tensor->name, file->path);
		offsets[i] = (uint64_t)json_integer_value(offset);
	}
	return 0;
}

static int add_slice(struct slice_list *list, const json_t *info, const struct st_file *file,
		     const struct st_tensor *tensor, size_t part, struct err *err)
{
	uint64_t offsets[ST_MAX_DIMS], strides[ST_MAX_DIMS], step;

	if (dtype_bits(tensor->dtype) < 8)
		return err_set(err, ERR_INPUT,
			       "slice of tensor '%s' in '%s' has the type %s: join the slices "
			       "first, as consolidate_safetensors_files() of torch does",
			       tensor->name, file->path, dtype_name(tensor->dtype));
	if (read_offsets(info, file, tensor, offsets, err))
		return -1;
	step = dtype_bits(tensor->dtype) / 8;
	for (int i = tensor->n_dims - 1; i >= 0; i--) {
		strides[i] = step;
		step *= tensor->shape[i];
	}
	ARRAY_GROW(list->records, list->n);
	list->records[list->n++] = (struct slice_record){
		.name = tensor->name,
		.dtype = tensor->dtype,
		.n_dims = tensor->n_dims,
		.piece = { .file = part,
			   .at = file->data_start + tensor->begin,
			   .offsets = st_shape_copy(&list->texts, offsets, tensor->n_dims),
			   .sizes = st_shape_copy(&list->texts, tensor->shape, tensor->n_dims),
			   .strides = st_shape_copy(&list->texts, strides, tensor->n_dims) },
	};
	return 0;
}

/* Adds the slices of an opened part. */
static int add_part(struct slice_list *list, const struct st_file *file, size_t part,
		    struct err *err)
{
	const char *text = st_metadata_find(file, SHARDING_KEY);
	struct err reason;
	json_t *info;
	int rc = 0;

	if (!text)
		return err_set(err, ERR_INPUT,
			       "'%s' has no " SHARDING_KEY " in its header, as a rank's file has",
			       file->path);
	info = json_decode((struct json_text){ text, strlen(text) }, &reason);
	if (!info)
		return err_set(err, ERR_INPUT, SHARDING_KEY " of '%s': %s", file->path,
			       reason.message);
	for (size_t i = 0; i < file->n_tensors && !rc; i++)
		rc = add_slice(list, info, file, &file->tensors[i], part, err);
	json_decref(info);
	return rc;
}

static int open_part(struct checkpoint *checkpoint, const char *name, struct slice_list *list,
		     struct err *err)
{
	char *path = xasprintf("%s/%s", checkpoint->directory, name);
	struct st_file file;
	int rc = st_open(&file, checkpoint->io, path, err);

	if (!rc) {
		gathered_add_part(checkpoint, &file);
		rc = add_part(list, &file, checkpoint->n_parts - 1, err);
	}
	free(path);
	return rc;
}

/* Opens the files of one output; suffix: its name "model-00001-of-00004.safetensors". */
static int open_output(struct checkpoint *checkpoint, const struct listing *names,
		       const char *suffix, struct err *err)
{
	bool alone = !strcmp(suffix, "model-00001-of-00001.safetensors");
	struct slice_list list = { 0 };
	int rc = 0;

	for (size_t i = 0; i < names->n && !rc; i++)
		if (slices_is_name(names->items[i]) && !strcmp(names->items[i] + RANK_LEN, suffix))
			rc = open_part(checkpoint, names->items[i], &list, err);
	if (!rc)
		rc = gathered_add(checkpoint, alone ? MODEL_NAME : suffix, list.records, list.n,
				  &list.texts, err);
	free(list.records);
	arena_release(&list.texts);
	return rc;
}

/* The tables of the parts are in those of the shards now. */
static void strip(struct st_file *file)
{
	struct st_file stripped = { .path = file->path,
				    .identity = file->identity,
				    .data_start = file->data_start,
				    .header_crc = file->header_crc };

	file->path = NULL;
	st_release(file);
	*file = stripped;
}

int slices_check_rows(const struct checkpoint *checkpoint, struct err *err)
{
	const struct json_text config = { checkpoint->config.data, checkpoint->config.len };
	struct json_text inner = { 0 }, rows = { 0 };
	uint64_t n_words, most = 0;
	struct err ignored;

	if (!config.len || json_find(config, "text_config", &inner, &ignored) ||
	    json_find(inner.len ? inner : config, "vocab_size", &rows, &ignored) ||
	    !json_text_uint(rows, &n_words))
		return 0;
	for (size_t s = 0; s < checkpoint->n_shards; s++) {
		const struct st_file *file = &checkpoint->shards[s].file;

		for (size_t i = 0; i < file->n_tensors; i++)
			if (file->tensors[i].n_dims > 1 && file->tensors[i].shape[0] > most)
				most = file->tensors[i].shape[0];
	}
	if (most >= n_words)
		return 0;
	return err_set(err, ERR_INPUT,
		       "no tensor of '%s' has the %" PRIu64 " rows that vocab_size of " CONFIG_NAME
		       " states (at most %" PRIu64 "), so a rank's file is missing: copy the files "
		       "of all ranks",
		       checkpoint->path, n_words, most);
}

int slices_open(struct checkpoint *checkpoint, const struct listing *names, struct err *err)
{
	struct listing outputs = { 0 };
	int rc = 0;

	for (size_t i = 0; i < names->n; i++)
		if (slices_is_name(names->items[i]))
			listing_add(&outputs, xstrdup(names->items[i] + RANK_LEN));
	listing_sort(&outputs);
	for (size_t i = 0; i < outputs.n && !rc; i++)
		if (!i || strcmp(outputs.items[i - 1], outputs.items[i]) != 0)
			rc = open_output(checkpoint, names, outputs.items[i], err);
	for (size_t i = 0; i < checkpoint->n_parts; i++)
		strip(&checkpoint->parts[i].file);
	listing_release(&outputs);
	return rc;
}
