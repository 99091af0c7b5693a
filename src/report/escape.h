/* SPDX-License-Identifier: Apache-2.0
 *
 * Escapes untrusted text for HTML, JSON, YAML and Markdown.  A reader shows the text as it is:
 * names in files may hold anything.  Control characters become '?'; bytes that are not UTF-8 and
 * characters that change what stands around them (separators of lines, directions of writing)
 * U+FFFD; and the middle of a text with more than ESCAPE_MAX bytes an ellipsis.
 */
#ifndef FP8CONV_REPORT_ESCAPE_H
#define FP8CONV_REPORT_ESCAPE_H

#include "base/buf.h"

#define ESCAPE_MAX	300
#define ESCAPE_MAX_LINE 65536

/* One line of plain text, as in a block of code, of at most ESCAPE_MAX_LINE bytes. */
void escape_line(struct buf *out, const char *text);

/* Element content, or an attribute's value in double quotes. */
void escape_html(struct buf *out, const char *text);

/* A JSON string with its quotes, in ASCII, for a <script> element: without '<', '>' and '&'. */
void escape_json(struct buf *out, const char *text);

/* A YAML scalar: plain if it can mean nothing but this text, else in double quotes. */
void escape_yaml(struct buf *out, const char *text);

/* Markdown prose, also in the cell of a table. */
void escape_markdown(struct buf *out, const char *text);

/* The same in the type of code. */
void escape_markdown_code(struct buf *out, const char *text);

#endif
