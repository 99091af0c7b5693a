/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/listing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

void listing_add(struct listing *listing, char *path)
{
	ARRAY_GROW(listing->items, listing->n);
	listing->items[listing->n++] = path;
}

void listing_sort(struct listing *listing)
{
	if (listing->n)
		qsort(listing->items, listing->n, sizeof *listing->items, text_compare);
}

void listing_release(struct listing *listing)
{
	for (size_t i = 0; i < listing->n; i++)
		free(listing->items[i]);
	free(listing->items);
}

/* The names that are wanted, while they are listed. */
struct choice {
	struct listing *listing;
	bool (*wanted)(const void *context, const char *name);
	const void *context;
};

static int take(void *context, const char *name)
{
	const struct choice *choice = context;

	if (choice->wanted(choice->context, name))
		listing_add(choice->listing, xstrdup(name));
	return 0;
}

int listing_names(struct listing *listing, const struct directory *directory,
		  bool (*wanted)(const void *context, const char *name), const void *context,
		  struct err *err)
{
	struct choice choice = { listing, wanted, context };
	int rc = io_list(directory, take, &choice, err);

	listing_sort(listing);
	return rc;
}

struct walk {
	const struct io *io;
	int dirfd;
	const char *path;
	listing_skips_fn *skips;
	struct listing *files;
	struct listing directories; /* to be read: "" or "original/" */
};

static bool is_entry(const void *context, const char *name)
{
	(void)context;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Takes what lies at a path below the top, and frees the path. */
static int take_path(struct walk *walk, char *path, struct err *err)
{
	struct stat st;
	int rc = 0;

	if (walk->io->fstatat(walk->io, walk->dirfd, path, &st, AT_SYMLINK_NOFOLLOW))
		rc = io_failed(walk->io, err, "cannot read the state of '%s/%s'", walk->path, path);
	else if (walk->skips(path, st.st_mode & S_IFMT))
		rc = 0;
	else if (S_ISDIR(st.st_mode))
		listing_add(&walk->directories, xasprintf("%s/", path));
	else
		listing_add(walk->files, xstrdup(path));
	free(path);
	return rc;
}

/* Lists one directory's regular files and subdirectories, as paths below the top. */
static int list_directory(struct walk *walk, const char *below, struct err *err)
{
	char *shown = xasprintf("%s%s%s", walk->path, *below ? "/" : "", below);
	const struct directory directory = { walk->io, walk->dirfd, *below ? below : ".", shown };
	struct listing names = { 0 };
	int rc = listing_names(&names, &directory, is_entry, NULL, err);

	for (size_t i = 0; i < names.n && !rc; i++)
		rc = take_path(walk, xasprintf("%s%s", below, names.items[i]), err);
	listing_release(&names);
	free(shown);
	return rc;
}

int listing_files(const struct io *io, int dirfd, const char *path, listing_skips_fn *skips,
		  struct listing *listing, struct err *err)
{
	struct walk walk = {
		.io = io, .dirfd = dirfd, .path = path, .skips = skips, .files = listing
	};
	int rc = 0;

	listing_add(&walk.directories, xstrdup(""));
	while (walk.directories.n && !rc) {
		char *below = walk.directories.items[--walk.directories.n];

		rc = list_directory(&walk, below, err);
		free(below);
	}
	listing_release(&walk.directories);
	listing_sort(listing);
	return rc;
}

static bool is_safetensors(const void *context, const char *name)
{
	(void)context;
	return name[0] != '.' && text_ends(name, ".safetensors");
}

int listing_safetensors(const struct io *io, const char *directory, struct listing *listing,
			struct err *err)
{
	return listing_names(listing, &(struct directory){ io, AT_FDCWD, directory, directory },
			     is_safetensors, NULL, err);
}
