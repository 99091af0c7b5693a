/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all tensors of the opened shards, and what a survey checks of it.
 */
#include "ckpt/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rename.h"
#include "base/sort.h"
#include "ckpt/gathered.h"
#include "ckpt/mistaken.h"
#include "ckpt/shards.h"

COMPARISON(compare_refs, struct tensor_ref, strcmp(x->tensor->name, y->tensor->name))

static void list_tensors(struct checkpoint *checkpoint)
{
	struct tensor_ref *ref, *named;

	for (size_t i = 0; i < checkpoint->n_shards; i++)
		checkpoint->n_tensors += checkpoint->shards[i].file.n_tensors;
	checkpoint->tensors = ref = xreallocarray(NULL, checkpoint->n_tensors, sizeof *ref);
	checkpoint->by_name = named = xreallocarray(NULL, checkpoint->n_tensors, sizeof *named);
	for (size_t i = 0; i < checkpoint->n_shards; i++) {
		struct st_file *file = &checkpoint->shards[i].file;

		for (size_t j = 0; j < file->n_tensors; j++) {
			*ref++ = (struct tensor_ref){ &file->tensors[j], i };
			*named++ = (struct tensor_ref){ file->by_name[j], i };
		}
		free(file->by_name); /* the checkpoint's by_name replaces it */
		file->by_name = NULL;
	}
	sort(checkpoint->by_name, checkpoint->n_tensors, sizeof *named, compare_refs);
}

static int same_names(const struct checkpoint *checkpoint, const struct tensor_ref *ref,
		      struct defects *defects, struct err *err)
{
	const struct shard *one = &checkpoint->shards[ref[0].shard];
	const struct shard *other = &checkpoint->shards[ref[1].shard];
	const char *name = ref[1].tensor->name;

	err_set(err, ERR_INPUT, "tensor '%s' is in both '%s' and '%s'", name, one->file.path,
		other->file.path);
	return defect_add(defects, DEFECT_NAME_DUPLICATE, name, other->name, err);
}

/* Checks over the shards that no name occurs twice and that the sum of sizes does not overflow. */
static int check_tensors(struct checkpoint *checkpoint, struct defects *defects, struct err *err)
{
	const struct tensor_ref *ref = checkpoint->by_name;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		if (i && !strcmp(ref[i - 1].tensor->name, ref[i].tensor->name) &&
		    same_names(checkpoint, &ref[i - 1], defects, err))
			return -1;
		if (__builtin_add_overflow(checkpoint->data_bytes, st_tensor_size(ref[i].tensor),
					   &checkpoint->data_bytes))
			return err_set(err, ERR_INPUT,
				       "the tensors of '%s' have more than 2^64-1 bytes",
				       checkpoint->path);
	}
	return 0;
}

/* --- other names --- */

/* A tensor, and its name in the file. */
struct renamed {
	struct st_tensor *tensor;
	const char *before;
};

static int compare_renamed(const void *a, const void *b)
{
	const struct renamed *x = a, *y = b;

	return strcmp(x->tensor->name, y->tensor->name);
}

static int check_name(const struct renamed *one, const char *name, const char *expression,
		      struct err *err)
{
	const struct json_text text = { name, strlen(name) };
	const char *problem = !text.len				  ? "an empty name"
			      : st_has_control(name)		  ? "a control character"
			      : json_utf8_prefix(text) < text.len ? "what is not UTF-8"
								  : NULL;

	return problem ? err_set(err, ERR_USAGE,
				 "option '--rename': '%s' gives tensor '%s' %s: change it",
				 expression, one->before, problem)
		       : 0;
}

/* Applies one expression to all names. */
static int rename_all(struct checkpoint *checkpoint, struct renamed *all, const char *expression,
		      struct err *err)
{
	struct rename rename;
	struct buf name = { 0 };
	bool changed = false, found = false;
	int rc = rename_compile(&rename, expression, err);

	for (size_t i = 0; i < checkpoint->n_tensors && !rc; i++) {
		rc = rename_apply(&rename, all[i].tensor->name, &name, &changed, err);
		found |= changed;
		if (rc || !changed)
			continue;
		rc = check_name(&all[i], name.data, expression, err);
		all[i].tensor->name = arena_text(&checkpoint->extra, name.data, strlen(name.data));
	}
	if (!rc && !found)
		rc = err_set(err, ERR_USAGE,
			     "option '--rename': '%s' matches no tensor of '%s', such as '%s'",
			     expression, checkpoint->path,
			     checkpoint->n_tensors ? all[0].tensor->name : "");
	rename_release(&rename);
	buf_release(&name);
	return rc;
}

static int check_unique(const struct checkpoint *checkpoint, struct renamed *all, struct err *err)
{
	size_t n = checkpoint->n_tensors;

	sort(all, n, sizeof *all, compare_renamed);
	for (size_t i = 1; i < n; i++)
		if (!compare_renamed(&all[i - 1], &all[i]))
			return err_set(err, ERR_USAGE,
				       "option '--rename' gives tensors '%s' and '%s' of '%s' the "
				       "same name '%s'",
				       all[i - 1].before, all[i].before, checkpoint->path,
				       all[i].tensor->name);
	return 0;
}

int checkpoint_rename(struct checkpoint *checkpoint, const struct texts *renames, struct err *err)
{
	struct renamed *all, *next;
	int rc = 0;

	if (!renames->n)
		return 0;
	all = next = xcalloc(checkpoint->n_tensors + 1, sizeof *all);
	for (size_t s = 0; s < checkpoint->n_shards; s++) {
		struct st_file *file = &checkpoint->shards[s].file;

		for (size_t i = 0; i < file->n_tensors; i++)
			*next++ = (struct renamed){ &file->tensors[i], file->tensors[i].name };
	}
	for (size_t i = 0; i < renames->n && !rc; i++)
		rc = rename_all(checkpoint, all, renames->list[i], err);
	rc = rc ? rc : check_unique(checkpoint, all, err);
	sort(checkpoint->by_name, checkpoint->n_tensors, sizeof *checkpoint->by_name, compare_refs);
	free(all);
	return rc;
}

static int finish(struct checkpoint *checkpoint, struct defects *defects, struct err *err)
{
	checkpoint->files = checkpoint->parts ? checkpoint->parts : checkpoint->shards;
	checkpoint->n_files = checkpoint->parts ? checkpoint->n_parts : checkpoint->n_shards;
	list_tensors(checkpoint);
	return check_tensors(checkpoint, defects, err);
}

static int open_path(struct checkpoint *checkpoint, const struct io *io, const char *path,
		     const struct shards_request *request, struct err *err)
{
	*checkpoint = (struct checkpoint){ .io = io, .path = xstrdup(path) };
	if (!shards_open(checkpoint, request, err) && !finish(checkpoint, request->defects, err))
		return 0;
	checkpoint_release(checkpoint);
	return -1;
}

int checkpoint_open(struct checkpoint *checkpoint, const struct io *io, const char *path,
		    int n_threads, struct err *err)
{
	return open_path(checkpoint, io, path,
			 &(struct shards_request){ .n_threads = n_threads, .whole = true }, err);
}

int checkpoint_open_part(struct checkpoint *checkpoint, const struct io *io, const char *path,
			 struct err *err)
{
	return open_path(checkpoint, io, path, &(struct shards_request){ .n_threads = 1 }, err);
}

/* Are all tensors of the index there, so that its total can be judged? */
static bool is_whole(const struct defects *defects)
{
	return !defects->n_of[DEFECT_UNFINISHED] && !defects->n_of[DEFECT_FILE_INVALID] &&
	       !defects->n_of[DEFECT_INDEX_MISSING];
}

int checkpoint_survey(struct checkpoint *checkpoint, const struct io *io, const char *path,
		      struct defects *defects, struct err *err)
{
	if (open_path(checkpoint, io, path,
		      &(struct shards_request){ .n_threads = 1, .defects = defects }, err))
		return -1;
	if (!checkpoint->n_shards) {
		checkpoint_release(checkpoint);
		return err_set(err, ERR_INPUT, "%s", defects->first.message);
	}
	if (is_whole(defects) && checkpoint->has_total &&
	    checkpoint->index_total != checkpoint->data_bytes) {
		err_set(err, ERR_INPUT,
			"total_size in the index is %" PRIu64 ", but the tensors have %" PRIu64
			" bytes",
			checkpoint->index_total, checkpoint->data_bytes);
		defect_add(defects, DEFECT_INDEX_TOTAL, NULL, INDEX_NAME, err);
	}
	return 0;
}

int checkpoint_open_fd(struct checkpoint *checkpoint, const struct io *io, int fd, const char *name,
		       struct err *err)
{
	struct st_file file;
	int rc;

	*checkpoint = (struct checkpoint){ .io = io, .path = xstrdup(name) };
	rc = st_open_fd(&file, io, fd, name, err);
	if (!rc) {
		shards_add(checkpoint, name, &file);
		rc = mistaken_slice(&file, NULL, err) || finish(checkpoint, NULL, err) ? -1 : 0;
	}
	if (rc)
		checkpoint_release(checkpoint);
	return rc;
}

static void release_shards(struct shard *shards, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(shards[i].name);
		st_release(&shards[i].file);
		gathered_free(shards[i].gathered);
	}
	free(shards);
}

void checkpoint_release(struct checkpoint *checkpoint)
{
	release_shards(checkpoint->shards, checkpoint->n_shards);
	release_shards(checkpoint->parts, checkpoint->n_parts);
	arena_release(&checkpoint->extra);
	free(checkpoint->tensors);
	free(checkpoint->by_name);
	free(checkpoint->path);
	free(checkpoint->directory);
	buf_release(&checkpoint->config);
	*checkpoint = (struct checkpoint){ 0 };
}

bool checkpoint_has_shard(const struct checkpoint *checkpoint, const char *name)
{
	for (size_t i = 0; i < checkpoint->n_shards; i++)
		if (!strcmp(checkpoint->shards[i].name, name))
			return true;
	for (size_t i = 0; i < checkpoint->n_parts; i++)
		if (!strcmp(checkpoint->parts[i].name, name))
			return true;
	return false;
}

const struct tensor_ref *checkpoint_find(const struct checkpoint *checkpoint, const char *name)
{
	const struct tensor_ref *all = checkpoint->by_name;
	size_t i;

	SEARCH(i, checkpoint->n_tensors, strcmp(all[i].tensor->name, name) < 0);
	return i < checkpoint->n_tensors && !strcmp(all[i].tensor->name, name) ? &all[i] : NULL;
}
