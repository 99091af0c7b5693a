/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files a model on a server has: by the Hub's list of a revision, or, in a plain folder,
 * by the names that models have and the names in its index.
 */
#ifndef FP8CONV_REMOTE_FILES_H
#define FP8CONV_REMOTE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "remote/range.h"

/* The files.  Begins zeroed. */
struct remote_files {
	char *root;   /* the address without slashes at its end; of one file, its directory */
	char *commit; /* of the Hub: what the revision is; NULL: not of the Hub */
	size_t n;
	struct remote_file *list; /* sorted by name */
};

/* Lists the files at an address, and reads what fixes their sizes.  ERR_INPUT where the address is
 * not accepted or the server has nothing there. */
int remote_files_list(struct remote_files *files, struct client *client, const char *address,
		      struct err *err);
/* As remote_unversioned() of remote.h. */
const char *remote_files_unversioned(const struct remote_files *files);
/* Returns the file of that name, or NULL. */
struct remote_file *remote_files_find(const struct remote_files *files, const char *name);
void remote_files_release(struct remote_files *files);

#endif
