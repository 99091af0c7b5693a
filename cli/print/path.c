/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/path.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/print/wrap.h"
#include "cli/program.h"

void path_put(struct buf *text, const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./+-,:@%";

	if (*path != '-' && path[strspn(path, plain)] == '\0') {
		buf_puts(text, path);
		return;
	}
	buf_puts(text, *path == '-' ? "./'" : "'");
	for (; *path; path++) {
		if (*path == '\'')
			buf_puts(text, "'\\''");
		else
			buf_putc(text, *path);
	}
	buf_putc(text, '\'');
}

void path_print_output(const char *path)
{
	struct buf text = { 0 };

	path_put(&text, path);
	text_sanitize(text.data);
	fprintf(program.err, "output     %s\n", text.data);
	buf_release(&text);
}

/* Returns the length of the text up to the blank before its next option. */
static size_t up_to_option(const char *text)
{
	bool quoted = false;
	size_t n = 0;

	for (; text[n]; n++) {
		if (text[n] == '\\' && !quoted && text[n + 1])
			n++;
		else if (text[n] == '\'')
			quoted = !quoted;
		else if (!quoted && n && text[n] == ' ' && text[n + 1] == '-')
			break;
	}
	return n;
}

void path_print_next(const char *command)
{
	static const char head[] = "next       fp8conv ", indent[] = "             ";
	size_t column = sizeof head - 1;
	size_t columns =
		program_on_terminal(STDERR_FILENO) ? wrap_columns(STDERR_FILENO) : SIZE_MAX;
	struct buf text = { 0 };
	const char *rest;
	size_t n;

	buf_puts(&text, command);
	text_sanitize(text.data);
	fputs(head, program.err);
	for (rest = text.data; *rest; rest += n) {
		bool more;

		n = up_to_option(rest);
		more = rest[n] != '\0';
		if (rest != text.data && column + n + (more ? 2 : 0) > columns) {
			fprintf(program.err, " \\\n%s", indent);
			column = sizeof indent - 1;
			rest++;
			n--;
		}
		fprintf(program.err, "%.*s", (int)n, rest);
		column += n;
	}
	fputc('\n', program.err);
	buf_release(&text);
}
