/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/path.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
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

#define NEXT_INDENT 13

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

void path_print_command(FILE *stream, const char *command, size_t column, size_t indent,
			size_t columns)
{
	const char *rest;
	size_t n;

	for (rest = command; *rest; rest += n) {
		bool more;

		n = up_to_option(rest);
		more = rest[n] != '\0';
		if (rest != command && column + n + (more ? 2 : 0) > columns) {
			fprintf(stream, " \\\n%*s", (int)indent, "");
			column = indent;
			rest++;
			n--;
		}
		fprintf(stream, "%.*s", (int)n, rest);
		column += n;
	}
	fputc('\n', stream);
}

void path_print_pairs(const struct texts *renames, const char *words, ...)
{
	struct buf text = { 0 };
	va_list args;

	va_start(args, words);
	for (; words; words = va_arg(args, const char *)) {
		const char *path = va_arg(args, const char *);

		if (!path)
			continue;
		buf_puts(&text, words);
		path_put(&text, path);
	}
	va_end(args);
	if (!text.data)
		return;
	for (size_t i = 0; renames && i < renames->n; i++) {
		buf_puts(&text, " --rename ");
		path_put(&text, renames->list[i]);
	}
	text_sanitize(text.data);
	fputs("next       ", program.err);
	path_print_command(program.err, text.data, NEXT_INDENT - 2, NEXT_INDENT,
			   program_on_terminal(STDERR_FILENO) ? wrap_columns(STDERR_FILENO)
							      : SIZE_MAX);
	buf_release(&text);
}
