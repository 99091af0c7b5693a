/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a checkpoint's directory that are neither weights nor written by this program:
 * tokenizer, templates, code, license.  The walk keeps a list of directories to read; it follows no
 * links to directories, so it ends.
 */
#include "ckpt/checkpoint.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "ckpt/manifest.h"

struct list {
	size_t n;
	char **items;
};

static void list_add(struct list *list, char *item)
{
	ARRAY_GROW(list->items, list->n);
	list->items[list->n++] = item;
}

static void list_release(struct list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct list){ 0 };
}

static bool matches(const char *name, const char *const *patterns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!fnmatch(patterns[i], name, FNM_CASEFOLD))
			return true;
	return false;
}

/* Files that this program writes are at the top.  Weights may be anywhere, and so may pickles,
 * which run code when they are loaded and are never passed on. */
static bool is_left_out(const char *name, bool at_top)
{
	static const char *const ours[] = { CONFIG_NAME, HF_QUANT_CONFIG_NAME, "fp8conv*" };
	static const char *const weights[] = {
		"*.safetensors", "*.index.json", "*.bin",    "*.pth",	 "*.pt",
		"*.ckpt",	 "*.gguf",	 "*.h5",     "*.ot",	 "*.msgpack",
		"*.onnx*",	 "*.pkl",	 "*.pickle", "*.joblib", "*.dill",
	};

	return (at_top && matches(name, ours, sizeof ours / sizeof *ours)) ||
	       matches(name, weights, sizeof weights / sizeof *weights);
}

/* A directory while it is read. */
struct reading {
	const struct checkpoint *checkpoint;
	const char *directory; /* below the top; "": the top */
	struct list *files, *directories;
	struct err *err;
	bool failed;
};

/* Is it an output of this program inside the model's directory? */
static bool is_output(const struct io *io, const char *full)
{
	char *record = xasprintf("%s/" MANIFEST_NAME, full);
	bool found = io_exists(io, record);

	free(record);
	return found;
}

/* path: from the top; full: with the top. */
static int take_path(struct reading *reading, const char *path, const char *full)
{
	const struct io *io = reading->checkpoint->io;
	struct stat st;

	if (io->fstatat(io, AT_FDCWD, full, &st, AT_SYMLINK_NOFOLLOW)) {
		reading->failed = true;
		return io_failed(io, reading->err, "cannot read the state of '%s'", path);
	}
	if (S_ISDIR(st.st_mode)) {
		if (!is_output(io, full))
			list_add(reading->directories, xstrdup(path));
		return 0;
	}
	if (S_ISLNK(st.st_mode) && io->fstatat(io, AT_FDCWD, full, &st, 0))
		st.st_mode = 0; /* a broken link: not a file */
	if (S_ISREG(st.st_mode) && !is_left_out(path, !strchr(path, '/')))
		list_add(reading->files, xstrdup(path));
	return 0;
}

static int take(void *context, const char *name)
{
	struct reading *reading = context;
	const char *directory = reading->directory;
	char *path, *full;
	int rc;

	if (name[0] == '.')
		return 0;
	path = *directory ? xasprintf("%s/%s", directory, name) : xstrdup(name);
	full = xasprintf("%s/%s", reading->checkpoint->directory, path);
	rc = take_path(reading, path, full);
	free(path);
	free(full);
	return rc;
}

/* Reads one directory; "" is the top. */
static int read_directory(const struct checkpoint *checkpoint, const char *directory,
			  struct list *files, struct list *directories, struct err *err)
{
	const char *top = checkpoint->directory;
	char *full = *directory ? xasprintf("%s/%s", top, directory) : xstrdup(top);
	struct reading reading = { checkpoint, directory, files, directories, err, false };
	int rc = io_list(checkpoint->io, full, take, &reading, err);

	free(full);
	return reading.failed ? -1 : rc;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int checkpoint_auxiliary(const struct checkpoint *checkpoint, char ***paths, size_t *n,
			 struct err *err)
{
	struct list files = { 0 }, directories = { 0 };
	int rc = 0;

	if (checkpoint->directory)
		list_add(&directories, xstrdup(""));
	while (directories.n && !rc) {
		char *directory = directories.items[--directories.n];

		rc = read_directory(checkpoint, directory, &files, &directories, err);
		free(directory);
	}
	list_release(&directories);
	if (rc)
		list_release(&files);
	if (files.n)
		qsort(files.items, files.n, sizeof *files.items, compare_strings);
	*paths = files.items;
	*n = files.n;
	return rc;
}
