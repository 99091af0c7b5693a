/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory as output: one shard after the other under a lock, each recorded when it is whole;
 * then auxiliary files, index and config.json, which make the directory a checkpoint.
 */
#ifndef FP8CONV_EXECUTE_DIRECTORY_H
#define FP8CONV_EXECUTE_DIRECTORY_H

#include "execute/execution.h"

/* Writes the output to a directory, and resumes where an earlier run stopped. */
int directory_run(struct execution *execution, struct err *err);

/* Removes the copies that a manifest records of files that are gone from the source; a finished
 * output keeps the other copies that it has, and the edits in them. */
int directory_discard_copies(const struct execution *execution, const json_t *manifest,
			     struct err *err);

#endif
