/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files the data are in.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "dataset/steps.h"

const char *dataset_extension(const char *path)
{
	static const char *const packings[] = { ".gz", ".zst" };
	static const char *const extensions[] = { ".txt", ".jsonl", ".json", ".npy" };
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof packings / sizeof *packings; i++)
		if (text_n_ends(path, n, packings[i])) {
			n -= strlen(packings[i]);
			break;
		}
	for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
		if (text_n_ends(path, n, extensions[i]))
			return extensions[i];
	return NULL;
}

static bool is_data(const void *context, const char *name)
{
	(void)context;
	return *name != '.' && dataset_extension(name);
}

/* Lists the data files of a directory, without its subdirectories. */
static int list_directory(const struct io *io, const char *directory, struct listing *files,
			  struct err *err)
{
	struct listing names = { 0 };
	struct stat status;
	size_t first = files->n;
	int rc = listing_names(&names, &(struct directory){ io, AT_FDCWD, directory, directory },
			       is_data, NULL, err);

	for (size_t i = 0; i < names.n && !rc; i++) {
		char *path = xasprintf("%s/%s", directory, names.items[i]);

		if (!stat(path, &status) && S_ISDIR(status.st_mode))
			free(path);
		else
			listing_add(files, path);
	}
	listing_release(&names);
	if (!rc && files->n == first)
		return err_set(err, ERR_INPUT,
			       "'%s' contains no .txt, .jsonl, .json or .npy file (also "
			       ".gz or .zst)",
			       directory);
	return rc;
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
			listing_add(files, xstrdup(path));
		else if (list_directory(params->io, path, files, err))
			return -1;
	}
	return 0;
}
