/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a folder.
 */
#ifndef FP8CONV_CKPT_LISTING_H
#define FP8CONV_CKPT_LISTING_H

#include <stddef.h>

#include "base/err.h"
#include "base/io.h"

/* Paths below a folder. */
struct listing {
	size_t n;
	char **items;
};

/* All regular files of the folder that dirfd is and of its subfolders, sorted bytewise; links,
 * names that begin with a dot and those that are `except` are left out.  path is for messages.
 * listing must be zeroed before, and released, whatever is returned. */
int listing_files(const struct io *io, int dirfd, const char *path, const char *except,
		  struct listing *listing, struct err *err);

void listing_release(struct listing *listing);

#endif
