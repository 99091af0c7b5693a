/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths in a summary: where the result is, and in commands to copy.
 */
#ifndef FP8CONV_CLI_PRINT_PATH_H
#define FP8CONV_CLI_PRINT_PATH_H

#include "base/buf.h"

/* Adds the path as a shell takes it, in quotes where it needs them. */
void path_put(struct buf *text, const char *path);

/* The line "output     PATH" on standard error. */
void path_print_output(const char *path);

#endif
