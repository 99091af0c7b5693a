/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a checkpoint's directory that are neither weights nor written by this program:
 * tokenizer, templates, code, license.  The walk keeps a list of directories to read; it follows no
 * links to directories, so it ends.
 */
#include "ckpt/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Takes one entry of the directory dirfd.  path is its path from the top, which the lists take
 * over. */
static int take(int dirfd, const char *name, char *path, struct list *files,
		struct list *directories, struct err *err)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW)) {
		err_errno(err, "cannot read the state of '%s'", path);
		free(path);
		return -1;
	}
	if (S_ISDIR(st.st_mode)) {
		char *record = xasprintf("%s/" MANIFEST_NAME, name);
		bool is_output = !faccessat(dirfd, record, F_OK, AT_SYMLINK_NOFOLLOW);

		free(record);
		if (is_output) /* an output of this program inside the model's directory */
			free(path);
		else
			list_add(directories, path);
		return 0;
	}
	if (S_ISLNK(st.st_mode) && fstatat(dirfd, name, &st, 0))
		st.st_mode = 0; /* a broken link: not a file */
	if (S_ISREG(st.st_mode) && !is_left_out(name, !strchr(path, '/')))
		list_add(files, path);
	else
		free(path);
	return 0;
}

/* Reads one directory; "" is the top. */
static int read_directory(const struct checkpoint *checkpoint, const char *directory,
			  struct list *files, struct list *directories, struct err *err)
{
	const char *top = checkpoint->directory;
	char *full = *directory ? xasprintf("%s/%s", top, directory) : xstrdup(top);
	const struct dirent *entry;
	int rc = -1;
	DIR *dir;

	dir = io_open_directory(checkpoint->io, AT_FDCWD, full, full, err);
	if (!dir)
		goto out;
	while ((errno = 0, entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (name[0] != '.' &&
		    take(dirfd(dir), name,
			 *directory ? xasprintf("%s/%s", directory, name) : xstrdup(name), files,
			 directories, err))
			goto out;
	}
	if (errno) {
		err_errno(err, "cannot read '%s'", full);
		goto out;
	}
	rc = 0;
out:
	if (dir)
		closedir(dir);
	free(full);
	return rc;
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
