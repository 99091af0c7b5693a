/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a directory.
 */
#ifndef FP8CONV_CKPT_LISTING_H
#define FP8CONV_CKPT_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"

/* Paths below a directory. */
struct listing {
	size_t n;
	char **items;
};

/* Adds the names in a directory that are wanted, and sorts the listing bytewise.  The caller zeroes
 * it before, and releases it, also on failure. */
int listing_names(struct listing *listing, const struct directory *directory,
		  bool (*wanted)(const void *context, const char *name), const void *context,
		  struct err *err);

/* Is the path left out?  type: S_IFREG, S_IFLNK, S_IFDIR ... */
typedef bool listing_skips_fn(const char *path, mode_t type);

/* Lists all files of the open directory dirfd and of its subdirectories, sorted bytewise, links and
 * others too, but for the paths that `skips` leaves out, with all below them. path is for messages.
 * The caller zeroes listing before, and releases it, also on failure. */
int listing_files(const struct io *io, int dirfd, const char *path, listing_skips_fn *skips,
		  struct listing *listing, struct err *err);

/* Lists the names in a directory that end in .safetensors and do not begin with a dot, sorted
 * likewise. */
int listing_safetensors(const struct io *io, const char *directory, struct listing *listing,
			struct err *err);

/* Adds a path, which the listing takes over. */
void listing_add(struct listing *listing, char *path);
void listing_sort(struct listing *listing);

void listing_release(struct listing *listing);

#endif
