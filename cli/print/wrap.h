/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in the width of a terminal.
 */
#ifndef FP8CONV_CLI_PRINT_WRAP_H
#define FP8CONV_CLI_PRINT_WRAP_H

#include <stddef.h>

/* Returns the columns of the terminal on fd; 80 if fd is not a terminal. */
size_t wrap_columns(int fd);

/* The same for prose: at least 60, at most 80. */
size_t wrap_width(int fd);

/* Prints text and a newline on standard output, whose cursor is at `column`. Lines break between
 * words, and continue at column `indent`. */
void wrap_print(const char *text, size_t column, size_t indent, size_t width);

/* Prints text and a newline on standard error, in at most 80 columns of its terminal; further lines
 * are indented by two. */
void wrap_message(const char *text);

/* Prints text and its source in brackets, at `column`; the source on a line of its own if both do
 * not fit one. */
void wrap_print_source(const char *text, const char *source, size_t column, size_t width);

#endif
