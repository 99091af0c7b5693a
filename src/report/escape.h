/* SPDX-License-Identifier: Apache-2.0
 *
 * Escapes untrusted text for YAML, Markdown, commands and JSON.  A reader shows the text as it is:
 * names in files may hold anything.  Control characters become '?'; bytes that are not UTF-8 and
 * characters that change what stands around them (separators of lines, directions of writing)
 * U+FFFD; and the middle of a text with more than ESCAPE_MAX bytes an ellipsis.
 */
#ifndef FP8CONV_REPORT_ESCAPE_H
#define FP8CONV_REPORT_ESCAPE_H

#include "base/buf.h"

#define ESCAPE_MAX	300
#define ESCAPE_MAX_LINE 65536

/* Returns a copy without markup, of at most max bytes and an ellipsis for the middle of a longer
 * text, which the caller frees. */
char *escape_clean(const char *text, size_t max);

/* One line of plain text, as in a block of code, of at most ESCAPE_MAX_LINE bytes. */
void escape_line(struct buf *out, const char *text);

/* A YAML scalar: plain if it can mean nothing but this text, else in double quotes. */
void escape_yaml(struct buf *out, const char *text);

/* Markdown prose, also in the cell of a table. */
void escape_markdown(struct buf *out, const char *text);

/* The same in the type of code. */
void escape_markdown_code(struct buf *out, const char *text);

#endif
