/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all tensors of the opened shards, and what a survey checks of it.
 */
#include "ckpt/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rename.h"
#include "base/sort.h"
#include "ckpt/gathered.h"
#include "ckpt/mistaken.h"
#include "ckpt/shards.h"
#include "torch/archive.h"

#define STATE_NAME   "_extra_state"
#define MAX_PRODUCTS 4096 /* of a module: more would take long in a hostile file */

COMPARISON(compare_refs, struct tensor_ref, strcmp(x->tensor->name, y->tensor->name))

static bool is_state(const struct st_tensor *tensor)
{
	return tensor->dtype == DT_U8 && tensor->n_dims == 1 && archive_is_state(tensor->name);
}

void checkpoint_add_state(struct checkpoint *checkpoint, const struct extra_state *state)
{
	ARRAY_GROW(checkpoint->states, checkpoint->n_states);
	checkpoint->states[checkpoint->n_states++] = *state;
}

/* Takes the states out of the tensors of a list. */
static size_t leave_states(struct tensor_ref *refs, size_t n)
{
	size_t n_left = 0;

	for (size_t i = 0; i < n; i++)
		if (!is_state(refs[i].tensor))
			refs[n_left++] = refs[i];
	return n_left;
}

static void list_tensors(struct checkpoint *checkpoint)
{
	struct tensor_ref *ref, *named;
	size_t n = 0;

	for (size_t i = 0; i < checkpoint->n_shards; i++)
		n += checkpoint->shards[i].file.n_tensors;
	checkpoint->tensors = ref = xreallocarray(NULL, n, sizeof *ref);
	checkpoint->by_name = named = xreallocarray(NULL, n, sizeof *named);
	for (size_t i = 0; i < checkpoint->n_shards; i++) {
		struct st_file *file = &checkpoint->shards[i].file;

		for (size_t j = 0; j < file->n_tensors; j++) {
			*ref++ = (struct tensor_ref){ &file->tensors[j], i };
			*named++ = (struct tensor_ref){ file->by_name[j], i };
		}
		free(file->by_name); /* the checkpoint's by_name replaces it */
		file->by_name = NULL;
	}
	for (size_t i = 0; i < n; i++)
		if (is_state(checkpoint->tensors[i].tensor))
			checkpoint_add_state(
				checkpoint, &(struct extra_state){ .ref = checkpoint->tensors[i] });
	checkpoint->n_tensors = leave_states(checkpoint->tensors, n);
	leave_states(checkpoint->by_name, n);
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

static int add_bytes(struct checkpoint *checkpoint, const struct st_tensor *tensor, struct err *err)
{
	if (!__builtin_add_overflow(checkpoint->data_bytes, st_tensor_size(tensor),
				    &checkpoint->data_bytes))
		return 0;
	return err_set(err, ERR_INPUT, "the tensors of '%s' have more than 2^64-1 bytes",
		       checkpoint->path);
}

/* Checks over the shards that no name occurs twice and that the sum of sizes does not overflow. */
static int check_tensors(struct checkpoint *checkpoint, struct defects *defects, struct err *err)
{
	const struct tensor_ref *ref = checkpoint->by_name;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		if (i && !strcmp(ref[i - 1].tensor->name, ref[i].tensor->name) &&
		    same_names(checkpoint, &ref[i - 1], defects, err))
			return -1;
		if (add_bytes(checkpoint, ref[i].tensor, err))
			return -1;
	}
	for (size_t i = 0; i < checkpoint->n_states; i++)
		if (!checkpoint->states[i].bytes &&
		    add_bytes(checkpoint, checkpoint->states[i].ref.tensor, err))
			return -1;
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

/* All tensors, and states. */
struct renaming {
	struct checkpoint *checkpoint;
	struct renamed *all;
	size_t n;
};

static void list_all(struct renaming *renaming)
{
	const struct checkpoint *checkpoint = renaming->checkpoint;

	renaming->all =
		xcalloc(checkpoint->n_tensors + checkpoint->n_states + 1, sizeof *renaming->all);
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		renaming->all[renaming->n++].tensor =
			(struct st_tensor *)checkpoint->tensors[i].tensor;
	for (size_t i = 0; i < checkpoint->n_states; i++)
		renaming->all[renaming->n++].tensor =
			(struct st_tensor *)checkpoint->states[i].ref.tensor;
	for (size_t i = 0; i < renaming->n; i++)
		renaming->all[i].before = renaming->all[i].tensor->name;
}

/* Applies one expression to all names. */
static int rename_all(const struct renaming *renaming, const char *expression, struct err *err)
{
	struct checkpoint *checkpoint = renaming->checkpoint;
	struct renamed *all = renaming->all;
	struct rename rename;
	struct buf name = { 0 };
	bool changed = false, found = false;
	int rc = rename_compile(&rename, expression, err);

	for (size_t i = 0; i < renaming->n && !rc; i++) {
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
			     expression, checkpoint->path, renaming->n ? all[0].tensor->name : "");
	rename_release(&rename);
	buf_release(&name);
	return rc;
}

static int check_unique(const struct renaming *renaming, struct err *err)
{
	struct renamed *all = renaming->all;

	sort(all, renaming->n, sizeof *all, compare_renamed);
	for (size_t i = 1; i < renaming->n; i++)
		if (!compare_renamed(&all[i - 1], &all[i]))
			return err_set(err, ERR_USAGE,
				       "option '--rename' gives tensors '%s' and '%s' of '%s' the "
				       "same name '%s': change it",
				       all[i - 1].before, all[i].before, renaming->checkpoint->path,
				       all[i].tensor->name);
	return 0;
}

int checkpoint_rename(struct checkpoint *checkpoint, const struct texts *renames, struct err *err)
{
	struct renaming renaming = { checkpoint, NULL, 0 };
	int rc = 0;

	if (!renames->n)
		return 0;
	list_all(&renaming);
	for (size_t i = 0; i < renames->n && !rc; i++)
		rc = rename_all(&renaming, renames->list[i], err);
	rc = rc ? rc : check_unique(&renaming, err);
	sort(checkpoint->by_name, checkpoint->n_tensors, sizeof *checkpoint->by_name, compare_refs);
	free(renaming.all);
	return rc;
}

/* --- states --- */

/* Adds the weight of that name in the state's module.  False: there is none. */
static bool add_weight(const struct checkpoint *checkpoint, struct extra_state *state,
		       const char *weight)
{
	const char *name = state->ref.tensor->name;
	char *full = xasprintf("%.*s%s", (int)(strlen(name) - strlen(STATE_NAME)), name, weight);
	const struct tensor_ref *ref = checkpoint_find(checkpoint, full);

	free(full);
	if (!ref)
		return false;
	ARRAY_GROW(state->weights, state->n_weights);
	state->weights[state->n_weights++] = ref->tensor;
	return true;
}

/* Finds the weights by the names that TransformerEngine gives them: Linear, LayerNormMLP,
 * GroupedLinear.  Source: 2.20.2, pytorch/module/{linear,layernorm_mlp,grouped_linear}.py. */
static void find_weights(const struct checkpoint *checkpoint, struct extra_state *state)
{
	char name[32] = "weight";

	if (add_weight(checkpoint, state, name))
		return;
	if (add_weight(checkpoint, state, "fc1_weight")) {
		add_weight(checkpoint, state, "fc2_weight");
		return;
	}
	for (int i = 0; i < MAX_PRODUCTS; i++) {
		snprintf(name, sizeof name, "weight%d", i);
		if (!add_weight(checkpoint, state, name))
			return;
	}
}

static int finish(struct checkpoint *checkpoint, struct defects *defects, struct err *err)
{
	checkpoint->files = checkpoint->parts ? checkpoint->parts : checkpoint->shards;
	checkpoint->n_files = checkpoint->parts ? checkpoint->n_parts : checkpoint->n_shards;
	list_tensors(checkpoint);
	for (size_t i = 0; i < checkpoint->n_states; i++)
		find_weights(checkpoint, &checkpoint->states[i]);
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
	for (size_t i = 0; i < checkpoint->n_states; i++)
		free(checkpoint->states[i].weights);
	free(checkpoint->states);
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
