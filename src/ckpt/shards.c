/* SPDX-License-Identifier: Apache-2.0
 *
 * From the user's path to opened shards: finds the files, opens each, and checks them against the
 * index.
 */
#include "ckpt/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/text.h"
#include "ckpt/file_set.h"
#include "ckpt/index.h"
#include "ckpt/listing.h"
#include "ckpt/mistaken.h"
#include "ckpt/slices.h"
#include "ckpt/torch_files.h"

#define CONFIG_LIMIT (16u << 20)  /* bytes; its tree takes up to fifty times as many */
#define INDEX_LIMIT  (512u << 20) /* bytes; a million tensors with names of 400 */

static char *join(const char *directory, const char *name)
{
	return xasprintf(text_ends(directory, "/") ? "%s%s" : "%s/%s", directory, name);
}

void shards_add(struct checkpoint *checkpoint, const char *path, const struct st_file *file)
{
	ARRAY_GROW(checkpoint->shards, checkpoint->n_shards);
	checkpoint->shards[checkpoint->n_shards++] =
		(struct shard){ xstrdup(text_after(path, '/')), *file, NULL };
}

static int open_file(struct checkpoint *checkpoint, const char *path, struct err *err)
{
	struct st_file file;

	if (mistaken_rank(checkpoint->io, path, err) || st_open(&file, checkpoint->io, path, err))
		return -1;
	if (mistaken_slice(&file, checkpoint->io, err)) {
		st_release(&file);
		return -1;
	}
	shards_add(checkpoint, path, &file);
	return 0;
}

struct opened_shard {
	size_t first;	     /* entry of the index: its index_run() */
	struct st_file file; /* empty, without a path: missing, or a defect */
};

/* The shards of an index while they are opened. */
struct opening {
	const struct checkpoint *checkpoint;
	const struct weight_index *index;
	const char *index_path;
	const struct shards_request *request;
	size_t n;
	struct opened_shard *shards;
};

static void list_shards(struct opening *opening)
{
	const struct weight_index *index = opening->index;

	for (size_t first = 0; first < index->n; first += index_run(index, first)) {
		ARRAY_GROW(opening->shards, opening->n);
		opening->shards[opening->n++] = (struct opened_shard){ .first = first };
	}
}

/* A checkpoint that is opened as a whole has all files: count_shards(). */
static int open_shard(void *context, int worker, size_t item, struct err *err)
{
	const struct opening *opening = context;
	const struct checkpoint *checkpoint = opening->checkpoint;
	struct opened_shard *opened = &opening->shards[item];
	const struct index_entry *entry = &opening->index->entries[opened->first];
	struct defects *defects = opening->request->defects;
	char *path = join(checkpoint->directory, entry->shard);
	int rc = 0;

	(void)worker;
	if (io_exists(checkpoint->io, path)) {
		if (st_open(&opened->file, checkpoint->io, path, err) ||
		    mistaken_slice(&opened->file, checkpoint->io, err)) {
			st_release(&opened->file);
			rc = defect_add(defects, DEFECT_FILE_INVALID, NULL, entry->shard, err);
		} else {
			rc = index_compare(opening->index, opened->first, &opened->file,
					   opening->index_path, defects, err);
		}
	} else if (defects) {
		err_set(err, ERR_INPUT, "missing file '%s': index '%s' lists tensor '%s' in it",
			path, opening->index_path, entry->tensor);
		rc = defect_add(defects, DEFECT_INDEX_MISSING, entry->tensor, entry->shard, err);
	}
	free(path);
	return rc;
}

const char *checkpoint_advice(const struct checkpoint *checkpoint)
{
	return checkpoint->is_job ? "run the command that began it again"
				  : "download or copy the missing ones";
}

/* Tells that n of n_expected files are there; missing: the name of another one, or NULL. */
static int tell_unfinished(struct checkpoint *checkpoint, const struct shards_request *request,
			   size_t n, size_t n_expected, const char *missing, struct err *err)
{
	const char *advice = checkpoint_advice(checkpoint);

	checkpoint->n_found = n;
	checkpoint->n_expected = n_expected;
	if (request->whole || !n)
		return err_set(err, ERR_INPUT, "'%s' is unfinished (%zu of %zu files): %s%s%s%s",
			       checkpoint->path, n, n_expected, advice,
			       missing ? ", the first is '" : "", missing ? missing : "",
			       missing ? "'" : "");
	if (!request->defects)
		return 0;
	err_set(err, ERR_INPUT, "%zu of %zu files; %s", n, n_expected, advice);
	return defect_add(request->defects, DEFECT_UNFINISHED, NULL, NULL, err);
}

/* Returns the number of files of the index that are there; *missing becomes the name of the first
 * one that is not. */
static size_t count_shards(const struct opening *opening, const char **missing)
{
	const struct checkpoint *checkpoint = opening->checkpoint;
	size_t n = 0;

	*missing = NULL;
	for (size_t i = 0; i < opening->n; i++) {
		const char *name = opening->index->entries[opening->shards[i].first].shard;
		char *path = join(checkpoint->directory, name);

		if (io_exists(checkpoint->io, path))
			n++;
		else if (!*missing)
			*missing = name;
		free(path);
	}
	return n;
}

/* Opens files of the directory, in the order of their names. */
static int open_files(struct checkpoint *checkpoint, const struct listing *names,
		      struct defects *defects, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < names->n && !rc; i++) {
		char *path = join(checkpoint->directory, names->items[i]);

		if (open_file(checkpoint, path, err))
			rc = defect_add(defects, DEFECT_FILE_INVALID, NULL, names->items[i], err);
		free(path);
	}
	return rc;
}

/* Returns model.safetensors where it is there alone, or the only whole set; empty: neither. */
static struct listing find_model(const struct listing *names)
{
	struct listing model = { 0 };
	struct file_set set;
	bool alone = false;

	for (size_t i = 0; i < names->n; i++)
		alone |= !strcmp(names->items[i], MODEL_NAME);
	file_set_find(&set, names);
	if (alone && !set.n_complete) {
		listing_add(&model, xstrdup(MODEL_NAME));
	} else if (!alone && set.n_complete == 1) {
		model = set.files;
		set.files = (struct listing){ 0 };
	}
	file_set_release(&set);
	return model;
}

/* Tells of an index none of whose files is there; name: of a file that is. */
static int tell_stale(const struct opening *opening, const char *missing, const char *name,
		      bool is_model, struct err *err)
{
	return err_set(
		err, ERR_INPUT,
		"index '%s' names %zu files, none of which is there (the first is '%s'), but "
		"'%s' is: %s",
		opening->index_path, opening->n, missing, name,
		is_model ? "remove the index, which is of another build"
			 : "remove the index if it is of another build, or download its "
			   "files");
}

/* Opens the model that lies beside such an index. */
static int open_beside(struct checkpoint *checkpoint, const struct opening *opening,
		       const char *missing, struct err *err)
{
	struct defects *defects = opening->request->defects;
	struct listing names = { 0 }, model = { 0 };
	int rc = -1;

	if (listing_safetensors(checkpoint->io, checkpoint->directory, &names, err))
		goto out;
	model = find_model(&names);
	if (!names.n)
		tell_unfinished(checkpoint, opening->request, 0, opening->n, missing, err);
	else if (!model.n)
		tell_stale(opening, missing, names.items[0], false, err);
	if (!model.n)
		goto out;
	checkpoint->has_index = false;
	checkpoint->has_stale_index = true;
	if (defects && (tell_stale(opening, missing, model.items[0], true, err),
			defect_add(defects, DEFECT_INDEX_MISSING, NULL, INDEX_NAME, err)))
		goto out;
	rc = open_files(checkpoint, &model, defects, err);
out:
	listing_release(&names);
	listing_release(&model);
	return rc;
}

/* Opens the shards by n_threads.  One thread then lists the defects, in the order of the shards. */
static int open_shards(struct checkpoint *checkpoint, const struct weight_index *index,
		       const char *path, const struct shards_request *request, struct err *err)
{
	struct opening opening = {
		.checkpoint = checkpoint, .index = index, .index_path = path, .request = request
	};
	const char *missing;
	size_t n;
	int rc = 0;

	list_shards(&opening);
	n = count_shards(&opening, &missing);
	if (missing && !n && !checkpoint->n_expected && strcmp(path, checkpoint->path) != 0) {
		rc = open_beside(checkpoint, &opening, missing, err);
		goto out;
	}
	if (missing && !checkpoint->n_expected)
		rc = tell_unfinished(checkpoint, request, n, opening.n, missing, err);
	if (!rc)
		rc = pool_run(request->defects ? 1 : request->n_threads, opening.n, open_shard,
			      &opening, NULL, err);
	for (size_t i = 0; i < opening.n; i++) {
		struct opened_shard *opened = &opening.shards[i];

		if (rc)
			st_release(&opened->file);
		else if (opened->file.path)
			shards_add(checkpoint, index->entries[opened->first].shard, &opened->file);
	}
out:
	free(opening.shards);
	return rc;
}

/* Reads total_size of the index, if it has one, for a survey, which judges it. */
static void read_total(struct checkpoint *checkpoint, struct json_text text)
{
	struct json_text metadata, total;
	struct buf list = { 0 };
	struct err ignored;

	if (json_find(text, "metadata", &metadata, &ignored) || !metadata.len ||
	    json_find(metadata, "total_size", &total, &ignored) || !total.len)
		return;
	buf_printf(&list, "[%.*s]", (int)total.len, total.data);
	checkpoint->has_total = json_text_uints((struct json_text){ list.data, list.len },
						&checkpoint->index_total, 1) == 1;
	buf_release(&list);
}

static int open_index(struct checkpoint *checkpoint, const char *path,
		      const struct shards_request *request, struct err *err)
{
	struct weight_index index = { 0 };
	struct buf text = { 0 };
	int rc = -1;

	checkpoint->has_index = true;
	if (io_read_file(checkpoint->io, AT_FDCWD, path, INDEX_LIMIT, &text, err) ||
	    mistaken_text(path, &text, err) ||
	    index_read(&index, (struct json_text){ text.data, text.len }, path, err))
		goto out;
	if (request->defects)
		read_total(checkpoint, (struct json_text){ text.data, text.len });
	buf_release(&text);
	rc = open_shards(checkpoint, &index, path, request, err);
out:
	index_release(&index);
	buf_release(&text);
	return rc;
}

/* Fails if the file is a rank's part of a model. */
static int check_first(const struct checkpoint *checkpoint, const char *name, struct err *err)
{
	char *path = join(checkpoint->directory, name);
	struct st_file file = { 0 };
	int rc = mistaken_rank(checkpoint->io, path, err);

	if (!rc && !st_open(&file, checkpoint->io, path, &(struct err){ 0 }))
		rc = mistaken_slice(&file, checkpoint->io, err);
	st_release(&file);
	free(path);
	return rc;
}

/* Opens the only set or the only file of a directory with neither an index nor model.safetensors;
 * fails if there are several. */
static int open_only(struct checkpoint *checkpoint, const struct shards_request *request,
		     struct err *err)
{
	const char *directory = checkpoint->directory;
	struct listing names = { 0 }, model = { 0 };
	int rc = -1;

	if (listing_safetensors(checkpoint->io, directory, &names, err))
		goto out;
	model = find_model(&names);
	if (!names.n) {
		mistaken_directory(checkpoint->io, directory, err);
	} else if (model.n) {
		rc = open_files(checkpoint, &model, request->defects, err);
	} else if (names.n > 1 && !check_first(checkpoint, names.items[0], err)) {
		err_set(err, ERR_INPUT,
			"found neither %s nor %s in '%s', but %zu other .safetensors files "
			"('%s', '%s'%s): give one of them",
			INDEX_NAME, MODEL_NAME, directory, names.n, names.items[0], names.items[1],
			names.n > 2 ? ", ..." : "");
	} else if (names.n == 1) {
		rc = open_files(checkpoint, &names, NULL, err);
	}
out:
	listing_release(&names);
	listing_release(&model);
	return rc;
}

static int open_directory(struct checkpoint *checkpoint, const struct shards_request *request,
			  const struct unfinished *unfinished, struct err *err)
{
	char *index = join(checkpoint->directory, INDEX_NAME);
	char *model = join(checkpoint->directory, MODEL_NAME);
	int rc;

	if (io_exists(checkpoint->io, index))
		rc = open_index(checkpoint, index, request, err);
	else if (unfinished->found)
		rc = open_files(checkpoint, &unfinished->files, request->defects, err);
	else if (io_exists(checkpoint->io, model))
		rc = open_file(checkpoint, model, err);
	else
		rc = open_only(checkpoint, request, err);
	free(index);
	free(model);
	return rc;
}

static int read_config(struct checkpoint *checkpoint, struct err *err)
{
	char *path = join(checkpoint->directory, CONFIG_NAME);
	bool exists = io_exists(checkpoint->io, path);
	int rc = 0;

	if (exists &&
	    (io_read_file(checkpoint->io, AT_FDCWD, path, CONFIG_LIMIT, &checkpoint->config, err) ||
	     mistaken_text(path, &checkpoint->config, err)))
		rc = -1;
	if (!rc && exists && !checkpoint->config.len)
		rc = err_set(err, ERR_INPUT, "'%s' is empty: copy or download it again", path);
	free(path);
	return rc;
}

/* Returns path up to its last slash, or all of a directory without its trailing slashes. */
static char *directory_of(const char *path, bool is_directory)
{
	size_t n = is_directory ? strlen(path) : (size_t)(text_after(path, '/') - path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	return n ? xstrndup(path, n) : xstrdup(".");
}

/* Returns 1 with the files of a distributed save opened, 0 where the directory has none or another
 * model beside them. */
static int open_slices(struct checkpoint *checkpoint, struct err *err)
{
	struct listing names = { 0 };
	bool found = false;
	int rc;

	if (io_exists_in(checkpoint->io, checkpoint->directory, INDEX_NAME) ||
	    io_exists_in(checkpoint->io, checkpoint->directory, MODEL_NAME))
		return 0;
	rc = listing_safetensors(checkpoint->io, checkpoint->directory, &names, err);
	for (size_t i = 0; i < names.n && !rc; i++)
		found |= slices_is_name(names.items[i]);
	if (found)
		rc = slices_open(checkpoint, &names, err) ? -1 : 1;
	listing_release(&names);
	return rc;
}

/* Opens the files at path, which is a directory or an index in it. */
static int open_below(struct checkpoint *checkpoint, bool is_directory,
		      const struct shards_request *request, struct err *err)
{
	struct unfinished unfinished;
	int rc;

	checkpoint->directory = directory_of(checkpoint->path, is_directory);
	if (is_directory && (rc = open_slices(checkpoint, err)) != 0)
		return rc < 0 || read_config(checkpoint, err) ? -1
							      : slices_check_rows(checkpoint, err);
	rc = unfinished_find(&unfinished, checkpoint->io, checkpoint->directory, err);
	checkpoint->is_job = unfinished.by_manifest;
	if (!rc && unfinished.found)
		rc = tell_unfinished(checkpoint, request, unfinished.files.n, unfinished.n_expected,
				     unfinished.missing, err);
	if (!rc && is_directory)
		rc = open_directory(checkpoint, request, &unfinished, err);
	else if (!rc)
		rc = open_index(checkpoint, checkpoint->path, request, err);
	unfinished_release(&unfinished);
	return rc ? rc : read_config(checkpoint, err);
}

/* Opens a file or an index of torch.save(), with the directory where it has a config.json. */
static int open_torch(struct checkpoint *checkpoint, struct err *err)
{
	char *directory = directory_of(checkpoint->path, false);

	if (torch_files_open(checkpoint, checkpoint->path, err)) {
		free(directory);
		return -1;
	}
	if (!io_exists_in(checkpoint->io, directory, CONFIG_NAME)) {
		free(directory);
		return 0;
	}
	checkpoint->directory = directory;
	return read_config(checkpoint, err);
}

int shards_open(struct checkpoint *checkpoint, const struct shards_request *request,
		struct err *err)
{
	const char *path = checkpoint->path;
	struct stat st;

	if (checkpoint->io->fstatat(checkpoint->io, AT_FDCWD, path, &st, 0))
		return errno == ENOENT ? mistaken_name(path, err)
				       : io_failed(checkpoint->io, err, "cannot open '%s'", path);
	if (S_ISREG(st.st_mode) && !strcmp(text_after(path, '/'), CONFIG_NAME))
		return err_set(err, ERR_INPUT,
			       "'%s' is the configuration of a model: give its directory", path);
	if (!S_ISDIR(st.st_mode) && torch_files_is_name(path))
		return open_torch(checkpoint, err);
	if (S_ISDIR(st.st_mode) || text_ends(path, ".json"))
		return open_below(checkpoint, S_ISDIR(st.st_mode), request, err);
	return open_file(checkpoint, path, err);
}
