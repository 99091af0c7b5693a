/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/wrap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/program.h"

#define COLUMNS	  80
#define WIDTH_MIN 60

#define MESSAGE_INDENT 2

size_t wrap_columns(int fd)
{
	struct winsize size = { 0 };

	if (program.terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return COLUMNS;
}

size_t wrap_width(int fd)
{
	size_t columns = wrap_columns(fd);

	return columns < WIDTH_MIN ? WIDTH_MIN : columns > COLUMNS ? COLUMNS : columns;
}

/* Prints text and a newline from `column` on; lines continue at `indent`. */
static void print_words(FILE *stream, const char *text, size_t column, size_t indent, size_t width)
{
	size_t start = column;

	for (size_t n; *text; text += n) {
		size_t blanks = strspn(text, " ");

		text += blanks;
		n = strcspn(text, " ");
		if (column + blanks + n > width && column > start) {
			fprintf(stream, "\n%*s", (int)indent, "");
			start = column = indent;
			blanks = 0;
		}
		fprintf(stream, "%*s%.*s", (int)blanks, "", (int)n, text);
		column += blanks + n;
	}
	fputc('\n', stream);
}

void wrap_print(const char *text, size_t column, size_t indent, size_t width)
{
	print_words(program.out, text, column, indent, width);
}

void wrap_message(const char *text)
{
	size_t columns = wrap_columns(STDERR_FILENO);

	print_words(program.err, text, 0, MESSAGE_INDENT, columns < COLUMNS ? columns : COLUMNS);
}

void wrap_print_source(const char *text, const char *source, size_t column, size_t width)
{
	struct buf both = { 0 };
	bool fits;

	buf_printf(&both, "%s [%s]", text, source);
	fits = column + both.len <= width;
	fprintf(program.out, "%*s", (int)column, "");
	wrap_print(fits ? both.data : text, column, column, width);
	if (!fits)
		fprintf(program.out, "%*s[%s]\n", (int)column, "", source);
	buf_release(&both);
}
