/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a target over the inputs in the tar archives that are named, for machines without libFuzzer.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

#define ARCHIVE_LIMIT (64u << 20) /* bytes */
#define TAR_BLOCK     512u
#define TAR_NAME      100u
#define TAR_SIZE_AT   124u /* 11 octal digits */

/* Runs the member at this offset of an archive.  Returns the offset of the next one, or 0 if it is
 * damaged. */
static size_t run_member(const char *archive, const struct buf *text, size_t at)
{
	const char *header = text->data + at;
	size_t begin = at + TAR_BLOCK;
	size_t n = strtoul(header + TAR_SIZE_AT, NULL, 8);
	uint8_t *input; /* a block of its own, so that a sanitizer sees where it ends */

	if (n > text->len - begin)
		return 0;
	/* the last one printed is the one that failed: tar -xOf ARCHIVE NAME */
	printf("%s %.*s\n", archive, (int)TAR_NAME, header);
	fflush(stdout);
	alarm(20);
	input = xmalloc(n);
	memcpy(input, text->data + begin, n);
	LLVMFuzzerTestOneInput(input, n);
	free(input);
	return begin + (n + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

static int run_archive(const char *path)
{
	struct buf text = { 0 };
	struct err err;
	size_t at = 0;
	bool whole;

	if (io_read_file(&io_system, AT_FDCWD, path, ARCHIVE_LIMIT, &text, &err)) {
		printf("%s\n", err.message);
		return -1;
	}
	while (at + TAR_BLOCK <= text.len && text.data[at]) {
		at = run_member(path, &text, at);
		if (!at)
			break;
	}
	whole = at > 0 && at + TAR_BLOCK <= text.len; /* ends in a block of zeros */
	buf_release(&text);
	if (!whole)
		printf("'%s' is damaged, or holds no inputs\n", path);
	return whole ? 0 : -1;
}

int main(int argc, char **argv)
{
	int rc = 0;

	for (int i = 1; i < argc; i++)
		rc |= run_archive(argv[i]);
	return rc || argc < 2 ? 1 : 0;
}
