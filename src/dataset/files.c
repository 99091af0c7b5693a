/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files the data are in.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "dataset/steps.h"

static bool ends_in(const char *text, size_t n, const char *end)
{
	size_t n_end = strlen(end);

	return n > n_end && !memcmp(text + n - n_end, end, n_end);
}

const char *dataset_extension(const char *path)
{
	static const char *const packings[] = { ".gz", ".zst" };
	static const char *const extensions[] = { ".txt", ".jsonl", ".json", ".npy",
						  ".safetensors" };
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof packings / sizeof *packings; i++)
		if (ends_in(path, n, packings[i])) {
			n -= strlen(packings[i]);
			break;
		}
	for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
		if (ends_in(path, n, extensions[i]))
			return extensions[i];
	return NULL;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add(struct listing *files, char *path)
{
	ARRAY_GROW(files->items, files->n);
	files->items[files->n++] = path;
}

/* Lists the data files of a directory, without those of its subdirectories. */
static int list_directory(const struct io *io, const char *directory, struct listing *files,
			  struct err *err)
{
	DIR *stream = io_open_directory(io, AT_FDCWD, directory, directory, err);
	const struct dirent *entry;
	struct stat status;
	size_t first = files->n;

	if (!stream)
		return -1;
	while ((errno = 0, entry = readdir(stream))) {
		char *path;

		if (*entry->d_name == '.' || !dataset_extension(entry->d_name))
			continue;
		path = xasprintf("%s/%s", directory, entry->d_name);
		if (!stat(path, &status) && S_ISDIR(status.st_mode))
			free(path);
		else
			add(files, path);
	}
	if (errno) {
		err_errno(err, "cannot read directory '%s'", directory);
		closedir(stream);
		return -1;
	}
	closedir(stream);
	if (files->n == first)
		return err_set(
			err, ERR_INPUT,
			"'%s' contains no .txt, .jsonl, .json, .npy or .safetensors file (also "
			".gz or .zst)",
			directory);
	sort(files->items + first, files->n - first, sizeof *files->items, compare_paths);
	return 0;
}

int dataset_list(const struct dataset_params *params, struct listing *files, struct err *err)
{
	bool has_input = false;
	struct stat status;

	for (size_t i = 0; i < params->n_paths; i++) {
		const char *path = params->paths[i];
		bool is_input = !strcmp(path, "-");

		if (is_input && has_input)
			return err_set(err, ERR_USAGE, "standard input ('-') is given twice");
		has_input |= is_input;
		if (is_input || stat(path, &status) || !S_ISDIR(status.st_mode))
			add(files, xstrdup(path));
		else if (list_directory(params->io, path, files, err))
			return -1;
	}
	return 0;
}
