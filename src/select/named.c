/* SPDX-License-Identifier: Apache-2.0 */
#include "select/named.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "select/skip_list.h"

/* Reads a line of n bytes, which ends in 0. */
static int read_line(struct named *named, char *line, size_t n, size_t number, struct err *err)
{
	char *equals = strrchr(line, '=');
	const struct recipe *recipe = NULL;
	size_t known = named->names.n, name;

	if (!n || *line == '#')
		return 0;
	if (strlen(line) < n || !equals || equals == line)
		return err_set(err, ERR_INPUT, "it is not NAME=RECIPE or NAME=" NAMED_SKIP);
	if (strcmp(equals + 1, NAMED_SKIP) != 0) {
		recipe = recipe_find(equals + 1, err);
		if (!recipe)
			return -1;
	}
	name = intern_add(&named->names, line, (size_t)(equals - line));
	if (name < known)
		return err_set(err, ERR_INPUT, "'%.*s' is in line %zu too", (int)(equals - line),
			       line, named->lines[name].number);
	ARRAY_GROW(named->lines, known);
	named->lines[name] = (struct named_line){ recipe, number };
	return 0;
}

int named_read(struct named *named, const struct io *io, const char *path, struct err *err)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	struct buf text = { 0 };
	size_t number = 0, n;
	int rc = io_read_file(io, AT_FDCWD, path, NAMED_LIMIT, &text, err);

	*named = (struct named){ .path = path };
	SHA256((const unsigned char *)text.data, text.len, digest);
	text_hex(named->sha256, digest, sizeof digest);
	buf_putc(&text, '\n');
	for (char *line = text.data; !rc && line < text.data + text.len; line += n + 1) {
		char *end = memchr(line, '\n', (size_t)(text.data + text.len - line));

		n = (size_t)(end - line);
		*end = '\0';
		if (n && end[-1] == '\r')
			*--end = '\0';
		rc = read_line(named, line, (size_t)(end - line), ++number, err);
		if (rc)
			err_wrap(err, "'%s' line %zu", path, number);
	}
	buf_release(&text);
	return rc;
}

void named_release(struct named *named)
{
	intern_release(&named->names);
	free(named->lines);
	*named = (struct named){ 0 };
}

size_t named_find(const struct named *named, const char *tensor, bool experts)
{
	size_t n = strlen(tensor), found = intern_find(&named->names, tensor, n);

	while (found == SIZE_MAX && n) {
		while (--n && tensor[n] != '.')
			;
		found = intern_find(&named->names, tensor, n);
	}
	if (found == SIZE_MAX && experts) {
		char *prefix = skip_experts_prefix(tensor);

		found = intern_find(&named->names, prefix, strlen(prefix));
		free(prefix);
	}
	return found;
}
