/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight files that belong together by their names: "STEM-00001-of-00004.safetensors" and its
 * neighbors.
 */
#ifndef FP8CONV_CKPT_FILE_SET_H
#define FP8CONV_CKPT_FILE_SET_H

#include <stddef.h>

#include "ckpt/listing.h"

/* Zeroed: no file of the directory has such a name. */
struct file_set {
	size_t n_complete;    /* sets of the directory that have all their files */
	size_t n_expected;    /* files of the set that is described here: the complete one that
				 comes first, else the one with the most files */
	struct listing files; /* names of those that are there, sorted */
	char *missing;	      /* name of the first one that is not there; NULL: complete */
};

/* Finds the sets among the names of a directory.  The caller releases *set. */
void file_set_find(struct file_set *set, const struct listing *names);

void file_set_release(struct file_set *set);

#endif
