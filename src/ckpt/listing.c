/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void listing_add(struct listing *listing, char *path)
{
	ARRAY_GROW(listing->items, listing->n);
	listing->items[listing->n++] = path;
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
	struct listing folders; /* to be read */
};

/* Lists one directory's regular files and subdirectories, as paths below the top.  folder: "" or
 * "original/". */
static int list_folder(struct walk *walk, const char *folder, struct err *err)
{
	DIR *stream = io_open_directory(walk->io, walk->dirfd, *folder ? folder : ".",
					*folder ? folder : walk->path, err);
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
			listing_add(walk->files, xasprintf("%s%s", folder, name));
		else if (S_ISDIR(st.st_mode))
			listing_add(&walk->folders, xasprintf("%s%s/", folder, name));
	}
	if (errno)
		rc = err_errno(err, "cannot list '%s/%s'", walk->path, folder);
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

	listing_add(&walk.folders, xstrdup(""));
	while (walk.folders.n && !rc) {
		char *folder = walk.folders.items[--walk.folders.n];

		rc = list_folder(&walk, folder, err);
		free(folder);
	}
	listing_release(&walk.folders);
	if (listing->n)
		qsort(listing->items, listing->n, sizeof *listing->items, compare_names);
	return rc;
}
