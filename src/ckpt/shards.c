/* SPDX-License-Identifier: Apache-2.0
 *
 * From the user's path to opened shards: finds the files, opens each, and checks them against the
 * index.
 */
#include "ckpt/shards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/pool.h"
#include "ckpt/index.h"

#define CONFIG_LIMIT (16u << 20)  /* bytes; its tree takes up to fifty times as many */
#define INDEX_LIMIT  (512u << 20) /* bytes; a million tensors with names of 400 */

static bool ends_in(const char *text, const char *suffix)
{
	size_t n = strlen(text), n_suffix = strlen(suffix);

	return n >= n_suffix && !strcmp(text + n - n_suffix, suffix);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *join(const char *directory, const char *name)
{
	return xasprintf(ends_in(directory, "/") ? "%s%s" : "%s/%s", directory, name);
}

/* Does something have that name, even a broken link? */
static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

void shards_add(struct checkpoint *checkpoint, const char *path, const struct st_file *file)
{
	ARRAY_GROW(checkpoint->shards, checkpoint->n_shards);
	checkpoint->shards[checkpoint->n_shards++] =
		(struct shard){ xstrdup(base_name(path)), *file };
}

static int open_file(struct checkpoint *checkpoint, const struct io *io, const char *path,
		     struct err *err)
{
	struct st_file file;

	if (st_open(&file, io, path, err))
		return -1;
	shards_add(checkpoint, path, &file);
	return 0;
}

struct opened {
	size_t first;	     /* entry of the index: its index_run() */
	struct st_file file; /* empty, without a path: a defect */
};

/* The shards of an index while they are opened. */
struct opening {
	const struct checkpoint *checkpoint;
	const struct weight_index *index;
	const char *index_path;
	struct defects *defects;
	size_t n;
	struct opened *shards;
};

static void list_shards(struct opening *opening)
{
	const struct weight_index *index = opening->index;

	for (size_t first = 0; first < index->n; first += index_run(index, first)) {
		ARRAY_GROW(opening->shards, opening->n);
		opening->shards[opening->n++] = (struct opened){ .first = first };
	}
}

static int open_shard(void *context, int worker, size_t item, struct err *err)
{
	const struct opening *opening = context;
	const struct checkpoint *checkpoint = opening->checkpoint;
	struct opened *opened = &opening->shards[item];
	const struct index_entry *entry = &opening->index->entries[opened->first];
	char *path = join(checkpoint->directory, entry->shard);
	int rc;

	(void)worker;
	if (!exists(path)) {
		err_set(err, ERR_INPUT, "missing file '%s': index '%s' lists tensor '%s' in it",
			path, opening->index_path, entry->tensor);
		rc = defect_add(opening->defects, DEFECT_INDEX_MISSING, entry->tensor, entry->shard,
				err);
	} else if (st_open(&opened->file, checkpoint->io, path, err)) {
		rc = defect_add(opening->defects, DEFECT_FILE_INVALID, NULL, entry->shard, err);
	} else {
		rc = index_compare(opening->index, opened->first, &opened->file,
				   opening->index_path, opening->defects, err);
	}
	free(path);
	return rc;
}

/* Opens the shards by n_threads.  One thread then lists the defects, in the order of the shards. */
static int open_shards(struct checkpoint *checkpoint, const struct weight_index *index,
		       const char *path, int n_threads, struct defects *defects, struct err *err)
{
	struct opening opening = {
		.checkpoint = checkpoint, .index = index, .index_path = path, .defects = defects
	};
	int rc;

	list_shards(&opening);
	rc = pool_run(defects ? 1 : n_threads, opening.n, open_shard, &opening, NULL, err);
	for (size_t i = 0; i < opening.n; i++) {
		struct opened *opened = &opening.shards[i];

		if (rc)
			st_release(&opened->file);
		else if (opened->file.path)
			shards_add(checkpoint, index->entries[opened->first].shard, &opened->file);
	}
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

static int open_index(struct checkpoint *checkpoint, const struct io *io, const char *path,
		      int n_threads, struct defects *defects, struct err *err)
{
	struct weight_index index = { 0 };
	struct buf text = { 0 };
	int rc = -1;

	checkpoint->has_index = true;
	if (io_read_file(io, AT_FDCWD, path, INDEX_LIMIT, &text, err) ||
	    index_read(&index, (struct json_text){ text.data, text.len }, path, err))
		goto out;
	if (defects)
		read_total(checkpoint, (struct json_text){ text.data, text.len });
	buf_release(&text);
	rc = open_shards(checkpoint, &index, path, n_threads, defects, err);
out:
	index_release(&index);
	buf_release(&text);
	return rc;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the names in a directory that end in .safetensors and do not begin with a dot, sorted. */
static int list_safetensors(const struct io *io, const char *directory, char ***names, size_t *n,
			    struct err *err)
{
	DIR *dir = io_open_directory(io, AT_FDCWD, directory, directory, err);
	const struct dirent *entry;

	if (!dir)
		return -1;
	while ((errno = 0, entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !ends_in(entry->d_name, ".safetensors"))
			continue;
		ARRAY_GROW(*names, *n);
		(*names)[(*n)++] = xstrdup(entry->d_name);
	}
	if (errno) {
		err_errno(err, "cannot read '%s'", directory);
		closedir(dir);
		return -1;
	}
	closedir(dir);
	if (*n)
		qsort(*names, *n, sizeof **names, compare_strings);
	return 0;
}

/* Is it "models--org--name", whose models are in subdirectories? */
static bool is_hub_cache(const char *directory)
{
	char *snapshots = join(directory, "snapshots");
	bool found = exists(snapshots);

	free(snapshots);
	return found;
}

/* Opens the only file of a directory with neither an index nor model.safetensors; fails if there
 * are several. */
static int open_only_file(struct checkpoint *checkpoint, const struct io *io, struct err *err)
{
	const char *directory = checkpoint->directory;
	char **names = NULL;
	char *path = NULL;
	size_t n = 0;
	int rc = -1;

	if (list_safetensors(io, directory, &names, &n, err))
		goto out;
	if (!n && is_hub_cache(directory)) {
		err_set(err, ERR_INPUT,
			"'%s' is a directory of the Hub's cache: give its snapshots/REVISION",
			directory);
	} else if (!n) {
		err_set(err, ERR_INPUT, "found no %s, %s or other .safetensors file in '%s'",
			INDEX_NAME, MODEL_NAME, directory);
	} else if (n > 1) {
		err_set(err, ERR_INPUT,
			"found neither %s nor %s in '%s', but %zu other .safetensors files "
			"('%s', '%s'%s): give one of them",
			INDEX_NAME, MODEL_NAME, directory, n, names[0], names[1],
			n > 2 ? ", ..." : "");
	} else {
		path = join(directory, names[0]);
		rc = open_file(checkpoint, io, path, err);
	}
out:
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	free(path);
	return rc;
}

static int open_directory(struct checkpoint *checkpoint, const struct io *io, int n_threads,
			  struct defects *defects, struct err *err)
{
	char *index = join(checkpoint->directory, INDEX_NAME);
	char *model = join(checkpoint->directory, MODEL_NAME);
	int rc;

	if (exists(index))
		rc = open_index(checkpoint, io, index, n_threads, defects, err);
	else if (exists(model))
		rc = open_file(checkpoint, io, model, err);
	else
		rc = open_only_file(checkpoint, io, err);
	free(index);
	free(model);
	return rc;
}

static int read_config(struct checkpoint *checkpoint, const struct io *io, struct err *err)
{
	char *path = join(checkpoint->directory, CONFIG_NAME);
	int rc = 0;

	if (exists(path))
		rc = io_read_file(io, AT_FDCWD, path, CONFIG_LIMIT, &checkpoint->config, err);
	free(path);
	return rc;
}

/* Returns path up to its last slash, or all of a directory without its trailing slashes. */
static char *directory_of(const char *path, bool is_directory)
{
	size_t n = is_directory ? strlen(path) : (size_t)(base_name(path) - path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	return n ? xstrndup(path, n) : xstrdup(".");
}

/* Is it "org/model", the form of names on the Hugging Face Hub? */
static bool is_hub_name(const char *path)
{
	const char *slash = strchr(path, '/');

	return slash && slash > path && path[0] != '.' && slash[1] && !strchr(slash + 1, '/');
}

int shards_open(struct checkpoint *checkpoint, int n_threads, struct defects *defects,
		struct err *err)
{
	const struct io *io = checkpoint->io;
	const char *path = checkpoint->path;
	struct stat st;
	int rc;

	if (stat(path, &st) && errno == ENOENT && is_hub_name(path)) {
		rc = err_set(err, ERR_INPUT,
			     "no file or directory '%s' (for a model on the Hub, run 'hf download "
			     "%s' and give the directory that it prints)",
			     path, path);
	} else if (stat(path, &st)) {
		rc = err_errno(err, "cannot open '%s'", path);
	} else if (S_ISDIR(st.st_mode)) {
		checkpoint->directory = directory_of(path, true);
		rc = open_directory(checkpoint, io, n_threads, defects, err);
	} else if (ends_in(path, ".json")) {
		checkpoint->directory = directory_of(path, false);
		rc = open_index(checkpoint, io, path, n_threads, defects, err);
	} else {
		rc = open_file(checkpoint, io, path, err);
	}
	if (!rc && checkpoint->directory)
		rc = read_config(checkpoint, io, err);
	return rc;
}
