/* SPDX-License-Identifier: Apache-2.0 */
#include "torch/distcp.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"

#define CHECKPOINT "torch.distributed.checkpoint."

static bool knows(const char *global)
{
	static const char *const known[] = {
		CHECKPOINT "metadata Metadata",
		CHECKPOINT "metadata MetadataIndex",
		CHECKPOINT "metadata TensorStorageMetadata",
		CHECKPOINT "metadata BytesStorageMetadata",
		CHECKPOINT "metadata ChunkStorageMetadata",
		CHECKPOINT "metadata TensorProperties",
		CHECKPOINT "metadata _MEM_FORMAT_ENCODING",
		CHECKPOINT "metadata StorageMeta",
		CHECKPOINT "filesystem _StorageInfo",
		"torch.serialization _get_layout",
		"torch Size",
		"pathlib PosixPath",
		"pathlib._local PosixPath",
		"collections OrderedDict",
	};
	enum dtype ignored;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(global, known[i]))
			return true;
	return archive_dtype(global, &ignored);
}

/* A tensor of the metadata. */
struct distcp_tensor {
	const char *key;
	const struct pickle_value *state; /* dict: properties, size, chunks */
};

struct distcp_reader {
	struct distcp *distcp;
	const char *name;		  /* of the file */
	const struct pickle_value *paths; /* dict: key to path; NULL */
	bool has_model;
	struct distcp_tensor *tensors; /* by key */
	size_t n;
};

static int bad(const struct distcp_reader *reader, const char *key, const char *what,
	       struct err *err)
{
	return err_set(err, ERR_INPUT, "'%s' has %s of tensor '%s' as torch does not write it",
		       reader->name, what, key);
}

/* The state of an object, by name. */
static const struct pickle_value *member(const struct pickle_value *object, const char *global,
					 const char *key)
{
	return object && pickle_is_call(object, global) ? pickle_get(object->state, key) : NULL;
}

COMPARISON(compare_keys, struct distcp_tensor, strcmp(x->key, y->key))

static void list_tensors(struct distcp_reader *reader, const struct pickle_value *dict)
{
	for (size_t i = 0; dict && dict->kind == PICKLE_DICT && i + 1 < dict->n; i += 2) {
		const struct pickle_value *key = dict->items[i], *value = dict->items[i + 1];

		if (key->kind != PICKLE_TEXT ||
		    !pickle_is_call(value, CHECKPOINT "metadata TensorStorageMetadata"))
			continue;
		ARRAY_GROW(reader->tensors, reader->n);
		reader->tensors[reader->n++] = (struct distcp_tensor){ key->text, value->state };
	}
	sort(reader->tensors, reader->n, sizeof *reader->tensors, compare_keys);
}

/* Is the path of a key ("model", name) of a training's model? */
static bool is_in_model(const struct pickle_value *path)
{
	return path && path->kind == PICKLE_TUPLE && path->n == 2 &&
	       path->items[0]->kind == PICKLE_TEXT && path->items[1]->kind == PICKLE_TEXT &&
	       archive_is_model(path->items[0]->text);
}

/* The paths in the order of the keys of the storage: both are sorted once. */
struct distcp_path {
	const char *key;
	const struct pickle_value *path;
};

/* Returns the name of a tensor in the model; NULL: it is no tensor of the model. */
static const char *model_name(const struct distcp_reader *reader, const struct distcp_path *paths,
			      size_t n, const char *key)
{
	const struct distcp_path wanted = { .key = key };
	const struct distcp_path *found =
		n ? bsearch(&wanted, paths, n, sizeof *paths, compare_keys) : NULL;

	if (!reader->has_model)
		return strncmp(key, "optim", 5) != 0 ? key : NULL;
	return found && is_in_model(found->path) ? found->path->items[1]->text : NULL;
}

static const uint64_t *numbers(struct distcp *distcp, const struct pickle_value *value, int *n)
{
	uint64_t list[TORCH_MAX_DIMS];

	if (!archive_numbers(value, list, n))
		return NULL;
	return memcpy(arena_alloc(&distcp->texts, (size_t)*n * sizeof *list), list,
		      (size_t)*n * sizeof *list);
}

/* Finds the sizes of the chunk at the slice's offsets: at the index that the key states. */
static int find_sizes(const struct distcp_reader *reader, const struct distcp_tensor *tensor,
		      const struct pickle_value *index, struct distcp_slice *slice, struct err *err)
{
	const struct pickle_value *chunks = pickle_get(tensor->state, "chunks"), *chunk;
	int n = 0;

	if (!chunks || chunks->kind != PICKLE_LIST || !index || index->kind != PICKLE_INT ||
	    index->number < 0 || (uint64_t)index->number >= chunks->n)
		return bad(reader, tensor->key, "chunks", err);
	chunk = chunks->items[index->number];
	slice->sizes =
		numbers(reader->distcp,
			member(chunk, CHECKPOINT "metadata ChunkStorageMetadata", "sizes"), &n);
	if (!slice->sizes || n != slice->n_dims)
		return bad(reader, tensor->key, "sizes", err);
	return 0;
}

static int set_type(const struct distcp_reader *reader, const struct distcp_tensor *tensor,
		    struct distcp_slice *slice, struct err *err)
{
	const struct pickle_value *properties = pickle_get(tensor->state, "properties");
	const struct pickle_value *dtype =
		properties && properties->kind == PICKLE_CALL && properties->state
			? pickle_argument(properties->state, 0)
			: NULL;

	slice->shape = numbers(reader->distcp, pickle_get(tensor->state, "size"), &slice->n_dims);
	if (!slice->shape)
		return bad(reader, tensor->key, "the size", err);
	if (!dtype || dtype->kind != PICKLE_GLOBAL || !archive_dtype(dtype->text, &slice->dtype))
		return bad(reader, tensor->key, "the type", err);
	return 0;
}

/* Adds what an entry of the storage says of a slice. */
static int add_slice(const struct distcp_reader *reader, const char *name,
		     const struct distcp_tensor *tensor, const struct pickle_value *const entry[2],
		     struct err *err)
{
	static const char index[] = CHECKPOINT "metadata MetadataIndex";
	static const char info[] = CHECKPOINT "filesystem _StorageInfo";
	const struct pickle_value *file = member(entry[1], info, "relative_path");
	const struct pickle_value *begin = member(entry[1], info, "offset");
	const struct pickle_value *length = member(entry[1], info, "length");
	struct distcp *distcp = reader->distcp;
	struct distcp_slice slice = { 0 };
	int n = 0;

	if (set_type(reader, tensor, &slice, err))
		return -1;
	slice.offsets = numbers(distcp, member(entry[0], index, "offset"), &n);
	if (!slice.offsets || n != slice.n_dims)
		return bad(reader, tensor->key, "offsets", err);
	if (find_sizes(reader, tensor, member(entry[0], index, "index"), &slice, err))
		return -1;
	if (!file || file->kind != PICKLE_TEXT || !file->n || strchr(file->text, '/') ||
	    file->text[0] == '.' || file->text[text_control(file->text)] || !begin ||
	    begin->kind != PICKLE_INT || begin->number < 0 || !length ||
	    length->kind != PICKLE_INT || length->number < 0)
		return bad(reader, tensor->key, "the place", err);
	if (!*name || name[text_control(name)])
		return bad(reader, tensor->key, "the name", err);
	slice.name = arena_text(&distcp->texts, name, strlen(name));
	slice.file = arena_text(&distcp->texts, file->text, file->n);
	slice.begin = (uint64_t)begin->number;
	slice.length = (uint64_t)length->number;
	ARRAY_GROW(distcp->slices, distcp->n);
	distcp->slices[distcp->n++] = slice;
	return 0;
}

COMPARISON(compare_files, struct distcp_slice, strcmp(x->file, y->file))

/* Adds the slices of the model's tensors. */
static int add_slices(const struct distcp_reader *reader, const struct distcp_path *paths,
		      size_t n_paths, const struct pickle_value *storage, struct err *err)
{
	for (size_t i = 0; i + 1 < storage->n; i += 2) {
		const struct pickle_value *const entry[] = { storage->items[i],
							     storage->items[i + 1] };
		const struct pickle_value *key =
			member(entry[0], CHECKPOINT "metadata MetadataIndex", "fqn");
		struct distcp_tensor wanted = { 0 };
		const struct distcp_tensor *tensor = NULL;
		const char *name;

		if (!key || key->kind != PICKLE_TEXT)
			return bad(reader, "?", "the name", err);
		wanted.key = key->text;
		if (reader->n)
			tensor = bsearch(&wanted, reader->tensors, reader->n, sizeof wanted,
					 compare_keys);
		name = tensor ? model_name(reader, paths, n_paths, key->text) : NULL;
		if (name && add_slice(reader, name, tensor, entry, err))
			return -1;
	}
	return 0;
}

static int read_all(struct distcp_reader *reader, const struct pickle_value *top, struct err *err)
{
	static const char global[] = CHECKPOINT "metadata Metadata";
	const struct pickle_value *storage = member(top, global, "storage_data");
	const struct pickle_value *dict = member(top, global, "planner_data");
	struct distcp_path *paths = NULL;
	size_t n = 0;
	int rc;

	if (!storage || storage->kind != PICKLE_DICT)
		return err_set(err, ERR_INPUT,
			       "'%s' is not the metadata of torch.distributed.checkpoint",
			       reader->name);
	list_tensors(reader, member(top, global, "state_dict_metadata"));
	for (size_t i = 0; dict && dict->kind == PICKLE_DICT && i + 1 < dict->n; i += 2) {
		if (dict->items[i]->kind != PICKLE_TEXT)
			continue;
		ARRAY_GROW(paths, n);
		paths[n++] = (struct distcp_path){ dict->items[i]->text, dict->items[i + 1] };
		reader->has_model |= is_in_model(dict->items[i + 1]);
	}
	sort(paths, n, sizeof *paths, compare_keys);
	rc = add_slices(reader, paths, n, storage, err);
	free(paths);
	if (!rc && !reader->distcp->n)
		rc = err_set(err, ERR_INPUT, "'%s' names no tensors of a model", reader->name);
	sort(reader->distcp->slices, reader->distcp->n, sizeof *reader->distcp->slices,
	     compare_files);
	return rc;
}

int distcp_read(struct distcp *distcp, const struct pickle_text *text, struct err *err)
{
	struct distcp_reader reader = { .distcp = distcp, .name = text->name };
	struct pickle pickle;
	int rc;

	*distcp = (struct distcp){ 0 };
	rc = pickle_read(&pickle, text, knows, err);
	if (!rc)
		rc = read_all(&reader, pickle.top, err);
	free(reader.tensors);
	pickle_release(&pickle);
	return rc;
}

void distcp_release(struct distcp *distcp)
{
	free(distcp->slices);
	arena_release(&distcp->texts);
	*distcp = (struct distcp){ 0 };
}
