/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json, key by key, and the other files of both directories.
 */
#ifndef FP8CONV_DIFF_FILES_H
#define FP8CONV_DIFF_FILES_H

#include "diff/diff.h"

/* Lists keys and files that differ.  Does nothing where a side is a single file.  ERR_INPUT for a
 * config.json that is not a JSON object. */
int diff_files(struct difference *difference, const struct io *io, struct err *err);

#endif
