/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the weight_map member by member, as a header is read, and compares it with the shards in
 * one merge of sorted names.
 */
#include "ckpt/index.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"
#include "ckpt/checkpoint.h"

#define NAME_LIMIT 255 /* bytes, as in file systems */
#define SEARCHED   32  /* tensors for which all of an index is searched */

const char *shard_name_problem(const char *name, bool is_torch)
{
	if (!*name)
		return "is empty";
	if (strlen(name) > NAME_LIMIT)
		return "is longer than 255 bytes";
	if (strpbrk(name, "/\\"))
		return "is not a plain file name";
	if (name[0] == '.')
		return "begins with a dot";
	if (st_has_control(name))
		return "contains a control character";
	if (!text_ends(name, is_torch ? ".bin" : ".safetensors"))
		return is_torch ? "does not end in .bin" : "does not end in .safetensors";
	return NULL;
}

static int add_entry(struct weight_index *index, const struct json_member *member,
		     const char *shard, const char *path, struct err *err)
{
	const char *last = index->n ? index->entries[index->n - 1].shard : NULL;
	const char *problem;

	/* neighbors mostly share a shard: its name is checked and kept once */
	if (!last || strcmp(last, shard) != 0) {
		problem = shard_name_problem(shard, text_ends(path, TORCH_INDEX_END));
		if (problem)
			return err_set(err, ERR_INPUT,
				       "shard name '%s' of tensor '%s' in index '%s' %s", shard,
				       member->key, path, problem);
		last = arena_text(&index->texts, shard, strlen(shard));
	}
	ARRAY_GROW(index->entries, index->n);
	index->entries[index->n++] = (struct index_entry){
		arena_text(&index->texts, member->key, member->key_len),
		last,
	};
	return 0;
}

static int read_entries(struct weight_index *index, struct json_members *walk, const char *path,
			struct err *err)
{
	struct buf shard = { 0 };
	struct json_member member;
	int rc;

	while ((rc = json_members_next(walk, &member, err)) > 0) {
		if (!json_text_string(member.value, &shard))
			rc = err_set(
				err, ERR_INPUT,
				"weight_map of index '%s' has no file name for tensor '%s' (byte "
				"%zu)",
				path, member.key,
				walk->base + (size_t)(member.value.data - walk->text.data));
		else
			rc = add_entry(index, &member, shard.data, path, err);
		if (rc)
			goto out;
	}
	if (rc)
		err_wrap(err, "weight_map of index '%s'", path);
out:
	buf_release(&shard);
	return rc;
}

COMPARISON(compare_entries, struct index_entry,
	   (x->shard == y->shard ? 0 : strcmp(x->shard, y->shard)) ?: strcmp(x->tensor, y->tensor))

int index_read(struct weight_index *index, struct json_text text, const char *path, struct err *err)
{
	struct json_members walk = { 0 };
	int rc = -1;

	*index = (struct weight_index){ 0 };
	if (json_find(text, "weight_map", &walk.text, err))
		return err_wrap(err, "index '%s'", path);
	if (!walk.text.len)
		return err_set(
			err, ERR_INPUT,
			"'%s' has no weight_map, as an index of a model has: give its directory",
			path);
	walk.base = (size_t)(walk.text.data - text.data);
	if (read_entries(index, &walk, path, err))
		goto out;
	if (!index->n) {
		err_set(err, ERR_INPUT, "weight_map of index '%s' is empty", path);
		goto out;
	}
	sort(index->entries, index->n, sizeof *index->entries, compare_entries);
	rc = 0;
out:
	json_members_release(&walk);
	if (rc)
		index_release(index);
	return rc;
}

void index_release(struct weight_index *index)
{
	free(index->entries);
	arena_release(&index->texts);
	*index = (struct weight_index){ 0 };
}

size_t index_run(const struct weight_index *index, size_t first)
{
	const char *shard = index->entries[first].shard;
	size_t end = first + 1;

	while (end < index->n &&
	       (index->entries[end].shard == shard || !strcmp(index->entries[end].shard, shard)))
		end++;
	return end - first;
}

/* Where the index puts a tensor; NULL: nowhere. */
static const char *shard_of(const struct weight_index *index, const char *tensor)
{
	for (size_t i = 0; i < index->n; i++)
		if (!strcmp(index->entries[i].tensor, tensor))
			return index->entries[i].shard;
	return NULL;
}

/* Fails with a tensor of the shard that the index puts elsewhere, or does not name. */
static int stray(const struct weight_index *index, const char *tensor, const char *shard,
		 const char *const *names, struct defects *defects, struct err *err)
{
	const char *file = names[0], *path = names[1], *elsewhere;
	bool many = defects && defects->n_of[DEFECT_INDEX_UNMAPPED] >= SEARCHED;

	if (defects_count_more(defects, DEFECT_INDEX_UNMAPPED))
		return 0;
	elsewhere = many ? NULL : shard_of(index, tensor);
	if (elsewhere)
		err_set(err, ERR_INPUT, "tensor '%s' is in '%s', but index '%s' lists it in '%s'",
			tensor, file, path, elsewhere);
	else
		err_set(err, ERR_INPUT,
			many ? "tensor '%s' is in '%s', where index '%s' does not list it"
			     : "tensor '%s' in '%s' is not in index '%s'",
			tensor, file, path);
	return defect_add(defects, DEFECT_INDEX_UNMAPPED, tensor, shard, err);
}

/* Fails with entry i, whose tensor the file does not have. */
static int absent(const struct index_entry *entry, size_t i, const char *file, const char *path,
		  struct defects *defects, struct err *err)
{
	const char *tensor = entry[i].tensor;

	if (defects_count_more(defects, DEFECT_INDEX_MISSING))
		return 0;
	if (i && !strcmp(tensor, entry[i - 1].tensor)) {
		err_set(err, ERR_INPUT, "duplicate tensor '%s' in the weight_map of index '%s'",
			tensor, path);
		return defect_add(defects, DEFECT_NAME_DUPLICATE, tensor, entry[i].shard, err);
	}
	err_set(err, ERR_INPUT, "tensor '%s' is not in '%s', although index '%s' lists it there",
		tensor, file, path);
	return defect_add(defects, DEFECT_INDEX_MISSING, tensor, entry[i].shard, err);
}

int index_compare(const struct weight_index *index, size_t first, const struct st_file *file,
		  const char *path, struct defects *defects, struct err *err)
{
	const struct index_entry *entry = index->entries + first;
	const char *const names[] = { file->path, path };
	size_t n = index_run(index, first), i = 0, j = 0;

	while (i < n || j < file->n_tensors) {
		const char *tensor = j < file->n_tensors ? file->by_name[j]->name : NULL;
		int order = !tensor ? -1 : i == n ? 1 : strcmp(entry[i].tensor, tensor);

		if (order < 0 && absent(entry, i, file->path, path, defects, err))
			return -1;
		if (order > 0 && stray(index, tensor, entry->shard, names, defects, err))
			return -1;
		i += order <= 0;
		j += order >= 0;
	}
	return 0;
}
