/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void listing_add(struct listing *listing, char *path)
{
	ARRAY_GROW(listing->items, listing->n);
	listing->items[listing->n++] = path;
}

void listing_sort(struct listing *listing)
{
	if (listing->n)
		qsort(listing->items, listing->n, sizeof *listing->items, compare_names);
}

void listing_release(struct listing *listing)
{
	for (size_t i = 0; i < listing->n; i++)
		free(listing->items[i]);
	free(listing->items);
}

struct walk {
	const struct io *io;
	int dirfd;
	const char *path, *except;
	struct listing *files;
	struct listing directories; /* to be read */
};

/* Lists one directory's regular files and subdirectories, as paths below the top.  directory: "" or
 * "original/". */
static int list_directory(struct walk *walk, const char *directory, struct err *err)
{
	DIR *stream = io_open_directory(walk->io, walk->dirfd, *directory ? directory : ".",
					*directory ? directory : walk->path, err);
	const struct dirent *entry;
	struct stat st;
	int rc = 0;

	if (!stream)
		return -1;
	while ((errno = 0, entry = readdir(stream))) {
		const char *name = entry->d_name;

		if (name[0] == '.' || !strcmp(name, walk->except))
			continue;
		if (fstatat(dirfd(stream), name, &st, AT_SYMLINK_NOFOLLOW))
			break;
		if (S_ISREG(st.st_mode))
			listing_add(walk->files, xasprintf("%s%s", directory, name));
		else if (S_ISDIR(st.st_mode))
			listing_add(&walk->directories, xasprintf("%s%s/", directory, name));
	}
	if (errno)
		rc = err_errno(err, "cannot list '%s/%s'", walk->path, directory);
	closedir(stream);
	return rc;
}

int listing_files(const struct io *io, int dirfd, const char *path, const char *except,
		  struct listing *listing, struct err *err)
{
	struct walk walk = {
		.io = io, .dirfd = dirfd, .path = path, .except = except, .files = listing
	};
	int rc = 0;

	listing_add(&walk.directories, xstrdup(""));
	while (walk.directories.n && !rc) {
		char *directory = walk.directories.items[--walk.directories.n];

		rc = list_directory(&walk, directory, err);
		free(directory);
	}
	listing_release(&walk.directories);
	listing_sort(listing);
	return rc;
}

static bool is_safetensors(const char *name)
{
	static const char suffix[] = ".safetensors";
	size_t n = strlen(name), n_suffix = sizeof suffix - 1;

	return name[0] != '.' && n >= n_suffix && !strcmp(name + n - n_suffix, suffix);
}

int listing_safetensors(const struct io *io, const char *directory, struct listing *listing,
			struct err *err)
{
	DIR *stream = io_open_directory(io, AT_FDCWD, directory, directory, err);
	const struct dirent *entry;
	int rc = 0;

	if (!stream)
		return -1;
	while ((errno = 0, entry = readdir(stream)))
		if (is_safetensors(entry->d_name))
			listing_add(listing, xstrdup(entry->d_name));
	if (errno)
		rc = err_errno(err, "cannot read '%s'", directory);
	closedir(stream);
	listing_sort(listing);
	return rc;
}
