/* SPDX-License-Identifier: Apache-2.0
 *
 * replay ARCHIVE FOLDER: runs a target over the inputs in a folder of a tar archive, for machines
 * without libFuzzer.
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

static void run_input(const char *header, const char *data, size_t n)
{
	uint8_t *input; /* a block of its own, so that a sanitizer sees where it ends */

	/* the last one printed is the one that failed: tar -xOf ARCHIVE NAME */
	printf("%.*s\n", (int)TAR_NAME, header);
	fflush(stdout);
	alarm(20);
	input = xmalloc(n);
	memcpy(input, data, n);
	LLVMFuzzerTestOneInput(input, n);
	free(input);
}

static int run_archive(const char *path, const char *folder)
{
	size_t n_folder = strlen(folder), at = 0, begin, n, n_inputs = 0;
	struct buf text = { 0 };
	struct err err;
	bool whole;

	if (io_read_file(&io_system, AT_FDCWD, path, ARCHIVE_LIMIT, &text, &err)) {
		printf("%s\n", err.message);
		return -1;
	}
	for (; at + TAR_BLOCK <= text.len && text.data[at];
	     at = begin + (n + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK) {
		begin = at + TAR_BLOCK;
		n = strtoul(text.data + at + TAR_SIZE_AT, NULL, 8);
		if (n > text.len - begin)
			break;
		if (strncmp(text.data + at, folder, n_folder) || text.data[at + n_folder] != '/')
			continue;
		run_input(text.data + at, text.data + begin, n);
		n_inputs++;
	}
	whole = at + TAR_BLOCK <= text.len && !text.data[at]; /* ends in a block of zeros */
	buf_release(&text);
	if (!whole || !n_inputs)
		printf("'%s' is damaged, or holds no inputs of %s\n", path, folder);
	return whole && n_inputs ? 0 : -1;
}

int main(int argc, char **argv)
{
	return argc == 3 && !run_archive(argv[1], argv[2]) ? 0 : 1;
}
