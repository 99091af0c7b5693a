/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of the source's auxiliary files.  A finished output keeps the copies that it has, and the
 * edits in them.
 */
#ifndef FP8CONV_EXECUTE_COPIES_H
#define FP8CONV_EXECUTE_COPIES_H

#include "execute/execution.h"

/* Removes the copies that a manifest records of files that are gone from the source. */
int copies_discard(const struct execution *execution, const json_t *manifest, struct err *err);

/* Copies the source's auxiliary files, unless an earlier run did. */
int copies_make(const struct execution *execution, struct err *err);

#endif
