/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/path.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

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
	fprintf(stderr, "output     %s\n", text.data);
	buf_release(&text);
}
