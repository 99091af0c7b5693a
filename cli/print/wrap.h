/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for a terminal's width.
 */
#ifndef FP8CONV_CLI_PRINT_WRAP_H
#define FP8CONV_CLI_PRINT_WRAP_H

#include <stddef.h>

/* The columns of the terminal on fd; 80 where there is none. */
size_t wrap_columns(int fd);

/* The same for prose: at least 60, at most 80. */
size_t wrap_width(int fd);

/* Prints text on standard output, which stands at `column`, and a newline.  Lines break between
 * words, and continue at column `indent`. */
void wrap_print(const char *text, size_t column, size_t indent, size_t width);

#endif
