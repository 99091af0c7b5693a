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

static void paths_add(struct paths *paths, char *path)
{
	ARRAY_GROW(paths->items, paths->n);
	paths->items[paths->n++] = path;
}

void paths_release(struct paths *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		free(paths->items[i]);
	free(paths->items);
}

struct walk {
	const struct io *io;
	int dirfd;
	const char *path, *except;
	struct paths *files;
	struct paths folders; /* that are still to be read */
};

/* One folder's regular files and folders, as paths below the top; folder: "" or "original/". */
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
			paths_add(walk->files, xasprintf("%s%s", folder, name));
		else if (S_ISDIR(st.st_mode))
			paths_add(&walk->folders, xasprintf("%s%s/", folder, name));
	}
	if (errno)
		rc = err_errno(err, "cannot list '%s/%s'", walk->path, folder);
	closedir(stream);
	return rc;
}

int folder_files(const struct io *io, int dirfd, const char *path, const char *except,
		 struct paths *paths, struct err *err)
{
	struct walk walk = {
		.io = io, .dirfd = dirfd, .path = path, .except = except, .files = paths
	};
	int rc = 0;

	paths_add(&walk.folders, xstrdup(""));
	while (walk.folders.n && !rc) {
		char *folder = walk.folders.items[--walk.folders.n];

		rc = list_folder(&walk, folder, err);
		free(folder);
	}
	paths_release(&walk.folders);
	if (paths->n)
		qsort(paths->items, paths->n, sizeof *paths->items, compare_names);
	return rc;
}
