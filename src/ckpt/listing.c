/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/listing.h"

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

/* A directory while it is listed: "" or "original/". */
struct listed {
	struct walk *walk;
	const char *directory;
	int number; /* errno of a file whose state cannot be read */
};

static int take_entry(void *context, const char *name)
{
	struct listed *listed = context;
	struct walk *walk = listed->walk;
	char *path = xasprintf("%s%s", listed->directory, name);
	struct stat st = { 0 };

	if (name[0] == '.' || !strcmp(name, walk->except)) {
		free(path);
		return 0;
	}
	if (walk->io->fstatat(walk->io, walk->dirfd, path, &st, AT_SYMLINK_NOFOLLOW))
		listed->number = errno;
	else if (S_ISREG(st.st_mode))
		listing_add(walk->files, xstrdup(path));
	else if (S_ISDIR(st.st_mode))
		listing_add(&walk->directories, xasprintf("%s/", path));
	free(path);
	return listed->number;
}

/* Lists one directory's regular files and subdirectories, as paths below the top. */
static int list_directory(struct walk *walk, const char *directory, struct err *err)
{
	struct listed listed = { .walk = walk, .directory = directory };
	int fd = io_openat(walk->io, walk->dirfd, *directory ? directory : ".",
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		return io_failed(walk->io, err, "cannot open '%s'",
				 *directory ? directory : walk->path);
	if (walk->io->list(walk->io, fd, take_entry, &listed))
		listed.number = errno;
	errno = listed.number;
	if (errno)
		return io_failed(walk->io, err, "cannot list '%s/%s'", walk->path, directory);
	return 0;
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

static int take_safetensors(void *context, const char *name)
{
	if (is_safetensors(name))
		listing_add(context, xstrdup(name));
	return 0;
}

int listing_safetensors(const struct io *io, const char *directory, struct listing *listing,
			struct err *err)
{
	int rc = io_list(io, directory, take_safetensors, listing, err);

	listing_sort(listing);
	return rc;
}
