/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths in a summary: the output, and paths in commands to copy; the command to type next.
 */
#ifndef FP8CONV_CLI_PRINT_PATH_H
#define FP8CONV_CLI_PRINT_PATH_H

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/text.h"

/* Adds the path as a shell reads it, with quotes if needed. */
void path_put(struct buf *text, const char *path);

/* Prints the line "output  PATH" on standard error. */
void path_print_output(const char *path);

/* Prints the command and a newline, from `column` on; where it is wider than `columns` on several
 * lines, which begin at `indent` and which a shell reads as one. */
void path_print_command(FILE *stream, const char *command, size_t column, size_t indent,
			size_t columns);

/* Prints the line "next  COMMAND" on standard error, as path_print_command().  The command is pairs
 * of words and a path that follows them; words with NULL for a path are left out.  A command that
 * reads the source of this one renames its tensors by the same expressions, which may be NULL. */
void path_print_pairs(const struct texts *renames, const char *words, ...)
	__attribute__((sentinel));
#define path_print_next(...)		 path_print_pairs(NULL, __VA_ARGS__, (const char *)NULL)
#define path_print_next_of(renames, ...) path_print_pairs(renames, __VA_ARGS__, (const char *)NULL)

#endif
